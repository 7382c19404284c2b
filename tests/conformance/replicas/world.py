"""What gateways work with and upon: a scripted model, and a place where tools leave their marks.

Both are servers of the test's own process. Each replica has an address of its own (`/r1/…`), so
that it is known who asks.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from typing import Any

from ...gateway.loopback import LoopbackServer, Request, Response
from ..script import CALLS, answer
from .history import History, Thought

BASE = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted"}


class ModelServer(LoopbackServer):
    """Plays the script: what comes next follows from the messages that it is sent."""

    def __init__(self, history: History, chance: random.Random, thinking: float) -> None:
        super().__init__()
        self._history = history
        self._chance = chance
        self._thinking = thinking

    async def answer(self, request: Request) -> Response | None:
        """The next step, after some thinking."""
        if request.method == "GET":
            body = {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
            return Response(200, json.dumps(body).encode())
        thought = read(request.path.split("/")[1], json.loads(request.body)["messages"])
        self._history.thoughts.append(thought)
        await asyncio.sleep(self._chance.uniform(0, self._thinking))
        return Response(200, reply(thought.name, thought.step), "text/event-stream")


def read(replica: str, messages: list[dict[str, Any]]) -> Thought:
    """What a request shows of its conversation."""
    asked: list[str] = []
    answered: list[str] = []
    results: dict[str, str] = {}
    step = 0
    for message in messages:
        role, text = message["role"], _text(message.get("content"))
        if role == "user":
            asked.append(text.split()[0])
            results, step = {}, 0
        elif role == "tool":
            results[message["tool_call_id"].rpartition("-")[2]] = text
        elif role == "assistant" and message.get("tool_calls"):
            step += 1
        elif role == "assistant" and asked and text == answer(asked[-1]):
            answered.append(asked[-1])
    return Thought(
        time.monotonic(), replica, asked[-1], step, tuple(asked), tuple(answered), results
    )


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content)
    return str(content or "")


def reply(name: str, step: int) -> bytes:
    """The step of a prompt's turn, as a stream."""
    if step >= len(CALLS):
        return _stream({"content": answer(name)}, "stop")
    calls = [
        {
            "index": number,
            "id": f"{step}-{number}-{name}{argument}",
            "type": "function",
            "function": {"name": tool, "arguments": json.dumps({"mark": name + argument})},
        }
        for number, (tool, argument) in enumerate(CALLS[step])
    ]
    return _stream({"content": None, "tool_calls": calls}, "tool_calls")


def _stream(delta: dict[str, Any], finish: str) -> bytes:
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": None},
        {"index": 0, "delta": {}, "finish_reason": finish},
    ]
    events: list[dict[str, Any]] = [{**BASE, "choices": [choice]} for choice in choices]
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    events.append({**BASE, "choices": [], "usage": usage})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events).encode() + (
        b"data: [DONE]\n\n"
    )


class EffectServer(LoopbackServer):
    """`POST /<replica>/<mark>`: a tool acts. It counts at once, or after a while."""

    def __init__(self, history: History, chance: random.Random, longest: float) -> None:
        super().__init__()
        self._history = history
        self._chance = chance
        self._longest = longest

    async def answer(self, request: Request) -> Response | None:
        """Count; whoever asks waits before or after."""
        replica, mark = request.path.strip("/").split("/")
        self._history.effect(replica, mark)
        await asyncio.sleep(self._chance.uniform(0, self._longest))
        return Response(200, b"{}")
