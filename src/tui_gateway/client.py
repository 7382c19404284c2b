"""A client of the session server, for coroutines: the interface and the tests speak through it.

    async with Client(ChildProcess()) as client:
        session = await client.create()
        await client.submit(session["session_id"], "Hello")
        async for event in client.events():
            …

A connection that is lost is made again. Events go on where they were (see `client_events`), and a
message that was being sent is sent again under its own id, so that it is taken exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import uuid
from collections.abc import AsyncIterator
from typing import Any, Literal, cast

from .client_events import ConnectionLostError, Event, RpcFailedError, Watching
from .client_wires import ChildProcess, Dialer, WebSocket, Wire
from .rpc import SERVER_ENDING
from .shapes import Opened, WireSession

__all__ = [
    "ChildProcess",
    "Client",
    "ConnectionLostError",
    "Event",
    "RpcFailedError",
    "WebSocket",
]

log = logging.getLogger(__name__)

FIRST_PAUSE, LONGEST_PAUSE = 0.05, 5.0
"""Seconds between attempts to connect again."""

Choice = Literal["once", "session", "always", "deny"]


class Client:
    """One client, connected until `aclose`."""

    def __init__(self, dialer: Dialer, *, reconnect: bool = True) -> None:
        """Without `reconnect`, the loss of the connection is the end."""
        self._dialer = dialer
        self._reconnect = reconnect
        self._wire: Wire | None = None
        self._ready = asyncio.Event()
        self._is_over = False
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._watching = Watching(self._request, self._events.put_nowait)
        self._reader: asyncio.Task[None] | None = None

    # The connection

    async def __aenter__(self) -> Client:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def connect(self) -> None:
        """Connect; OSError if the server cannot be reached."""
        self._wire = await self._dialer.dial()
        self._reader = asyncio.create_task(self._run())
        self._ready.set()

    async def aclose(self) -> None:
        """End the connection; a child process ends its sessions before it goes."""
        self._is_over = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._watching.aclose()
        if self._wire is not None:
            await self._wire.close()
        self._end()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._ready.is_set() and not self._is_over

    def _end(self) -> None:
        self._is_over = True
        self._ready.set()  # wake those who wait for a connection: there will be none
        self._fail_all()
        self._events.put_nowait(None)

    async def _run(self) -> None:
        assert self._wire is not None
        while True:
            await self._read_all(self._wire)
            self._ready.clear()
            self._fail_all()
            self._events.put_nowait(Event("connection.lost"))
            with contextlib.suppress(OSError):
                await self._wire.close()
            wire = await self._dial_again() if self._reconnect else None
            if wire is None:
                self._end()
                return
            self._wire = wire
            self._ready.set()
            self._events.put_nowait(Event("connection.restored"))
            self._watching.reconnected()

    async def _dial_again(self) -> Wire | None:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                return await self._dialer.dial()
            except PermissionError as error:  # another server, whose token is not ours
                log.error("%s", error)
                return None
            except OSError as error:
                log.info("Not connected yet: %s", error)

    async def _read_all(self, wire: Wire) -> None:
        while True:
            try:
                line = await wire.receive()
            except OSError:
                return
            if line is None:
                return
            try:
                frame = json.loads(line)
            except ValueError:
                log.warning("The server sent something that is no JSON: %r", line[:200])
                continue
            if "method" in frame:
                self._watching.received(frame.get("params") or {})
            else:
                self._answered(frame)

    # Requests

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request and return its result.

        Raises RpcFailedError if the server refuses it and ConnectionLostError if the connection
        ends before the answer. While a lost connection is being made again, this waits for it; a
        session that got a new live id meanwhile is meant under its old one too.
        """
        await self._ready.wait()
        if "session_id" in params:
            params["session_id"] = await self._current_id(params["session_id"])
        return await self._request(method, **params)

    async def _current_id(self, session_id: str) -> str:
        while True:
            current = await self._watching.current_id(session_id)
            if self._ready.is_set():
                return current
            await self._ready.wait()  # lost again meanwhile, and so perhaps moved again

    async def _request(self, method: str, **params: Any) -> Any:
        await self._ready.wait()
        if self._is_over or self._wire is None:
            raise ConnectionLostError("The connection is over.")
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        try:
            try:
                await self._wire.send(json.dumps(frame))
            except OSError as error:
                raise ConnectionLostError(f"{method}: the connection was lost.") from error
            return await answer
        finally:
            self._answers.pop(request_id, None)

    def _answered(self, frame: dict[str, Any]) -> None:
        answer = self._answers.get(cast(int, frame.get("id")))
        error = frame.get("error")
        if answer is None or answer.done():
            if error is not None:
                log.warning("The server complains: %s", error)
        elif error is not None and error["code"] == SERVER_ENDING:
            pass  # the end of the connection, which is near, will be its answer
        elif error is not None:
            answer.set_exception(RpcFailedError(error["code"], error["message"]))
        else:
            answer.set_result(frame.get("result"))

    def _fail_all(self) -> None:
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionLostError("The connection was lost."))

    # Events

    async def events(self) -> AsyncIterator[Event]:
        """What happens, from the connection's beginning to its end; for one reader."""
        while (event := await self._events.get()) is not None:
            yield event

    async def wait_for(self, kind: str, session_id: str | None = None) -> Event:
        """Read events up to the next one of a kind; ConnectionLostError if the end comes first."""
        async for event in self.events():
            if event.type == kind and session_id in (None, event.session_id):
                return event
        raise ConnectionLostError(f"The connection ended before {kind}.")

    def last_seen(self, session_id: str) -> int:
        """The number of the newest event of a session that was received."""
        return self._watching.last_seen(session_id)

    # The common calls

    async def create(self, **options: Any) -> Opened:
        """Open a new conversation (cwd, model, title, …; see session.create)."""
        return await self._open("session.create", **options)

    async def resume(self, session: str, **options: Any) -> Opened:
        """Resume a stored conversation: its id, the beginning of it, or its title."""
        return await self._open("session.resume", session_id=session, **options)

    async def activate(self, session_id: str) -> Opened:
        """Watch a live session, and get all of it as it is now."""
        return await self._open("session.activate", session_id=session_id)

    async def _open(self, method: str, **params: Any) -> Opened:
        opened: Opened = await self.request(method, **params)
        self._watching.opened(opened)
        return opened

    async def submit(self, session_id: str, text: str, *, message_id: str | None = None) -> str:
        """Send a message; returns what becomes of it ("streaming", "queued", …)."""
        message_id = message_id or uuid.uuid4().hex
        while True:
            try:
                answer = await self.request(
                    "prompt.submit", session_id=session_id, text=text, message_id=message_id
                )
                return str(answer["status"])
            except ConnectionLostError:
                if self._is_over or not self._reconnect:
                    raise

    async def steer(self, session_id: str, text: str) -> str:
        """Add a message to the running turn; returns "steered" or "queued"."""
        answer = await self.request("session.steer", session_id=session_id, text=text)
        return str(answer["status"])

    async def interrupt(self, session_id: str) -> bool:
        """Stop the running turn; False if none runs."""
        answer = await self.request("session.interrupt", session_id=session_id)
        return bool(answer["status"] == "interrupted")

    async def approve(
        self, session_id: str, choice: Choice, *, request_id: str | None = None
    ) -> int:
        """Answer pending approval requests; returns how many."""
        answer = await self.request(
            "approval.respond", session_id=session_id, choice=choice, request_id=request_id
        )
        return int(answer["resolved"])

    async def clarify(self, request_id: str, answer: str) -> bool:
        """Answer a question of the model; False if it is not open any more."""
        result = await self.request("clarify.respond", request_id=request_id, answer=answer)
        return bool(result["status"] == "ok")

    async def sessions(self, limit: int = 50, query: str | None = None) -> list[WireSession]:
        """The newest conversations."""
        answer = await self.request("session.list", limit=limit, query=query)
        return cast(list[WireSession], answer["sessions"])

    async def close_session(self, session_id: str) -> bool:
        """End a live session; its conversation stays and can be resumed."""
        self._watching.forget(session_id)
        answer = await self.request("session.close", session_id=session_id)
        return bool(answer["closed"])
