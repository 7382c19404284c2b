"""Making a message list valid for a model, whatever a crash or an interruption left of it.

Valid means: the first message is the user's; user and assistant alternate; every tool call has
exactly one result, right after the message that made it, in the order of the calls; no result
stands without its call. Pure: the stored rows and the given dicts are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

Message = dict[str, Any]

OUTCOME_UNKNOWN = (
    "[outcome unknown] This tool call was started, but its result was never recorded. It may or "
    "may not have taken effect. Check before running it again."
)
"""The result of a tool call whose real result was lost."""

BEGINNING = "[The conversation begins with the assistant's message.]"
"""What stands for the user where the assistant spoke first."""


def tool_result(call: Message, content: str) -> Message:
    """A tool message that answers `call`."""
    function = call.get("function")
    name = (isinstance(function, dict) and function.get("name")) or call.get("name") or ""
    return {"role": "tool", "tool_call_id": call.get("id"), "tool_name": name, "content": content}


def repair_message_sequence(messages: Iterable[Message]) -> list[Message]:
    """The messages as a valid history; where nothing is wrong, the same dicts in the same order.

    Messages that are not part of the talk (system and the like) are left out. Neighbours of one
    role become one message; nothing that the user or the assistant said is lost.
    """
    given = [
        with_unique_calls(message) if message["role"] == "assistant" else message
        for message in messages
        if message.get("role") in ("user", "assistant", "tool")
    ]
    results = results_by_call(given)
    repaired: list[Message] = []
    for index, message in enumerate(given):
        role = message["role"]
        if role == "tool":
            continue  # placed with its call, or nobody asked for it
        calls = (message.get("tool_calls") or []) if role == "assistant" else []
        if role == "assistant" and not calls and is_empty(message.get("content")):
            continue  # says nothing
        if role == "assistant" and not repaired:
            repaired.append({"role": "user", "content": BEGINNING})
        if repaired and repaired[-1]["role"] == role:
            repaired[-1] = merged(repaired[-1], message)
        else:
            repaired.append(message)
        repaired += [
            results.get((index, str(call["id"]))) or tool_result(call, OUTCOME_UNKNOWN)
            for call in calls
        ]
    return repaired


def results_by_call(messages: list[Message]) -> dict[tuple[int, str], Message]:
    """The recorded results, each under the place and the id of its call.

    Models may use an id again: a result belongs to the latest call before it, and of several the
    first counts.
    """
    asked: dict[str, int] = {}
    results: dict[tuple[int, str], Message] = {}
    for index, message in enumerate(messages):
        if message["role"] == "assistant":
            if calls := message.get("tool_calls"):
                asked |= {str(call["id"]): index for call in calls}
        elif message["role"] == "tool" and message.get("tool_call_id"):
            call_id = str(message["tool_call_id"])
            if call_id in asked:
                results.setdefault((asked[call_id], call_id), message)
    return results


def unanswered_calls(messages: list[Message]) -> list[Message]:
    """The tool calls of the last reply that have no result yet."""
    answered: set[str] = set()
    for message in reversed(messages):
        if message["role"] == "tool":
            answered.add(str(message.get("tool_call_id")))
        elif message["role"] == "assistant":
            calls = unique_calls(message.get("tool_calls"))
            return [call for call in calls if str(call["id"]) not in answered]
    return []


def with_unique_calls(message: Message) -> Message:
    """The message with only the tool calls that can be answered; itself where that is all."""
    given = message.get("tool_calls")
    if not given:
        return message
    calls = unique_calls(given)
    if calls == given:
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
    result = {**first, **{k: v for k, v in second.items() if v is not None}}
    result["content"] = joined(first.get("content"), second.get("content"))
    if "api_content" in result:
        # What was sent replaces the content when it is sent again, so it must hold both as well.
        sent = joined(*(said.get("api_content") or said.get("content") for said in (first, second)))
        if isinstance(sent, str):
            result["api_content"] = sent
        else:
            del result["api_content"]
    return result


def joined(first: Any, second: Any) -> Any:
    """Two contents as one; texts are a paragraph apart."""
    if is_empty(first) or is_empty(second):
        return second if is_empty(first) else first
    if isinstance(first, str) and isinstance(second, str):
        return f"{first}\n\n{second}"
    return [*as_parts(first), *as_parts(second)]


def as_parts(content: Any) -> list[Any]:
    """Message content as a list of parts."""
    if isinstance(content, list):
        return content
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return [{"type": "text", "text": text}]
