"""What a platform's adapter keeps by name, many small values that change one by one.

Encryption keys are kept here: `platform_leases.kept` is one value, written anew whenever a part of
it changes. Whoever writes under a lease writes only while it holds the platform, so two replicas
never both move a key on.
"""

from __future__ import annotations

from collections.abc import Mapping

from .codec import encode_text
from .dialect import Connection, row, tuples
from .errors import LeaseLostError
from .replicas import PlatformLease


def keep_platform_records(
    conn: Connection,
    platform: str,
    changes: Mapping[str, str | None],
    lease: PlatformLease | None = None,
) -> None:
    """Write values by name, and delete the names whose value is None: all of them, or none.

    Raises LeaseLostError if a lease is given and somebody else's by now.
    """
    if lease is not None:
        held = row(
            conn,
            "SELECT fence FROM platform_leases WHERE name = ? AND fence = ? AND owner = ?"
            f"{conn.lock_row}",
            lease,
        )
        if held is None:
            raise LeaseLostError(lease.name)
    for name, value in changes.items():
        key = (encode_text(platform, "platform"), encode_text(name, "name"))
        if value is None:
            conn.execute("DELETE FROM platform_records WHERE platform = ? AND name = ?", key)
        else:
            conn.execute(
                "INSERT INTO platform_records (platform, name, value) VALUES (?, ?, ?)"
                " ON CONFLICT (platform, name) DO UPDATE SET value = excluded.value",
                (*key, encode_text(value, "value")),
            )


def add_platform_records(conn: Connection, platform: str, records: Mapping[str, str]) -> int:
    """Write the values whose names are not there yet; returns how many."""
    added = 0
    for name, value in records.items():
        conn.execute(
            "INSERT INTO platform_records (platform, name, value) VALUES (?, ?, ?)"
            " ON CONFLICT (platform, name) DO NOTHING",
            (
                encode_text(platform, "platform"),
                encode_text(name, "name"),
                encode_text(value, "value"),
            ),
        )
        added += conn.changes()
    return added


def get_platform_records(conn: Connection, platform: str, prefix: str = "") -> dict[str, str]:
    """The values of all names that begin with `prefix`."""
    return dict(
        tuples(
            conn,
            "SELECT name, value FROM platform_records WHERE platform = ? AND name >= ?"
            " AND name < ? ORDER BY name",
            (platform, prefix, f"{prefix}\U0010ffff"),
        )
    )
