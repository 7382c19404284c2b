"""A model server that answers at once: chat completions, streamed, with nothing to wait for.

`python -m bench.zero_delay CHUNKS [SECONDS [CALLS]]` prints its port and serves until its standard
input ends. With SECONDS it thinks for so long first. With CALLS it asks whoever offers tools for
that many calls of `todo`, two at a time, before it answers. GET /peak says how many it answered at
once.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

BASE = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "zero"}
DONE = "data: [DONE]\n\n"


def _event(delta: dict[str, Any], finish: str | None = None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({**BASE, 'choices': [choice]})}\n\n"


def _usage(pieces: int) -> dict[str, int]:
    return {"prompt_tokens": 10, "completion_tokens": pieces, "total_tokens": 10 + pieces}


def _usage_event(pieces: int) -> str:
    return f"data: {json.dumps({**BASE, 'choices': [], 'usage': _usage(pieces)})}\n\n"


def body(chunks: int) -> bytes:
    """A streamed reply of so many pieces of text."""
    return "".join(
        [
            _event({"role": "assistant", "content": ""}),
            *(_event({"content": f"word{number} "}) for number in range(chunks)),
            _event({}, "stop"),
            _usage_event(chunks),
            DONE,
        ]
    ).encode()


def whole(chunks: int) -> bytes:
    """The same reply, not streamed."""
    text = "".join(f"word{number} " for number in range(chunks))
    return _message({"content": text}, "stop", chunks)


def _message(said: dict[str, Any], finish: str, pieces: int) -> bytes:
    message = {"role": "assistant", **said}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    kept = {**BASE, "object": "chat.completion", "choices": [choice], "usage": _usage(pieces)}
    return json.dumps(kept).encode()


def calls(first: int, *, streamed: bool) -> bytes:
    """Two calls of `todo`, numbered from `first`; no two are the same, which would look stuck."""
    asked = [
        {
            "index": index,
            "id": f"call_{first + index}",
            "type": "function",
            "function": {
                "name": "todo",
                "arguments": json.dumps({"todos": [_step(first + index)]}),
            },
        }
        for index in range(2)
    ]
    if not streamed:
        return _message({"content": None, "tool_calls": asked}, "tool_calls", 20)
    start = _event({"role": "assistant", "content": None, "tool_calls": asked})
    return f"{start}{_event({}, 'tool_calls')}{_usage_event(20)}{DONE}".encode()


def _step(number: int) -> dict[str, str]:
    return {"id": str(number), "content": f"step {number}", "status": "pending"}


def next_call(request: bytes, most: int) -> int | None:
    """The number of the next call, if one is to be asked for."""
    content = json.loads(request)
    said = content["messages"]
    last = max(place for place, one in enumerate(said) if one["role"] == "user")
    made = sum(one["role"] == "tool" for one in said[last:])
    return made + 1 if content.get("tools") and made < most else None


async def serve(chunks: int, delay: float = 0.0, most_calls: int = 0) -> None:
    """Answer every request until standard input ends."""
    at_once = most = 0
    streamed, unstreamed = body(chunks), whole(chunks)
    models = json.dumps({"object": "list", "data": [{"id": "zero", "object": "model"}]}).encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal at_once, most
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                sizes = [x.split(":")[1] for x in lines if x.lower().startswith("content-length:")]
                request = await reader.readexactly(int(sizes[0])) if sizes else b""
                if lines[0].startswith("GET /peak"):
                    kind, content, most = "application/json", str(most).encode(), 0
                elif lines[0].startswith("GET"):
                    kind, content = "application/json", models
                else:
                    is_streamed = b'"stream":true' in request.replace(b" ", b"")
                    kind = "text/event-stream" if is_streamed else "application/json"
                    content = streamed if is_streamed else unstreamed
                    if most_calls and (number := next_call(request, most_calls)):
                        content = calls(number, streamed=is_streamed)
                if delay and request:
                    at_once += 1
                    most = max(most, at_once)
                    await asyncio.sleep(delay)
                    at_once -= 1
                writer.write(
                    f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(content)}"
                    "\r\n\r\n".encode()
                    + content
                )
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client is gone, or we are; asyncio would report a handler that is cancelled
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    server.close()


if __name__ == "__main__":
    given = [float(argument) for argument in sys.argv[1:]] + [0.0, 0.0]
    asyncio.run(serve(int(given[0]), given[1], int(given[2])))
