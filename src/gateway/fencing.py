"""Nothing is shown on a platform by a replica that may have lost it.

Its lease is looked at in the moment before a message is sent or changed, by our own clock: a
replica that was suspended or disconnected for longer than its lease sends nothing when it comes
back. Clients of adapters look once more, right before bytes go out (`platforms.last_look`).
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

from .platforms.base import PlatformAdapter, SendError
from .platforms.last_look import LOST, fenced_by

EFFECTS = ("send", "edit", "typing", "react", "send_media", "send_with_files")
"""What a platform's people see."""


def fence_effects(adapter: PlatformAdapter, is_sure: Callable[[], bool]) -> None:
    """From now on, what an adapter does raises SendError while `is_sure` says no."""
    for name in EFFECTS:
        setattr(adapter, name, _fenced(getattr(adapter, name), is_sure))


def _fenced(
    effect: Callable[..., Awaitable[Any]], is_sure: Callable[[], bool]
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(effect)
    async def fenced(*args: Any, **kwargs: Any) -> Any:
        if not is_sure():
            raise SendError(LOST)
        with fenced_by(is_sure):
            return await effect(*args, **kwargs)

    return fenced
