"""Claude's `conversations.json`: conversations with their messages in order.

Texts are taken as they are, attachments with the text that was extracted from them. Thinking is
left out; tools that ran are named, so that the conversation can be followed.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

_ROLES = {"human": "user", "assistant": "assistant"}


def session(conversation: dict[str, Any]) -> tuple[dict[str, Any] | None, dict[str, int]]:
    """One conversation as a session, or None if nothing was said; and what was left out."""
    from .exports import joined

    started = _time(conversation.get("created_at"))
    messages: list[dict[str, Any]] = []
    files = 0
    for message in conversation["chat_messages"]:
        role = _ROLES.get(str(message.get("sender"))) if isinstance(message, dict) else None
        if role is None:
            continue
        files += sum(1 for file in message.get("files") or [] if file)
        text = _text(message)
        if text:
            at = _time(message.get("created_at")) or started
            messages.append({"role": role, "content": text, "timestamp": at})
    left_out = {"attached files (only their names came along)": files} if files else {}
    if not messages:
        return None, left_out
    times = [message["timestamp"] for message in messages if message["timestamp"] is not None]
    return {
        "id": f"claude_{conversation.get('uuid') or started}",
        "source": "claude",
        "title": conversation.get("name") or None,
        "model": conversation.get("model"),
        "started_at": started if started is not None else min(times, default=0.0),
        "ended_at": _time(conversation.get("updated_at")) or max(times, default=0.0),
        "end_reason": "imported",
        "messages": joined(messages),
    }, left_out


def _time(value: Any) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except ValueError:
        return None


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    pieces = [_part(part) for part in content] if isinstance(content, list) else []
    if not any(piece.strip() for piece in pieces) and isinstance(message.get("text"), str):
        pieces = [message["text"]]  # older exports have only this
    for attachment in message.get("attachments") or []:
        if isinstance(attachment, dict):
            name = attachment.get("file_name") or "attachment"
            pieces.append(f"[{name}]\n{attachment.get('extracted_content') or ''}".strip())
    for file in message.get("files") or []:
        if isinstance(file, dict) and file.get("file_name"):
            pieces.append(f"[{file['file_name']}]")
    return "\n\n".join(piece.strip() for piece in pieces if piece and piece.strip())


def _part(part: Any) -> str:
    if not isinstance(part, dict):
        return ""
    kind = part.get("type")
    if kind == "text":
        return str(part.get("text") or "")
    if kind == "tool_use":
        return f"[used {part.get('name') or 'a tool'}]"
    return ""
