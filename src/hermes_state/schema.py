"""The tables of `state.db`.

The known tables and columns keep the names that people's scripts read (schema_version 22). Facts of
our own are further columns and tables:

- sessions.conversation_id   id of the conversation's first session, the same for life
- sessions.version           raised by every write that concerns the session
- sessions.last_active       time of the newest message
- sessions.continuation_of   the session this one goes on from after a compression; unique, so a
                             parent cannot have two continuations
- messages.origin_id         the message this row repeats (the tail a rotation or a branch carried
                             over), so that search and display show it once
- gateway_routing.session_id the session that the entry names
- gateway_routing.version    the number of its newest change, among those of all entries
- approvals, approval_grants what was asked and decided, by people or by rule; what is always
                             allowed
- turns, tool_runs           who runs the turn of a conversation, and which of its tools had started
- replicas, platform_leases  the gateways that share the store, and which of them holds a platform
- platform_records           what a platform's adapter keeps by name, such as encryption keys
- pairing_codes, link_codes  by which strangers ask, and by which a chat lets another in
- kept_files                 memories and skills, where several machines share them
- objects, object_links      files that messages name, where several machines share them, and
                             which conversations have them
- object_blobs, object_chunks their content, or where it is
- persons, doors             who owns conversations, and the accounts and keys by which they come
- web_devices                browsers and phones by the hash of their key, each a door
- person_merges              which persons were found to be one, so that it can be undone
- memory_spaces              memories that went to another person with a merge
- memory_shown               in which groups a person's memories may be read
- sessions.memory_of         whose memories the system prompt tells (JSON; NULL: not known)
- signals                    what processes tell the one that runs a conversation's turn
- watches, watched_events    who watches a turn from another machine, and what they are shown
- model_calls                one row per model call: when, for whom, what it took and cost; it stays
                             when its conversation is deleted, without naming it
- jobs, job_runs             work that begins by itself, and what became of each occurrence
- owner (several tables)     the process that is sending, carrying out, taking over or working
- needs_format (several)     which format of requests it takes to understand the row (`formats`)
- search_changes             what the search index has to look at again besides new messages
"""

from collections.abc import Mapping

KNOWN_SCHEMA_VERSION = 22
"""`schema_version` of the public system whose files we read and whose table names we keep."""

OWN_SCHEMA_VERSION = 21
"""Our own numbered migrations, kept in `PRAGMA user_version`."""

SESSION_COLUMNS: dict[str, str] = {
    "id": "TEXT PRIMARY KEY",
    "source": "TEXT NOT NULL",
    "user_id": "TEXT",
    "session_key": "TEXT",
    "chat_id": "TEXT",
    "chat_type": "TEXT",
    "thread_id": "TEXT",
    "display_name": "TEXT",
    "origin_json": "TEXT",
    "expiry_finalized": "INTEGER DEFAULT 0",
    "model": "TEXT",
    "model_config": "TEXT",
    "system_prompt": "TEXT",
    "parent_session_id": "TEXT REFERENCES sessions(id)",
    "started_at": "REAL NOT NULL",
    "ended_at": "REAL",
    "end_reason": "TEXT",
    "message_count": "INTEGER DEFAULT 0",
    "tool_call_count": "INTEGER DEFAULT 0",
    "input_tokens": "INTEGER DEFAULT 0",
    "output_tokens": "INTEGER DEFAULT 0",
    "cache_read_tokens": "INTEGER DEFAULT 0",
    "cache_write_tokens": "INTEGER DEFAULT 0",
    "reasoning_tokens": "INTEGER DEFAULT 0",
    "cwd": "TEXT",
    "git_branch": "TEXT",
    "git_repo_root": "TEXT",
    "billing_provider": "TEXT",
    "billing_base_url": "TEXT",
    "billing_mode": "TEXT",
    "estimated_cost_usd": "REAL",
    "actual_cost_usd": "REAL",
    "cost_status": "TEXT",
    "cost_source": "TEXT",
    "pricing_version": "TEXT",
    "title": "TEXT",
    "api_call_count": "INTEGER DEFAULT 0",
    "handoff_state": "TEXT",
    "handoff_platform": "TEXT",
    "handoff_error": "TEXT",
    "handoff_owner": "TEXT",
    "handoff_needs_format": "INTEGER",
    "compression_failure_cooldown_until": "REAL",
    "compression_failure_error": "TEXT",
    "compression_fallback_streak": "INTEGER NOT NULL DEFAULT 0",
    "profile_name": "TEXT",
    "rewind_count": "INTEGER NOT NULL DEFAULT 0",
    "archived": "INTEGER NOT NULL DEFAULT 0",
    "conversation_id": "TEXT",
    "version": "INTEGER NOT NULL DEFAULT 0",
    "last_active": "REAL",
    "continuation_of": "TEXT",
    "memory_of": "TEXT",
}

MESSAGE_COLUMNS: dict[str, str] = {
    "id": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "session_id": "TEXT NOT NULL REFERENCES sessions(id)",
    "role": "TEXT NOT NULL",
    "content": "TEXT",
    "tool_call_id": "TEXT",
    "tool_calls": "TEXT",
    "tool_name": "TEXT",
    "effect_disposition": "TEXT",
    "timestamp": "REAL NOT NULL",
    "token_count": "INTEGER",
    "finish_reason": "TEXT",
    "reasoning": "TEXT",
    "reasoning_content": "TEXT",
    "reasoning_details": "TEXT",
    "codex_reasoning_items": "TEXT",
    "codex_message_items": "TEXT",
    "platform_message_id": "TEXT",
    "observed": "INTEGER DEFAULT 0",
    "active": "INTEGER NOT NULL DEFAULT 1",
    "compacted": "INTEGER NOT NULL DEFAULT 0",
    "api_content": "TEXT",
    "origin_id": "INTEGER",
}

USAGE_COLUMNS: dict[str, str] = {
    "session_id": "TEXT NOT NULL REFERENCES sessions(id) ON DELETE CASCADE",
    "model": "TEXT NOT NULL",
    "billing_provider": "TEXT NOT NULL DEFAULT ''",
    "billing_base_url": "TEXT NOT NULL DEFAULT ''",
    "billing_mode": "TEXT NOT NULL DEFAULT ''",
    "task": "TEXT NOT NULL DEFAULT ''",
    "api_call_count": "INTEGER NOT NULL DEFAULT 0",
    "input_tokens": "INTEGER NOT NULL DEFAULT 0",
    "output_tokens": "INTEGER NOT NULL DEFAULT 0",
    "cache_read_tokens": "INTEGER NOT NULL DEFAULT 0",
    "cache_write_tokens": "INTEGER NOT NULL DEFAULT 0",
    "reasoning_tokens": "INTEGER NOT NULL DEFAULT 0",
    "estimated_cost_usd": "REAL NOT NULL DEFAULT 0",
    "actual_cost_usd": "REAL NOT NULL DEFAULT 0",
    "cost_status": "TEXT",
    "cost_source": "TEXT",
    "first_seen": "REAL",
    "last_seen": "REAL",
}

# table → (columns, table constraints)
TABLES: dict[str, tuple[dict[str, str], str]] = {
    "schema_version": ({"version": "INTEGER NOT NULL"}, ""),
    "sessions": (SESSION_COLUMNS, ""),
    "messages": (MESSAGE_COLUMNS, ""),
    "session_model_usage": (
        USAGE_COLUMNS,
        "PRIMARY KEY (session_id, model, billing_provider, billing_base_url, billing_mode, task)",
    ),
    "state_meta": ({"key": "TEXT PRIMARY KEY", "value": "TEXT"}, ""),
    "gateway_routing": (
        {
            "scope": "TEXT NOT NULL DEFAULT ''",
            "session_key": "TEXT NOT NULL",
            "entry_json": "TEXT NOT NULL",
            "updated_at": "REAL NOT NULL",
            "session_id": "TEXT",
            "version": "INTEGER NOT NULL DEFAULT 0",
        },
        "PRIMARY KEY (scope, session_key)",
    ),
    "compression_locks": (
        {
            "session_id": "TEXT PRIMARY KEY",
            "holder": "TEXT NOT NULL",
            "acquired_at": "REAL NOT NULL",
            "expires_at": "REAL NOT NULL",
        },
        "",
    ),
    "async_delegations": (
        {
            "delegation_id": "TEXT PRIMARY KEY",
            "origin_session": "TEXT NOT NULL",
            "origin_ui_session_id": "TEXT NOT NULL DEFAULT ''",
            "parent_session_id": "TEXT",
            "state": "TEXT NOT NULL",
            "dispatched_at": "REAL NOT NULL",
            "completed_at": "REAL",
            "updated_at": "REAL NOT NULL",
            "event_json": "TEXT",
            "result_json": "TEXT",
            "delivery_state": "TEXT NOT NULL DEFAULT 'pending'",
            "delivery_attempts": "INTEGER NOT NULL DEFAULT 0",
            "delivered_at": "REAL",
            "owner_pid": "INTEGER",
            "owner_started_at": "INTEGER",
            "task_json": "TEXT",
            "delivery_claim": "TEXT",
            "delivery_claimed_at": "REAL",
            "owner": "TEXT",
        },
        "",
    ),
    "delivery_obligations": (
        {
            "obligation_id": "TEXT PRIMARY KEY",
            "session_key": "TEXT NOT NULL",
            "platform": "TEXT NOT NULL",
            "chat_id": "TEXT NOT NULL",
            "thread_id": "TEXT",
            "content": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "attempts": "INTEGER NOT NULL DEFAULT 0",
            "created_at": "REAL NOT NULL",
            "updated_at": "REAL NOT NULL",
            "owner_pid": "INTEGER",
            "owner_started_at": "INTEGER",
            "last_error": "TEXT",
            "owner": "TEXT",
            "needs_format": "INTEGER",
        },
        "",
    ),
    "approvals": (
        {
            "id": "TEXT PRIMARY KEY",
            "token_hash": "TEXT NOT NULL",
            "session_id": "TEXT NOT NULL",
            "session_key": "TEXT",
            "user_id": "TEXT",
            "command": "TEXT NOT NULL",
            "description": "TEXT NOT NULL",
            "pattern_keys": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "choice": "TEXT",
            "created_at": "REAL NOT NULL",
            "expires_at": "REAL NOT NULL",
            "decided_at": "REAL",
            "decided_by": "TEXT",
            "how": "TEXT",
            "taken_at": "REAL",
        },
        "",
    ),
    "approval_grants": (
        {
            "pattern_key": "TEXT NOT NULL",
            "granted_at": "REAL NOT NULL",
            "granted_by": "TEXT NOT NULL DEFAULT ''",
        },
        "PRIMARY KEY (granted_by, pattern_key)",
    ),
    "inbox": (
        {
            "id": "TEXT PRIMARY KEY",
            "session_id": "TEXT NOT NULL",
            "source": "TEXT NOT NULL",
            "session_key": "TEXT",
            "user_id": "TEXT",
            "platform_message_id": "TEXT",
            "content": "TEXT",
            "facts": "TEXT",
            "state": "TEXT NOT NULL",
            "received_at": "REAL NOT NULL",
            "updated_at": "REAL NOT NULL",
            "owner": "TEXT",
            "needs_format": "INTEGER",
        },
        "",
    ),
    "turns": (
        {
            "conversation_id": "TEXT PRIMARY KEY",
            "session_id": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "owner": "TEXT NOT NULL",
            "fence": "INTEGER NOT NULL",
            "heartbeat_at": "REAL NOT NULL",
            "started_at": "REAL NOT NULL",
            "attempts": "INTEGER NOT NULL",
            "deliver_to": "TEXT",
            "attempts_without_progress": "INTEGER NOT NULL DEFAULT 0",
            "needs_format": "INTEGER",
        },
        "",
    ),
    "tool_runs": (
        {
            "conversation_id": "TEXT NOT NULL",
            "fence": "INTEGER NOT NULL",
            "call_id": "TEXT NOT NULL",
            "tool_name": "TEXT NOT NULL",
            "effect": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "started_at": "REAL NOT NULL",
            "finished_at": "REAL",
        },
        "PRIMARY KEY (conversation_id, fence, call_id)",
    ),
    "replicas": (
        {
            "owner": "TEXT PRIMARY KEY",
            "host": "TEXT NOT NULL DEFAULT ''",
            "started_at": "REAL NOT NULL",
            "heartbeat_at": "REAL NOT NULL",
            "version": "TEXT NOT NULL DEFAULT ''",
            "address": "TEXT",
            "config_digest": "TEXT",
            "draining": "INTEGER NOT NULL DEFAULT 0",
            "turns": "INTEGER NOT NULL DEFAULT 0",
            "format": "INTEGER",
            "prefers": "TEXT",
            "wants": "TEXT",
        },
        "",
    ),
    "platform_leases": (
        {
            "name": "TEXT PRIMARY KEY",
            "owner": "TEXT NOT NULL",
            "fence": "INTEGER NOT NULL",
            "heartbeat_at": "REAL NOT NULL",
            "kept": "TEXT",
        },
        "",
    ),
    "platform_records": (
        {
            "platform": "TEXT NOT NULL",
            "name": "TEXT NOT NULL",
            "value": "TEXT NOT NULL",
        },
        "PRIMARY KEY (platform, name)",
    ),
    "signals": (
        {
            "id": "TEXT PRIMARY KEY",
            "conversation_id": "TEXT NOT NULL",
            "started_at": "REAL NOT NULL",
            "kind": "TEXT NOT NULL",
            "payload": "TEXT",
            "made_at": "REAL NOT NULL",
            "taken_at": "REAL",
            "outcome": "TEXT",
            "needs_format": "INTEGER",
        },
        "",
    ),
    "watches": (
        {
            "conversation_id": "TEXT NOT NULL",
            "viewer": "TEXT NOT NULL",
            "since": "INTEGER NOT NULL",
            "until": "REAL NOT NULL",
        },
        "PRIMARY KEY (conversation_id, viewer)",
    ),
    "watched_events": (
        {
            "conversation_id": "TEXT NOT NULL",
            "number": "INTEGER NOT NULL",
            "viewer": "TEXT NOT NULL",
            "lines": "TEXT NOT NULL",
            "made_at": "REAL NOT NULL",
        },
        "PRIMARY KEY (conversation_id, number, viewer)",
    ),
    "model_calls": (
        {
            "id": "TEXT PRIMARY KEY",
            "made_at": "REAL NOT NULL",
            "conversation_id": "TEXT",
            "session_id": "TEXT",
            "session_key": "TEXT",
            "user_id": "TEXT",
            "source": "TEXT",
            "job": "TEXT",
            "task": "TEXT NOT NULL",
            "model": "TEXT NOT NULL",
            "provider": "TEXT NOT NULL DEFAULT ''",
            "input_tokens": "INTEGER NOT NULL DEFAULT 0",
            "output_tokens": "INTEGER NOT NULL DEFAULT 0",
            "cache_read_tokens": "INTEGER NOT NULL DEFAULT 0",
            "cache_write_tokens": "INTEGER NOT NULL DEFAULT 0",
            "reasoning_tokens": "INTEGER NOT NULL DEFAULT 0",
            "cost_usd": "REAL",
            "assumed_cost_usd": "REAL",
            "first_token_seconds": "REAL",
            "seconds": "REAL",
            "outcome": "TEXT NOT NULL",
            "process": "TEXT",
            "fence": "INTEGER",
            "expires_at": "REAL",
        },
        "",
    ),
    "pairing_codes": (
        {
            "code_hash": "TEXT PRIMARY KEY",
            "platform": "TEXT NOT NULL",
            "user_id": "TEXT NOT NULL",
            "user_name": "TEXT",
            "created_at": "REAL NOT NULL",
            "expires_at": "REAL NOT NULL",
        },
        "",
    ),
    "paired_users": (
        {
            "platform": "TEXT NOT NULL",
            "user_id": "TEXT NOT NULL",
            "user_name": "TEXT",
            "approved_at": "REAL NOT NULL",
        },
        "PRIMARY KEY (platform, user_id)",
    ),
    "link_codes": (
        {
            "code_hash": "TEXT PRIMARY KEY",
            "session_key": "TEXT NOT NULL",
            "session_id": "TEXT NOT NULL",
            "owner": "TEXT NOT NULL",
            "expires_at": "REAL NOT NULL",
            "used_at": "REAL",
            "scope": "TEXT",
        },
        "",
    ),
    "persons": (
        {
            "id": "TEXT PRIMARY KEY",
            "name": "TEXT NOT NULL",
            "role": "TEXT NOT NULL",
            "limits": "TEXT NOT NULL DEFAULT '{}'",
            "workspace": "TEXT",
            "created_at": "REAL NOT NULL",
        },
        "",
    ),
    "doors": (
        {
            "kind": "TEXT NOT NULL",
            "identifier": "TEXT NOT NULL",
            "person_id": "TEXT NOT NULL",
            "name": "TEXT",
            "added_at": "REAL NOT NULL",
        },
        "PRIMARY KEY (kind, identifier)",
    ),
    "web_devices": (
        {
            "id": "TEXT PRIMARY KEY",
            "key_hash": "TEXT NOT NULL",
            "scope": "TEXT NOT NULL",
            "made_at": "REAL NOT NULL",
            "used_at": "REAL",
        },
        "",
    ),
    "person_merges": (
        {
            "id": "TEXT PRIMARY KEY",
            "person_id": "TEXT NOT NULL",
            "merged": "TEXT NOT NULL",
            "made_at": "REAL NOT NULL",
            "undone_at": "REAL",
        },
        "",
    ),
    "memory_spaces": (
        {
            "space": "TEXT PRIMARY KEY",
            "person_id": "TEXT NOT NULL",
            "added_at": "REAL NOT NULL",
        },
        "",
    ),
    "memory_shown": (
        {
            "space": "TEXT NOT NULL",
            "chat": "TEXT NOT NULL",
            "since": "REAL NOT NULL",
        },
        "PRIMARY KEY (space, chat)",
    ),
    "kept_files": (
        {
            "path": "TEXT PRIMARY KEY",
            "content": "TEXT",
            "encoding": "TEXT NOT NULL",
            "executable": "INTEGER NOT NULL",
            "version": "INTEGER NOT NULL",
            "updated_at": "REAL NOT NULL",
            "updated_by": "TEXT NOT NULL",
        },
        "",
    ),
    "objects": (
        {
            "name": "TEXT PRIMARY KEY",
            "blob": "TEXT NOT NULL",
            "put_at": "REAL NOT NULL",
        },
        "",
    ),
    "object_links": (
        {
            "name": "TEXT NOT NULL",
            "conversation_id": "TEXT NOT NULL",
        },
        "PRIMARY KEY (name, conversation_id)",
    ),
    "object_blobs": (
        {
            "id": "TEXT PRIMARY KEY",
            "digest": "TEXT NOT NULL",
            "size": "INTEGER NOT NULL",
            "place": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "changed_at": "REAL NOT NULL",
        },
        "",
    ),
    "object_chunks": (
        {
            "blob": "TEXT NOT NULL",
            "number": "INTEGER NOT NULL",
            "content": "BLOB NOT NULL",
        },
        "PRIMARY KEY (blob, number)",
    ),
    "jobs": (
        {
            "id": "TEXT PRIMARY KEY",
            "user_id": "TEXT",
            "name": "TEXT NOT NULL",
            "schedule": "TEXT NOT NULL",
            "timezone": "TEXT NOT NULL",
            "settings": "TEXT NOT NULL",
            "state": "TEXT NOT NULL",
            "next_due": "REAL",
            "next_at": "REAL",
            "runs": "INTEGER NOT NULL DEFAULT 0",
            "failures": "INTEGER NOT NULL DEFAULT 0",
            "notepad": "TEXT",
            "last_result": "TEXT",
            "version": "INTEGER NOT NULL DEFAULT 1",
            "created_at": "REAL NOT NULL",
            "updated_at": "REAL NOT NULL",
        },
        "",
    ),
    "job_runs": (
        {
            "id": "TEXT PRIMARY KEY",
            "job_id": "TEXT NOT NULL",
            "due_at": "REAL NOT NULL",
            "until": "REAL NOT NULL",
            "state": "TEXT NOT NULL",
            "skipped": "INTEGER NOT NULL DEFAULT 0",
            "owner": "TEXT",
            "session_id": "TEXT",
            "started_at": "REAL",
            "ended_at": "REAL",
            "answer": "TEXT",
            "error": "TEXT",
            "cost_usd": "REAL",
            "tokens": "INTEGER",
        },
        "",
    ),
    "search_changes": (
        {
            "seq": "INTEGER PRIMARY KEY AUTOINCREMENT",
            "session_id": "TEXT NOT NULL",
            "kind": "TEXT NOT NULL",
        },
        "",
    ),
}

KEPT_BY_KEY = frozenset({"turns", "tool_runs", "model_calls"})
"""Tables that are written with every turn: one tree instead of two."""

# One index on the hot table: it holds the row id too, so it also gives a session's order.
INDEXES: dict[str, str] = {
    "idx_sessions_source": "sessions(source)",
    "idx_sessions_parent": "sessions(parent_session_id)",
    "idx_sessions_started": "sessions(started_at DESC)",
    "idx_sessions_conversation": "sessions(conversation_id)",
    "idx_sessions_session_key": "sessions(session_key, started_at DESC)",
    "idx_sessions_gateway_peer": (
        "sessions(source, user_id, chat_id, chat_type, thread_id, started_at DESC)"
    ),
    "idx_sessions_handoff_state": "sessions(handoff_state, started_at)",
    "idx_messages_session": "messages(session_id)",
    "idx_messages_platform_msg_id": (
        "messages(session_id, platform_message_id) WHERE platform_message_id IS NOT NULL"
    ),
    "idx_messages_origin": "messages(origin_id) WHERE origin_id IS NOT NULL",
    "idx_compression_locks_expires": "compression_locks(expires_at)",
    "idx_session_model_usage_model": "session_model_usage(model)",
    "idx_delivery_obligations_state": "delivery_obligations(state, session_key)",
    "idx_gateway_routing_session": "gateway_routing(session_id)",
    "idx_gateway_routing_version": "gateway_routing(scope, version)",
    "idx_inbox_key": "inbox(session_key) WHERE state = 'waiting'",
    "idx_inbox_session": "inbox(session_id, state)",
    "idx_inbox_begun": "inbox(received_at) WHERE state = 'begun'",
    "idx_inbox_waiting": "inbox(source, received_at) WHERE state = 'waiting'",
    "idx_turns_running": "turns(started_at) WHERE state = 'running'",
    "idx_model_calls_session": "model_calls(session_id)",
    "idx_model_calls_user": "model_calls(user_id, made_at)",
    "idx_model_calls_chat": "model_calls(session_key, made_at) WHERE session_key IS NOT NULL",
    "idx_model_calls_reserved": "model_calls(id) WHERE outcome = 'reserved'",
    "idx_approvals_pending": "approvals(state, expires_at)",
    "idx_approvals_session": "approvals(session_id)",
    "idx_objects_blob": "objects(blob)",
    "idx_object_links_conversation": "object_links(conversation_id)",
    "idx_object_blobs_digest": "object_blobs(digest)",
    "idx_jobs_next": "jobs(next_at) WHERE state = 'active'",
    "idx_jobs_user": "jobs(user_id)",
    "idx_job_runs_due": "job_runs(job_id, due_at)",
    "idx_job_runs_open": "job_runs(job_id) WHERE state IN ('waiting', 'running')",
    "idx_model_calls_job": "model_calls(job, made_at) WHERE job IS NOT NULL",
    "idx_async_delegations_delivery": "async_delegations(delivery_state, completed_at)",
}

UNIQUE_INDEXES: dict[str, str] = {
    "idx_web_devices_key": "web_devices(key_hash)",
    "idx_sessions_title_owner_unique": (
        "sessions(title, COALESCE(user_id, '')) WHERE title IS NOT NULL"
    ),
    "idx_sessions_continuation_unique": (
        "sessions(continuation_of) WHERE continuation_of IS NOT NULL"
    ),
}


NO_OTHERS: Mapping[str, str] = {}


def create_table_sql(table: str) -> str:
    """The statement that creates `table`."""
    columns, constraints = TABLES[table]
    parts = [f"{name} {kind}" for name, kind in columns.items()]
    if constraints:
        parts.append(constraints)
    kind = " WITHOUT ROWID" if table in KEPT_BY_KEY else ""
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(parts)}){kind}"


def create_index_sql(others: Mapping[str, str] = NO_OTHERS) -> list[str]:
    """The statements that create every index, on `others` where those name them."""
    indexes = {**INDEXES, **others}
    return [
        *(f"CREATE INDEX IF NOT EXISTS {name} ON {on}" for name, on in indexes.items()),
        *(
            f"CREATE UNIQUE INDEX IF NOT EXISTS {name} ON {on}"
            for name, on in UNIQUE_INDEXES.items()
        ),
    ]
