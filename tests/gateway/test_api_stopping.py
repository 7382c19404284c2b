"""The API server while the gateway stops: what runs is answered, what waits is kept."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agent.model import ModelRequest
from agent.scripted import Step, say

from ..ports import free_port
from .chats import asked
from .serving import KEY, serving


async def test_what_runs_is_answered_and_what_waits_is_kept(tmp_path: Path) -> None:
    release, begun = asyncio.Event(), asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        begun.set()
        return say(release, "done")

    async with serving(tmp_path, itertools.repeat(answer)) as served:
        running = asyncio.ensure_future(served.chat("first", "s"))
        await begun.wait()
        waiting = asyncio.ensure_future(served.chat("second", "s"))
        while not served.db.list_waiting():
            await asyncio.sleep(0.01)
        stopping = asyncio.ensure_future(served.runner.stop())
        while served.runner._running:
            await asyncio.sleep(0.01)
        with pytest.raises(httpx.HTTPError):  # nobody new is let in
            async with served.client(KEY) as late:
                while (await late.get("/health")).json()["status"] == "stopping":
                    await asyncio.sleep(0.01)
        release.set()
        assert (await running).json()["choices"][0]["message"]["content"] == "done"
        refused = await waiting
        assert refused.status_code == 503 and "after the restart" in refused.text
        await stopping
    async with serving(tmp_path) as served:
        while len(served.told("s")) < 4:
            await asyncio.sleep(0.01)
        assert served.told("s")[2:] == [("user", "second"), ("assistant", "re: second")]
        assert [asked(request) for request in served.model.requests] == ["second"]


async def test_a_turn_that_takes_too_long_is_stopped_and_told(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        begun.set()
        return say("Half", asyncio.Event())

    async with serving(tmp_path, itertools.repeat(answer), drain_timeout=0.1) as served:
        running = asyncio.ensure_future(served.chat("first", "s"))
        await begun.wait()
        await served.runner.stop()
        answer_of_it = await running
        assert answer_of_it.status_code in (499, 503)
    async with serving(tmp_path) as served:
        assert (await served.chat("next", "s")).status_code == 200
        roles = [role for role, _ in served.told("s")]
        assert roles == ["user", "assistant", "user", "assistant"]


async def test_a_killed_gateway_answers_what_it_had_accepted(tmp_path: Path) -> None:
    """A run that was accepted (202) is answered after SIGKILL, exactly once."""
    asked_for: list[bytes] = []
    hold = asyncio.Event()

    async def model(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                size = int(head.split(b"content-length:")[1].split()[0])
                asked_for.append(await reader.readexactly(size))
                await hold.wait()
                body = (
                    b'data: {"id":"c","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
                    b'data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
                    b"\n\ndata: [DONE]\n\n"
                )
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                    + f"Content-Length: {len(body)}\r\n\r\n".encode()
                    + body
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # killed
        finally:
            writer.close()

    provider = await asyncio.start_server(model, "127.0.0.1", 0)
    address = provider.sockets[0].getsockname()[1]
    (tmp_path / "config.yaml").write_text(
        f"model: {{default: m, provider: custom, base_url: 'http://127.0.0.1:{address}/v1',"
        " api_key: k, context_length: 128000}\n"
        "auxiliary: {title_generation: {enabled: false}}\nmemory: {review_every: 0}\n"
    )
    port = free_port()
    environment = {
        **os.environ, "HERMES_HOME": str(tmp_path), "API_SERVER_ENABLED": "1",
        "API_SERVER_KEY": KEY, "API_SERVER_PORT": str(port),
    }  # fmt: skip
    command = [sys.executable, "-m", "hermes_cli.main", "gateway", "run"]

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip

    async def up(client: httpx.AsyncClient) -> None:
        async with asyncio.timeout(60):
            while True:
                try:
                    assert (await client.get("/health")).status_code == 200
                    return
                except httpx.HTTPError:
                    await asyncio.sleep(0.05)

    process = start()
    headers = {"Authorization": f"Bearer {KEY}"}
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=60
        ) as client:
            await up(client)
            runs = []
            for text in ("one", "two", "three"):
                answer = await client.post("/v1/runs", json={"input": text, "session_id": "s"})
                assert answer.status_code == 202
                runs.append(answer.json()["run_id"])
            while not asked_for:
                await asyncio.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.wait()
            hold.set()
            process = start()
            await up(client)
            async with asyncio.timeout(60):
                for run in runs[1:]:
                    while (await client.get(f"/v1/runs/{run}")).json()["status"] != "completed":
                        await asyncio.sleep(0.05)
            rows = (await client.get("/api/sessions/s/messages")).json()["data"]
            said = [one["content"] for one in rows if one["role"] == "user"]
            assert said == ["one", "two", "three"]
            roles = [one["role"] for one in rows]
            assert roles == ["user", "assistant"] * 3
            assert len(asked_for) == 3
    finally:
        process.kill()
        process.wait()
        provider.close()
