"""The gateways that share a store, as `hermes gateway status` and `hermes doctor` show them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agent.home import ConfigError
from agent.store import find_store, open_place
from hermes_base.process import name_process
from hermes_state import StoreError

from .commands.output import visible


class Shared(NamedTuple):
    """What the gateways of a store have in common."""

    replicas: list[dict[str, Any]]
    """Every gateway."""
    waiting: list[dict[str, Any]]
    """What waits for a newer release than this one, as `list_for_newer` has it."""


def read_shared(home: Path) -> Shared:
    """The gateways of a home's store; none where that is a file. StoreError, ConfigError."""
    place = find_store(home)
    if place.server is None:
        return Shared([], [])
    with open_place(place) as db:
        return Shared(db.list_replicas(), db.list_for_newer())


def describe(home: Path, pid: int | None) -> list[str]:
    """Lines for `hermes gateway status`; `pid` is the gateway of this home, if one runs."""
    try:
        replicas, waiting = read_shared(home)
    except (StoreError, ConfigError) as error:
        return [f"Other gateways of its store cannot be listed: {error}"]
    own = None if pid is None else name_process(pid)
    lines = [f"  {_line(replica, own)}" for replica in replicas]
    return [*(["Gateways of this store:"] if lines else ()), *lines, *describe_waiting(waiting)]


_SEVERAL = {"delivery": "deliveries"}


def describe_waiting(waiting: Sequence[Mapping[str, Any]]) -> list[str]:
    """What waits for a newer release, since when, and whether one runs that takes it."""
    lines = []
    for is_taken, runs in (
        (True, "A gateway of such a release runs, and takes them over."),
        (False, "No gateway of such a release runs: start one, or finish the upgrade."),
    ):
        group = [row for row in waiting if row["is_taken"] == is_taken]
        if not group:
            continue
        counts = Counter(row["kind"] for row in group)
        kinds = ", ".join(
            f"{count} {kind if count == 1 else _SEVERAL.get(kind, kind + 's')}"
            for kind, count in counts.items()
        )
        since = min(row["since"] for row in group)
        day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since))
        lines.append(f"Waiting for a newer release since {day}: {kinds}. {runs}")
    return lines


def _line(replica: Mapping[str, Any], own: str | None) -> str:
    owner = str(replica["owner"])
    name = f"{visible(replica['host']) or '?'} (process {owner.split('|')[3]})"
    if not replica["is_alive"]:
        return f"{name}: not heard of for {replica['silent']:.0f} s"
    holds = ", ".join(replica["holds"]) or "nothing"
    parts = [f"holds {holds}", f"{replica['running']} turns", f"version {replica['version']}"]
    if replica["address"]:
        parts.append(visible(replica["address"]))
    if replica["draining"]:
        parts.append("draining: takes no new work")
    if owner == own:
        parts.append("this one")
    return f"{name}: {', '.join(parts)}"


def differences(replicas: Sequence[Mapping[str, Any]]) -> list[str]:
    """How the running gateways differ, one sentence each."""
    living = [replica for replica in replicas if replica["is_alive"]]
    sentences = []
    for column, what in (
        ("config_digest", "have different settings in config.yaml"),
        ("version", "have different versions"),
    ):
        hosts: dict[str, list[str]] = {}
        for replica in living:
            hosts.setdefault(str(replica[column]), []).append(visible(replica["host"]) or "?")
        if len(hosts) > 1:
            groups = "; ".join(", ".join(group) for group in hosts.values())
            sentences.append(f"Gateways of this store {what}: {groups}.")
    return sentences
