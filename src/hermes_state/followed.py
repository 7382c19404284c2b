"""What the mirrors of other machines follow on a server: tables whose rows say when they changed.

Ids are no cursor there: of two transactions the one with the higher id may commit first. So each
row carries the number of the transaction that wrote it (`tx`), kept current by a trigger. Which of
those another transaction saw is what PostgreSQL calls a snapshot, and two snapshots say exactly
what was committed in between (see `search.mirror`).
"""

from __future__ import annotations

TX = "tx"
"""The column with the number of the transaction that last changed a row; only a server has it."""

KEYS = {"sessions": "id", "messages": "id", "search_changes": "seq"}
"""The tables that are followed, with their keys."""

MIRRORED: dict[str, tuple[str, ...]] = {
    "sessions": ("id", "source", "user_id", "model", "title", "started_at", "conversation_id"),
    "messages": (
        "id", "session_id", "role", "content", "tool_calls", "tool_name", "timestamp", "active",
        "compacted", "origin_id",
    ),
}  # fmt: skip
"""The columns that search reads. A change of others is not followed: appending a message changes
its session's counters, and that must stay cheap."""

TX_TYPE = "xid8 NOT NULL DEFAULT pg_current_xact_id()"

# Where a store has another past (a restored copy, a fail-over), its transactions' numbers mean
# something else: the past is which database of which server, and its line of history. A server that
# does not tell is followed by its numbers alone.
_FUNCTIONS = f"""
CREATE OR REPLACE FUNCTION hermes_tx() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  NEW.{TX} := pg_current_xact_id();
  RETURN NEW;
END $$;

CREATE OR REPLACE FUNCTION hermes_deleted() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  IF TG_TABLE_NAME = 'messages' THEN
    INSERT INTO search_changes (session_id, kind) SELECT DISTINCT session_id, 'session' FROM gone;
  ELSE
    INSERT INTO search_changes (session_id, kind) SELECT id, 'session' FROM gone;
  END IF;
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION hermes_past() RETURNS text
LANGUAGE plpgsql STABLE AS $$
DECLARE
  past text;
BEGIN
  SELECT oid::text INTO past FROM pg_database WHERE datname = current_database();
  BEGIN
    past := past || '-' || (SELECT system_identifier FROM pg_control_system())
      || '-' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
  EXCEPTION WHEN others THEN
    NULL;
  END;
  RETURN past;
END $$;
"""


def create_script() -> str:
    """The statements that have the server keep `tx`, once the tables are there."""
    statements = [_FUNCTIONS]
    for table, key in KEYS.items():
        statements.append(f"CREATE INDEX IF NOT EXISTS idx_{table}_{TX} ON {table} ({TX}, {key});")
    for table, columns in MIRRORED.items():
        changed = ", ".join(column for column in columns if column != KEYS[table])
        # Naming the columns: an update of others does not even call the trigger.
        statements.append(
            f"CREATE OR REPLACE TRIGGER hermes_{TX} BEFORE UPDATE OF {changed} ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION hermes_{TX}();"
        )
        # A deleted row cannot be read: every deletion, also one by hand, leaves a note.
        statements.append(
            f"CREATE OR REPLACE TRIGGER hermes_deleted AFTER DELETE ON {table}"
            " REFERENCING OLD TABLE AS gone"
            " FOR EACH STATEMENT EXECUTE FUNCTION hermes_deleted();"
        )
    return "\n".join(statements)
