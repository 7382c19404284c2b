"""What happened in past turns, put together from what is stored: messages and model calls.

A turn begins with a message that somebody sent and ends before the next one. Messages have the time
at which they were stored: a reply when the model had finished, a result when its tool had. Model
calls have how long they took and when the first word came. So a turn that any process ran, at any
time, can be shown as it went, as exactly as steps are stored.
"""

from __future__ import annotations

from typing import Any, TypedDict

from .codec import plain_text
from .dialect import Connection, row, rows
from .model_calls import RESERVED
from .pages import get_message_page

MOST_MESSAGES = 2000


class TraceStep(TypedDict):
    """One thing that took time."""

    kind: str
    """model, tool or compression; what else a model was asked for goes by its task."""
    name: str
    began_at: float
    seconds: float
    first_token_seconds: float | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    outcome: str
    message_id: int | None


class Trace(TypedDict):
    """One turn."""

    message_id: int
    """The message that it answers."""
    text: str
    began_at: float
    ended_at: float
    steps: list[TraceStep]
    process: str | None
    """Which process runs it, or ran it last; known of the newest turn only."""
    attempts: int | None
    """How many processes have worked on it; known of the newest turn only."""


def list_turns(
    conn: Connection, session_id: str, *, before: int | None = None, limit: int = 20
) -> list[Trace]:
    """The newest turns of a conversation, the newest first; those before a message, if given."""
    page = get_message_page(conn, session_id, before=before, limit=MOST_MESSAGES)["messages"]
    begins = [
        at
        for at, message in enumerate(page)
        if message["role"] == "user" and not message["finish_reason"]
    ]
    chosen = begins[-limit:]
    if not chosen:
        return []
    calls = _calls(conn, session_id, page[chosen[0]]["timestamp"])
    ends = [*begins[1:], len(page)]
    bounds = dict(zip(begins, ends, strict=True))
    traces = []
    for begin in reversed(chosen):
        said = page[begin : bounds[begin]]
        until = page[bounds[begin]]["timestamp"] if bounds[begin] < len(page) else float("inf")
        began = said[0]["timestamp"]
        traces.append(_trace(said, [call for call in calls if began <= call["ended"] < until]))
    if before is None:
        _add_process(conn, session_id, traces[0])
    return traces


def _calls(conn: Connection, session_id: str, since: float) -> list[dict[str, Any]]:
    """The model calls of a conversation since then, with when each ended."""
    found = rows(
        conn,
        "SELECT c.made_at, c.task, c.model, c.input_tokens, c.output_tokens, c.cost_usd,"
        " c.first_token_seconds, c.seconds, c.outcome FROM model_calls c WHERE c.conversation_id ="
        " (SELECT conversation_id FROM sessions WHERE id = ?) AND c.made_at >= ? AND c.outcome <> ?"
        " ORDER BY c.made_at, c.id",
        (session_id, since - 1, RESERVED),
    )
    for call in found:
        call["ended"] = call["made_at"]
    return found


def _trace(said: list[dict[str, Any]], calls: list[dict[str, Any]]) -> Trace:
    steps = [_model_step(call) for call in calls]
    asked: dict[str, dict[str, Any]] = {}
    for message in said:
        for made in message["tool_calls"] or ():
            if isinstance(made, dict) and made.get("id"):
                asked[str(made["id"])] = message
        if message["role"] == "tool" and (reply := asked.get(str(message["tool_call_id"]))):
            steps.append(_tool_step(message, reply))
    steps.sort(key=lambda step: (step["began_at"], step["kind"]))
    began = float(said[0]["timestamp"])
    ends = [step["began_at"] + step["seconds"] for step in steps]
    return {
        "message_id": said[0]["id"],
        "text": plain_text(said[0]["content"] or "")[:200],
        "began_at": began,
        "ended_at": max([began, float(said[-1]["timestamp"]), *ends]),
        "steps": steps,
        "process": None,
        "attempts": None,
    }


def _model_step(call: dict[str, Any]) -> TraceStep:
    seconds = float(call["seconds"] or 0)
    kind = {"turn": "model", "compression": "compression"}.get(call["task"], call["task"])
    return {
        "kind": kind,
        "name": call["model"],
        "began_at": call["made_at"] - seconds,
        "seconds": seconds,
        "first_token_seconds": call["first_token_seconds"],
        "input_tokens": int(call["input_tokens"] or 0),
        "output_tokens": int(call["output_tokens"] or 0),
        "cost_usd": call["cost_usd"],
        "outcome": call["outcome"],
        "message_id": None,
    }


def _tool_step(result: dict[str, Any], reply: dict[str, Any]) -> TraceStep:
    began = float(reply["timestamp"])
    return {
        "kind": "tool",
        "name": result["tool_name"] or "tool",
        "began_at": began,
        "seconds": max(0.0, float(result["timestamp"]) - began),
        "first_token_seconds": None,
        "input_tokens": 0,
        "output_tokens": 0,
        "cost_usd": None,
        "outcome": "unknown" if result["effect_disposition"] == "unknown" else "complete",
        "message_id": result["id"],
    }


def _add_process(conn: Connection, session_id: str, trace: Trace) -> None:
    turn = row(
        conn,
        "SELECT t.owner, t.attempts, t.started_at FROM turns t JOIN sessions s"
        " ON s.conversation_id = t.conversation_id WHERE s.id = ?",
        (session_id,),
    )
    if turn is not None and turn["started_at"] <= trace["ended_at"] + 1:
        trace["process"], trace["attempts"] = turn["owner"], turn["attempts"]
