"""Diagnosis of a server that holds a store, or is to hold one.

Read-only: tables are neither created nor upgraded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Literal, NamedTuple

import psycopg

from . import schema, server_schema
from .address import shown
from .dialect import column, tuples, value
from .errors import StoreError, StoreUnavailableError
from .server_connection import APPLICATION, CLOCK, ServerConnection, connect
from .server_errors import named

CLOCK_SECONDS = 2.0
"""Clocks further apart than this are reported; leases use the server's alone."""
DEAD_SHARE = 0.3
"""A table with more dead rows than this, and not few, is not vacuumed as it should be."""
FEW_ROWS = 10_000
BUSY_SHARE = 0.8

Level = Literal["fine", "hint", "wrong"]


class Remark(NamedTuple):
    """One thing about the server."""

    level: Level
    text: str
    advice: str = ""
    """What to do."""


class Usage(NamedTuple):
    """Who is connected to the database."""

    ours: int
    """Sessions of Hermes besides our own."""
    used: int
    allowed: int


def examine(address: str, connections: int, timeout: float = 5.0) -> list[Remark]:
    """All remarks about a server; if it cannot be used, the reason first."""
    where = shown(address)
    try:
        raw = connect(address, timeout)
    except psycopg.Error as error:
        return [Remark("wrong", str(named(error, where)))]
    except StoreUnavailableError as error:
        return [Remark("wrong", str(error))]
    conn = ServerConnection(raw)
    try:
        return list(_remarks(conn, where, connections))
    except psycopg.Error as error:
        return [Remark("wrong", str(named(error, where)))]
    finally:
        raw.close()


def holds_current_store(address: str, timeout: float = 5.0) -> bool:
    """Whether opening the store would change nothing in it."""
    try:
        raw = connect(address, timeout)
    except (psycopg.Error, StoreUnavailableError):
        return False
    conn = ServerConnection(raw)
    try:
        return server_schema.is_current(conn, shown(address))
    except (psycopg.Error, StoreError):
        return False
    finally:
        raw.close()


def _remarks(conn: ServerConnection, where: str, connections: int) -> Iterator[Remark]:
    version = conn.raw.info.server_version
    try:
        server_schema.require_fit(conn, where)
        server_schema.require_own_session(conn, where)
        numbers = server_schema.read_numbers(conn)
        server_schema.is_current(conn, where)
        if numbers is not None:
            server_schema.require_whole(conn, where)
    except StoreError as error:
        yield Remark("wrong", str(error))
        return
    yield Remark(
        "fine", f"{where}: PostgreSQL {version // 10000}.{version % 10000}, encoding UTF8,"
        " collation C."
    )  # fmt: skip
    if value(conn, "SELECT pg_is_in_recovery()"):
        yield Remark(
            "wrong",
            "It is a standby and takes no writes.",
            "Name the primary; with several hosts add target_session_attrs=read-write.",
        )
    yield _schema(numbers)
    yield from _rights(conn, numbers)
    yield from _transport(conn)
    yield from _durability(conn)
    yield _clock(conn)
    yield from _connections(conn, connections)
    if numbers is not None:
        yield from _strange_rules(conn)
        yield from _sizes(conn)


def _schema(numbers: tuple[int, int] | None) -> Remark:
    if numbers is None:
        return Remark("fine", "There is no store in it yet; the first to open it makes one.")
    own, oldest_reader = numbers
    if own < schema.OWN_SCHEMA_VERSION:
        return Remark(
            "hint",
            f"Its schema is {own}; this Hermes has {schema.OWN_SCHEMA_VERSION} and upgrades it when"
            " it opens it.",
            "Back it up first: pg_dump.",
        )
    if own > schema.OWN_SCHEMA_VERSION:
        return Remark(
            "hint",
            f"Its schema is {own}, which this Hermes ({schema.OWN_SCHEMA_VERSION}) may still work"
            f" with (the oldest it takes is {oldest_reader}).",
            "Upgrade this Hermes soon.",
        )
    return Remark("fine", f"Its schema is {own}, as this Hermes has it.")


def _rights(conn: ServerConnection, numbers: tuple[int, int] | None) -> Iterator[Remark]:
    is_superuser, may_create, role = tuples(
        conn,
        "SELECT rolsuper, has_schema_privilege(current_schema(), 'CREATE'), current_user"
        " FROM pg_roles WHERE rolname = current_user",
    )[0]
    if is_superuser:
        yield Remark(
            "hint",
            f"The role {role} is a superuser, which Hermes does not need.",
            "Give it a role of its own; see docs/postgres.md",
        )
    if not may_create and numbers is None:
        yield Remark(
            "wrong",
            f"The role {role} may not create tables, and there are none yet.",
            "Open it once with the role that owns the database: HERMES_STORE=postgresql://OWNER@…"
            " hermes sessions stats",
        )
    elif not may_create:
        yield Remark(
            "fine",
            f"The role {role} may not change tables: upgrades need the role that owns them.",
        )
    if numbers is None:
        return
    missing = list(missing_rights(conn))
    if missing:
        yield Remark(
            "wrong",
            f"The role {role} lacks rights: {', '.join(missing[:5])}"
            f"{' and more' if len(missing) > 5 else ''}.",
            "Grant them; see docs/postgres.md",
        )


def missing_rights(conn: ServerConnection) -> Iterator[str]:
    """What our role may not do with the tables and functions there; counters go with tables."""
    ours = column(
        conn,
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND (relnamespace, relowner) ="
        " (SELECT relnamespace, relowner FROM pg_class WHERE oid = CAST('state_meta' AS regclass))"
        " ORDER BY relname",
    )
    for table in ours:
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE"):
            if not value(conn, "SELECT has_table_privilege(?, ?)", (table, right)):
                yield f"{right} on {table}"
    for name in column(
        conn,
        "SELECT p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n"
        " ON n.oid = p.pronamespace WHERE n.nspname = current_schema()"
        " AND NOT has_function_privilege(p.oid, 'EXECUTE')",
    ):
        yield f"EXECUTE on {name}"


_STRANGE = """
SELECT 'the trigger ' || t.tgname || ' on ' || c.relname FROM pg_trigger t JOIN ours c
  ON c.oid = t.tgrelid WHERE NOT t.tgisinternal AND left(t.tgname, 7) <> 'hermes_'
UNION ALL SELECT 'the rule ' || r.rulename || ' on ' || c.relname FROM pg_rewrite r JOIN ours c
  ON c.oid = r.ev_class
UNION ALL SELECT 'row security on ' || relname FROM ours WHERE relrowsecurity
ORDER BY 1
"""


def _strange_rules(conn: ServerConnection) -> Iterator[Remark]:
    """Foreign triggers, rules and policies on the tables that may change, hide or drop rows."""
    rules = column(
        conn,
        "WITH ours AS (SELECT oid, relname, relrowsecurity FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = (SELECT relnamespace FROM pg_class"
        f" WHERE oid = to_regclass('state_meta'))) {_STRANGE}",
    )
    if rules:
        yield Remark(
            "wrong",
            f"The tables have {', '.join(rules[:5])}, which Hermes did not create.",
            "Drop whatever changes or deletes rows there: with it messages may be lost.",
        )


def _transport(conn: ServerConnection) -> Iterator[Remark]:
    host = conn.raw.info.host
    if not host or host.startswith(("/", "@", "127.")) or host in ("localhost", "::1"):
        return
    row = tuples(conn, "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    if not row or not row[0][0]:
        yield Remark(
            "wrong",
            f"The connection to {host} is not encrypted.",
            "Turn ssl on there, and add sslmode=verify-full to the address.",
        )
        return
    mode = conn.raw.info.get_parameters().get("sslmode", "prefer")
    if mode != "verify-full":
        yield Remark(
            "hint",
            f"The way to {host} is encrypted ({row[0][1]}), but sslmode={mode} does not check who"
            " answers.",
            "Add sslmode=verify-full, and sslrootcert=… for a certificate of your own.",
        )
    else:
        yield Remark("fine", f"The way to {host} is encrypted ({row[0][1]}), and it is checked.")


def _durability(conn: ServerConnection) -> Iterator[Remark]:
    settings: dict[str, str] = dict(
        tuples(
            conn,
            "SELECT name, setting FROM pg_settings WHERE name IN"
            " ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum')",
        )
    )
    for name, loss in (
        ("fsync", "a power cut may destroy the database"),
        ("full_page_writes", "a power cut may destroy the database"),
        ("synchronous_commit", "a crash may lose messages that were accepted"),
    ):
        if settings.get(name) == "off":
            yield Remark("wrong", f"{name} is off: {loss}.", f"Turn {name} on.")
    if settings.get("autovacuum") == "off":
        yield Remark(
            "hint", "autovacuum is off: dead rows stay, and tables grow.", "Turn autovacuum on."
        )


def _clock(conn: ServerConnection) -> Remark:
    before = time.time()
    theirs = float(value(conn, f"SELECT {CLOCK}"))
    apart = theirs - (before + time.time()) / 2
    if abs(apart) < CLOCK_SECONDS:
        return Remark("fine", f"Its clock and this machine's are {abs(apart):.1f} s apart.")
    which = "ahead of" if apart > 0 else "behind"
    return Remark(
        "hint",
        f"Its clock is {abs(apart):.0f} s {which} this machine's. Leases and deadlines use the"
        " server's; times that people see may look odd.",
        "Set both by NTP.",
    )


def usage(conn: ServerConnection) -> Usage:
    """How many sessions there are, and how many there may be: of the limit that is met first."""
    ours, of_all, of_role, of_database = tuples(
        conn,
        "SELECT COUNT(*) FILTER (WHERE application_name = ? AND datname = current_database()"
        " AND pid <> pg_backend_pid()), COUNT(*), COUNT(*) FILTER (WHERE usename = current_user),"
        " COUNT(*) FILTER (WHERE datname = current_database()) FROM pg_stat_activity"
        " WHERE backend_type = 'client backend'",
        (APPLICATION,),
    )[0]
    limits = tuples(
        conn,
        "SELECT CAST(current_setting('max_connections') AS bigint)"
        " - CAST(current_setting('superuser_reserved_connections') AS bigint),"
        " (SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user),"
        " (SELECT datconnlimit FROM pg_database WHERE datname = current_database())",
    )[0]
    used, allowed = min(
        (
            (count, int(limit))
            for count, limit in zip((of_all, of_role, of_database), limits, strict=True)
            if limit >= 0  # -1 is none
        ),
        key=lambda pair: pair[1] - pair[0],
    )
    return Usage(ours, used, allowed)


def _connections(conn: ServerConnection, wanted: int) -> Iterator[Remark]:
    connections = usage(conn)
    text = (
        f"{connections.used} of {connections.allowed} connections are used, {connections.ours}"
        f" of them by other connections of Hermes; a process takes up to {wanted + 1}."
    )
    if connections.used > connections.allowed * BUSY_SHARE or wanted + 1 > connections.allowed:
        yield Remark(
            "hint", text, "Raise max_connections or the role's limit, or lower store_connections."
        )
    else:
        yield Remark("fine", text)


def _sizes(conn: ServerConnection) -> Iterator[Remark]:
    size, unused = conn.size() / 1e6, conn.unused_size() / 1e6
    yield Remark("fine", f"The store has {size:.1f} MB, of it about {unused:.1f} MB of dead rows.")
    for table, live, dead in tuples(
        conn,
        "SELECT relname, n_live_tup, n_dead_tup FROM pg_stat_user_tables"
        " WHERE schemaname = current_schema() ORDER BY relname",
    ):
        if dead > FEW_ROWS and dead > (live + dead) * DEAD_SHARE:
            yield Remark(
                "hint",
                f"{dead} of {live + dead} rows of {table} are dead.",
                f"VACUUM {table}; and see whether a transaction is open for long.",
            )
