"""The gateways that share a store, as `hermes gateway status` and `hermes doctor` show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.home import ConfigError
from agent.store import find_store, open_place
from hermes_base.process import name_process
from hermes_state import StoreError

from .commands.output import visible


def list_replicas(home: Path) -> list[dict[str, Any]]:
    """Every gateway of a home's store; none where that is a file. StoreError, ConfigError."""
    place = find_store(home)
    if place.server is None:
        return []
    with open_place(place) as db:
        return db.list_replicas()


def describe(home: Path, pid: int | None) -> list[str]:
    """Lines for `hermes gateway status`; `pid` is the gateway of this home, if one runs."""
    try:
        replicas = list_replicas(home)
    except (StoreError, ConfigError) as error:
        return [f"Other gateways of its store cannot be listed: {error}"]
    if not replicas:
        return []
    own = None if pid is None else name_process(pid)
    return ["Gateways of this store:", *(f"  {_line(replica, own)}" for replica in replicas)]


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
