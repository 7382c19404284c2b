"""The steps of a turn, each one transaction.

`begin_turn` finds where the conversation is now, closes what a crash left open, takes the lease and
stores the user's message; `record_step` stores what follows, with its usage and which tools start
next, as long as the lease is held. Both take the version the caller has seen and report whether
another process wrote in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .codec import decode_content, decode_json, encode_content, encode_json
from .dialect import Connection, row, tuples, value
from .errors import LeaseLostError
from .goals import note_person_spoke, note_step_taken
from .history import OUTCOME_UNKNOWN, tool_result, unique_calls
from .inbox import INBOX_ID, mark_taken
from .lineage import get_compression_lineage, get_compression_tip
from .messages import append_messages, load_conversation, message_fields
from .model_calls import ModelCall, insert_call
from .notes import has_notes, take_notes
from .objects import link_taken
from .outbox import add_delivery, enqueue_deliveries
from .replicas import UNDER, require_platform
from .sessions import create_session, reopen_session
from .tool_runs import REPEATABLE, Started, finish_runs, settle_runs, start_runs, unfinished_runs
from .turns import (
    TURN_RUNNING,
    Lease,
    end_lease,
    get_turn,
    holds,
    require_lease,
    take_lease,
)
from .usage import update_token_counts
from .webhooks import note_turn_ended

OVERTAKEN = (
    "⚠️ I was stopped in the middle of my answer to a message of yours, and a later one was begun"
    " with. What I had done is kept; ask again for what is missing."
)
"""What the chat is told that waits for the answer of an abandoned turn, if another turn begins."""

ROW_ID = "_row"
"""Key under which a loaded or stored message carries its id, through copies and JSON."""

CUT_OFF = "[The answer to this was cut off.]"
"""Stored in place of an answer that was lost in a crash."""

NOT_STARTED = "[not run] The turn was cut off before this tool was started."
"""The result of a tool call that certainly did nothing."""


class Recorded(NamedTuple):
    """What was written, and where."""

    session_id: str
    ids: list[int]
    version: int
    others_wrote: bool
    """Whether the session was not as the caller last saw it."""
    lease: Lease | None = None
    """Under which the turn goes on, where one was asked for."""
    left_out: tuple[Any, ...] = ()
    """The inbox's names of messages that were not stored: their sender has taken them back."""


class LiveView(NamedTuple):
    """A session's live messages, each with its id, and the version they belong to."""

    session_id: str
    messages: list[dict[str, Any]]
    version: int


def load_live(conn: Connection, session_id: str) -> LiveView | None:
    """The tip of the session's conversation as a model would see it; None for an unknown id."""
    tip = get_compression_tip(conn, session_id)
    version = value(conn, "SELECT version FROM sessions WHERE id = ?", (tip,))
    if version is None:
        return None
    messages = load_conversation(conn, tip)
    ids = tuples(
        conn, "SELECT id FROM messages WHERE session_id = ? AND active = 1 ORDER BY id", (tip,)
    )
    for message, (message_id,) in zip(messages, ids, strict=True):
        message[ROW_ID] = message_id
    return LiveView(tip, messages, version)


def begin_turn(
    conn: Connection,
    session_id: str,
    message: Mapping[str, Any] | None,
    *,
    source: str,
    facts: Mapping[str, Any],
    seen_version: int | None = None,
    leased: bool = False,
    given_up: Lease | None = None,
    deliver_to: Mapping[str, Any] | None = None,
) -> Recorded:
    """Begin a turn: store a user's message at the tip of its conversation, whatever its state.

    The session's row is created with its first message. A session that had ended goes on. Tool
    calls without a result, and a question without an answer, are closed first, so that the history
    is valid; then come the notes that wait for the conversation (see `notes`). The ids of what was
    added come before the message's own, and the caller is told to look again. A message from the
    inbox is taken there in the same step; AlreadyTakenError if another turn has it.

    With `leased` the turn is the caller's from here on, and its steps want the lease that is
    returned; ConversationBusyError while another turn runs, except for the caller's own that it has
    `given_up`. `deliver_to` is kept with it; if it names the lease under which the chat is the
    caller's, and that is another's by now, LeaseLostError.

    Front ends resume an abandoned turn before they begin another. Where one could not, the turn is
    closed here, and the chat that waits for its answer is told.
    """
    if deliver_to is not None and UNDER in deliver_to:
        require_platform(conn, deliver_to[UNDER])
        deliver_to = {name: fact for name, fact in deliver_to.items() if name != UNDER}
    tip, session = _tip(conn, session_id)
    if session is None:
        create_session(conn, tip, source, **facts)
    elif session["ended_at"] is not None:
        reopen_session(conn, tip)
    before = None if session is None else session["version"]
    conversation_id = (session or _session(conn, tip) or {})["conversation_id"]
    earlier = None if session is None else get_turn(conn, conversation_id)
    added = [] if session is None else close_ends(conn, tip, earlier)
    lease = take_lease(conn, conversation_id, tip, deliver_to, given_up) if leased else None
    if lease is not None and earlier is not None and earlier["state"] == TURN_RUNNING:
        _tell_closed(conn, earlier, given_up)
    if message is not None and session is not None and not _is_of_job(message):
        note_person_spoke(conn, tip)
    else:
        note_step_taken(conn, tip)
    added += take_notes(conn, tip)
    if message is not None:
        link_taken(conn, tip, [message])
    asked = [] if message is None else mark_taken(conn, [message], lease)
    ids = append_messages(conn, tip, [*added, *asked])
    others_wrote = tip != session_id or before != seen_version or bool(added)
    return Recorded(tip, ids, _version(conn, tip), others_wrote, lease)


def _is_of_job(message: Mapping[str, Any]) -> bool:
    """Whether a message is the occurrence of a job, and no person's."""
    named = message.get(INBOX_ID)
    names = (named,) if isinstance(named, str) else tuple(named or ())
    return bool(names) and all(str(name).startswith("job:") for name in names)


def begin_noted_turn(
    conn: Connection,
    session_id: str,
    *,
    source: str,
    facts: Mapping[str, Any],
    given_up: Lease | None = None,
    deliver_to: Mapping[str, Any] | None = None,
) -> Recorded | None:
    """Begin a turn with the waiting notes of the conversation; None if none of them begins one."""
    if not has_notes(conn, session_id):
        return None
    return begin_turn(
        conn,
        session_id,
        None,
        source=source,
        facts=facts,
        leased=True,
        given_up=given_up,
        deliver_to=deliver_to,
    )


def record_step(
    conn: Connection,
    session_id: str,
    messages: Iterable[Mapping[str, Any]],
    usage: Mapping[str, Any] | None = None,
    seen_version: int | None = None,
    *,
    lease: Lease | None = None,
    starts: Iterable[Started] = (),
    ends: bool = False,
    call: ModelCall | None = None,
) -> Recorded:
    """Store messages of a running turn and, in the same transaction, what they cost.

    Messages with an address are put into the outbox in the same step. One of the inbox that does
    not wait there any more is left out. If somebody else compressed
    the conversation meanwhile, they go to where it is now. Under a `lease` nothing is written once
    it is lost (LeaseLostError); `starts` are the tools that run next, and `ends` says that this is
    the turn's last step. `call` is the model call that led to it.
    """
    tip, before = session_id, _version_if_tip(conn, session_id)
    if before is None:
        tip = get_compression_tip(conn, session_id)
        before = value(conn, "SELECT version FROM sessions WHERE id = ?", (tip,))
    messages = list(messages)
    link_taken(conn, tip, messages)
    left_out: list[Any] = []
    stored = enqueue_deliveries(conn, mark_taken(conn, messages, lease, left_out))
    if lease is not None:
        if not ends:
            require_lease(conn, lease)
        finish_runs(conn, lease, stored)
        start_runs(conn, lease, starts)
        if ends and not end_lease(conn, lease):
            raise LeaseLostError(lease.conversation_id)
        if ends:
            note_turn_ended(conn, lease, "answered")
    ids = append_messages(conn, tip, stored)
    if usage:
        update_token_counts(conn, tip, **usage)
    if call is not None:
        insert_call(conn, tip, call)
    changed = tip != session_id or before != seen_version or bool(left_out)
    return Recorded(tip, ids, _version(conn, tip), changed, lease, tuple(left_out))


def deliver_results(
    conn: Connection, session_id: str, lease: Lease | None = None
) -> Recorded | None:
    """Store the notes of a conversation at this point of a running turn; None without any."""
    if lease is not None:
        require_lease(conn, lease)
    tip = get_compression_tip(conn, session_id)
    notes = take_notes(conn, tip)
    if not notes:
        return None
    return Recorded(tip, append_messages(conn, tip, notes), _version(conn, tip), True)


def end_turn(conn: Connection, lease: Lease) -> bool:
    """End a turn whose last step did not; what it left open is closed. False if it was lost."""
    turn = get_turn(conn, lease.conversation_id)
    if turn is None or not holds(conn, lease):
        return False
    tip = get_compression_tip(conn, turn["session_id"])
    append_messages(conn, tip, close_ends(conn, tip, turn))
    has_ended = end_lease(conn, lease)
    if has_ended:
        note_turn_ended(conn, lease, "closed")
    return has_ended


def _tell_closed(conn: Connection, turn: Mapping[str, Any], given_up: Lease | None) -> None:
    """Tell the chat that waits for the answer of a turn which another has replaced; not if that was
    the caller's own, whose end it has reported."""
    target = decode_json(turn["deliver_to"])
    if target and given_up != (turn["conversation_id"], turn["fence"], turn["owner"]):
        name = f"{target['id']}:cut-off:{turn['fence'] + 1}"
        add_delivery(conn, name, OVERTAKEN, **target["to"])


def close_ends(conn: Connection, tip: str, turn: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The messages that make the history of an abandoned turn valid; for the caller to store.

    What is known of its tools is settled with it.
    """
    if turn is None or turn["state"] != TURN_RUNNING:
        return open_ends(conn, tip)
    conversation_id = str(turn["conversation_id"])
    runs = unfinished_runs(conn, conversation_id)
    missing = open_ends(conn, tip, runs)
    harmful = [call_id for call_id, effect in runs.items() if effect not in REPEATABLE]
    settle_runs(conn, conversation_id, harmful)
    return missing


def _tip(conn: Connection, session_id: str) -> tuple[str, dict[str, Any] | None]:
    """The session a conversation is in now, and what is known of it."""
    session = row(
        conn,
        "SELECT version, ended_at, conversation_id FROM sessions WHERE id = ?1"
        " AND NOT EXISTS (SELECT 1 FROM sessions WHERE continuation_of = ?1)",
        (session_id,),
    )
    if session is not None:  # the usual case, in one look-up
        return session_id, session
    tip = get_compression_tip(conn, session_id)
    return tip, _session(conn, tip)


def _session(conn: Connection, session_id: str) -> dict[str, Any] | None:
    return row(
        conn, "SELECT version, ended_at, conversation_id FROM sessions WHERE id = ?", (session_id,)
    )


def _version_if_tip(conn: Connection, session_id: str) -> int | None:
    """The version of a session that was not continued; the usual case, in one look-up."""
    return value(
        conn,
        "SELECT version FROM sessions WHERE id = ?1"
        " AND NOT EXISTS (SELECT 1 FROM sessions WHERE continuation_of = ?1)",
        (session_id,),
    )


def _version(conn: Connection, session_id: str) -> int:
    return int(value(conn, "SELECT version FROM sessions WHERE id = ?", (session_id,)))


def open_calls(conn: Connection, session_id: str) -> tuple[list[dict[str, Any]], str | None]:
    """The tool calls at the end of a session that have no result, and the last message's role."""
    answered: set[str] = set()
    last_role = None
    for role, raw_calls, call_id in conn.execute(
        "SELECT role, tool_calls, tool_call_id FROM messages WHERE session_id = ?1 AND active = 1"
        " AND id >= COALESCE((SELECT id FROM messages WHERE session_id = ?1 AND active = 1"
        "  AND role = 'assistant' ORDER BY id DESC LIMIT 1), 0) ORDER BY id DESC",
        (session_id,),
    ):
        last_role = last_role or role
        if role == "tool":
            answered.add(str(call_id))
        elif role == "assistant":
            calls = unique_calls(decode_json(raw_calls))
            return [call for call in calls if str(call["id"]) not in answered], last_role
    return [], last_role


def open_ends(
    conn: Connection, session_id: str, started: Mapping[str, str] | None = None
) -> list[dict[str, Any]]:
    """The messages that are missing at the end of a session to make its history valid.

    `started` holds the calls that had begun, where that is known.
    """
    calls, last_role = open_calls(conn, session_id)
    missing = [
        unknown_result(call)
        if started is None or str(call["id"]) in started
        else tool_result(call, NOT_STARTED)
        for call in calls
    ]
    if missing or last_role in ("user", "tool"):
        return [*missing, {"role": "assistant", "content": CUT_OFF}]
    return []


def unknown_result(call: dict[str, Any]) -> dict[str, Any]:
    """The result of a call whose outcome is unknown."""
    return {**tool_result(call, OUTCOME_UNKNOWN), "effect_disposition": "unknown"}


def append_missing(
    conn: Connection,
    session_id: str,
    messages: Iterable[Mapping[str, Any]],
    *,
    source: str,
    facts: Mapping[str, Any],
) -> Recorded | None:
    """Append those of `messages` that the conversation does not hold yet, in their order.

    A message that carries its id is known by it. Others are compared in order with everything
    that was said in the conversation and not taken back. The session is created if it has no row
    and there is something to keep; None if there was nothing.
    """
    segments = get_compression_lineage(conn, session_id) or [session_id]
    marks = ", ".join("?" * len(segments))
    known: dict[int, int] = {}  # message id → place among what was said, or -1 if taken back
    stored: list[tuple[Any, ...]] = []
    for message_id, visible, role, content, calls, call_id in conn.execute(
        "SELECT id, active = 1 OR compacted = 1, role, content, tool_calls, tool_call_id"
        f" FROM messages WHERE session_id IN ({marks}) ORDER BY id",
        segments,
    ):
        known[message_id] = len(stored) if visible else -1
        if visible:
            text = encode_content(decode_content(content))
            stored.append((role, text, _calls_key(decode_json(calls)), call_id))
    missing = []
    position = 0
    for message in messages:
        if message.get("role") == "system":
            continue
        place = known.get(message.get(ROW_ID, 0))
        if place is not None:
            position = max(position, place + 1)
            continue
        try:
            position = stored.index(_key(message), position) + 1
        except ValueError:
            missing.append(message)
    if not missing:
        return None
    tip = segments[-1]
    create_session(conn, tip, source, **facts)
    ids = append_messages(conn, tip, missing)
    return Recorded(tip, ids, _version(conn, tip), True)


def _key(message: Mapping[str, Any]) -> tuple[Any, ...]:
    fields = message_fields(message)
    return (
        fields["role"],
        encode_content(fields.get("content")),
        _calls_key(fields.get("tool_calls")),
        fields.get("tool_call_id"),
    )


def _calls_key(calls: Any) -> str | None:
    return (
        encode_json(decode_json(calls) if isinstance(calls, str) else calls, "tool_calls") or None
    )
