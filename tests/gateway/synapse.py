"""A real Matrix server, installed once into a venv of its own, and people who write on it."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import hmac
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from gateway.platforms.http_server import HttpServer

from ..ports import free_port

PACKAGE = "matrix-synapse==1.163.2"
NAME = "test.local"
SECRET = "only on the loopback"
_PLAIN: Any = {"verify": False, "trust_env": False}
"""No TLS here: reading the certificates would take longer than the requests."""
_FREE = "{per_second: 10000, burst_count: 10000}"
_CONFIG = """\
server_name: {name}
pid_file: {folder}/pid
listeners:
  - port: {port}
    tls: false
    type: http
    bind_addresses: [127.0.0.1]
    resources: [{{names: [client]}}]
database: {{name: sqlite3, args: {{database: {folder}/homeserver.db}}}}
media_store_path: {folder}/media
signing_key_path: {folder}/signing.key
registration_shared_secret: {secret}
macaroon_secret_key: {secret}
trusted_key_servers: []
report_stats: false
enable_authenticated_media: true
bcrypt_rounds: 4
presence: {{enabled: false}}
user_directory: {{enabled: false}}
stats: {{enabled: false}}
push: {{enabled: false}}
require_auth_for_profile_requests: false
log_config: {folder}/log.yaml
rc_message: {free}
rc_registration: {free}
rc_joins: {{local: {free}, remote: {free}}}
rc_invites: {{per_room: {free}, per_user: {free}, per_issuer: {free}}}
rc_login: {{address: {free}, account: {free}, failed_attempts: {free}}}
"""
_LOG = """\
version: 1
formatters: {plain: {format: '%(asctime)s %(levelname)s %(name)s %(message)s'}}
handlers: {file: {class: logging.FileHandler, filename: FOLDER/synapse.log, formatter: plain}}
root: {level: WARNING, handlers: [file]}
"""


class NotInstalledError(Exception):
    """The server cannot be had here, and why."""


def install(cache: Path) -> Path:
    """The Python of a venv that has the server; made once for all test runs."""
    folder = (
        cache / f"venv-{PACKAGE.replace('==', '-')}-{sys.version_info[0]}.{sys.version_info[1]}"
    )
    python, done = folder / "bin" / "python", folder / ".complete"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists():
            return python
        shutil.rmtree(folder, ignore_errors=True)
        uv = shutil.which("uv")
        if uv is not None:
            steps = [
                [uv, "venv", "-q", "--python", sys.executable, str(folder)],
                [uv, "pip", "install", "-q", "--python", str(python), PACKAGE],
            ]
        else:
            steps = [
                [sys.executable, "-m", "venv", str(folder)],
                [str(python), "-m", "pip", "install", "-q", PACKAGE],
            ]
        for step in steps:
            ran = subprocess.run(step, capture_output=True, text=True, check=False)
            if ran.returncode != 0:
                raise NotInstalledError(f"{PACKAGE} cannot be installed: {ran.stderr[-400:]}")
        done.touch()
    return python


class Synapse:
    """The server: started, stopped, and started again with what it had."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._python, self._folder = python, folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        seed = base64.b64encode(os.urandom(32)).decode().rstrip("=")
        (folder / "signing.key").write_text(f"ed25519 a_test {seed}\n")
        (folder / "log.yaml").write_text(_LOG.replace("FOLDER", str(folder)))
        (folder / "homeserver.yaml").write_text(
            _CONFIG.format(name=NAME, folder=folder, port=self.port, secret=SECRET, free=_FREE)
        )

    def start(self, seconds: float = 60.0) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [str(self._python), "-m", "synapse.app.homeserver", "-c", "homeserver.yaml"],
                cwd=self._folder,
                stdout=output,
                stderr=output,
            )
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                httpx.get(f"{self.url}/_matrix/client/versions", **_PLAIN).raise_for_status()
                return
            except httpx.HTTPError:
                time.sleep(0.05)
        raise RuntimeError((self._folder / "output").read_text()[-2000:])

    def stop(self) -> None:
        """Stop it; what it has stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def register(self, name: str) -> Person:
        """A new account."""
        url = f"{self.url}/_synapse/admin/v1/register"
        nonce = httpx.get(url, **_PLAIN).json()["nonce"]
        password = f"password of {name}"
        signed = "\0".join((nonce, name, password, "notadmin")).encode()
        told = httpx.post(
            url,
            **_PLAIN,
            json={
                "nonce": nonce,
                "username": name,
                "password": password,
                "admin": False,
                "mac": hmac.new(SECRET.encode(), signed, hashlib.sha1).hexdigest(),
            },
        ).raise_for_status()
        return Person(self.url, told.json()["user_id"], password, told.json()["access_token"])


def shown_in(events: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """What somebody's messages say after these events, with edits in their place."""
    found: dict[str, dict[str, Any]] = {}
    for event in events:
        content = event.get("content", {})
        if event["type"] != "m.room.message" or event["sender"] != by or not content:
            continue
        relation = content.get("m.relates_to", {})
        if relation.get("rel_type") == "m.replace":
            earlier = found[relation["event_id"]]
            earlier["versions"].append(earlier["content"])
            earlier["content"] = content["m.new_content"]
        else:
            found[event["event_id"]] = {
                "id": event["event_id"], "content": content, "versions": [],
                "relation": relation,
            }  # fmt: skip
    return list(found.values())


class Person:
    """Somebody with a client of their own, which knows nothing of the gateway's."""

    _numbers = itertools.count(1)

    def __init__(self, url: str, user_id: str, password: str, token: str) -> None:
        self.user_id, self.password, self.token = user_id, password, token
        self._http = httpx.AsyncClient(
            base_url=f"{url}/_matrix/client/v3/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=30,
            **_PLAIN,
        )

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def call(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One request."""
        answer = await self._http.request(method, path, json=body)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        return cast(dict[str, Any], answer.json())

    async def room(self, *invited: Person, direct: bool = False, **more: Any) -> str:
        """A room of one's own, with others invited."""
        body = {"invite": [one.user_id for one in invited], "is_direct": direct, **more}
        return str((await self.call("POST", "createRoom", body))["room_id"])

    async def join(self, room_id: str) -> None:
        """Follow an invitation."""
        await self.call("POST", f"join/{room_id}", {})

    async def put(self, room_id: str, content: dict[str, Any], kind: str = "m.room.message") -> str:
        """Send an event."""
        path = f"rooms/{room_id}/send/{kind}/{uuid.uuid4().hex}"
        return str((await self.call("PUT", path, content))["event_id"])

    async def say(self, room_id: str, text: str, **more: Any) -> str:
        """Write something."""
        return await self.put(room_id, {"msgtype": "m.text", "body": text, **more})

    async def members(self, room_id: str) -> set[str]:
        """Who has joined."""
        return set((await self.call("GET", f"rooms/{room_id}/joined_members"))["joined"])

    async def events(self, room_id: str) -> list[dict[str, Any]]:
        """Everything in a room, oldest first."""
        path = f"rooms/{room_id}/messages?dir=b&limit=1000"
        return list(reversed((await self.call("GET", path))["chunk"]))

    async def shown(self, room_id: str, *, by: str) -> list[dict[str, Any]]:
        """What somebody's messages in a room say now, with edits in their place."""
        return shown_in(await self.events(room_id), by)

    async def texts(self, room_id: str, *, by: str) -> list[str]:
        """Only what they say."""
        return [one["content"]["body"] for one in await self.shown(room_id, by=by)]

    async def wait_for(
        self, room_id: str, *, by: str, until: Callable[[list[str]], bool], seconds: float = 60
    ) -> list[str]:
        """Wait until what somebody's messages say is as wished."""
        texts: list[str] = []
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            texts = await self.texts(room_id, by=by)
            if until(texts):
                return texts
            await asyncio.sleep(0.1)
        raise AssertionError(f"{room_id} shows {json.dumps(texts, ensure_ascii=False)}")


class Between:
    """A proxy before the server that refuses, goes away, and lets the server repeat itself."""

    def __init__(self, url: str) -> None:
        self._server = self._new_server(0)
        self._http = httpx.AsyncClient(base_url=url, timeout=60, **_PLAIN)
        self.refusals: list[tuple[int, dict[str, Any]]] = []
        """For the next messages that are sent."""
        self._again: asyncio.Queue[str] = asyncio.Queue()
        self._repeated = asyncio.Event()

    def _new_server(self, port: int) -> HttpServer:
        routes = [Route("/{path:path}", self._pass, methods=["GET", "PUT", "POST"])]
        return HttpServer(Starlette(routes=routes), "127.0.0.1", port)

    async def __aenter__(self) -> Between:
        await self._server.start()
        self.url = f"http://127.0.0.1:{self._server.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.stop(0.1)
        await self._http.aclose()

    async def go_away(self) -> None:
        """End every connection, and refuse new ones."""
        await self._server.stop(0.0)

    async def come_back(self) -> None:
        """Listen again where it was."""
        self._server = self._new_server(self._server.port)
        await self._server.start()

    async def _pass(self, request: Request) -> Response:
        if request.method == "PUT" and "/send/" in request.url.path and self.refusals:
            status, told = self.refusals.pop(0)
            return Response(json.dumps(told), status, media_type="application/json")
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        headers = {
            name: value
            for name, value in request.headers.items()
            if name in ("authorization", "content-type")
        }
        body = await request.body()
        asking = asyncio.create_task(
            self._http.request(request.method, url, headers=headers, content=body)
        )
        if request.url.path.endswith("/sync"):
            earlier = asyncio.create_task(self._again.get())
            await asyncio.wait([asking, earlier], return_when=asyncio.FIRST_COMPLETED)
            if earlier.done():
                asking.cancel()
                url = url.copy_set_param("since", earlier.result())
                asking = asyncio.create_task(self._http.get(url, headers=headers))
                self._repeated.set()
            earlier.cancel()
        answer = await asking
        kind = answer.headers.get("content-type")
        return Response(answer.content, answer.status_code, media_type=kind)

    async def repeat(self, since: str) -> None:
        """Let the server say again what it has said since then."""
        self._repeated.clear()
        self._again.put_nowait(since)
        await self._repeated.wait()
