"""Making a message list valid for a model, whatever a crash or an interruption left of it.

Valid means: the first message is the user's; user and assistant alternate; every tool call has
exactly one result, right after the message that made it, in the order of the calls; no result
stands without its call. Pure: the stored rows and the given dicts are never changed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]

OUTCOME_UNKNOWN = (
    "[outcome unknown] This tool call was started, but its result was never recorded. It may or "
    "may not have taken effect. Check before running it again."
)
"""The result of a tool call whose real result was lost."""


def tool_result(call: Message, content: str) -> Message:
    """A tool message that answers `call`."""
    function = call.get("function") or {}
    name = function.get("name") or call.get("name") or ""
    return {"role": "tool", "tool_call_id": call.get("id"), "tool_name": name, "content": content}


def repair_message_sequence(messages: Iterable[Message]) -> list[Message]:
    """The messages as a valid history; where nothing is wrong, the same dicts in the same order."""
    given = [message for message in messages if message.get("role") != "system"]
    repaired: list[Message] = []
    for index, message in enumerate(given):
        role = message.get("role")
        if role == "tool":
            continue  # placed with its call, or nobody asked for it
        if role == "assistant":
            if not repaired:
                continue  # a history begins with the user
            message = with_unique_calls(message)
            calls = message.get("tool_calls") or []
            if not calls and is_empty(message.get("content")):
                continue  # says nothing
        if repaired and repaired[-1].get("role") == role:
            repaired[-1] = merged(repaired[-1], message)
        else:
            repaired.append(message)
        if role == "assistant" and calls:
            results = results_after(given, index)
            repaired += [
                results.get(str(call["id"])) or tool_result(call, OUTCOME_UNKNOWN) for call in calls
            ]
    return repaired


def results_after(messages: list[Message], index: int) -> dict[str, Message]:
    """The first result for each call id between message `index` and the next assistant message."""
    results: dict[str, Message] = {}
    for message in itertools.islice(messages, index + 1, None):
        if message.get("role") == "assistant":
            break
        if message.get("role") == "tool":
            results.setdefault(str(message.get("tool_call_id")), message)
    return results


def with_unique_calls(message: Message) -> Message:
    """The message with only the tool calls that can be answered; itself where that is all."""
    given = message.get("tool_calls")
    calls = unique_calls(given)
    if calls == (given or []):
        return message
    rest = {name: field for name, field in message.items() if name != "tool_calls"}
    return {**rest, "tool_calls": calls} if calls else rest


def unique_calls(tool_calls: Any) -> list[Message]:
    """The tool calls that can be answered: dicts with an id, each id once."""
    seen: set[str] = set()
    calls = []
    for call in tool_calls if isinstance(tool_calls, list) else ():
        if isinstance(call, dict) and call.get("id") and str(call["id"]) not in seen:
            seen.add(str(call["id"]))
            calls.append(call)
    return calls


def is_empty(content: Any) -> bool:
    """Whether there is nothing to read in a message's content."""
    return content is None or content == [] or (isinstance(content, str) and not content.strip())


def merged(first: Message, second: Message) -> Message:
    """Two neighbouring messages of one role as one."""
    result = {**first, **{k: v for k, v in second.items() if v is not None and k != "content"}}
    a, b = first.get("content"), second.get("content")
    if is_empty(a) or is_empty(b):
        result["content"] = b if is_empty(a) else a
    elif isinstance(a, str) and isinstance(b, str):
        result["content"] = f"{a}\n\n{b}"
    else:
        result["content"] = [*as_parts(a), *as_parts(b)]
    return result


def as_parts(content: Any) -> list[Any]:
    """Message content as a list of parts."""
    if isinstance(content, list):
        return content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return [{"type": "text", "text": text}]
