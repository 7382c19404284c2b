"""Which lock each write needs on a server, where writes of others run at the same time.

A file has one writer, so a work may read, decide and write. On a server these three keep that true:

- the **store**'s lock: nobody else writes. For what concerns several conversations: deleting,
  importing, moving sessions from one conversation to another, titles and chats that must be unique.
- a **conversation**'s lock: nobody else writes in it. For every step of a turn, for appending,
  compressing and taking over.
- **row**: none but that nobody has the store's. For a statement that says by itself what must still
  be so (`AND state = 'pending'`, `ON CONFLICT DO NOTHING`): the server looks at the newest row
  before it changes it.

Guards in the statements are the second line: a lease is changed only under the number and owner
that were read, a note is told only while it waits, a parent has one continuation by an index. A
write that meets one of these is run again with the store's lock.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Scope = str | None
"""Whose lock: a session's conversation, by the session's id; no conversation's; the store's."""

STORE: Scope = None
ROW: Scope = ""


class ConversationId(str):
    """The conversation itself. (A session of that name may belong to another one by now.)"""


_SESSION = "session_id"

CONVERSATION: dict[str, str] = {
    # method: the parameter that names the conversation, by any session of it, its id or a lease
    **dict.fromkeys(
        (
            "create_session", "ensure_session", "end_session", "reopen_session",
            "promote_to_session_reset", "set_session_archived", "update_session_cwd",
            "update_session_meta", "update_system_prompt", "update_session_model",
            "update_session_billing_route", "set_expiry_finalized",
            "set_session_title", "set_auto_title_if_empty",
            "rotate_session", "archive_and_compact", "compact_seen",
            "append_message", "append_messages", "set_latest_user_api_content",
            "begin_turn", "begin_noted_turn", "record_step", "append_missing", "deliver_results",
            "update_token_counts", "record_auxiliary_usage", "settle_call", "claim_review",
            "set_wall_mode", "set_wall_folders", "record_gateway_session_peer",
            "request_handoff", "claim_handoff", "take_over_handoff", "complete_handoff",
            "fail_handoff",
            "record_compression_failure_cooldown", "clear_compression_failure_cooldown",
            "set_compression_fallback_streak",
            "set_goal", "set_subgoals", "resume_goal", "pause_goal", "clear_goal",
            "own_goal", "judge_goal", "advance_goal",
        ),
        _SESSION,
    ),
    "take_over_turn": "conversation_id",
    "close_abandoned_turn": "conversation_id",
    "end_turn": "lease",
}  # fmt: skip
"""Writes that need a conversation's lock."""

ROWS: frozenset[str] = frozenset({
    "set_meta", "beat_turns", "waive_limit", "note_device_used",
    "accept_message", "claim_message", "begin_command", "drop_message", "forget_taken",
    "add_delivery", "revise_delivery", "begin_delivery", "finish_delivery", "settle_delivery",
    "hold_delivery", "reject_delivery", "release_deliveries", "forget_delivered",
    "register_replica", "beat_replica", "drain_replica", "leave_replicas",
    "take_platform", "release_platform", "keep_for_platform", "keep_platform_records",
    "add_platform_records",
    "send_signal", "take_signal", "settle_signal", "withdraw_signal",
    "watch_turn", "renew_watch", "end_watch", "add_events", "drop_events",
    "note_preview", "forget_preview",
    "create_delegation", "finish_delegation", "lose_delegation", "add_note", "drop_notes",
    "update_binding", "begin_blob", "add_chunk", "drop_blob",
    "try_acquire_compression_lock", "refresh_compression_lock", "release_compression_lock",
    "create_approval", "decide_approval", "settle_approval", "take_late_answer",
    "renew_approval_token", "decide_asked_approval", "record_approval", "cancel_approval",
    "expire_approvals", "grant_patterns", "revoke_grant", "revoke_pattern",
})  # fmt: skip
"""Writes whose statements guard themselves, or the row that they read (`locked`)."""

_LINK_CODES = ConversationId("link codes")
_OBJECTS = ConversationId("objects")
_JOBS = ConversationId("jobs")
NAMED: dict[str, Scope] = {
    **dict.fromkeys(
        (
            "add_job", "change_job", "remove_job", "write_notepad", "claim_job", "start_run",
            "begin_run", "settle_run",
        ),
        _JOBS,
    ),
    "set_running_turns": ConversationId("turns of all replicas"),
    "offer_link": _LINK_CODES,
    "take_link": _LINK_CODES,
    "offer_device_code": _LINK_CODES,
    "change_kept_files": ConversationId("kept files"),
    "reserve_call": ConversationId("model calls"),
    "put_object": _OBJECTS,
    "release_objects": _OBJECTS,
}  # fmt: skip
"""Writes that exclude each other, by a named lock."""

WHOLE_STORE: frozenset[str] = frozenset({
    "backfill_repo_roots", "branch_session",
    "rewind_to_message", "restore_rewound", "replace_messages", "clear_messages",
    "offer_pairing", "approve_pairing", "revoke_pairing",
    "ensure_person", "add_person", "rename_person", "set_person_role", "set_person_limit",
    "set_person_workspace", "remove_person", "adopt_owners", "merge_persons", "unmerge_persons",
    "join_door", "give_conversation", "show_memory",
    "offer_person_code", "join_by_code", "make_device", "rename_device", "revoke_device",
    "save_gateway_routing_entry", "replace_gateway_routing_entries",
    "delete_gateway_routing_entries", "create_bindings", "rebind_key", "move_bindings",
    "forget_bindings", "import_sessions", "archive_sessions",
    "finalize_orphaned_compression_sessions", "fix_store", "set_webhooks",
})  # fmt: skip
"""Writes that need the store's lock: rare ones."""

QUIET: frozenset[str] = frozenset({
    "beat_turns", "beat_replica", "keep_for_platform", "keep_platform_records",
    "append_message", "append_messages", "update_token_counts",
    "record_auxiliary_usage", "reserve_call", "note_preview", "forget_preview",
    "refresh_compression_lock",
    "update_system_prompt", "forget_taken", "forget_delivered",
    "take_signal", "withdraw_signal", "renew_watch", "drop_events",
    "begin_blob", "add_chunk", "put_object", "release_objects", "drop_blob", "note_device_used",
})  # fmt: skip
"""Writes that wake no other process."""

SIGNALS, EVENTS = "signals", "events"

TOPICS: dict[str, str] = {
    **dict.fromkeys(("send_signal", "settle_signal", "watch_turn", "end_watch"), SIGNALS),
    "add_events": EVENTS,
}
"""Writes that wake only those who wait for their topic."""


def scope_of(function: Callable[..., Any], name: str) -> Callable[..., Scope]:
    """A function that derives, from a call's arguments, which lock a write needs."""
    if name in ROWS:
        return lambda *args, **kwargs: ROW
    if name in NAMED:
        return lambda *args, **kwargs: NAMED[name]
    if name not in CONVERSATION:
        return lambda *args, **kwargs: STORE
    wanted = CONVERSATION[name]
    # The first parameter is the connection.
    position = list(inspect.signature(function).parameters).index(wanted) - 1

    def scope(*args: Any, **kwargs: Any) -> Scope:
        given = args[position] if len(args) > position else kwargs.get(wanted)
        if _moves_sessions(name, args, kwargs):
            return STORE
        conversation = getattr(given, "conversation_id", given)
        if not isinstance(conversation, str):
            return STORE
        return conversation if wanted == _SESSION else ConversationId(conversation)

    return scope


def _moves_sessions(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether a write may move sessions from one conversation to another."""
    if name == "end_session":
        return "compression" in (*args[1:], kwargs.get("end_reason"))
    facts = kwargs.get("facts") or kwargs
    return isinstance(facts, Mapping) and facts.get("parent_session_id") is not None


def lasting(values: Iterable[Any]) -> list[Any]:
    """Arguments that can be walked more than once: a work may be run again."""
    return [list(value) if hasattr(value, "__next__") else value for value in values]
