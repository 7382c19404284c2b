"""Clients over WebSocket: who is let in, and what becomes of sessions whose clients are gone."""

from __future__ import annotations

import asyncio
import http.client
import signal
import stat
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_provider import ScriptedProvider, say, script
from serving import Cuttable, WsServer, configure, event, store, turn_ends, ws_server

from tui_gateway.client import Client, RpcFailedError, WebSocket
from tui_gateway.transport import MAX_LINE
from tui_gateway.ws import CannotServeError, Listener


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def knock(server: WsServer, path: str = "/api/ws", **headers: str) -> int:
    """The status a handshake gets."""
    host = server.url.removeprefix("ws://").partition("/")[0]
    connection = http.client.HTTPConnection(host, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={**UPGRADE, **named})
        return connection.getresponse().status
    finally:
        connection.close()


async def test_only_who_knows_the_token_is_let_in(home: Path) -> None:
    async with ws_server(home) as server:
        assert stat.S_IMODE(server.token_file.stat().st_mode) == 0o600
        token = server.token
        right = {"Authorization": f"Bearer {token}"}
        port = server.url.removeprefix("ws://").partition("/")[0].partition(":")[2]

        def status(path: str = "/api/ws", **headers: str) -> int:
            return knock(server, path, **headers)

        assert status(**right) == 101
        assert status(f"/api/ws?token={token}") == 101
        assert status() == 401
        assert status(Authorization=f"Bearer {token}x") == 401
        assert status(Authorization="Bearer ") == 401
        assert status("/api/ws?token=") == 401
        assert status(f"/api/ws?token={token[:-1]}") == 401
        assert status("/api/ws?token=%E4%BD%A0") == 401
        assert status("/", **right) == 404
        assert status(Origin="http://evil.example", **right) == 403
        assert status(Origin=f"http://127.0.0.1:{int(port) - 1}", **right) == 403
        assert status(Origin=f"http://127.0.0.1:{port}", **right) == 101
        assert status(Host=f"evil.example:{port}", **right) == 403
        with pytest.raises(PermissionError, match="401"):
            await Client(WebSocket(server.url, "wrong")).connect()
    assert not server.token_file.exists()


async def test_frames_that_are_none_get_an_error_and_too_large_ones_the_door(home: Path) -> None:
    from websockets.asyncio.client import connect
    from websockets.exceptions import ConnectionClosed

    async with ws_server(home) as server:
        headers = {"Authorization": f"Bearer {server.token}"}
        raw = await connect(server.url, additional_headers=headers)
        assert "gateway.ready" in str(await raw.recv())
        for bad, code in (("{", -32700), (b"\xff\xfe", -32700), ("[]", -32600)):
            await raw.send(bad)
            assert f'"code":{code}' in str(await raw.recv())
        await raw.send('{"jsonrpc":"2.0","id":7,"method":"session.active_list"}')
        assert '"id":7' in str(await raw.recv())
        with pytest.raises(ConnectionClosed):
            await raw.send("x" * (MAX_LINE + 1))
            await raw.recv()
        async with server.client() as client:
            assert await client.sessions() == []


async def test_a_lost_client_ends_no_turn_and_others_watch_on(
    home: Path, provider: ScriptedProvider
) -> None:
    async with ws_server(home, HERMES_TUI_WS_ORPHAN_REAP_GRACE_S="0.1") as server:
        async with server.client() as first:
            opened = await first.create(close_on_disconnect=True)
            prompt = script("a", say("one two", pieces=2, gate="half"))
            await first.submit(opened["session_id"], prompt)
            await provider.reached("half")
        provider.open_gate("half")
        with store(home) as db:
            async with asyncio.timeout(60):  # the turn goes on, then the session ends
                while (row := db.get_session(opened["session_key"]))["ended_at"] is None:
                    await asyncio.sleep(0.02)
            assert row["end_reason"] == "client_gone"
            assert db.get_messages(opened["session_key"])[-1]["content"] == "one two"


async def test_a_session_goes_on_without_clients_unless_asked_otherwise(home: Path) -> None:
    grace = {"HERMES_TUI_WS_ORPHAN_REAP_GRACE_S": "0.05"}
    async with ws_server(home, **grace) as server, server.client() as other:
        async with server.client() as first:
            kept = await first.create()
            dropped = await first.create(close_on_disconnect=True)
            watched = await first.create(close_on_disconnect=True)
            await other.activate(watched["session_id"])
        async with asyncio.timeout(60):
            while len(await _live(other)) > 2:
                await asyncio.sleep(0.02)
        assert await _live(other) == {kept["session_id"], watched["session_id"]}
        with pytest.raises(RpcFailedError):
            await other.activate(dropped["session_id"])
        await other.activate(kept["session_id"])


async def _live(client: Client) -> set[str]:
    listed = await client.request("session.active_list")
    return {one["session_id"] for one in listed["sessions"]}


async def test_what_nobody_watches_ends_after_its_time(home: Path) -> None:
    async with ws_server(home, HERMES_TUI_SESSION_TTL_S="0.2") as server:
        async with server.client() as first:
            await first.create()
        async with server.client() as other, asyncio.timeout(60):
            while await _live(other):
                await asyncio.sleep(0.02)


async def test_a_message_is_taken_once_though_its_answer_was_lost(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    # Each is a turn of its own: quick ones would be answered together.
    home = configure(tmp_path / "home", provider, display={"busy_input_mode": "queue"})
    async with ws_server(home) as server:
        wire = Cuttable(server)
        async with Client(wire) as client:
            opened = await client.create()
            sid = opened["session_id"]
            for number in range(10):
                sent = asyncio.create_task(client.submit(sid, f"prompt {number}"))
                await asyncio.sleep(0)
                wire.cut()
                await sent
            again = await client.submit(sid, "prompt 9", message_id="mine")
            assert again != "known"
            assert await client.submit(sid, "x", message_id="mine") == "known"
            for _ in range(11):
                await turn_ends(client, sid)
    with store(home) as db:
        asked = [
            one["content"]
            for one in db.get_messages(opened["session_key"])
            if one["role"] == "user"
        ]
        assert asked == [*(f"prompt {number}" for number in range(10)), "prompt 9"]


async def test_a_client_finds_its_session_again_after_the_server_was_killed(
    home: Path, provider: ScriptedProvider
) -> None:
    class Anew(Cuttable):
        """Goes to whichever server runs now."""

        def goes_to(self, server: WsServer) -> None:
            self._url, self._token = server.url, server.token

    async with ws_server(home) as server:
        wire = Anew(server)
        client = Client(wire)
        await client.connect()
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, "Hello")
        await turn_ends(client, sid)
        wire.may_connect.clear()
        server.process.send_signal(signal.SIGKILL)
        await event(client, "connection.lost")
        sent = asyncio.create_task(client.submit(sid, "Again"))
    async with ws_server(home) as server:
        wire.goes_to(server)
        wire.may_connect.set()
        snapshot = await event(client, "session.snapshot")
        assert snapshot.payload["previous_session_id"] == sid
        assert snapshot.payload["messages"][0]["content"] == "Hello"
        await sent
        complete = await turn_ends(client, snapshot.session_id)
        assert complete.payload["text"] == "You said: Again"
        await client.aclose()


async def test_a_taken_port_is_explained(home: Path) -> None:
    async with ws_server(home) as server:
        port = server.url.removeprefix("ws://").partition("/")[0].partition(":")[2]
        second = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "tui_gateway.entry", "--ws", port),
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await second.communicate()
        assert second.returncode == 1
        assert b"Choose another port" in said
        with pytest.raises(CannotServeError):
            Listener("token", int(port))


async def test_wrong_arguments_are_explained() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *("-m", "tui_gateway.entry", "--wz", "1"), stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert process.returncode == 2
    assert b"--ws PORT" in said
