"""Session rows: create, end, reopen, and the facts kept on them.

A row appears when there is something to keep. Creating one that exists fills what is still unknown
and never overwrites what is known. Ending is first-writer-wins.
"""

from __future__ import annotations

from typing import Any

from . import lineage
from .changes import note_session_changed, touch
from .codec import encode_json, encode_text
from .dialect import Connection, row, tuples, value
from .errors import InvalidMessageError, UnknownSessionError
from .owners import EVERYONE, Owner, owned, stored_owner
from .persons import current_owner
from .titles import make_room_for_title

TEXT_FIELDS = (
    "model", "system_prompt", "user_id", "session_key", "chat_id", "chat_type", "thread_id",
    "display_name", "cwd", "git_branch", "git_repo_root", "profile_name", "parent_session_id",
    "billing_provider", "billing_base_url", "billing_mode", "memory_of",
)  # fmt: skip
JSON_FIELDS = ("model_config", "origin_json")
_TIME_FIELDS = frozenset({"started_at"})

RECOVERABLE_END_REASONS = ("agent_close", "ws_orphan_reap")
"""Ends that happened by accident: routing may reopen such a session."""


def require_session(conn: Connection, session_id: str) -> None:
    """Raise UnknownSessionError unless the session exists."""
    if value(conn, "SELECT 1 FROM sessions WHERE id = ?", (session_id,)) is None:
        raise UnknownSessionError(session_id)


def create_session(conn: Connection, session_id: str, source: str, **kwargs: Any) -> str:
    """Create a session row, or fill what an existing one does not know yet; returns its id.

    Further facts go in by column name: model, model_config (dict), system_prompt, user_id,
    session_key, chat_id, chat_type, thread_id, display_name, origin_json, parent_session_id, cwd,
    git_branch, git_repo_root, profile_name, memory_of, started_at. A child of a compressed
    session becomes its continuation, if it has none yet and the child is neither a branch nor a
    delegate.
    """
    facts, parent_id = _given_facts(session_id, kwargs)
    existing = row(
        conn,
        "SELECT source, user_id, parent_session_id, message_count FROM sessions WHERE id = ?",
        (session_id,),
    )
    if existing is None:
        _insert_session(conn, session_id, source, facts)
    else:
        facts.pop("started_at", None)
        if existing["user_id"] is None and existing["message_count"]:
            facts.pop("user_id", None)  # the operator's, in which something was said
        if existing["user_id"] is None and "user_id" in facts:
            make_room_for_title(conn, session_id, facts["user_id"])
        filled = "".join(f", {name} = COALESCE({name}, ?)" for name in facts)
        conn.execute(
            f"UPDATE sessions SET version = version + 1{filled} WHERE id = ?",
            (*facts.values(), session_id),
        )
        if existing["user_id"] is None and "user_id" in facts:
            note_session_changed(conn, session_id)
    if parent_id is not None and (existing is None or existing["parent_session_id"] is None):
        lineage.link_to_parent(conn, session_id, parent_id)
    return session_id


def create_new_session(conn: Connection, session_id: str, source: str, **kwargs: Any) -> None:
    """Create a row that must not be there yet, and is not filled if another has just made it."""
    facts, parent_id = _given_facts(session_id, kwargs)
    _insert_session(conn, session_id, source, facts)
    if parent_id is not None:
        lineage.link_to_parent(conn, session_id, parent_id)


def _given_facts(session_id: str, kwargs: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """The facts about a session that are known, by column, and its parent."""
    if not isinstance(session_id, str) or not session_id:
        raise InvalidMessageError(f"A session id must be text that is not empty: {session_id!r}")
    facts: dict[str, Any] = {}
    for name, given in kwargs.items():
        if name == "user_id":
            facts[name] = stored_owner(encode_text(given, name))
        elif name in TEXT_FIELDS:
            facts[name] = encode_text(given, name)
        elif name in JSON_FIELDS:
            facts[name] = encode_json(given, name)
        elif name in _TIME_FIELDS:
            facts[name] = given if given is None else float(given)
        else:
            raise TypeError(f"create_session() does not know {name!r}")
    parent_id = facts.pop("parent_session_id", None)
    return {name: fact for name, fact in facts.items() if fact is not None}, parent_id


def _insert_session(conn: Connection, session_id: str, source: str, facts: dict[str, Any]) -> None:
    facts.setdefault("started_at", conn.now())
    if "user_id" in facts:
        facts["user_id"] = current_owner(conn, facts["user_id"])
    facts |= {
        "id": encode_text(session_id, "session_id"),
        "source": encode_text(source, "source") or "unknown",
        "conversation_id": _new_conversation_id(conn, session_id),
        "version": 1,
    }
    conn.execute(
        f"INSERT INTO sessions ({', '.join(facts)}) VALUES ({', '.join('?' * len(facts))})",
        tuple(facts.values()),
    )


def _new_conversation_id(conn: Connection, session_id: str) -> str:
    """The session's own id, unless a conversation has it whose first session was deleted."""
    conversation_id, number = session_id, 1
    while value(conn, "SELECT 1 FROM sessions WHERE conversation_id = ?", (conversation_id,)):
        number += 1
        conversation_id = f"{session_id}~{number}"
    return conversation_id


def ensure_session(
    conn: Connection,
    session_id: str,
    source: str = "unknown",
    model: str | None = None,
    **kwargs: Any,
) -> str:
    """Make sure a row exists; returns its id."""
    return create_session(conn, session_id, source, model=model, **kwargs)


def get_session(conn: Connection, session_id: str) -> dict[str, Any] | None:
    """The session's row as a dict, or None."""
    return row(conn, "SELECT * FROM sessions WHERE id = ?", (session_id,))


def resolve_session_id(conn: Connection, session_id_or_prefix: str) -> str | None:
    """The full id for an exact id or an unambiguous prefix; None for none or several."""
    return resolve_owned_id(conn, session_id_or_prefix, EVERYONE)


def resolve_owned_id(conn: Connection, session_id_or_prefix: str, owner: Owner) -> str | None:
    """The same among the sessions of a person: others' make no beginning ambiguous."""
    condition, values = owned("user_id", owner)
    exact = value(
        conn,
        f"SELECT id FROM sessions WHERE id = ?{condition}",
        (session_id_or_prefix, *values),
    )
    if exact is not None or not session_id_or_prefix:
        return exact
    length = len(session_id_or_prefix)
    sessions = tuples(
        conn,
        f"SELECT id FROM sessions WHERE substr(id, 1, CAST(? AS INTEGER)) = ?{condition} LIMIT 2",
        (length, session_id_or_prefix, *values),
    )
    return sessions[0][0] if len(sessions) == 1 else None


def give_conversation(conn: Connection, session_id: str, person_id: str) -> bool:
    """Let a conversation of the operator's be a person's, who was handed it; False if it is not the
    operator's, or there is none."""
    conversation = row(
        conn, "SELECT conversation_id, user_id FROM sessions WHERE id = ?", (session_id,)
    )
    owner = current_owner(conn, person_id)
    if conversation is None or conversation["user_id"] is not None or owner is None:
        return False
    for (member,) in tuples(
        conn,
        "SELECT id FROM sessions WHERE conversation_id = ? AND user_id IS NULL",
        (conversation["conversation_id"],),
    ):
        make_room_for_title(conn, member, owner)
        conn.execute(
            "UPDATE sessions SET user_id = ?, version = version + 1 WHERE id = ?", (owner, member)
        )
        note_session_changed(conn, member)
    return True


def end_session(conn: Connection, session_id: str, end_reason: str) -> None:
    """Mark the session as ended; one that has ended keeps its first reason."""
    conn.execute(
        "UPDATE sessions SET ended_at = ?, end_reason = ?, version = version + 1"
        " WHERE id = ? AND ended_at IS NULL",
        (conn.now(), encode_text(end_reason, "end_reason"), session_id),
    )
    if end_reason == "compression" and conn.changes():
        lineage.adopt_continuation(conn, session_id)


def reopen_session(conn: Connection, session_id: str) -> None:
    """Clear the end so that the session can go on.

    A session that was continued after a compression stays closed: its continuation goes on, and
    opening it as well would fork the conversation.
    """
    conn.execute(
        "UPDATE sessions SET ended_at = NULL, end_reason = NULL, version = version + 1"
        " WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM sessions WHERE continuation_of = ?1)",
        (session_id,),
    )


def promote_to_session_reset(
    conn: Connection, session_id: str, reason: str = "session_reset"
) -> bool:
    """Record that a person or a policy ended the session; True if it was recorded.

    Applies to a live session and to one that ended by accident, so that routing does not bring it
    back; any other end keeps its reason.
    """
    conn.execute(
        "UPDATE sessions SET ended_at = COALESCE(ended_at, ?), end_reason = ?,"
        " version = version + 1"
        f" WHERE id = ? AND (ended_at IS NULL OR end_reason IN {RECOVERABLE_END_REASONS})",
        (conn.now(), encode_text(reason, "reason"), session_id),
    )
    return conn.changes() > 0


def set_session_archived(conn: Connection, session_id: str, archived: bool) -> bool:
    """Hide or show a conversation in lists, all its sessions together; True if there is one."""
    conn.execute(
        "UPDATE sessions SET archived = ?, version = version + 1 WHERE conversation_id ="
        " (SELECT conversation_id FROM sessions WHERE id = ?)",
        (int(bool(archived)), session_id),
    )
    return conn.changes() > 0


def update_session_cwd(
    conn: Connection,
    session_id: str,
    cwd: str,
    git_branch: str | None = None,
    git_repo_root: str | None = None,
) -> None:
    """Keep the working directory, and the git branch and root where known."""
    conn.execute(
        "UPDATE sessions SET cwd = ?, git_branch = COALESCE(?, git_branch),"
        " git_repo_root = COALESCE(?, git_repo_root), version = version + 1 WHERE id = ?",
        (
            encode_text(cwd, "cwd"),
            encode_text(git_branch, "git_branch"),
            encode_text(git_repo_root, "git_repo_root"),
            session_id,
        ),
    )


def backfill_repo_roots(conn: Connection, cwd_to_root: dict[str, str]) -> None:
    """Fill in git roots for working directories that have none recorded."""
    for cwd, root in cwd_to_root.items():
        if root:
            conn.execute(
                "UPDATE sessions SET git_repo_root = ?, version = version + 1"
                " WHERE cwd = ? AND (git_repo_root IS NULL OR git_repo_root = '')",
                (encode_text(root, "git_repo_root"), cwd),
            )


def update_session_meta(
    conn: Connection, session_id: str, model_config_json: str, model: str | None = None
) -> None:
    """Replace the model configuration and, if given, the model; a branch stays a branch."""
    config = encode_json(model_config_json, "model_config")
    before = value(conn, "SELECT model_config FROM sessions WHERE id = ?", (session_id,))
    conn.execute(
        "UPDATE sessions SET model_config = ?, model = COALESCE(?, model), version = version + 1"
        " WHERE id = ?",
        (lineage.with_marks_of(before, config), encode_text(model, "model"), session_id),
    )


def update_system_prompt(
    conn: Connection, session_id: str, system_prompt: str, memory_of: str | None = None
) -> None:
    """Keep the system prompt that the session was started with."""
    conn.execute(
        "UPDATE sessions SET system_prompt = ?, memory_of = ?, version = version + 1 WHERE id = ?",
        (
            encode_text(system_prompt, "system_prompt"),
            encode_text(memory_of, "memory_of"),
            session_id,
        ),
    )


def update_session_model(conn: Connection, session_id: str, model: str) -> None:
    """Record that the session switched to another model."""
    conn.execute(
        "UPDATE sessions SET model = ?, version = version + 1 WHERE id = ?",
        (encode_text(model, "model"), session_id),
    )


def update_session_billing_route(
    conn: Connection,
    session_id: str,
    *,
    provider: str,
    base_url: str,
    billing_mode: str | None = None,
) -> None:
    """Record where calls are billed now; the stored prompt names the old route, so it goes."""
    conn.execute(
        "UPDATE sessions SET billing_provider = ?, billing_base_url = ?,"
        " billing_mode = COALESCE(?, billing_mode), system_prompt = NULL, version = version + 1"
        " WHERE id = ?",
        (
            encode_text(provider, "provider"),
            encode_text(base_url, "base_url"),
            encode_text(billing_mode, "billing_mode"),
            session_id,
        ),
    )


def set_expiry_finalized(conn: Connection, session_id: str, finalized: bool = True) -> None:
    """Record that the session's expiry was dealt with."""
    conn.execute(
        "UPDATE sessions SET expiry_finalized = ? WHERE id = ?", (int(bool(finalized)), session_id)
    )
    touch(conn, session_id)


def get_meta(conn: Connection, key: str) -> str | None:
    """A value of the key-value table, or None."""
    return value(conn, "SELECT value FROM state_meta WHERE key = ?", (key,))


def set_meta(conn: Connection, key: str, value: str) -> None:
    """Set a value of the key-value table."""
    conn.execute(
        "INSERT INTO state_meta (key, value) VALUES (?, ?)"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (encode_text(key, "key"), encode_text(value, "value")),
    )
