"""A model server that answers at once: chat completions, streamed, with nothing to wait for.

`python -m bench.zero_delay CHUNKS [SECONDS]` prints its port and serves until its standard input
ends; with SECONDS it thinks for so long first. GET /peak says how many it answered at once.
"""

from __future__ import annotations

import asyncio
import json
import sys


def body(chunks: int) -> bytes:
    """A streamed reply of so many pieces of text."""
    base = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "zero"}

    def event(delta: dict[str, str], finish: str | None = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return f"data: {json.dumps({**base, 'choices': [choice]})}\n\n"

    usage = {"prompt_tokens": 10, "completion_tokens": chunks, "total_tokens": 10 + chunks}
    return "".join(
        [
            event({"role": "assistant", "content": ""}),
            *(event({"content": f"word{number} "}) for number in range(chunks)),
            event({}, "stop"),
            f"data: {json.dumps({**base, 'choices': [], 'usage': usage})}\n\n",
            "data: [DONE]\n\n",
        ]
    ).encode()


def whole(chunks: int) -> bytes:
    """The same reply, not streamed."""
    text = "".join(f"word{number} " for number in range(chunks))
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": chunks, "total_tokens": 10 + chunks}
    reply = {"id": "c", "object": "chat.completion", "created": 1, "model": "zero"}
    return json.dumps({**reply, "choices": [choice], "usage": usage}).encode()


async def serve(chunks: int, delay: float = 0.0) -> None:
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
                elif b'"stream":true' in request.replace(b" ", b""):
                    kind, content = "text/event-stream", streamed
                else:
                    kind, content = "application/json", unstreamed
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
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
