"""Starting a further session of a conversation: rotation after a compression, and branches.

Each is one transaction: end the parent, create the child, carry over what belongs to the
conversation, write its messages, move the bindings. A parent is continued once; a second attempt,
in this process or another, gets the first one's result.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .bindings import move_bindings
from .changes import note_title_changed
from .codec import decode_content, decode_json, encode_content, encode_json, encode_text
from .dialect import Connection, column, value
from .errors import InvalidMessageError, SessionEndedError
from .lineage import BRANCH_MARK, conversation_facts, get_compression_tip, get_continuation
from .messages import append_messages, get_messages, insert_message, message_fields, recount
from .object_links import copy_links
from .pages import live_at
from .sessions import JSON_FIELDS, TEXT_FIELDS, create_new_session, get_session
from .titles import get_next_title_in_lineage, set_session_title
from .turns import Lease, require_lease
from .wall_settings import carry_wall

_CARRIED = [name for name in (*TEXT_FIELDS, *JSON_FIELDS) if name != "parent_session_id"]
_CARRIED_TO_OTHERS = ["model", "billing_provider", "billing_base_url", "billing_mode"]
"""What somebody else's branch has in common with the session."""
_STATE_CARRIED = [
    "archived",
    "expiry_finalized",
    "handoff_state",
    "handoff_platform",
    "handoff_error",
    "handoff_owner",
    "handoff_needs_format",
]


class Rotation(NamedTuple):
    """What a rotation came to."""

    session_id: str
    """The continuation: made now, or by an earlier call."""
    created: bool
    """Whether this call made it."""
    title: str | None
    """The continuation's title."""


def rotate_session(
    conn: Connection,
    session_id: str,
    new_session_id: str,
    messages: Iterable[Mapping[str, Any]],
    *,
    unsaved: Iterable[Mapping[str, Any]] = (),
    covers_until: int | None = None,
    system_prompt: str | None = None,
) -> Rotation:
    """End `session_id` by compression and go on in `new_session_id` with `messages`.

    `unsaved` are messages that still belong to the old session. `covers_until` is the id of the
    newest message the compressor saw: what others added after it is carried over behind `messages`,
    so that nothing falls between. Title (numbered on), owner, chat, model, goal, hand-off and every
    routing binding go along. The old session keeps all its rows. A session that was ended for
    another reason meanwhile is not brought back: SessionEndedError.
    """
    parent = conversation_facts(conn, session_id)
    existing = get_continuation(conn, session_id)
    if existing is not None:
        return Rotation(existing, False, conversation_facts(conn, existing)["title"])
    if parent["end_reason"] not in (None, "compression"):
        raise SessionEndedError(session_id, parent["end_reason"])
    _require_unused(conn, new_session_id)
    missed = [] if covers_until is None else _active_after(conn, session_id, covers_until)
    append_messages(conn, session_id, unsaved)
    conn.execute(
        "UPDATE sessions SET ended_at = COALESCE(ended_at, ?), end_reason = 'compression',"
        " version = version + 1 WHERE id = ?",
        (conn.now(), session_id),
    )
    carried = {name: parent[name] for name in _CARRIED if parent[name] is not None}
    if system_prompt is not None:
        carried["system_prompt"] = system_prompt
    create_new_session(conn, new_session_id, parent["source"], **carried)
    # Linked here and not by create_session: which child goes on is certain.
    conn.execute(
        "UPDATE sessions SET parent_session_id = ?, continuation_of = ?, conversation_id = ?, "
        + ", ".join(f"{name} = ?" for name in _STATE_CARRIED)
        + " WHERE id = ?",
        (
            session_id,
            session_id,
            parent["conversation_id"],
            *(parent[name] for name in _STATE_CARRIED),
            new_session_id,
        ),
    )
    conn.execute("UPDATE sessions SET handoff_state = NULL WHERE id = ?", (session_id,))
    _insert_copies(conn, new_session_id, messages, _keys_of_active(conn, session_id))
    _insert_all(conn, new_session_id, missed)
    recount(conn, new_session_id)
    title = None
    if parent["title"]:
        title = get_next_title_in_lineage(conn, parent["title"], parent["user_id"])
        set_session_title(conn, new_session_id, title)
    conn.execute(
        "INSERT INTO state_meta (key, value) SELECT ?, value FROM state_meta WHERE key = ?"
        " ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (f"goal:{new_session_id}", f"goal:{session_id}"),
    )
    conn.execute("DELETE FROM state_meta WHERE key = ?", (f"goal:{session_id}",))
    move_bindings(conn, session_id, new_session_id)
    return Rotation(new_session_id, True, title)


def _require_unused(conn: Connection, session_id: str) -> None:
    """Two conversations must not become one, nor a session follow itself."""
    if get_session(conn, session_id) is not None:
        raise InvalidMessageError(f"Session {session_id!r} exists already; choose a new id.")


def archive_and_compact(
    conn: Connection,
    session_id: str,
    compacted_messages: Iterable[Mapping[str, Any]],
    covers_until: int | None = None,
) -> int:
    """Compress in place: the live rows become archived ones, `compacted_messages` the live view.

    Archived rows stay readable (`include_inactive`) and searchable. Messages newer than
    `covers_until` stay live, behind the new ones. Returns how many messages were inserted.
    """
    conversation_facts(conn, session_id)
    missed = [] if covers_until is None else _active_after(conn, session_id, covers_until)
    live = _keys_of_active(conn, session_id)
    conn.execute(
        "UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ? AND active = 1",
        (session_id,),
    )
    inserted = _insert_copies(conn, session_id, compacted_messages, live)
    _insert_all(conn, session_id, missed)
    recount(conn, session_id)
    return inserted


def compact_seen(
    conn: Connection,
    session_id: str,
    seen: list[int],
    messages: Iterable[Mapping[str, Any]],
    new_session_id: str | None = None,
    *,
    lease: Lease | None = None,
) -> Rotation:
    """Let `messages` stand for the live messages `seen`: in place, or in a new session.

    What others appended since stays live behind them. If the live messages do not begin with
    `seen` any more, because somebody else compressed or took messages back, nothing is changed:
    `created` is False and `session_id` is where the conversation is. A turn shows its `lease`;
    LeaseLostError if another process has it by now.
    """
    if lease is not None:
        require_lease(conn, lease)
    facts = conversation_facts(conn, session_id)
    tip = get_compression_tip(conn, session_id)
    live = column(
        conn,
        "SELECT id FROM messages WHERE session_id = ? AND active = 1 ORDER BY id",
        (session_id,),
    )
    if tip != session_id or live[: len(seen)] != seen:
        return Rotation(tip, False, conversation_facts(conn, tip)["title"])
    covers_until = seen[-1] if seen else 0
    if new_session_id is not None:
        return rotate_session(conn, session_id, new_session_id, messages, covers_until=covers_until)
    archive_and_compact(conn, session_id, messages, covers_until)
    return Rotation(session_id, True, facts["title"])


def branch_session(
    conn: Connection,
    session_id: str,
    new_session_id: str,
    *,
    title: str | None = None,
    until_message_id: int | None = None,
    source: str | None = None,
    end_parent: bool = False,
    new_owner: Mapping[str, Any] | None = None,
) -> str:
    """Copy a session, up to and including a message, into a conversation of its own.

    Returns the new session's id. The title defaults to the next one in the lineage. Branching
    twice at the same point gives the same history.

    `new_owner` holds the `user_id`, and the chat's columns, of somebody who was let into the
    conversation and makes a branch: it is theirs alone. The live messages are copied as their own;
    nothing leads from the branch to the owner's session, and what was made for the owner (system
    prompt, working directory, title) stays behind.
    """
    parent = conversation_facts(conn, session_id)
    _require_unused(conn, new_session_id)
    config = decode_json(parent["model_config"])
    config = config if isinstance(config, dict) else {}
    carried = {name: parent[name] for name in _CARRIED if parent[name] is not None}
    if new_owner is None:
        carried |= {
            "model_config": {**config, BRANCH_MARK: session_id},
            "parent_session_id": session_id,
        }
    else:
        carried = {name: carried[name] for name in _CARRIED_TO_OTHERS if name in carried}
        carried |= {name: given for name, given in new_owner.items() if given is not None}
    create_new_session(conn, new_session_id, source or parent["source"], **carried)
    ids = _live_until(conn, session_id, until_message_id)
    _copy_rows(conn, ids, new_session_id, repeats=new_owner is None)
    recount(conn, new_session_id)
    carry_wall(conn, session_id, new_session_id, to_another=new_owner is not None)
    copy_links(conn, parent["conversation_id"], new_session_id)
    if title is not None:
        set_session_title(conn, new_session_id, title)
    elif parent["title"] and new_owner is None:
        free = get_next_title_in_lineage(conn, parent["title"], parent["user_id"])
        set_session_title(conn, new_session_id, free)
    if end_parent:
        conn.execute(
            "UPDATE sessions SET ended_at = ?, end_reason = 'branched', version = version + 1"
            " WHERE id = ? AND ended_at IS NULL",
            (conn.now(), session_id),
        )
    note_title_changed(conn, new_session_id)
    return new_session_id


def _live_until(conn: Connection, session_id: str, message_id: int | None) -> list[int]:
    """The live messages up to one; for one that was compressed away since, those of its moment."""
    if message_id is not None:
        is_archived = value(
            conn,
            "SELECT compacted FROM messages WHERE id = ? AND session_id = ?",
            (message_id, session_id),
        )
        if is_archived:
            return live_at(conn, session_id, message_id)
    return column(
        conn,
        "SELECT id FROM messages WHERE session_id = ? AND active = 1 AND id <= ? ORDER BY id",
        (session_id, message_id if message_id is not None else 2**62),
    )


_Origins = dict[tuple[str | None, ...], deque[int]]


def _insert_copies(
    conn: Connection, session_id: str, messages: Iterable[Mapping[str, Any]], origins: _Origins
) -> int:
    count = 0
    for message in messages:
        fields = message_fields(message)
        repeats = origins.get(_key(fields))
        insert_message(conn, session_id, **fields, origin_id=repeats.popleft() if repeats else None)
        count += 1
    return count


def _key(fields: Mapping[str, Any]) -> tuple[str | None, ...]:
    calls = fields.get("tool_calls")
    return (
        encode_text(fields["role"], "role"),
        encode_content(fields.get("content")),
        encode_json(calls, "tool_calls") if calls else None,
        encode_text(fields.get("tool_call_id"), "tool_call_id"),
    )


def _keys_of_active(conn: Connection, session_id: str) -> _Origins:
    """The live messages by what they say, each with the id of its first telling."""
    origins: _Origins = defaultdict(deque)
    for message_id, origin, role, content, calls, call_id in conn.execute(
        "SELECT id, origin_id, role, content, tool_calls, tool_call_id FROM messages"
        " WHERE session_id = ? AND active = 1 ORDER BY id",
        (session_id,),
    ):
        # Encoded anew: an older file may have written the same JSON with other spaces.
        key = (
            role,
            encode_content(decode_content(content)),
            encode_json(decode_json(calls), "tool_calls"),
            call_id,
        )
        origins[key].append(origin if origin is not None else message_id)
    return origins


def _active_after(conn: Connection, session_id: str, message_id: int) -> list[dict[str, Any]]:
    return [
        {**message_fields(message), "origin_id": message["origin_id"] or message["id"]}
        for message in get_messages(conn, session_id)
        if message["id"] > message_id
    ]


def _insert_all(conn: Connection, session_id: str, rows: list[dict[str, Any]]) -> None:
    for fields in rows:
        insert_message(conn, session_id, **fields)


def _copy_rows(conn: Connection, message_ids: list[int], session_id: str, *, repeats: bool) -> None:
    """Copy messages into a session: told again there, or (without `repeats`) its own."""
    origin = "COALESCE(origin_id, id)" if repeats else "NULL"
    columns = (
        "role, content, tool_call_id, tool_calls, tool_name, effect_disposition, timestamp,"
        " token_count, finish_reason, reasoning, reasoning_content, reasoning_details,"
        " codex_reasoning_items, codex_message_items, platform_message_id, observed, api_content"
    )
    conn.executemany(
        f"INSERT INTO messages (session_id, {columns}, origin_id) SELECT ?, {columns}, {origin}"
        " FROM messages WHERE id = ?",
        [(session_id, message_id) for message_id in message_ids],
    )
