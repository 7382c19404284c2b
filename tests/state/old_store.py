"""A `state.db` as the public system of schema version 22 leaves it, written with plain sqlite3."""

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from .children import in_child

VERSION = 22

TABLES = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT,
    chat_type TEXT, thread_id TEXT, display_name TEXT, origin_json TEXT,
    expiry_finalized INTEGER DEFAULT 0, model TEXT, model_config TEXT, system_prompt TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0, cwd TEXT, git_branch TEXT, git_repo_root TEXT,
    billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT, estimated_cost_usd REAL,
    actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT, title TEXT,
    api_call_count INTEGER DEFAULT 0, handoff_state TEXT, handoff_platform TEXT,
    handoff_error TEXT, compression_failure_cooldown_until REAL, compression_failure_error TEXT,
    compression_fallback_streak INTEGER NOT NULL DEFAULT 0, profile_name TEXT,
    rewind_count INTEGER NOT NULL DEFAULT 0, archived INTEGER NOT NULL DEFAULT 0,
    FOREIGN KEY (parent_session_id) REFERENCES sessions(id)
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions(id),
    role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
    effect_disposition TEXT, timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT,
    reasoning TEXT, reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT,
    codex_message_items TEXT, platform_message_id TEXT, observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0, api_content TEXT
);
CREATE TABLE session_model_usage (
    session_id TEXT NOT NULL REFERENCES sessions(id), model TEXT NOT NULL,
    billing_provider TEXT NOT NULL DEFAULT '', billing_base_url TEXT NOT NULL DEFAULT '',
    billing_mode TEXT NOT NULL DEFAULT '', task TEXT NOT NULL DEFAULT '',
    api_call_count INTEGER NOT NULL DEFAULT 0, input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0, cache_read_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0, reasoning_tokens INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL NOT NULL DEFAULT 0, actual_cost_usd REAL NOT NULL DEFAULT 0,
    cost_status TEXT, cost_source TEXT, first_seen REAL, last_seen REAL,
    PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)
);
CREATE TABLE state_meta (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE gateway_routing (
    scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL, entry_json TEXT NOT NULL,
    updated_at REAL NOT NULL, PRIMARY KEY (scope, session_key)
);
CREATE TABLE compression_locks (
    session_id TEXT PRIMARY KEY, holder TEXT NOT NULL, acquired_at REAL NOT NULL,
    expires_at REAL NOT NULL
);
CREATE TABLE async_delegations (
    delegation_id TEXT PRIMARY KEY, origin_session TEXT NOT NULL,
    origin_ui_session_id TEXT NOT NULL DEFAULT '', parent_session_id TEXT, state TEXT NOT NULL,
    dispatched_at REAL NOT NULL, completed_at REAL, updated_at REAL NOT NULL, event_json TEXT,
    result_json TEXT, delivery_state TEXT NOT NULL DEFAULT 'pending',
    delivery_attempts INTEGER NOT NULL DEFAULT 0, delivered_at REAL, owner_pid INTEGER,
    owner_started_at INTEGER, task_json TEXT, delivery_claim TEXT, delivery_claimed_at REAL
);
CREATE TABLE delivery_obligations (
    obligation_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, platform TEXT NOT NULL,
    chat_id TEXT NOT NULL, thread_id TEXT, content TEXT NOT NULL, state TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, created_at REAL NOT NULL, updated_at REAL NOT NULL,
    owner_pid INTEGER, owner_started_at INTEGER, last_error TEXT
);
"""

INDEXES = """
CREATE INDEX idx_sessions_source ON sessions(source);
CREATE INDEX idx_sessions_source_id ON sessions(source, id);
CREATE INDEX idx_sessions_parent ON sessions(parent_session_id);
CREATE INDEX idx_sessions_started ON sessions(started_at DESC);
CREATE INDEX idx_messages_session ON messages(session_id, timestamp);
CREATE INDEX idx_compression_locks_expires ON compression_locks(expires_at);
CREATE INDEX idx_session_model_usage_session ON session_model_usage(session_id);
CREATE INDEX idx_session_model_usage_model ON session_model_usage(model);
CREATE INDEX idx_async_delegations_delivery ON async_delegations(delivery_state, completed_at);
CREATE INDEX idx_messages_platform_msg_id ON messages(session_id, platform_message_id)
    WHERE platform_message_id IS NOT NULL;
CREATE INDEX idx_messages_session_active ON messages(session_id, active, timestamp);
CREATE INDEX idx_messages_active_null ON messages(active) WHERE active IS NULL;
CREATE INDEX idx_sessions_session_key ON sessions(session_key, started_at DESC);
CREATE INDEX idx_sessions_gateway_peer
    ON sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC);
CREATE INDEX idx_sessions_handoff_state ON sessions(handoff_state, started_at);
"""
TITLE_INDEX = """
CREATE UNIQUE INDEX idx_sessions_title_unique ON sessions(title) WHERE title IS NOT NULL;
"""

_INDEXED = (
    "COALESCE(new.content, '') || ' ' || COALESCE(new.tool_name, '') || ' ' ||"
    " COALESCE(new.tool_calls, '')"
)
SEARCH = "".join(
    f"""
CREATE VIRTUAL TABLE {table} USING fts5(content{options});
CREATE TRIGGER {table}_insert AFTER INSERT ON messages BEGIN
    INSERT INTO {table}(rowid, content) VALUES (new.id, {_INDEXED});
END;
CREATE TRIGGER {table}_delete AFTER DELETE ON messages BEGIN
    DELETE FROM {table} WHERE rowid = old.id;
END;
CREATE TRIGGER {table}_update AFTER UPDATE ON messages BEGIN
    DELETE FROM {table} WHERE rowid = old.id;
    INSERT INTO {table}(rowid, content) VALUES (new.id, {_INDEXED});
END;
"""
    for table, options in (("messages_fts", ""), ("messages_fts_trigram", ", tokenize='trigram'"))
)

OTHERS = """
CREATE TABLE telegram_dm_topic_bindings (
    chat_id TEXT NOT NULL, thread_id TEXT NOT NULL, user_id TEXT,
    session_id TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE, updated_at REAL,
    PRIMARY KEY (chat_id, thread_id)
);
CREATE INDEX idx_telegram_dm_topic_bindings_session ON telegram_dm_topic_bindings(session_id);
CREATE TABLE plugin_notes (note TEXT, at REAL);
ALTER TABLE sessions ADD COLUMN mood TEXT;
ALTER TABLE messages ADD COLUMN stars INTEGER DEFAULT 3;
"""

MULTIMODAL = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "x"}}]
CALLS = [
    {"id": "c1", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}},
    {"id": "c2", "function": {"name": "read_file", "arguments": "{}"}},
]
CONTINUATIONS = {
    "c1": "c2", "c2": "c3", "f1": "f-open", "g1": "g-newer", "h1": "h-older", "h-older": "h-tail",
}  # fmt: skip
"""Compressed session → the session that must continue it; those with two children are f, g, h."""
CONVERSATIONS = {
    "c1": "c1", "c2": "c1", "c3": "c1", "f-open": "f1", "f-ended": "f-ended", "g-newer": "g1",
    "g-older": "g-older", "h-newer": "h-newer", "h-older": "h1", "h-tail": "h1", "b1": "b1",
    "b-of-c1": "b-of-c1", "d1": "d1", "plain": "plain", "dead-end": "dead-end",
}  # fmt: skip


def _insert(db: sqlite3.Connection, table: str, **row: Any) -> None:
    names = ", ".join(row)
    db.execute(
        f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(row))})", [*row.values()]
    )


def _session(db: sqlite3.Connection, name: str, at: float, **facts: Any) -> None:
    _insert(db, "sessions", id=name, **{"source": "cli", "started_at": at, "model": "m", **facts})
    said: Iterable[tuple[str, str]] = (("user", f"question in {name}"), ("assistant", "Grüße 你好"))
    for n, (role, content) in enumerate(said):
        _insert(db, "messages", session_id=name, role=role, content=content, timestamp=at + n)
    db.execute("UPDATE sessions SET message_count = 2 WHERE id = ?", (name,))


def build(path: Path, *, journal: str = "wal", title_index: bool = True) -> None:
    """Write the file: chains, forks, branches, delegates, every table, and what others added."""
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.executescript(TABLES + INDEXES + (TITLE_INDEX if title_index else "") + SEARCH + OTHERS)
    _insert(db, "schema_version", version=VERSION)
    compressed = {"end_reason": "compression"}
    _session(db, "plain", 100.0, title="Plain", ended_at=190.0, end_reason="branched", mood="calm")
    _session(db, "c1", 200.0, **compressed, ended_at=250.0, title="Chain", session_key="k1")
    _session(
        db, "c2", 250.0, **compressed, ended_at=300.0, title="Chain #2", parent_session_id="c1"
    )
    _session(db, "c3", 300.0, parent_session_id="c2", title="Chain #3", handoff_state="pending")
    _session(db, "f1", 400.0, **compressed, ended_at=410.0)
    _session(db, "f-open", 410.0, parent_session_id="f1")
    _session(db, "f-ended", 420.0, parent_session_id="f1", ended_at=430.0, end_reason="agent_close")
    _session(db, "g1", 500.0, **compressed, ended_at=510.0)
    _session(db, "g-older", 510.0, parent_session_id="g1")
    _session(db, "g-newer", 520.0, parent_session_id="g1")
    _session(db, "h1", 600.0, **compressed, ended_at=610.0)
    _session(db, "h-older", 610.0, parent_session_id="h1", **compressed, ended_at=630.0)
    _session(db, "h-newer", 620.0, parent_session_id="h1")
    _session(db, "h-tail", 630.0, parent_session_id="h-older")
    _session(db, "dead-end", 640.0, **compressed, ended_at=650.0)
    mark = json.dumps({"_branched_from": "plain", "temperature": 0.5})
    _session(db, "b1", 700.0, parent_session_id="plain", model_config=mark)
    mark = json.dumps({"_branched_from": "c1"})
    _session(db, "b-of-c1", 990.0, parent_session_id="c1", model_config=mark)
    mark = json.dumps({"_delegate_from": "c2"})
    _session(db, "d1", 980.0, parent_session_id="c2", model_config=mark)
    _session(db, "t1", 985.0, source="tool", parent_session_id="c2")
    _insert(db, "sessions", id="empty", source="tui", started_at=50.0)
    plain = {"session_id": "plain", "timestamp": 150.0}
    _insert(db, "messages", **plain, role="user", content="\0json:" + json.dumps(MULTIMODAL))
    asking = {"role": "assistant", "tool_calls": json.dumps(CALLS), "finish_reason": "tool_calls"}
    thought = {"reasoning": "hm", "reasoning_details": json.dumps([{"x": 1}]), "token_count": 7}
    _insert(db, "messages", **plain, **asking, **thought)
    result = {"role": "tool", "content": "ok", "tool_call_id": "c1", "tool_name": "terminal"}
    _insert(db, "messages", **plain, **result, effect_disposition="read")
    _insert(db, "messages", **plain, role="user", content="taken back", active=0)
    _insert(db, "messages", **plain, role="user", content="archived", active=0, compacted=1)
    _insert(
        db, "messages", **plain, role="user", content="hi", platform_message_id="p9", observed=1
    )
    _insert(db, "session_model_usage", session_id="plain", model="m", input_tokens=5)
    _insert(db, "state_meta", key="goal:c3", value="ship it")
    _insert(db, "state_meta", key="last_auto_prune", value="1700000000.0")
    for scope in ("", "profile"):
        entry = json.dumps({"session_id": "c3", "name": "Ada"})
        _insert(
            db, "gateway_routing", scope=scope, session_key="k1", entry_json=entry, updated_at=1.0
        )
    _insert(db, "compression_locks", session_id="c3", holder="h", acquired_at=1.0, expires_at=2.0)
    times = {"dispatched_at": 1.0, "updated_at": 2.0}
    _insert(db, "async_delegations", delegation_id="a", origin_session="c3", state="done", **times)
    owed = {"session_key": "k1", "platform": "telegram", "chat_id": "1", "content": "text"}
    times = {"created_at": 1.0, "updated_at": 1.0}
    _insert(db, "delivery_obligations", obligation_id="o", state="pending", **owed, **times)
    _insert(db, "telegram_dm_topic_bindings", chat_id="1", thread_id="2", session_id="c3")
    _insert(db, "plugin_notes", note="mine", at=1.5)
    db.commit()
    db.close()


def contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every plain table, read by plain sqlite3 without our own columns.

    In a process of its own, as any script would: within one process a second SQLite library undoes
    the locks of the first.
    """
    return dict(in_child(lambda: _contents(path)))


def _contents(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    own = {
        "sessions": {
            "conversation_id", "version", "last_active", "continuation_of", "memory_of",
            "handoff_owner",
            "handoff_needs_format",
        },
        "messages": {"origin_id"},
        "gateway_routing": {"session_id", "version"},
        "delivery_obligations": {"owner", "needs_format"},
        "async_delegations": {"owner"},
    }  # fmt: skip
    found = {}
    for (table,) in db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'messages_fts%'"
        " AND name NOT IN ('sqlite_sequence', 'search_changes', 'approvals', 'approval_grants',"
        " 'inbox', 'turns', 'tool_runs', 'pairing_codes', 'paired_users',"
        " 'replicas', 'platform_leases', 'link_codes', 'kept_files', 'signals', 'watches',"
        " 'watched_events', 'objects', 'object_links', 'object_blobs', 'object_chunks',"
        " 'model_calls', 'persons', 'doors', 'person_merges',"
        " 'web_devices', 'jobs', 'job_runs', 'memory_spaces', 'memory_shown',"
        " 'platform_records')"
    ).fetchall():
        names = [name for _, name, *_ in db.execute(f"PRAGMA table_info({table})")]
        columns = sorted(set(names) - own.get(table, set()))
        rows = db.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
        found[table] = sorted(rows, key=repr)
    db.close()
    return found
