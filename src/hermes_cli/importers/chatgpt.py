"""ChatGPT's `conversations.json`: a tree of messages with the place where the person is now.

What was said on the way to that place is the conversation; answers that were replaced by others
hang beside it and are counted, not imported. Programs that ran and what they printed become part of
the assistant's message, so that they can be read and found.
"""

from __future__ import annotations

from typing import Any

from tools.fences import fenced

_HIDDEN = ("user_editable_context", "model_editable_context", "thoughts", "reasoning_recap")


def session(conversation: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """One conversation as a session, or None if nothing was said; and what was left out."""
    from .exports import joined

    mapping: dict[str, Any] = conversation["mapping"]
    path = _path(mapping, conversation.get("current_node"))
    started = _time(conversation.get("create_time"))
    messages = []
    model = conversation.get("default_model_slug")
    for node in path:
        message = mapping[node].get("message")
        if not isinstance(message, dict):
            continue
        converted = _visible_message(message)
        if converted is None:
            continue
        model = (message.get("metadata") or {}).get("model_slug") or model
        messages.append({**converted, "timestamp": _time(message.get("create_time")) or started})
    beside = sum(
        1
        for name, node in mapping.items()
        if name not in path
        and isinstance(node, dict)
        and isinstance(node.get("message"), dict)
        and _visible_message(node["message"]) is not None
    )
    left_out = {"replaced answers": beside} if beside else {}
    if not messages:
        return None, left_out
    times = [message["timestamp"] for message in messages if message["timestamp"] is not None]
    number = str(conversation.get("conversation_id") or conversation.get("id") or path[0])
    return {
        "id": f"chatgpt_{number}",
        "source": "chatgpt",
        "title": conversation.get("title") or None,
        "model": model,
        "started_at": started if started is not None else min(times, default=0.0),
        "ended_at": _time(conversation.get("update_time")) or max(times, default=0.0),
        "end_reason": "imported",
        "archived": bool(conversation.get("is_archived")),
        "messages": joined(messages),
    }, left_out


def _path(mapping: dict[str, Any], current: Any) -> list[str]:
    """The nodes from the root to the current one; without one, to the newest leaf."""
    if current not in mapping:
        leaves = [name for name, node in mapping.items() if not (node or {}).get("children")]
        current = max(leaves, key=lambda name: _node_time(mapping[name]), default=None)
    path: list[str] = []
    while current in mapping and current not in path:
        path.append(current)
        current = (mapping[current] or {}).get("parent")
    return path[::-1]


def _node_time(node: Any) -> float:
    message = node.get("message") if isinstance(node, dict) else None
    return _time((message or {}).get("create_time")) or 0.0


def _time(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else None


def _visible_message(message: dict[str, Any]) -> dict[str, Any] | None:
    """Who said what; None for what people never saw."""
    role = (message.get("author") or {}).get("role")
    metadata = message.get("metadata") or {}
    content = message.get("content") or {}
    if role not in ("user", "assistant", "tool"):
        return None
    if metadata.get("is_visually_hidden_from_conversation"):
        return None
    if not isinstance(content, dict) or content.get("content_type") in _HIDDEN:
        return None
    text = _text(content)
    if not text:
        return None
    if role == "tool":
        return {"role": "assistant", "content": fenced(text)}
    return {"role": role, "content": text}


def _text(content: dict[str, Any]) -> str:
    parts = content.get("parts")
    pieces = [_part(part) for part in parts] if isinstance(parts, list) else []
    text = content.get("text")
    if isinstance(text, str) and text.strip():
        is_code = content.get("content_type") == "code"
        language = str(content.get("language") or "").replace("unknown", "")
        pieces.append(fenced(text, language) if is_code else text)
    return "\n\n".join(piece for piece in pieces if piece.strip())


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(part.get("text"), str):
        return str(part["text"])
    kind = str(part.get("content_type") or "attachment")
    return "[image]" if "image" in kind else f"[{kind.replace('_', ' ')}]"
