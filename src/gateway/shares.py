"""Which of several gateways should hold a platform.

Another one than its holder should, if it lives, would take it, and

1. is of a newer release, which alone understands what waits in the platform's chats; or
2. is to hold it by its `replicas.prefer`, and the holder is not; or
3. holds at least two platforms fewer: so each has its share, and nothing goes to and fro.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UPKEEP = "upkeep"
"""The lease of whoever keeps the store tidy; it is no platform's."""


def find_better_holder(
    name: str,
    own: Mapping[str, Any],
    replicas: Iterable[Mapping[str, Any]],
    needs_format: int | None = None,
) -> Mapping[str, Any] | None:
    """The gateway that should hold a lease instead of `own`, which does; None if that should.

    `replicas` and `own` are rows of `list_replicas`; `needs_format` is what a release must
    understand that something there waits for.
    """
    others = [
        other for other in replicas if other["owner"] != own["owner"] and _would_take(other, name)
    ]
    if needs_format is not None and _format(own) < needs_format:
        newer = [other for other in others if _format(other) >= needs_format]
        return min(newer, key=_count, default=None)
    if _prefers(own, name):
        return None
    if preferring := [other for other in others if _prefers(other, name)]:
        return min(preferring, key=_count)
    peers = [other for other in others if _format(other) >= _format(own)]
    fewest = min(peers, key=_count, default=None)
    return fewest if fewest is not None and _count(own) - _count(fewest) >= 2 else None


def find_better_taker(
    name: str,
    own: Mapping[str, Any],
    replicas: Sequence[Mapping[str, Any]],
) -> Mapping[str, Any] | None:
    """The gateway that should take a lease that nobody holds, rather than `own`; None if that
    should. One of a newer release is first: an older one will soon be upgraded."""
    waiting = [other for other in replicas if _would_take(other, name)]
    newest = max((_format(other) for other in waiting), default=_format(own))
    holder = {**own, "holds": [*own["holds"], name]}
    needs_format = newest if newest > _format(own) else None
    return find_better_holder(name, holder, waiting, needs_format)


def _would_take(replica: Mapping[str, Any], name: str) -> bool:
    return replica["is_alive"] and not replica["draining"] and name in replica["wants"]


def _prefers(replica: Mapping[str, Any], name: str) -> bool:
    return name in replica["prefers"] or name.partition(":")[0] in replica["prefers"]


def _format(replica: Mapping[str, Any]) -> int:
    return int(replica["format"] or 1)


def _count(replica: Mapping[str, Any]) -> int:
    """How many platforms a gateway holds."""
    return sum(name != UPKEEP for name in replica["holds"])
