"""A model provider on loopback that does exactly what a test says, down to the byte.

It is plain asyncio streams and not a web framework, because it has to misbehave: end a body in the
middle, reset the connection, fall silent, send something that is not HTTP.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from agent.model import (
    Chunk,
    Finished,
    Model,
    ModelRequest,
    ReasoningDelta,
    ReasoningDetails,
    TextDelta,
    ToolCallDelta,
)

CHAT, RESPONSES, MESSAGES = "chat_completions", "responses", "anthropic_messages"
PROTOCOLS = (CHAT, RESPONSES, MESSAGES)


@dataclass
class Reply:
    """What one request gets."""

    pieces: list[bytes]
    """The body, written piece by piece."""
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: {"content-type": "text/event-stream"})
    framing: str = "chunked"
    """"chunked", "eof" (the body ends with the connection) or "raw" (`pieces` is all there is)."""
    ending: str = "finish"
    """"finish", "cut" (closed without the end of the body), "reset" or "hang"."""


@dataclass
class Received:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


class FakeProvider:
    """Serves `replies` in order, one per request, on as many connections as the client opens."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.received: list[Received] = []
        self.connections = 0
        self.answering = asyncio.Event()
        """Set when a hanging reply has been written."""
        self.client_left = asyncio.Event()
        """Set when the client closed its side during a hanging reply."""

    async def __aenter__(self) -> FakeProvider:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._tasks: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while (received := await _read_request(reader)) is not None:
                self.received.append(received)
                reply = self.replies.pop(0)
                if not await self._answer(reply, reader, writer):
                    return
        except asyncio.CancelledError:
            pass  # The test is over; asyncio would report a handler that ends cancelled.
        except ConnectionError:
            self.client_left.set()  # Closed with bytes unread, which TCP reports as a reset.
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _answer(
        self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Write a reply; true if the connection can serve another request."""
        if reply.framing != "raw":
            lines = [f"HTTP/1.1 {reply.status} Scripted"]
            lines += [f"{name}: {value}" for name, value in reply.headers.items()]
            if reply.framing == "chunked":
                lines.append("transfer-encoding: chunked")
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        for piece in reply.pieces:
            writer.write(
                b"%x\r\n%s\r\n" % (len(piece), piece) if reply.framing == "chunked" else piece
            )
            await writer.drain()
            await asyncio.sleep(0)
        if reply.ending == "hang":
            self.answering.set()
            if await reader.read(1) == b"":
                self.client_left.set()
            return False
        if reply.ending == "reset":
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
            return False
        if reply.ending == "finish" and reply.framing == "chunked":
            writer.write(b"0\r\n\r\n")
            await writer.drain()
            return True
        return False


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(": ")
        if colon:
            headers[name.lower()] = value
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(first.split()[1], headers, json.loads(body) if body else None)


def sse(*events: dict[str, Any] | str) -> list[bytes]:
    """Events as the pieces of a body, one each."""
    pieces = []
    for event in events:
        if isinstance(event, str):
            pieces.append(f"data: {event}\n\n".encode())
        else:
            name = f"event: {event['type']}\n" if "type" in event else ""
            data = json.dumps(event, ensure_ascii=False)
            pieces.append(f"{name}data: {data}\n\n".encode())
    return pieces


def error_reply(status: int, body: Any, **headers: str) -> Reply:
    """A refusal with this body (bytes as they are, anything else as JSON)."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply([content], status, {"content-type": "application/json", **named})


def delta(content: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    """A chunk of a chat completion."""
    choice = {"index": 0, "delta": content, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def model_for(protocol: str, url: str, **options: Any) -> Model:
    """A model of this protocol at this address."""
    from agent.providers.anthropic import AnthropicModel
    from agent.providers.chat_completions import ChatCompletionsModel
    from agent.providers.responses import ResponsesModel

    kind = {CHAT: ChatCompletionsModel, RESPONSES: ResponsesModel, MESSAGES: AnthropicModel}
    defaults = {"name": "m", "provider": "custom", "api_key": "secret-key-1234", "timeout": 20.0}
    return kind[protocol](**{"base_url": url + "/v1", **defaults, **options})


ASK = ModelRequest(messages=[{"role": "user", "content": "Hallo"}], system="Be brief.")


@dataclass
class Answer:
    """A stream of chunks, put together."""

    text: str = ""
    reasoning: str = ""
    calls: dict[int, list[str]] = field(default_factory=dict)
    """index → [id, name, arguments]"""
    details: list[dict[str, Any]] = field(default_factory=list)
    finished: Finished | None = None

    def add(self, chunk: Chunk) -> None:
        assert self.finished is None, "a chunk after Finished"
        if isinstance(chunk, TextDelta):
            self.text += chunk.text
        elif isinstance(chunk, ReasoningDelta):
            self.reasoning += chunk.text
        elif isinstance(chunk, ToolCallDelta):
            if chunk.index not in self.calls:
                assert chunk.id and chunk.name, "a call must begin with its id and name"
                self.calls[chunk.index] = [chunk.id, chunk.name, ""]
            else:
                assert not chunk.id and not chunk.name
            self.calls[chunk.index][2] += chunk.arguments
        elif isinstance(chunk, ReasoningDetails):
            self.details += chunk.items
        elif isinstance(chunk, Finished):
            self.finished = chunk


async def collect(stream: AsyncIterator[Chunk]) -> Answer:
    """Read a stream to its end."""
    answer = Answer()
    async for chunk in stream:
        answer.add(chunk)
    return answer


def ask(model: Model, request: ModelRequest = ASK) -> Answer:
    """Ask in an event loop of its own."""

    async def run() -> Answer:
        try:
            return await collect(model.stream(request))
        finally:
            await model.aclose()

    return asyncio.run(run())


TEXT = "Grüße, 世界 🌍!"
CALLS = {0: ["call_a", "terminal", '{"command": "ls ä"}'], 1: ["call_b", "todo", "{}"]}


def whole_reply(protocol: str) -> list[bytes]:
    """Reasoning, text, two tool calls and usage, as this protocol streams them."""
    return {CHAT: _chat_reply, RESPONSES: _responses_reply, MESSAGES: _messages_reply}[protocol]()


def _chat_reply() -> list[bytes]:
    def called(index: int, **rest: Any) -> dict[str, Any]:
        return delta({"tool_calls": [{"index": index, **rest}]})

    return sse(
        delta({"role": "assistant", "content": None}),
        delta({"reasoning_content": "Hm, "}),
        delta({"reasoning_content": "gut."}),
        *(delta({"content": piece}) for piece in ("Grüße, ", "世界", " 🌍", "!")),
        called(0, id="call_a", type="function", function={"name": "terminal", "arguments": ""}),
        called(0, function={"arguments": '{"command": '}),
        called(0, function={"arguments": '"ls ä"}'}),
        called(1, id="call_b", type="function", function={"name": "todo", "arguments": "{}"}),
        delta({}, "tool_calls"),
        {
            "choices": [],
            "model": "m-1",
            "usage": {
                "prompt_tokens": 30,
                "completion_tokens": 12,
                "prompt_tokens_details": {"cached_tokens": 20},
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
        },
        "[DONE]",
    )


def _responses_reply() -> list[bytes]:
    def item(kind: str, **rest: Any) -> dict[str, Any]:
        return {"type": f"response.output_item.{kind}", "item": rest}

    def function(number: str, name: str, arguments: str) -> dict[str, Any]:
        call_id = f"call_{number}"
        return {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": call_id,
            "name": name,
            "arguments": arguments,
        }

    arguments = "response.function_call_arguments.delta"
    summary = "response.reasoning_summary_text.delta"
    return sse(
        {"type": "response.created", "response": {"id": "r1", "status": "in_progress"}},
        item("added", type="reasoning", id="rs_1", summary=[]),
        {"type": summary, "item_id": "rs_1", "delta": "Hm, "},
        {"type": summary, "item_id": "rs_1", "delta": "gut."},
        item("done", type="reasoning", id="rs_1", summary=[], encrypted_content="AAA="),
        item("added", type="message", id="msg_1", content=[]),
        *(
            {"type": "response.output_text.delta", "item_id": "msg_1", "delta": piece}
            for piece in ("Grüße, ", "世界", " 🌍", "!")
        ),
        item("done", type="message", id="msg_1"),
        item("added", **function("a", "terminal", "")),
        {"type": arguments, "item_id": "fc_a", "delta": '{"command": '},
        {"type": arguments, "item_id": "fc_a", "delta": '"ls ä"}'},
        item("done", **function("a", "terminal", '{"command": "ls ä"}')),
        item("added", **function("b", "todo", "")),
        item("done", **function("b", "todo", "{}")),
        {
            "type": "response.completed",
            "response": {
                "status": "completed",
                "model": "m-1",
                "usage": {
                    "input_tokens": 30,
                    "output_tokens": 12,
                    "input_tokens_details": {"cached_tokens": 20},
                    "output_tokens_details": {"reasoning_tokens": 4},
                },
            },
        },
    )


def _messages_reply() -> list[bytes]:
    def start(index: int, **block: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    def piece(index: int, kind: str, **rest: Any) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **rest}}

    def stop(index: int) -> dict[str, Any]:
        return {"type": "content_block_stop", "index": index}

    return sse(
        {
            "type": "message_start",
            "message": {
                "model": "m-1",
                "usage": {
                    "input_tokens": 7,
                    "cache_read_input_tokens": 20,
                    "cache_creation_input_tokens": 3,
                    "output_tokens": 1,
                },
            },
        },
        start(0, type="thinking", thinking=""),
        piece(0, "thinking_delta", thinking="Hm, "),
        piece(0, "thinking_delta", thinking="gut."),
        piece(0, "signature_delta", signature="c2ln"),
        stop(0),
        {"type": "ping"},
        start(1, type="text", text=""),
        *(piece(1, "text_delta", text=part) for part in ("Grüße, ", "世界", " 🌍", "!")),
        stop(1),
        start(2, type="tool_use", id="call_a", name="terminal", input={}),
        piece(2, "input_json_delta", partial_json=""),
        piece(2, "input_json_delta", partial_json='{"command": '),
        piece(2, "input_json_delta", partial_json='"ls ä"}'),
        stop(2),
        start(3, type="tool_use", id="call_b", name="todo", input={}),
        stop(3),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 12},
        },
        {"type": "message_stop"},
    )


def join(pieces: Iterable[bytes]) -> bytes:
    """The whole body."""
    return b"".join(pieces)
