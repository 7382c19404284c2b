"""Runs of one gateway, watched, answered and stopped at another that shares only its store."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermes_state import SessionDB

from .. import forked, postgres
from ..ports import free_port
from ..state.raw import query
from ..tui.scripted_provider import ScriptedProvider, call, say, script

pytestmark = pytest.mark.long

SECONDS = 60.0
KEYS = ("key-of-alice-0123456789", "key-of-bob-01234567890")


class Gateways:
    """Two of them, their clients and their database."""

    def __init__(self, provider: ScriptedProvider, db: SessionDB, ports: list[int]) -> None:
        self.provider, self.db = provider, db
        self.first, self.second = (self._client(port, KEYS[0]) for port in ports)
        self.stranger = self._client(ports[1], KEYS[1])

    def _client(self, port: int, key: str) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {key}"},
            timeout=SECONDS, trust_env=False, verify=False,
        )  # fmt: skip

    async def begin(self, *steps: dict[str, Any], name: str = "p", **body: Any) -> str:
        """Begin a run at the first."""
        answer = await self.first.post("/v1/runs", json={"input": script(name, *steps), **body})
        assert answer.status_code == 202, answer.text
        return str(answer.json()["run_id"])

    async def status(self, run_id: str, wanted: str) -> dict[str, Any]:
        """Wait until the second says so of a run."""
        async with asyncio.timeout(SECONDS):
            while True:
                shown = (await self.second.get(f"/v1/runs/{run_id}")).json()
                if shown.get("status") == wanted:
                    return dict(shown)
                await asyncio.sleep(0.05)

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something."""
        async with asyncio.timeout(SECONDS):
            while not await asyncio.to_thread(holds):
                await asyncio.sleep(0.02)

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return int(query(self.db, f"SELECT COUNT(*) FROM {table}")[0][0])


class Events:
    """The events of a run, as a client reads them."""

    def __init__(self, response: httpx.Response) -> None:
        assert response.status_code == 200
        self._blocks = self._read(response)
        self.all: list[dict[str, Any]] = []

    async def _read(self, response: httpx.Response) -> AsyncIterator[dict[str, Any]]:
        lines: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line:
                name, _, text = line.partition(": ")
                lines[name] = text
            elif "data" in lines:
                event = {**json.loads(lines["data"]), "id": int(lines["id"])}
                lines = {}
                self.all.append(event)
                yield event

    async def until(self, name: str, **facts: Any) -> dict[str, Any]:
        """The next event of that name, and with those facts."""
        async with asyncio.timeout(SECONDS):
            async for event in self._blocks:
                if event["event"] == name and facts.items() <= event.items():
                    return event
        raise AssertionError(f"no {name} among {self.all}")

    @property
    def text(self) -> str:
        """What was streamed."""
        return "".join(one["delta"] for one in self.all if one["event"] == "message.delta")


@contextlib.asynccontextmanager
async def watching(client: httpx.AsyncClient, run_id: str, after: int = 0) -> AsyncIterator[Events]:
    headers = {"Last-Event-ID": str(after)} if after else {}
    async with client.stream("GET", f"/v1/runs/{run_id}/events", headers=headers) as response:
        yield Events(response)


@contextlib.asynccontextmanager
async def two_gateways(folder: Path, hearing: str = "hearing") -> AsyncIterator[Gateways]:
    address = postgres.database_for(folder / "state.db")
    ports, processes = [free_port(), free_port()], []
    async with ScriptedProvider() as provider:
        model = {"default": "scripted", "provider": "custom", "base_url": provider.url}
        config = {
            "model": {**model, "api_key": "k", "context_length": 128_000},
            "auxiliary": {"title_generation": {"enabled": False}},
            "memory": {"enabled": False},
            "approvals": {"mode": "manual"},
        }
        for port in ports:
            home = folder / f"home-{port}"
            home.mkdir()
            platform = {"port": port, "keys": {"alice": KEYS[0], "bob": KEYS[1]}}
            whole = {**config, "platforms": {"api_server": {"enabled": True, **platform}}}
            (home / "config.yaml").write_text(json.dumps(whole))
            environment = {**os.environ, "HERMES_HOME": str(home), "HERMES_STORE": address}
            processes.append(
                await forked.start(
                    "tests.gateway.store_child", str(home), hearing, environ=environment, cwd=home
                )
            )
        try:
            with SessionDB(folder / "look" / "state.db", server=address) as db:
                there = Gateways(provider, db, ports)
                for client in (there.first, there.second):
                    await is_up(client)
                yield there
                for client in (there.first, there.second, there.stranger):
                    await client.aclose()
        finally:
            for process in processes:
                process.kill()
                await process.wait()
            postgres.forget_database(folder / "state.db")


async def is_up(client: httpx.AsyncClient) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(httpx.TransportError):
                if (await client.get("/health")).status_code == 200:
                    return
            await asyncio.sleep(0.05)


@pytest.fixture(params=["hearing", "deaf"])
async def gateways(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Gateways]:
    async with two_gateways(tmp_path, request.param) as there:
        yield there


async def test_a_run_is_watched_at_another_gateway_as_it_streams(gateways: Gateways) -> None:
    run_id = await gateways.begin(
        call("todo"), say("First half, second half.", pieces=2, gate="gate")
    )
    await gateways.provider.reached("gate")
    await gateways.status(run_id, "running")
    assert gateways.rows("watched_events") == gateways.rows("watches") == 0  # nobody watches
    stranger = await gateways.stranger.get(f"/v1/runs/{run_id}/events")
    assert stranger.json()["error"]["code"] == "run_not_found"
    async with (
        watching(gateways.first, run_id) as own,
        watching(gateways.second, run_id) as seen,
        watching(gateways.second, run_id) as leaves,
    ):
        first = await seen.until("message.delta")
        assert first["delta"] == "First half, "
        await leaves.until("message.delta")
        gateways.provider.open_gate("gate")
        assert (await own.until("run.completed"))["output"] == "First half, second half."
        end = await seen.until("run.completed")
    assert seen.text == own.text == "First half, second half."
    for event in (*own.all, *seen.all):
        del event["timestamp"]
    assert seen.all == own.all  # with their numbers
    assert end["usage"]["output_tokens"] == 10
    # Whoever has seen some of it at one gateway goes on at the other.
    for after in (own.all[2]["id"], own.all[-1]["id"] + 5):
        async with watching(gateways.second, run_id, after) as rest:
            last = await rest.until("run.completed")
            assert last["id"] > after and last["output"] == end["output"]
    await gateways.until(lambda: not gateways.rows("watches"))


async def test_watching_goes_on_at_another_gateway_behind_the_last_event_seen(
    gateways: Gateways,
) -> None:
    run_id = await gateways.begin(
        call("todo"), say("One, two. Three, four.", pieces=4, gate="gate")
    )
    await gateways.provider.reached("gate")
    async with watching(gateways.first, run_id) as own:
        seen = await own.until("message.delta")
    async with watching(gateways.second, run_id, seen["id"]) as rest:
        await rest.until("message.delta")
        gateways.provider.open_gate("gate")
        await rest.until("run.completed")
    assert own.text + rest.text == "One, two. Three, four."
    assert [event["id"] for event in rest.all] == sorted({event["id"] for event in rest.all})
    assert rest.all[0]["id"] == seen["id"] + 1


async def test_an_approval_is_answered_at_another_gateway_once(
    gateways: Gateways, tmp_path: Path
) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    run_id = await gateways.begin(call("terminal", command=f"rm -rf {doomed}"))
    await gateways.status(run_id, "waiting_for_approval")
    async with watching(gateways.second, run_id) as seen:
        asked = await seen.until("approval.request")
        assert asked["command"] == f"rm -rf {doomed}"
        path, answer = f"/v1/runs/{run_id}/approval", {"choice": "once"}
        refused = await gateways.stranger.post(path, json=answer)
        assert refused.status_code == 404
        wrong = await gateways.second.post(path, json={**answer, "approval_id": "apr_other"})
        assert wrong.json()["error"]["code"] == "approval_not_pending"
        named = {**answer, "approval_id": asked["approval_id"]}
        assert (await gateways.second.post(path, json=named)).json()["resolved"] == 1
        again = await gateways.second.post(path, json={"choice": "deny"})
        assert again.json()["error"]["code"] == "approval_not_pending"
        answered = await seen.until("approval.responded")
        assert (answered["approval_id"], answered["choice"]) == (asked["approval_id"], "once")
        await seen.until("run.completed")
    assert not doomed.exists()


async def test_a_stop_that_comes_late_does_not_stop_the_next_turn(gateways: Gateways) -> None:
    long = say("Half of it.", pieces=2, gate="first")
    stopped = await gateways.begin(long, name="a", session_id="s")
    await gateways.provider.reached("first")
    waiting = await gateways.begin(
        say("All of it.", pieces=2, gate="second"), name="b", session_id="s"
    )
    assert (await gateways.second.post(f"/v1/runs/{waiting}/stop")).status_code == 409
    async with watching(gateways.second, waiting) as seen:  # it has not begun yet
        answer = await gateways.second.post(f"/v1/runs/{stopped}/stop")
        assert answer.json()["status"] == "stopping"
        await gateways.status(stopped, "cancelled")
        await gateways.provider.reached("second")
        answer = await gateways.second.post(f"/v1/runs/{stopped}/stop")
        assert answer.json()["status"] == "cancelled"
        gateways.provider.open_gate("second")
        assert (await seen.until("run.completed"))["output"] == "All of it."
    assert (await gateways.status(waiting, "completed"))["output"] == "All of it."


async def test_a_run_that_is_asked_for_again_elsewhere_is_the_same(tmp_path: Path) -> None:
    async with two_gateways(tmp_path) as there:
        body = {"input": script("p", say("Once.", pieces=2, gate="gate"))}
        headers = {"Idempotency-Key": "order-17"}
        begun = [await there.first.post("/v1/runs", json=body, headers=headers) for _ in range(2)]
        run_id = begun[0].json()["run_id"]
        assert begun[1].json()["run_id"] == run_id
        await there.provider.reached("gate")
        await there.status(run_id, "running")
        async with watching(there.second, run_id) as seen:
            await seen.until("run.started")
            there.provider.open_gate("gate")
            assert (await seen.until("run.completed"))["output"] == "Once."
        again = await there.second.post("/v1/runs", json=body, headers=headers)
        assert again.json()["run_id"] == run_id
        assert (await there.status(run_id, "completed"))["output"] == "Once."
        assert len(there.provider.requests) == 1
