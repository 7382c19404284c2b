"""A model provider on loopback that does what the last user message says.

A prompt made with `script` names itself and lists the steps of its turn; the provider counts the
assistant's messages since then to know which step is next. So it needs no state, and it does not
matter how often the server that asks was killed in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import defaultdict
from typing import Any

Step = dict[str, Any]


def script(name: str, *steps: Step) -> str:
    """A prompt that makes the model take these steps."""
    return json.dumps({"name": name, "steps": list(steps)})


def say(text: str, *, times: int = 1, pieces: int = 1, pause: float = 0.0, gate: str = "") -> Step:
    """Answer with `text` so many `times`, in `pieces`; with `gate`, half of it only after that."""
    return {"say": text, "times": times, "pieces": pieces, "pause": pause, "gate": gate}


def call(tool: str, gate: str = "", **arguments: Any) -> Step:
    """Ask for a tool."""
    return {"call": tool, "arguments": arguments, "gate": gate}


class ScriptedProvider:
    """Speaks chat completions."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self._gates: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._reached: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> ScriptedProvider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def open_gate(self, name: str) -> None:
        """Let whoever waits at a gate go on, now and later."""
        self._gates[name].set()

    async def reached(self, name: str) -> None:
        """Wait until somebody is at a gate."""
        async with asyncio.timeout(30):
            await self._reached[name].wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.lower().split(b"\r\n")
                    if line.startswith(b"content-length:")
                )
                request = json.loads(await reader.readexactly(length))
                self.requests.append(request)
                await self._answer(request, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client was killed, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        step = next_step(request["messages"])
        if "call" in step:
            await self._at(step["gate"], writer)
            function = {"name": step["call"], "arguments": json.dumps(step["arguments"])}
            called = {"index": 0, "id": step["id"], "type": "function", "function": function}
            self._event(writer, {"tool_calls": [called]})
            self._event(writer, {}, "tool_calls")
        else:
            await self._say(step, writer)
            self._event(writer, {}, "stop")
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        self._data(writer, {"choices": [], "model": "scripted", "usage": usage})
        self._data(writer, "[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def _say(self, step: Step, writer: asyncio.StreamWriter) -> None:
        text, pieces = step["say"] * step.get("times", 1), max(1, step.get("pieces", 1))
        size = max(1, -(-len(text) // pieces))
        parts = [text[start : start + size] for start in range(0, len(text), size)]
        for number, part in enumerate(parts):
            if number == len(parts) // 2:
                await self._at(step.get("gate", ""), writer)
            self._event(writer, {"content": part})
            if step.get("pause"):
                await writer.drain()
                await asyncio.sleep(step["pause"])

    async def _at(self, gate: str, writer: asyncio.StreamWriter) -> None:
        if gate:
            await writer.drain()
            self._reached[gate].set()
            await self._gates[gate].wait()

    def _event(
        self, writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None = None
    ) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self._data(writer, {"id": "c", "model": "scripted", "choices": [choice]})

    def _data(self, writer: asyncio.StreamWriter, content: Any) -> None:
        text = content if isinstance(content, str) else json.dumps(content)
        piece = f"data: {text}\n\n".encode()
        writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))


def next_step(messages: list[dict[str, Any]]) -> Step:
    """The step that a conversation is at."""
    asked = max(n for n, message in enumerate(messages) if message["role"] == "user")
    done = sum(message["role"] == "assistant" for message in messages[asked:])
    content = messages[asked]["content"]
    if isinstance(content, list):
        content = next(part["text"] for part in content if part["type"] == "text")
    try:
        wanted = json.loads(content)
    except ValueError:
        return {"say": f"You said: {content[:60]}"}
    steps = wanted["steps"]
    if done >= len(steps):
        return {"say": f"answer {wanted['name']}"}
    return {"id": f"call_{wanted['name']}_{done}", **steps[done]}
