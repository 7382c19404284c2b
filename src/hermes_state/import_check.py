"""What an import payload may hold, checked before anything is written."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from .codec import encode_json, encode_text, is_storable
from .errors import InvalidMessageError, StoreError
from .messages import message_fields, seconds
from .model_calls import check_exported_call
from .sessions import TEXT_FIELDS

MAX_SESSIONS = 500
MAX_MESSAGES_PER_SESSION = 10_000
MAX_MESSAGES = 50_000
MAX_SESSION_BYTES = 5 * 1024 * 1024
MAX_BYTES = 25 * 1024 * 1024

TEXT_FACTS = [name for name in TEXT_FIELDS if name not in ("session_key", "parent_session_id")]
_TEXTS = ["title", "end_reason", "source", "cost_status", "cost_source", "pricing_version"]
NUMBERS = [
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "api_call_count",
    "estimated_cost_usd",
    "actual_cost_usd",
    "archived",
]
_MESSAGE_TEXTS = [
    "tool_call_id",
    "tool_name",
    "finish_reason",
    "effect_disposition",
    "platform_message_id",
]


_LONGEST_ID = 200


def is_safe_id(session_id: str) -> bool:
    """Whether an id from elsewhere can be taken for nothing but a name: ids become file names."""
    return (
        len(session_id) <= _LONGEST_ID
        and session_id.isprintable()
        and not session_id.startswith((".", "-", "~", " "))
        and not any(part in session_id for part in ("/", "\\", ".."))
    )


def validate_import(sessions: list[Any], unlimited: bool = False) -> list[dict[str, Any]]:
    """What is wrong with an import payload: a list of {index, error}, empty if nothing.

    With `unlimited` it may be of any size.
    """
    errors: list[dict[str, Any]] = []
    if len(sessions) > MAX_SESSIONS and not unlimited:
        errors.append({"index": None, "error": f"more than {MAX_SESSIONS} sessions at once"})
        return errors
    total_messages = total_bytes = 0
    for index, session in enumerate(sessions):
        problem, messages, size = _examine(session, unlimited)
        total_messages += messages
        total_bytes += size
        if problem:
            errors.append({"index": index, "error": problem})
    if unlimited:
        return errors
    if total_messages > MAX_MESSAGES:
        errors.append({"index": None, "error": f"more than {MAX_MESSAGES} messages at once"})
    if total_bytes > MAX_BYTES:
        errors.append({"index": None, "error": f"more than {MAX_BYTES} bytes at once"})
    return errors


def _examine(session: Any, unlimited: bool) -> tuple[str | None, int, int]:
    if not isinstance(session, Mapping):
        return "a session must be an object", 0, 0
    if not isinstance(session.get("id"), str) or not session["id"]:
        return "session id is required", 0, 0
    if not is_storable(session["id"]):
        return "session id is not valid Unicode", 0, 0
    messages = session.get("messages") or []
    if not isinstance(messages, list):
        return "messages must be a list", 0, 0
    if len(messages) > MAX_MESSAGES_PER_SESSION and not unlimited:
        return f"more than {MAX_MESSAGES_PER_SESSION} messages", len(messages), 0
    try:
        size = len(json.dumps(session))
        for message in messages:
            _examine_message(message)
        calls = session.get("model_calls") or []
        if not isinstance(calls, list):
            return "model_calls must be a list", len(messages), size
        for call in calls:
            check_exported_call(call)
        for name in (*TEXT_FACTS, *_TEXTS):
            encode_text(session.get(name), name)
        encode_json(session.get("model_config"), "model_config")
        for name in ("started_at", "ended_at"):
            seconds(session.get(name))
        for name in NUMBERS:
            number = session.get(name)
            if not isinstance(number, int | float | None) or not math.isfinite(number or 0):
                return f"{name} must be a number", len(messages), size
    except (TypeError, ValueError, OverflowError, RecursionError, StoreError) as error:
        return str(error), len(messages), 0
    if size > MAX_SESSION_BYTES and not unlimited:
        return f"more than {MAX_SESSION_BYTES} bytes", len(messages), size
    return None, len(messages), size


def _examine_message(message: Any) -> None:
    fields = message_fields(message)
    if not isinstance(fields["role"], str) or not fields["role"]:
        raise InvalidMessageError("a message needs a role")
    seconds(fields.get("timestamp"))
    for name in _MESSAGE_TEXTS:
        encode_text(fields.get(name), name)
    if not isinstance(fields.get("token_count"), int | None):
        raise InvalidMessageError("token_count must be a whole number")
    for name in ("id", "origin_id"):
        if not isinstance(message.get(name), int | str | None):
            raise InvalidMessageError(f"a message's {name} must be a number or text")
