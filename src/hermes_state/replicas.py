"""The gateways that share a store, and which of them holds each platform.

A replica is a row with a heartbeat by the store's clock. An owner without a heartbeat for
LEASE_SECONDS, or whose process has certainly ended on this machine, is gone: whatever it was
sending, taking over or running is abandoned, and another may settle it. An owner without a row is
gone too: a gateway registers before it begins anything.

A platform that only one may poll is held by a lease with a fencing number, as turns are. Whoever
lets go of it keeps the row, so that the number only grows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from hermes_base.process import is_gone, this_process

from . import formats
from .codec import decode_json, encode_json, encode_text
from .dialect import Connection, row, rows, value
from .errors import LeaseLostError
from .turns import LEASE_SECONDS, Lease, beat

UNDER = "_under"
"""Key under which a turn's `deliver_to` names the lease under which its chat is ours."""

FORGET_SECONDS = 3600.0
"""How long a replica that is gone is shown."""


class PlatformLease(NamedTuple):
    """The right to hold a platform's connection, or to do what one of all replicas does."""

    name: str
    """Such as "telegram:<bot id>", or "upkeep"."""
    fence: int
    owner: str


class Beat(NamedTuple):
    """What became of a heartbeat."""

    is_known: bool
    """Whether the replica is registered."""
    lost: list[PlatformLease]
    """Leases that are somebody else's by now."""
    lost_turns: list[Lease]
    """Turns that are somebody else's by now, or have ended."""


def register_replica(
    conn: Connection,
    *,
    host: str = "",
    version: str = "",
    address: str | None = None,
    config_digest: str | None = None,
    prefers: Iterable[str] = (),
) -> str:
    """This process serves from now on; returns its name as an owner.

    `prefers` names platforms that it should hold rather than others.
    """
    owner, now = this_process(), conn.now()
    conn.execute(
        "INSERT INTO replicas (owner, host, started_at, heartbeat_at, version, address,"
        " config_digest, draining, turns, format, prefers)"
        " VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8)"
        " ON CONFLICT (owner) DO UPDATE SET host = ?2, started_at = ?3, heartbeat_at = ?3,"
        " version = ?4, address = ?5, config_digest = ?6, draining = 0, turns = 0, format = ?7,"
        " prefers = ?8",
        (
            owner,
            encode_text(host, "host"),
            now,
            encode_text(version, "version"),
            encode_text(address, "address"),
            encode_text(config_digest, "config_digest"),
            formats.UNDERSTOOD,
            encode_json(list(prefers), "prefers"),
        ),
    )
    conn.execute("DELETE FROM replicas WHERE heartbeat_at < ?", (now - FORGET_SECONDS,))
    return owner


def beat_replica(
    conn: Connection,
    leases: Iterable[PlatformLease] = (),
    turns: Iterable[Lease] = (),
    wants: Iterable[str] = (),
) -> Beat:
    """Say that this replica lives, holds these leases and works on these turns.

    `wants` names the leases that it would take if they were free.
    """
    now = conn.now()
    conn.execute(
        "UPDATE replicas SET heartbeat_at = ?, wants = ? WHERE owner = ?",
        (now, encode_json(sorted(wants), "wants"), this_process()),
    )
    is_known = conn.changes() > 0
    lost = []
    for lease in leases:
        conn.execute(
            "UPDATE platform_leases SET heartbeat_at = ? WHERE name = ? AND fence = ?"
            " AND owner = ?",
            (now, *lease),
        )
        if not conn.changes():
            lost.append(lease)
    return Beat(is_known, lost, beat(conn, turns))


def drain_replica(conn: Connection) -> None:
    """This replica takes nothing more; others may take at once what it held."""
    owner = this_process()
    conn.execute("UPDATE replicas SET draining = 1 WHERE owner = ?", (owner,))
    conn.execute("UPDATE platform_leases SET owner = '' WHERE owner = ?", (owner,))


def leave_replicas(conn: Connection) -> None:
    """This replica has ended: nothing is its own any more."""
    drain_replica(conn)
    conn.execute("DELETE FROM replicas WHERE owner = ?", (this_process(),))


def list_replicas(conn: Connection) -> list[dict[str, Any]]:
    """Every replica, oldest first, with what it `holds`, `prefers`, `wants` to hold and runs;
    `is_alive` says if it is heard.

    `silent` is for how many seconds it was not, by the store's clock.
    """
    now = conn.now()
    held: dict[str, list[str]] = {}
    for lease in list_platform_leases(conn):
        if lease["owner"]:
            held.setdefault(lease["owner"], []).append(lease["name"])
    replicas = rows(
        conn,
        "SELECT r.*, (SELECT COUNT(*) FROM turns t WHERE t.owner = r.owner"
        " AND t.state = 'running') AS running FROM replicas r ORDER BY r.started_at, r.owner",
    )
    for replica in replicas:
        replica["holds"] = held.get(replica["owner"], [])
        replica["prefers"] = decode_json(replica["prefers"]) or []
        replica["wants"] = decode_json(replica["wants"]) or []
        replica["silent"] = now - replica["heartbeat_at"]
        replica["is_alive"] = _is_heard(replica["owner"], replica["heartbeat_at"], now)
    return replicas


def list_alive(conn: Connection) -> set[str]:
    """The owners that are alive."""
    now = conn.now()
    replicas = rows(conn, "SELECT owner, heartbeat_at FROM replicas")
    return {
        replica["owner"]
        for replica in replicas
        if _is_heard(replica["owner"], replica["heartbeat_at"], now)
    }


def list_others(conn: Connection, with_own: bool = False) -> set[str]:
    """The owners whose work is not to be settled: those that live, and this process.

    `with_own`: what this process has begun is a left-over too. So it is at its start, if it has
    executed itself anew.
    """
    owner = this_process()
    return list_alive(conn) - {owner} if with_own else list_alive(conn) | {owner}


def filter_abandoned(
    conn: Connection, owned: list[dict[str, Any]], with_own: bool, column: str = "owner"
) -> list[dict[str, Any]]:
    """The abandoned rows: those whose owner is gone; `with_own` as in `list_others`."""
    if not owned:
        return []  # the usual case: no need to read the heartbeats
    others = list_others(conn, with_own)
    return [row for row in owned if row[column] not in others]


def is_owner_alive(conn: Connection, owner: str | None) -> bool:
    """Whether a replica of that name is heard of."""
    heard = value(conn, "SELECT heartbeat_at FROM replicas WHERE owner = ?", (owner,))
    return heard is not None and owner is not None and _is_heard(owner, heard, conn.now())


def _is_heard(owner: str, heartbeat_at: float, now: float) -> bool:
    # A clock that was set back must not keep a dead one for long.
    is_recent = abs(now - heartbeat_at) <= LEASE_SECONDS
    return bool(is_recent and not is_gone(owner, this_boot=True))


# Platforms


def take_platform(conn: Connection, name: str) -> PlatformLease | None:
    """Take a lease that nobody holds, or whose holder is gone; None while somebody else has it.

    What this process held before under that name counts no more.
    """
    owner, now = this_process(), conn.now()
    held = row(
        conn,
        f"SELECT owner, fence, heartbeat_at FROM platform_leases WHERE name = ?{conn.lock_row}",
        (name,),
    )
    if held is None:
        conn.execute(
            "INSERT INTO platform_leases (name, owner, fence, heartbeat_at) VALUES (?, ?, 1, ?)"
            " ON CONFLICT (name) DO NOTHING",
            (encode_text(name, "name"), owner, now),
        )
        return PlatformLease(name, 1, owner) if conn.changes() else None
    is_free = held["owner"] in ("", owner)
    if not is_free and _is_heard(held["owner"], held["heartbeat_at"], now):
        return None
    conn.execute(
        "UPDATE platform_leases SET owner = ?, fence = fence + 1, heartbeat_at = ?"
        " WHERE name = ? AND fence = ? AND owner = ?",
        (owner, now, name, held["fence"], held["owner"]),
    )
    return PlatformLease(name, held["fence"] + 1, owner) if conn.changes() else None


def release_platform(conn: Connection, lease: PlatformLease) -> bool:
    """Let another have it at once; False if it was not held any more."""
    conn.execute(
        "UPDATE platform_leases SET owner = '' WHERE name = ? AND fence = ? AND owner = ?", lease
    )
    return conn.changes() > 0


def holds_platform(conn: Connection, lease: PlatformLease) -> bool:
    """Whether a lease still counts."""
    sql = "SELECT 1 FROM platform_leases WHERE name = ? AND fence = ? AND owner = ?"
    return value(conn, sql, lease) is not None


def require_platform(conn: Connection, lease: PlatformLease | None) -> None:
    """Raise LeaseLostError if a lease was given and is somebody else's by now."""
    if lease is not None and not holds_platform(conn, lease):
        raise LeaseLostError(lease.name)


def get_platform_holder(conn: Connection, name: str) -> dict[str, Any] | None:
    """The `owner` and `host` of the replica that holds a lease now; None if it can be taken."""
    held = row(
        conn,
        "SELECT l.owner, l.heartbeat_at, COALESCE(r.host, '') AS host FROM platform_leases l"
        " LEFT JOIN replicas r ON r.owner = l.owner WHERE l.name = ?",
        (name,),
    )
    if held is None or not _is_heard(held["owner"], held["heartbeat_at"], conn.now()):
        return None
    return {"owner": held["owner"], "host": held["host"]} if held["owner"] else None


def list_platform_leases(conn: Connection) -> list[dict[str, Any]]:
    """Every lease by its name; one that nobody holds has the owner ""."""
    return rows(conn, "SELECT name, owner, fence, heartbeat_at FROM platform_leases ORDER BY name")


def keep_for_platform(conn: Connection, lease: PlatformLease, kept: Mapping[str, Any]) -> None:
    """Keep what the next holder needs to go on, such as its place in a stream.

    Each name of `kept` takes the place of what was kept under it. Raises LeaseLostError.
    """
    known = row(
        conn,
        "SELECT kept FROM platform_leases WHERE name = ? AND fence = ? AND owner = ?"
        f"{conn.lock_row}",
        lease,
    )
    if known is None:
        raise LeaseLostError(lease.name)
    facts = {**(decode_json(known["kept"]) or {}), **kept}
    conn.execute(
        "UPDATE platform_leases SET kept = ? WHERE name = ? AND fence = ? AND owner = ?",
        (encode_json(facts, "kept"), *lease),
    )


def get_kept_for_platform(conn: Connection, name: str) -> dict[str, Any]:
    """What the last holder of a platform has kept; empty if nothing."""
    known = value(conn, "SELECT kept FROM platform_leases WHERE name = ?", (name,))
    facts = decode_json(known)
    return facts if isinstance(facts, dict) else {}


# Turns over all replicas


def set_running_turns(conn: Connection, count: int, limit: int | None = None) -> bool:
    """Note how many turns this replica runs; False, and nothing noted, if all would exceed `limit`.

    Those of replicas that are gone do not count. Fewer than before are noted in any case.
    """
    owner = this_process()
    if limit is not None:
        alive = list_alive(conn)
        running = {
            replica["owner"]: replica["turns"]
            for replica in rows(conn, "SELECT owner, turns FROM replicas")
        }
        before = running.pop(owner, 0)
        others = sum(turns for name, turns in running.items() if name in alive)
        if count > before and others + count > limit:
            return False
    conn.execute("UPDATE replicas SET turns = ? WHERE owner = ?", (count, owner))
    return True
