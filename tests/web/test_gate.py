"""The gate: every route and the socket, without a key, with a wrong one, from elsewhere."""

from __future__ import annotations

import asyncio
import http.client
import json

import pytest
from pages import Site
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from web.app import PAGES
from web.assets import Assets

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENTS = ("/", "/enter", *(f"/{name}" for name in PAGES), "/c/some/turn/1")
STATIC = tuple(f"/static/{Assets().digest}/{name}" for name in Assets().names() if name != "sw.js")
FILES = ("/sw.js", "/manifest.webmanifest")
ELSEWHERE = {
    "another name": {"Host": "evil.example"},
    "a name without the port": {"Host": "127.0.0.1"},
    "another port": {"Host": "127.0.0.1:1"},
    "another origin": {"Origin": "https://evil.example"},
    "our host on another port": {"Origin": "http://127.0.0.1:1"},
    "an opaque origin": {"Origin": "null"},
    "a page of another site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    "a page of the same site": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
}


def request(served: Site, method: str, path: str, headers: dict[str, str], body: str = "") -> tuple:
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, text in headers.items():
        connection.putheader(name, text)
    if body:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body.encode() if body else None)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, {name.lower(): text for name, text in answer.getheaders()}, content


@pytest.mark.parametrize("what", ELSEWHERE)
async def test_from_elsewhere_every_route_is_refused(served: Site, what: str) -> None:
    key = served.key()
    shown = {"Authorization": f"Bearer {key}", **ELSEWHERE[what]}
    for path in (*DOCUMENTS, *FILES, "/static/some/app.js", "/web/device", "/web/socket"):
        status, _, _ = await asyncio.to_thread(request, served, "GET", path, shown)
        assert status == 403, path
    body = json.dumps({"code": "x", "name": "y"})
    given = {"Content-Type": "application/json", "Origin": served.url, **ELSEWHERE[what]}
    status, _, _ = await asyncio.to_thread(request, served, "POST", "/web/keys", given, body)
    assert status == 403
    assert await socket_status(served, key, ELSEWHERE[what]) in (400, 403)


async def socket_status(served: Site, key: str, headers: dict[str, str]) -> int:
    """101 if a socket is accepted; else the status that refuses it."""
    protocols = ["hermes.v1", *([f"hermes.v1.key.{key}"] if key else [])]
    given = {"Origin": served.url, **headers}
    origin = given.pop("Origin")
    try:
        async with connect(
            f"ws://127.0.0.1:{served.port}/web/socket",
            subprotocols=protocols,
            origin=origin,
            additional_headers=given,
            proxy=None,
        ) as socket:
            assert socket.subprotocol == "hermes.v1"
            return 101
    except InvalidStatus as error:
        return error.response.status_code


async def test_the_socket_needs_a_key(served: Site) -> None:
    assert await socket_status(served, served.key(), {}) == 101
    assert await socket_status(served, "", {}) == 403
    assert await socket_status(served, "wrong", {}) == 403


async def test_without_a_key_there_are_only_the_files(served: Site) -> None:
    for path in (*DOCUMENTS, *FILES):
        status, headers, content = await asyncio.to_thread(request, served, "GET", path, {})
        assert status == 200
        policy = headers["content-security-policy"]
        assert "unsafe" not in policy and "default-src 'none'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert policy.endswith("trusted-types hermes-worker" if path == "/enter" else "'none'")
        assert b"<script>" not in content
        assert "set-cookie" not in headers
    for key in ("", "Bearer wrong"):
        given = {"Authorization": key} if key else {}
        status, _, _ = await asyncio.to_thread(request, served, "GET", "/web/device", given)
        assert status == 401
    for method, path in (("GET", "/api/ws"), ("GET", "/etc/passwd"), ("GET", "/static/x/app.js")):
        status, _, _ = await asyncio.to_thread(request, served, method, path, {})
        assert status == 404, path
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        status, _, _ = await asyncio.to_thread(request, served, method, "/", {})
        assert status in (403, 405)


async def test_a_link_to_the_page_works(served: Site) -> None:
    """A document holds no secret, and links to it from elsewhere must open it."""
    given = {
        "Sec-Fetch-Site": "cross-site",
        "Sec-Fetch-Mode": "navigate",
        "Sec-Fetch-Dest": "document",
    }
    status, _, _ = await asyncio.to_thread(request, served, "GET", "/find", given)
    assert status == 200


async def test_a_revoked_device_is_disconnected_at_once(served: Site) -> None:
    key = served.new_key()
    with served.store() as db:
        device = db.find_device(key)
    async with connect(
        f"ws://127.0.0.1:{served.port}/web/socket",
        subprotocols=["hermes.v1", f"hermes.v1.key.{key}"],
        origin=served.url,
        proxy=None,
    ) as socket:
        await socket.recv()
        await socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "sessions.watch"}))
        async with asyncio.timeout(30):
            await socket.recv()
        with served.store() as db:
            assert db.revoke_device(device.id, device.person.id)
            db.set_meta("test", "a write that wakes the server")
        async with asyncio.timeout(30):
            await socket.wait_closed()
        assert socket.close_code == 4401
    assert await socket_status(served, key, {}) == 403
