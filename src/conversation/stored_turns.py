"""The turn that read a client's message, by what is stored of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.outcome import Answered, Failed, Interrupted, TurnOutcome

if TYPE_CHECKING:
    from hermes_state import SessionDB


def stored_outcome(db: SessionDB, session_id: str, message_id: str) -> TurnOutcome | None:
    """The outcome of the turn that read a client's message, from the store; None if it has none."""
    turn = stored_turn(db, session_id, message_id) or []
    answer = turn[-1] if turn else None
    if answer is None or answer["role"] != "assistant" or answer.get("tool_calls"):
        return None
    session_id, text = str(answer["session_id"]), answer["content"]
    reason = answer.get("finish_reason")
    if reason == "error":
        return Failed(session_id=session_id, messages=turn, api_calls=1, error=text)
    if reason == "interrupted":
        return Interrupted(session_id=session_id, messages=turn, api_calls=1, text=text)
    is_cut = reason == "length"
    return Answered(session_id=session_id, messages=turn, api_calls=1, text=text, partial=is_cut)


def stored_turn(db: SessionDB, session_id: str, message_id: str) -> list[dict[str, Any]] | None:
    """The stored rows of the turn that read a client's message; None if none did."""
    for segment in db.get_compression_lineage(session_id):
        if db.has_platform_message_id(segment, message_id):
            return stored_answer(db.get_messages(segment, True), message_id)
    return None


def stored_answer(messages: list[dict[str, Any]], message_id: str) -> list[dict[str, Any]] | None:
    """The rows of the turn that answered the client's message; None if it is not among them."""
    start = next(
        (n for n, row in enumerate(messages) if row.get("platform_message_id") == message_id), None
    )
    return None if start is None else turn_at(messages, start)


def turn_at(messages: list[dict[str, Any]], start: int) -> list[dict[str, Any]]:
    """The rows from a user's message up to the next one behind an answer; what the user added
    before it was answered is among them."""
    end = start + 1
    while end < len(messages):
        before = messages[end - 1]
        is_answered = before["role"] == "assistant" and not before.get("tool_calls")
        if messages[end]["role"] == "user" and is_answered:
            break
        end += 1
    return messages[start:end]
