"""What a conversation, or everything in the last days, has used and holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agent.catalog import lookup
from agent.compression.tokens import estimate_tokens, text_tokens

from .. import live
from .. import shapes_conversation as wire
from ..clients import READ
from ..rpc import Call, RpcError, method

if TYPE_CHECKING:
    from hermes_state import PersonView

BAD_DAYS = 4017
_SUMMED = (
    "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens",
)  # fmt: skip


@method("session.usage", scope=READ)
def usage(call: Call, session_id: str) -> wire.Usage:
    """What the conversation has used, over all of its sessions."""
    session = call.session(session_id)
    rows = _rows(call.here(session), live.current_key(session))
    sums = {name: sum(int(row[name] or 0) for row in rows) for name in _SUMMED}
    costs = [row["estimated_cost_usd"] for row in rows if row["estimated_cost_usd"] is not None]
    return {
        "model": live.info(call.hub, session_id, session)["model"],
        "api_calls": sum(int(row["api_call_count"] or 0) for row in rows),
        "input_tokens": sums["input_tokens"],
        "output_tokens": sums["output_tokens"],
        "cache_read_tokens": sums["cache_read_tokens"],
        "cache_write_tokens": sums["cache_write_tokens"],
        "reasoning_tokens": sums["reasoning_tokens"],
        "total_tokens": sums["input_tokens"] + sums["output_tokens"],
        "cost_usd": sum(costs) if costs else None,
    }


def _rows(here: PersonView, key: str) -> list[dict[str, Any]]:
    lineage = here.lineage(key) or [key]
    return [row for part in lineage if (row := here.session(part)) is not None]


@method("session.status", scope=READ, slow=True)
def status(call: Call, session_id: str) -> wire.Output:
    """Where the conversation is, as text to show."""
    from ..surface import LiveSurface, run_line

    session = call.session(session_id)
    surface = LiveSurface(call.hub, session_id, session, call.principal)
    result = run_line(surface, call.hub, session_id, "/status")
    return {"output": getattr(result, "output", "")}


@method("session.context_breakdown", scope=READ, slow=True)
def context_breakdown(call: Call, session_id: str) -> wire.ContextBreakdown:
    """What fills the model's window: system prompt, tools, messages; estimated."""
    session = call.session(session_id)
    here = call.here(session)
    key = live.current_key(session)
    row = here.session(key)
    agent = session.get("agent")
    messages = here.conversation(key, repair_alternation=True) if row else []
    schemas = agent.tools.schemas() if agent is not None else []
    parts = {
        "system prompt": text_tokens(str((row or {}).get("system_prompt") or "")),
        "tools": estimate_tokens((), tools=schemas),
    }
    for label, role in (("your messages", "user"), ("answers", "assistant"), ("results", "tool")):
        parts[label] = estimate_tokens(message for message in messages if message["role"] == role)
    window = _window(call, session)
    total = sum(parts.values())
    return {
        "categories": [
            {"name": name, "tokens": tokens, "percent": _percent(tokens, window)}
            for name, tokens in parts.items()
        ],
        "context_max": window,
        "context_used": total,
        "context_percent": _percent(total, window),
        "estimated_total": total,
        "model": live.info(call.hub, session_id, session)["model"],
    }


def _window(call: Call, session: dict[str, Any]) -> int:
    """The tokens that the session's model takes; 0 if that is not known."""
    agent = session.get("agent")
    if agent is not None:
        return int(agent.llm.context_length or 0)
    settings = call.config.model
    known = lookup(session.get("model") or settings.name)
    return settings.context_length or (known.context_length if known else 0)


def _percent(tokens: int, window: int) -> float:
    return round(100 * tokens / window, 1) if window else 0.0


@method("insights.get", scope=READ, slow=True)
def insights(call: Call, days: int = 30, session_id: str | None = None) -> wire.Insights:
    """What was used in the last days; by the owner of a session, if one is named."""
    if not 0 < days <= 3650:
        raise RpcError(BAD_DAYS, f"days must be from 1 to 3650, not {days}.")
    session = call.session(session_id) if session_id else None
    used = call.view_in(session).usage(call.db.clock - days * 86_400)
    return {
        "days": days,
        "sessions": used["conversations"],
        "messages": used["messages"],
        "tool_calls": used["tool_calls"],
        "models": [
            {
                "model": model["model"],
                "api_calls": model["api_calls"],
                "input_tokens": model["input_tokens"],
                "output_tokens": model["output_tokens"],
                "cost_usd": model["cost_usd"],
            }
            for model in used["models"]
        ],
    }
