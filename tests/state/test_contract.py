"""The public shape of the store: the methods and columns that scripts and front ends rely on."""

import inspect
from typing import Any

import pytest

from hermes_state import AsyncSessionDB, SessionDB

from .raw import query

# Method → its parameters as they are written in a call; "*" starts the keyword-only ones.
METHODS: dict[str, str] = {
    "close": "",
    "create_session": "session_id, source, **kwargs",
    "record_gateway_session_peer": "session_id, *, source, user_id=None, session_key=None,"
    " chat_id=None, chat_type=None, thread_id=None, display_name=None, origin_json=None",
    "set_expiry_finalized": "session_id, finalized=True",
    "save_gateway_routing_entry": "session_key, entry_json, *, scope=''",
    "replace_gateway_routing_entries": "entries, *, scope=''",
    "load_gateway_routing_entries": "*, scope=''",
    "delete_gateway_routing_entries": "session_keys, *, scope=''",
    "list_gateway_sessions": "*, platform=None, active_only=True",
    "find_session_by_origin": "*, platform, chat_id, thread_id=None, user_id=None",
    "find_latest_gateway_session_for_peer": "*, source, user_id=None, session_key=None,"
    " chat_id=None, chat_type=None, thread_id=None",
    "end_session": "session_id, end_reason",
    "reopen_session": "session_id",
    "promote_to_session_reset": "session_id, reason='session_reset'",
    "update_session_cwd": "session_id, cwd, git_branch=None, git_repo_root=None",
    "backfill_repo_roots": "cwd_to_root",
    "record_compression_failure_cooldown": "session_id, cooldown_until, error=None",
    "get_compression_failure_cooldown": "session_id",
    "clear_compression_failure_cooldown": "session_id",
    "get_compression_fallback_streak": "session_id",
    "set_compression_fallback_streak": "session_id, streak",
    "refresh_compression_lock": "session_id, holder, ttl_seconds=300.0",
    "try_acquire_compression_lock": "session_id, holder, ttl_seconds=300.0",
    "release_compression_lock": "session_id, holder",
    "get_compression_lock_holder": "session_id",
    "update_session_meta": "session_id, model_config_json, model=None",
    "update_system_prompt": "session_id, system_prompt",
    "update_session_model": "session_id, model",
    "update_session_billing_route": "session_id, *, provider, base_url, billing_mode=None",
    "update_token_counts": "session_id, input_tokens=0, output_tokens=0, model=None,"
    " cache_read_tokens=0, cache_write_tokens=0, reasoning_tokens=0, estimated_cost_usd=None,"
    " actual_cost_usd=None, cost_status=None, cost_source=None, pricing_version=None,"
    " billing_provider=None, billing_base_url=None, billing_mode=None, api_call_count=0,"
    " absolute=False",
    "ensure_session": "session_id, source='unknown', model=None, **kwargs",
    "record_auxiliary_usage": "session_id, task, *, model=None, billing_provider=None,"
    " billing_base_url=None, input_tokens=0, output_tokens=0, cache_read_tokens=0,"
    " cache_write_tokens=0, reasoning_tokens=0, estimated_cost_usd=None",
    "prune_empty_ghost_sessions": "sessions_dir=None",
    "finalize_orphaned_compression_sessions": "",
    "get_session": "session_id",
    "resolve_session_id": "session_id_or_prefix",
    "sanitize_title": "title",
    "set_session_title": "session_id, title",
    "set_auto_title_if_empty": "session_id, title",
    "get_session_title": "session_id",
    "set_session_archived": "session_id, archived",
    "get_session_by_title": "title",
    "resolve_session_by_title": "title",
    "get_next_title_in_lineage": "base_title",
    "get_compression_tip": "session_id",
    "distinct_session_cwds": "include_archived=False",
    "list_sessions_rich": "source=None, exclude_sources=None, cwd_prefix=None, limit=20, offset=0,"
    " include_children=False, min_message_count=0, project_compression_tips=True,"
    " order_by_last_active=False, include_archived=False, archived_only=False, id_query=None,"
    " search_query=None, compact_rows=False",
    "list_cron_job_runs": "job_id, limit=20, offset=0",
    "append_message": "session_id, role, content=None, tool_name=None, tool_calls=None,"
    " tool_call_id=None, token_count=None, finish_reason=None, reasoning=None,"
    " reasoning_content=None, reasoning_details=None, codex_reasoning_items=None,"
    " codex_message_items=None, platform_message_id=None, observed=False, effect_disposition=None,"
    " timestamp=None, api_content=None",
    "replace_messages": "session_id, messages, active_only=False",
    "has_archived_messages": "session_id",
    "archive_and_compact": "session_id, compacted_messages",
    "set_latest_user_api_content": "session_id, content, api_content",
    "get_messages": "session_id, include_inactive=False, limit=None, offset=0",
    "get_messages_around": "session_id, around_message_id, window=5",
    "get_anchored_view": "session_id, around_message_id, window=5, bookend=3,"
    " keep_roles=('user', 'assistant')",
    "resolve_resume_session_id": "session_id",
    "get_messages_as_conversation": "session_id, include_ancestors=False, include_inactive=False,"
    " repair_alternation=False",
    "get_resume_conversations": "session_id",
    "get_ancestor_display_prefix": "session_id",
    "get_conversation_root": "session_id",
    "rewind_to_message": "session_id, target_message_id",
    "restore_rewound": "session_id, since_message_id",
    "list_recent_user_messages": "session_id, limit=20, include_inactive=False",
    "search_messages": "query, source_filter=None, exclude_sources=None, role_filter=None,"
    " limit=20, offset=0, sort=None, include_inactive=False",
    "search_sessions_by_id": "query, limit=20, include_archived=True",
    "search_sessions": "source=None, limit=20, offset=0",
    "session_count": "source=None, cwd_prefix=None, min_message_count=0, include_archived=False,"
    " archived_only=False, exclude_children=False, exclude_sources=None",
    "message_count": "session_id=None",
    "has_platform_message_id": "session_id, platform_message_id",
    "get_compression_lineage": "session_id",
    "export_session": "session_id",
    "export_session_lineage": "session_id",
    "export_all": "source=None",
    "import_sessions": "sessions",
    "clear_messages": "session_id",
    "delete_session": "session_id, sessions_dir=None",
    "delete_session_if_empty": "session_id, sessions_dir=None",
    "delete_sessions": "session_ids, sessions_dir=None",
    "count_empty_sessions": "",
    "delete_empty_sessions": "sessions_dir=None",
    "list_prune_candidates": "older_than_days=None, source=None, **filters",
    "archive_sessions": "older_than_days=None, source=None, **filters",
    "prune_sessions": "older_than_days=90, source=None, sessions_dir=None, **filters",
    "get_meta": "key",
    "set_meta": "key, value",
    "optimize_fts": "",
    "rebuild_fts": "",
    "vacuum": "",
    "maybe_auto_prune_and_vacuum": "retention_days=90, min_interval_hours=24, vacuum=True,"
    " sessions_dir=None",
    "request_handoff": "session_id, platform",
    "get_handoff_state": "session_id",
    "list_pending_handoffs": "",
    "claim_handoff": "session_id",
    "complete_handoff": "session_id",
    "fail_handoff": "session_id, error",
}

# Table → columns as "name TYPE", then NN for NOT NULL, PK<n> for its place in the primary key and
# =default. What is not listed here may be there as well.
TABLES: dict[str, str] = {
    "schema_version": "version INTEGER NN",
    "sessions": "id TEXT PK1, source TEXT NN, user_id TEXT, session_key TEXT, chat_id TEXT,"
    " chat_type TEXT, thread_id TEXT, display_name TEXT, origin_json TEXT,"
    " expiry_finalized INTEGER =0, model TEXT, model_config TEXT, system_prompt TEXT,"
    " parent_session_id TEXT, started_at REAL NN, ended_at REAL, end_reason TEXT,"
    " message_count INTEGER =0, tool_call_count INTEGER =0, input_tokens INTEGER =0,"
    " output_tokens INTEGER =0, cache_read_tokens INTEGER =0, cache_write_tokens INTEGER =0,"
    " reasoning_tokens INTEGER =0, cwd TEXT, git_branch TEXT, git_repo_root TEXT,"
    " billing_provider TEXT, billing_base_url TEXT, billing_mode TEXT, estimated_cost_usd REAL,"
    " actual_cost_usd REAL, cost_status TEXT, cost_source TEXT, pricing_version TEXT, title TEXT,"
    " api_call_count INTEGER =0, handoff_state TEXT, handoff_platform TEXT, handoff_error TEXT,"
    " compression_failure_cooldown_until REAL, compression_failure_error TEXT,"
    " compression_fallback_streak INTEGER NN =0, profile_name TEXT, rewind_count INTEGER NN =0,"
    " archived INTEGER NN =0",
    "messages": "id INTEGER PK1, session_id TEXT NN, role TEXT NN, content TEXT,"
    " tool_call_id TEXT, tool_calls TEXT, tool_name TEXT, effect_disposition TEXT,"
    " timestamp REAL NN, token_count INTEGER, finish_reason TEXT, reasoning TEXT,"
    " reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT,"
    " codex_message_items TEXT, platform_message_id TEXT, observed INTEGER =0,"
    " active INTEGER NN =1, compacted INTEGER NN =0, api_content TEXT",
    "session_model_usage": "session_id TEXT PK1 NN, model TEXT PK2 NN,"
    " billing_provider TEXT PK3 NN ='', billing_base_url TEXT PK4 NN ='',"
    " billing_mode TEXT PK5 NN ='', task TEXT PK6 NN ='', api_call_count INTEGER NN =0,"
    " input_tokens INTEGER NN =0, output_tokens INTEGER NN =0, cache_read_tokens INTEGER NN =0,"
    " cache_write_tokens INTEGER NN =0, reasoning_tokens INTEGER NN =0,"
    " estimated_cost_usd REAL NN =0, actual_cost_usd REAL NN =0, cost_status TEXT,"
    " cost_source TEXT, first_seen REAL, last_seen REAL",
    "state_meta": "key TEXT PK1, value TEXT",
    "gateway_routing": "scope TEXT PK1 NN ='', session_key TEXT PK2 NN, entry_json TEXT NN,"
    " updated_at REAL NN",
    "compression_locks": "session_id TEXT PK1, holder TEXT NN, acquired_at REAL NN,"
    " expires_at REAL NN",
    "async_delegations": "delegation_id TEXT PK1, origin_session TEXT NN,"
    " origin_ui_session_id TEXT NN ='', parent_session_id TEXT, state TEXT NN,"
    " dispatched_at REAL NN, completed_at REAL, updated_at REAL NN, event_json TEXT,"
    " result_json TEXT, delivery_state TEXT NN ='pending', delivery_attempts INTEGER NN =0,"
    " delivered_at REAL, owner_pid INTEGER, owner_started_at INTEGER, task_json TEXT,"
    " delivery_claim TEXT, delivery_claimed_at REAL",
    "delivery_obligations": "obligation_id TEXT PK1, session_key TEXT NN, platform TEXT NN,"
    " chat_id TEXT NN, thread_id TEXT, content TEXT NN, state TEXT NN, attempts INTEGER NN =0,"
    " created_at REAL NN, updated_at REAL NN, owner_pid INTEGER, owner_started_at INTEGER,"
    " last_error TEXT",
}

FOREIGN_KEYS = {
    ("sessions", "parent_session_id", "sessions"),
    ("messages", "session_id", "sessions"),
    ("session_model_usage", "session_id", "sessions"),
}


def parameters(of: Any) -> dict[str, tuple[Any, Any]]:
    return {
        name: (parameter.kind, parameter.default)
        for name, parameter in inspect.signature(of).parameters.items()
    }


def written(signature: str) -> dict[str, tuple[Any, Any]]:
    namespace: dict[str, Any] = {}
    exec(f"def method({signature}): ...", namespace)
    return parameters(namespace["method"])


@pytest.mark.parametrize("name", METHODS)
def test_each_method_takes_the_known_parameters(db: SessionDB, name: str) -> None:
    assert callable(getattr(db, name))
    expected = written(METHODS[name])
    offered = parameters(getattr(db, name))
    # Ours may take more, behind the known ones and optional.
    assert list(offered)[: len(expected)] == list(expected)
    assert {parameter: offered[parameter] for parameter in expected} == expected
    for parameter in list(offered)[len(expected) :]:
        assert offered[parameter][1] is not inspect.Parameter.empty, parameter


@pytest.mark.parametrize("name", METHODS)
async def test_each_method_is_a_coroutine_on_the_async_store(db: SessionDB, name: str) -> None:
    store = AsyncSessionDB(db)
    assert store._db is db
    assert inspect.iscoroutinefunction(getattr(store, name))
    await store.close()


def test_the_class_can_be_replaced_where_callers_look_it_up() -> None:
    import hermes_state

    assert hermes_state.SessionDB is SessionDB
    assert callable(SessionDB._execute_write)


def columns_of(db: SessionDB, table: str) -> list[tuple[Any, ...]]:
    """Name, type, whether it may not be NULL, default and place in the key, in SQLite's words."""
    if not db.is_on_server:
        return [row[1:] for row in query(db, f"PRAGMA table_info({table})")]
    found = query(
        db,
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,"
        " pg_get_expr(d.adbin, d.adrelid),"
        " COALESCE(array_position(CAST(i.indkey AS smallint[]), a.attnum) + 1, 0)"
        " FROM pg_attribute a"
        " LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum"
        " LEFT JOIN pg_index i ON i.indrelid = a.attrelid AND i.indisprimary"
        " WHERE a.attrelid = CAST(? AS regclass) AND a.attnum > 0 AND NOT a.attisdropped",
        (table,),
    )
    return [
        (
            name,
            TYPES.get(kind, kind),
            bool(not_null),
            default and default.replace("::text", ""),
            key,
        )
        for name, kind, not_null, default, key in found
    ]


TYPES = {"text": "TEXT", "bigint": "INTEGER", "double precision": "REAL"}


def foreign_keys_of(db: SessionDB) -> set[tuple[str, str, str]]:
    """Table, column, and the table it points at."""
    if db.is_on_server:
        return set(
            query(
                db,
                "SELECT CAST(CAST(c.conrelid AS regclass) AS text), a.attname,"
                " CAST(CAST(c.confrelid AS regclass) AS text) FROM pg_constraint c"
                " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]"
                " WHERE c.contype = 'f'",
            )
        )
    return set(
        query(
            db,
            'SELECT t.name, k."from", k."table" FROM sqlite_schema t,'
            " pragma_foreign_key_list(t.name) k",
        )
    )


@pytest.mark.parametrize("table", TABLES)
def test_each_table_has_the_known_columns(db: SessionDB, table: str) -> None:
    found = {}
    for name, kind, not_null, default, key in columns_of(db, table):
        facts = [name, kind, *([f"PK{key}"] if key else []), *(["NN"] if not_null else [])]
        found[name] = " ".join([*facts, *([f"={default}"] if default is not None else [])])
    for column in TABLES[table].split(", "):
        wanted = column
        if db.is_on_server and " PK" in column and " NN" not in column:
            wanted = column.replace(" PK1", " PK1 NN")  # a key's column is never NULL there
        assert found[wanted.split()[0]] == wanted


def test_messages_and_sessions_hang_together(db: SessionDB) -> None:
    assert foreign_keys_of(db) == FOREIGN_KEYS
    assert query(db, "SELECT version FROM schema_version") == [(22,)]
