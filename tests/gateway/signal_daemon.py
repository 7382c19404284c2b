"""A signal-cli daemon of our own: JSON-RPC over a socket on loopback, as strict as the real one
where it matters, and stricter with arguments it does not know.

It hands each message out once, to whoever is subscribed, and to nobody again. It checks recipients,
styles, files and what is edited, shapes errors and results as signal-cli does, and fails when it is
told to. What it does not imitate is said in docs/signal.md.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .signal_world import ACCOUNT, ACI, ANN, GARDEN, MOST_VERSIONS, Sent, World, person, utf16

__all__ = ["ACCOUNT", "ACI", "ANN", "GARDEN", "Fault", "Sent", "SignalDaemon", "person"]

_TO = {"recipient", "groupId", "noteToSelf"}
_PARAMS = {
    "version": set(),
    "listAccounts": set(),
    "subscribeReceive": set(),
    "unsubscribeReceive": {"subscription"},
    "send": _TO | {
        "message", "attachments", "textStyle", "quoteTimestamp", "quoteAuthor", "editTimestamp",
    },
    "sendTyping": {"recipient", "groupId", "stop"},
    "sendReaction": _TO | {"emoji", "targetAuthor", "targetTimestamp", "remove"},
    "sendReceipt": {"recipient", "targetTimestamp", "type"},
    "remoteDelete": _TO | {"targetTimestamp"},
    "getAttachment": {"id", "recipient", "groupId"},
}  # fmt: skip
_PERSON = re.compile(r"\+[0-9]{6,15}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_STYLE = re.compile(r"(\d+):(\d+):(BOLD|ITALIC|SPOILER|STRIKETHROUGH|MONOSPACE)")
_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+);filename=([^;,]+);base64,(.*)", re.S)
MAX_FILE = 100 * 1024 * 1024


class Refusal(Exception):
    """An error of the daemon's."""

    def __init__(self, code: int, message: str, results: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.results = code, message, results


@dataclass
class Fault:
    """What is to go wrong with a method (any if empty), and how often."""

    kind: str
    """rate_limit, network, unregistered, untrusted, io, drop (nothing was done), drop_after."""
    method: str = "send"
    times: int = 1
    retry_after: float = 1


@dataclass(eq=False)
class _Client:
    writer: asyncio.StreamWriter
    subscriptions: dict[int, bool] = field(default_factory=dict)
    """By their ids; whether they are internal, and say everything without an id."""


class SignalDaemon(World):
    """The daemon. Use as `async with SignalDaemon() as daemon`; may be closed and opened again."""

    def __init__(self, folder: Path | None = None) -> None:
        """`folder` is where it keeps the files it received; without one it is to be asked."""
        super().__init__()
        self.folder = folder
        self.receives_on_start = False
        """--receive-mode=on-start instead of manual: what nobody is there for is gone."""
        self.is_multi = False
        """Started without -a: it has accounts, and wants to be told which."""
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: list[Fault] = []
        self.limit = 0
        """Messages within `limit_seconds`; 0 for any number."""
        self.limit_seconds = 1.0
        self.refused = 0
        self.lost = 0
        self.handed: list[tuple[float, dict[str, Any]]] = []
        """What was handed out, and when."""
        self._moments: list[float] = []
        self._clients: list[_Client] = []
        self._server: asyncio.Server | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._handing = asyncio.Lock()

    # Life

    async def __aenter__(self) -> SignalDaemon:
        await self.open()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Listen; after `close`, where it listened before."""
        limit = 2 * MAX_FILE
        self._server = await asyncio.start_server(
            self._connected, "127.0.0.1", self._port, limit=limit
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut every connection, and take no more."""
        assert self._server is not None
        self._server.close()
        await self.cut()
        await self._server.wait_closed()
        for task in list(self._tasks):
            task.cancel()

    async def cut(self) -> None:
        """Cut the connections."""
        clients, self._clients = self._clients, []
        for client in clients:
            client.writer.close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"127.0.0.1:{self._port}"

    @property
    def connected(self) -> int:
        """How many are subscribed."""
        return sum(bool(client.subscriptions) for client in self._clients)

    def keep_file(self, file_id: str, data: bytes) -> None:
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / file_id).write_bytes(data)

    def called(self, method: str) -> list[dict[str, Any]]:
        """What a method was called with."""
        return [params for name, params in self.calls if name == method]

    # Handing out

    async def deliver(self, params: dict[str, Any]) -> None:
        self.waiting.append(params)
        await self._hand_out()

    async def _hand_out(self) -> None:
        async with self._handing:
            while self.waiting:
                if not self.connected:
                    if self.receives_on_start:
                        self.lost += len(self.waiting)
                        self.waiting.clear()
                    break
                said = self.waiting.popleft()
                self.handed.append((time.monotonic(), said))
                for client in list(self._clients):
                    for number, is_internal in client.subscriptions.items():
                        shown = said if is_internal else {"subscription": number, "result": said}
                        with contextlib.suppress(OSError):
                            await self._write(client, {"method": "receive", "params": shown})
        await self.notify()

    async def _write(self, client: _Client, message: Mapping[str, Any]) -> None:
        client.writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await client.writer.drain()

    # Requests

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(writer)
        self._clients.append(client)
        if self.receives_on_start:
            client.subscriptions[next(self._numbers)] = True
        await self.notify()
        try:
            while line := await reader.readline():
                # Requests are answered as they are done, not as they came.
                task = asyncio.ensure_future(self._deal_with(client, line))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except (OSError, ValueError):
            pass  # it was killed
        finally:
            if client in self._clients:
                self._clients.remove(client)
            writer.close()
            await self.notify()

    async def _deal_with(self, client: _Client, line: bytes) -> None:
        try:
            request = json.loads(line)
        except ValueError:
            error = {"code": -32700, "message": "unable to parse message", "data": None}
            await self._write(client, {"error": error, "id": None})
            return
        method, fault = str(request.get("method")), self._fault(str(request.get("method")))
        kind = fault.kind if fault else ""
        if kind == "drop":
            client.writer.close()
            return
        try:
            answer: dict[str, Any] = {"result": self._answer(client, method, request, fault)}
        except Refusal as refused:
            data = {"response": refused.results} if refused.results is not None else None
            error = {"code": refused.code, "message": refused.message, "data": data}
            answer = {"error": error}
        await self.notify()
        if kind == "drop_after":
            client.writer.close()
            return
        with contextlib.suppress(OSError):
            await self._write(client, {**answer, "id": request.get("id")})
        if method == "subscribeReceive":
            await self._hand_out()

    def _fault(self, method: str) -> Fault | None:
        for one in self.faults:
            if one.times > 0 and one.method in ("", method):
                one.times -= 1
                self.refused += 1
                return one
        return None

    def _answer(
        self, client: _Client, method: str, request: Mapping[str, Any], fault: Fault | None
    ) -> Any:
        if request.get("jsonrpc") != "2.0" or not request.get("id"):
            raise Refusal(-32600, "invalid request")
        if method not in _PARAMS or (method == "listAccounts" and not self.is_multi):
            raise Refusal(-32601, "Method not implemented")
        params = dict(request.get("params") or {})
        whose = (ACCOUNT, ACI) if self.is_multi else (None,)
        if method not in ("version", "listAccounts") and params.pop("account", None) not in whose:
            raise Refusal(-32602, "Method requires valid account parameter")
        if params.keys() - _PARAMS[method]:
            raise Refusal(-32600, f"unknown {params.keys() - _PARAMS[method]}")
        self.calls.append((method, params))
        if method == "subscribeReceive":
            number = next(self._numbers)
            client.subscriptions[number] = False
            return number
        if method == "unsubscribeReceive":
            if client.subscriptions.pop(params["subscription"], None) is None:
                raise Refusal(-1, "Unknown subscription id")
            return {}
        if fault is not None and fault.kind != "drop_after":
            self._fail(fault, params)
        name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method).lower()
        return getattr(self, f"_do_{name}")(params)

    def _fail(self, fault: Fault, params: Mapping[str, Any]) -> None:
        if fault.kind == "io":
            raise Refusal(-32603, "Failed to send message: timeout (SocketTimeoutException)")
        kinds = {
            "rate_limit": (-5, "RATE_LIMIT_FAILURE"), "untrusted": (-4, "IDENTITY_FAILURE"),
            "unregistered": (-1, "UNREGISTERED_FAILURE"), "network": (-3, "NETWORK_FAILURE"),
        }  # fmt: skip
        code, kind = kinds[fault.kind]
        more = {}
        if kind == "RATE_LIMIT_FAILURE":
            more = {"token": "challenge-1", "retryAfterSeconds": fault.retry_after}
        results = [{"recipientAddress": _address(ANN), "type": kind, **more}]
        response = {"timestamp": self.now(), "results": results}
        raise Refusal(code, "Failed to send message", response)

    def _do_version(self, params: Mapping[str, Any]) -> Any:
        return {"version": "0.14.0"}

    def _do_list_accounts(self, params: Mapping[str, Any]) -> Any:
        return [{"number": ACCOUNT, "aci": ACI}]

    def _do_get_attachment(self, params: Mapping[str, Any]) -> Any:
        if params["id"] not in self.files:
            raise Refusal(-1, "Could not find attachment with ID: " + params["id"])
        return {"data": base64.b64encode(self.files[params["id"]]).decode()}

    def _chat(self, params: Mapping[str, Any]) -> tuple[str, list[str]]:
        """Where something goes, and who gets it."""
        if sum(name in params for name in _TO) != 1:
            raise Refusal(-1, "No recipients given")
        if "groupId" in params:
            group = params["groupId"]
            if group not in self.groups:
                raise Refusal(-1, f"Invalid group id: {group}")
            if group not in self.members:
                raise Refusal(-1, f"User is not a member in group: {group}")
            return f"group:{group}", sorted(self.groups[group])
        if "noteToSelf" in params:
            return ACCOUNT, [ACI]
        given = params["recipient"]
        people = given if isinstance(given, list) else [given]
        for one in people:
            if not _PERSON.fullmatch(one):
                raise Refusal(-1, f"Invalid phone number: {one}")
        return people[0], people

    def _do_send(self, params: Mapping[str, Any]) -> Any:
        chat, people = self._chat(params)
        text, files = str(params.get("message") or ""), params.get("attachments") or []
        if not text and not files:
            raise Refusal(-1, "Sending empty message is not allowed")
        for style in params.get("textStyle") or ():
            found = _STYLE.fullmatch(style)
            if found is None or int(found[1]) + int(found[2]) > utf16(text):
                raise Refusal(-1, f"Invalid textStyle syntax ({style})")
        read = [_read_file(one) for one in files]
        results = [{"recipientAddress": _address(one), "type": self._kind(one)} for one in people]
        timestamp = self.now()
        answer = {"timestamp": timestamp, "results": results}
        if all(one["type"] != "SUCCESS" for one in results):
            code = -4 if all(one["type"] == "IDENTITY_FAILURE" for one in results) else -1
            raise Refusal(code, "Failed to send message", answer)
        self._count(answer)
        if "editTimestamp" in params:
            self._edit(params["editTimestamp"], timestamp, text)
            return answer
        sent = Sent(timestamp, chat, text, dict(params), list(params.get("textStyle") or ()))
        sent.file = read[0] if read else None
        self.sent.append(sent)
        return answer

    def _edit(self, target: int, timestamp: int, text: str) -> None:
        """People see an edit of the last version only, and ten of them."""
        sent = self.find(target)
        if sent is None or len(sent.versions) >= MOST_VERSIONS:
            self.ignored_edits += 1
            return
        sent.texts.append(sent.text)
        sent.versions.append(timestamp)
        sent.text = text

    def _kind(self, person: str) -> str:
        if person in self.unregistered:
            return "UNREGISTERED_FAILURE"
        return "IDENTITY_FAILURE" if person in self.untrusted else "SUCCESS"

    def _count(self, answer: dict[str, Any]) -> None:
        if not self.limit:
            return
        moment = time.monotonic()
        self._moments = [one for one in self._moments if moment - one < self.limit_seconds]
        if len(self._moments) >= self.limit:
            self.refused += 1
            wish = self._moments[0] + self.limit_seconds - moment
            for result in answer["results"]:
                result |= {"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": round(wish, 3)}
            raise Refusal(-5, "Failed to send message due to rate limiting", answer)
        self._moments.append(moment)

    def _do_send_typing(self, params: Mapping[str, Any]) -> Any:
        self.typings.append(self._chat(params)[0])
        return {"timestamp": self.now(), "results": []}

    def _do_send_reaction(self, params: Mapping[str, Any]) -> Any:
        chat, _ = self._chat(params)
        if not _PERSON.fullmatch(params["targetAuthor"]):
            raise Refusal(-1, "Invalid targetAuthor")
        self.reactions.append((chat, params["emoji"], params["targetTimestamp"]))
        return {"timestamp": self.now(), "results": []}

    def _do_send_receipt(self, params: Mapping[str, Any]) -> Any:
        if params["type"] not in ("read", "viewed"):
            raise Refusal(-1, "Unknown receipt type: " + params["type"])
        for sent_at in params["targetTimestamp"]:
            self.receipts.append((params["recipient"], sent_at))
        return {"timestamp": self.now(), "results": []}

    def _do_remote_delete(self, params: Mapping[str, Any]) -> Any:
        self._chat(params)
        self.deleted.append(params["targetTimestamp"])
        return {"timestamp": self.now(), "results": []}


def _address(person: str) -> dict[str, Any]:
    return {"uuid": person, "number": None, "username": None}


def _read_file(given: str) -> tuple[str, bytes]:
    if given.startswith("data:"):
        found = _DATA_URI.fullmatch(given)
        if found is None:
            raise Refusal(-32603, "Failed to add attachment: invalid data URI")
        name, data = found[2], base64.b64decode(found[3], validate=True)
    else:
        path = Path(given)
        if not path.is_file():
            raise Refusal(-32603, f"Failed to add attachment: {given} (No such file)")
        name, data = path.name, path.read_bytes()
    if not 0 < len(data) <= MAX_FILE:
        raise Refusal(-32603, "Failed to add attachment: wrong size")
    return name, data
