"""What a valid history is, said independently of the code that repairs one."""

from __future__ import annotations

from typing import Any


def problems(messages: list[dict[str, Any]]) -> list[str]:
    """What a model's API would refuse in this history; empty for a valid one."""
    found = []
    waiting: set[str] = set()
    last = None
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in waiting:
                waiting.remove(call_id)
            else:
                found.append(
                    f"{index}: a result for {call_id!r} that nobody asked for, or a second"
                )
        else:
            if waiting:
                found.append(f"{index}: no result for {sorted(waiting)}")
            if last is None and role != "user":
                found.append(f"{index}: begins with {role}")
            if role == last:
                found.append(f"{index}: {role} after {role}")
            ids = [call["id"] for call in message.get("tool_calls") or []]
            if len(ids) != len(set(ids)):
                found.append(f"{index}: one id for several calls")
            if role == "assistant" and not ids and not message.get("content"):
                found.append(f"{index}: says nothing")
            waiting = set(ids)
        last = role
    if waiting:
        found.append(f"at the end: no result for {sorted(waiting)}")
    return found
