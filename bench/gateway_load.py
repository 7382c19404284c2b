"""The asking side of `bench.gateway`: many conversations at once, over raw connections.

`python -m bench.gateway_load '{"url": …, "conversations": …}'` prints what each turn took, as JSON.
It does as little as it can per turn, so that what is measured is the server's.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit


async def conversation(task: dict[str, Any], number: int, turns: list[list[float]]) -> None:
    """One conversation: a connection, and its turns one after the other."""
    place = urlsplit(task["url"])
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    session = f"{task['name']}-{number}"
    try:
        for turn in range(task["turns"]):
            body = json.dumps(
                {
                    "model": "zero",
                    "stream": task["stream"],
                    "messages": [{"role": "user", "content": f"Question {turn} of {number}."}],
                }
            )
            started = time.perf_counter()
            writer.write(
                f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\n"
                f"Authorization: Bearer {task['key']}\r\nContent-Type: application/json\r\n"
                f"X-Hermes-Session-Id: {session}\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
            first = await _answer(reader, started)
            turns.append([time.perf_counter() - started, first])
    finally:
        writer.close()


async def _answer(reader: asyncio.StreamReader, started: float) -> float:
    """Read an answer; returns after how many seconds its first word came."""
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise SystemExit(f"The server said: {head.decode(errors='replace')}")
    first = 0.0
    if b"transfer-encoding: chunked" not in head:
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        body = await reader.readexactly(length)
        if b"word0" not in body:
            raise SystemExit(f"No answer: {body[:300]!r}")
        return time.perf_counter() - started
    while size := int((await reader.readline()).split(b";")[0], 16):
        piece = await reader.readexactly(size + 2)
        if not first and b"word" in piece:
            first = time.perf_counter() - started
    await reader.readline()
    if not first:
        raise SystemExit(f"No answer in the stream: {piece[:300]!r}")
    return first


async def main(task: dict[str, Any]) -> dict[str, Any]:
    """All conversations at once."""
    turns: list[list[float]] = []
    started = time.perf_counter()
    await asyncio.gather(*(conversation(task, n, turns) for n in range(task["conversations"])))
    return {"seconds": time.perf_counter() - started, "turns": turns}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(json.loads(sys.argv[1])))))
