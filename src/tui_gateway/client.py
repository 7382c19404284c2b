"""A client of the session server, for coroutines: the interface and the tests speak through it.

    async with Client(ChildProcess()) as client:
        session = await client.create()
        await client.submit(session["session_id"], "Hello")
        async for event in client.events():
            …

Events of a session come in the order of their numbers, each once. Where one is missing, and after
a connection was lost and made again, the client asks for what it has not seen; if the server does
not have it any more, an event "session.snapshot" brings everything as it is now instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from .client_wires import ChildProcess, Dialer, WebSocket, Wire
from .rpc import SESSION_NOT_FOUND
from .shapes import Missed, Opened, WireSession

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


class RpcFailedError(Exception):
    """The server answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class ConnectionLostError(ConnectionError):
    """The connection ended before the answer came: the request may have been carried out or not."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened on the server."""

    type: str
    session_id: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    seq: int | None = None
    """Its number within the session; None for events of the connection, and snapshots."""


@dataclass(slots=True)
class _Watched:
    """A session this client watches, and how much of it it has seen."""

    session_key: str
    last_seen: int
    epoch: str
    held: list[Event] | None = None
    """Events that came while earlier ones were being asked for."""


class Client:
    """One client, connected until `aclose`."""

    def __init__(self, dialer: Dialer, *, reconnect: bool = True) -> None:
        """Without `reconnect`, the loss of the connection is the end."""
        self._dialer = dialer
        self._reconnect = reconnect
        self._wire: Wire | None = None
        self._ready = asyncio.Event()
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._watched: dict[str, _Watched] = {}
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader: asyncio.Task[None] | None = None
        self._closed = False

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
        self._closed = True
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, *self._tasks, return_exceptions=True)
        if self._wire is not None:
            await self._wire.close()
        self._fail_all()
        self._events.put_nowait(None)

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._ready.is_set()

    async def _run(self) -> None:
        while True:
            assert self._wire is not None
            await self._read_all(self._wire)
            self._ready.clear()
            self._fail_all()
            self._emit(Event("connection.lost"))
            with contextlib.suppress(OSError):
                await self._wire.close()
            if not self._reconnect or not await self._dial_again():
                self._events.put_nowait(None)
                return

    async def _dial_again(self) -> bool:
        pause = FIRST_PAUSE
        while True:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
            try:
                self._wire = await self._dialer.dial()
            except PermissionError as error:  # the server is another one: its token is not ours
                log.error("%s", error)
                return False
            except OSError as error:
                log.info("Not connected yet: %s", error)
                continue
            break
        self._ready.set()
        self._emit(Event("connection.restored"))
        for sid in list(self._watched):
            self._catch_up(sid)
        return True

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
                self._on_event(frame.get("params") or {})
            else:
                self._on_answer(frame)

    # Requests

    async def request(self, method: str, **params: Any) -> Any:
        """Send a request and return its result.

        Raises RpcFailedError if the server refuses it and ConnectionLostError if the connection
        ends before the answer. While a lost connection is being made again, this waits for it.
        """
        if self._closed or (self._reader is not None and self._reader.done()):
            raise ConnectionLostError("The client is closed.")
        await self._ready.wait()
        wire = self._wire
        assert wire is not None
        request_id = next(self._ids)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers[request_id] = answer
        frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        try:
            await wire.send(json.dumps(frame))
            return await answer
        except ConnectionLostError:
            raise
        except OSError as error:
            raise ConnectionLostError(f"{method}: the connection was lost.") from error
        finally:
            self._answers.pop(request_id, None)

    def _on_answer(self, frame: dict[str, Any]) -> None:
        answer = self._answers.get(cast(int, frame.get("id")))
        if answer is None or answer.done():
            if frame.get("error"):
                log.warning("The server complains: %s", frame["error"])
        elif (error := frame.get("error")) is not None:
            answer.set_exception(RpcFailedError(error["code"], error["message"]))
        else:
            answer.set_result(frame.get("result"))

    def _fail_all(self) -> None:
        for answer in list(self._answers.values()):
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
        """The number of the newest event of a session that was handed out."""
        return self._watched[session_id].last_seen

    def _emit(self, event: Event) -> None:
        self._events.put_nowait(event)

    def _on_event(self, params: dict[str, Any]) -> None:
        event = Event(
            params.get("type", ""),
            params.get("session_id", ""),
            params.get("payload") or {},
            params.get("seq"),
        )
        watched = self._watched.get(event.session_id)
        if event.type == "events.missed":
            self._catch_up(event.session_id)
        elif event.seq is None or watched is None:
            self._emit(event)
        elif watched.held is not None:
            watched.held.append(event)
        elif event.seq == watched.last_seen + 1:
            self._hand_out(watched, event)
        elif event.seq > watched.last_seen:
            self._catch_up(event.session_id)
            self._on_event(params)

    def _hand_out(self, watched: _Watched, event: Event) -> None:
        assert event.seq is not None
        if event.seq > watched.last_seen:
            watched.last_seen = event.seq
            self._emit(event)
            if event.type == "session.switched":
                watched.session_key = event.payload["stored_session_id"]
            elif event.type == "session.info" and event.payload.get("stored_session_id"):
                watched.session_key = event.payload["stored_session_id"]

    def _catch_up(self, sid: str) -> None:
        """Ask for what was not seen; what comes meanwhile is held back."""
        watched = self._watched.get(sid)
        if watched is None or watched.held is not None:
            return
        watched.held = []
        task = asyncio.create_task(self._ask_missed(sid, watched))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask_missed(self, sid: str, watched: _Watched) -> None:
        try:
            missed: Missed = await self.request(
                "session.events.since",
                session_id=sid,
                last_seen=watched.last_seen,
                epoch=watched.epoch,
            )
        except RpcFailedError as error:
            if error.code == SESSION_NOT_FOUND:
                await self._reopen(sid, watched)
            else:
                log.error("Cannot catch up with %s: %s", sid, error)
                watched.held = None
            return
        except ConnectionLostError:
            watched.held = None  # asked again with the next connection
            return
        if missed["snapshot"] is not None:
            self._take_snapshot(sid, watched, missed["snapshot"])
        for params in missed["events"]:
            event = Event(params["type"], sid, params.get("payload") or {}, params["seq"])
            self._hand_out(watched, event)
        self._release(watched)

    async def _reopen(self, sid: str, watched: _Watched) -> None:
        """The server does not know the session any more, as it was started anew: resume it."""
        self._watched.pop(sid, None)
        try:
            opened: Opened = await self.request("session.resume", session_id=watched.session_key)
        except RpcFailedError as error:
            self._emit(Event("session.gone", sid, {"message": str(error), "code": error.code}))
            return
        except ConnectionLostError:
            self._watched[sid] = watched
            watched.held = None
            return
        new_sid = opened["session_id"]
        fresh = self._watch(opened)
        self._emit(Event("session.snapshot", new_sid, {**opened, "previous_session_id": sid}))
        self._release(fresh)

    def _take_snapshot(self, sid: str, watched: _Watched, snapshot: Opened) -> None:
        watched.last_seen, watched.epoch = snapshot["latest_seq"], snapshot["epoch"]
        watched.session_key = snapshot["session_key"]
        self._emit(Event("session.snapshot", sid, cast(dict[str, Any], snapshot)))

    def _release(self, watched: _Watched) -> None:
        held, watched.held = watched.held or [], None
        for event in held:
            self._hand_out(watched, event)

    def _watch(self, opened: Opened) -> _Watched:
        watched = _Watched(opened["session_key"], opened["latest_seq"], opened["epoch"])
        self._watched[opened["session_id"]] = watched
        return watched

    # The common calls

    async def create(self, **options: Any) -> Opened:
        """Open a new conversation (cwd, model, title, …; see session.create)."""
        return await self._open("session.create", **options)

    async def resume(self, session: str, **options: Any) -> Opened:
        """Go on with a stored conversation: its id, the beginning of it, or its title."""
        return await self._open("session.resume", session_id=session, **options)

    async def activate(self, session_id: str) -> Opened:
        """Watch a live session, and get all of it as it is now."""
        return await self._open("session.activate", session_id=session_id)

    async def _open(self, method: str, **params: Any) -> Opened:
        # Events of the session may come before the answer that says from which number on.
        opened: Opened = await self.request(method, **params)
        known = self._watched.get(opened["session_id"])
        if known is None:
            self._watch(opened)
            self._catch_up(opened["session_id"])
        return opened

    async def submit(self, session_id: str, text: str, *, message_id: str | None = None) -> str:
        """Send a message; returns what becomes of it ("streaming", "queued", …).

        If the connection is lost meanwhile it is sent again under its own id, so that it is taken
        exactly once.
        """
        message_id = message_id or uuid.uuid4().hex
        while True:
            try:
                answer = await self.request(
                    "prompt.submit", session_id=session_id, text=text, message_id=message_id
                )
            except ConnectionLostError:
                if not self._reconnect or self._closed:
                    raise
            else:
                return str(answer["status"])

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
        """Answer what a turn asks leave for; returns how many questions that settled."""
        answer = await self.request(
            "approval.respond", session_id=session_id, choice=choice, request_id=request_id
        )
        return int(answer["resolved"])

    async def clarify(self, request_id: str, answer: str) -> bool:
        """Answer a question of the model; False if it is not open any more."""
        result = await self.request("clarify.respond", request_id=request_id, answer=answer)
        return bool(result["status"] == "ok")

    async def set_title(self, session_id: str, title: str) -> dict[str, Any]:
        """Name the conversation, now or with its first message."""
        result: dict[str, Any] = await self.request(
            "session.title", session_id=session_id, title=title
        )
        return result

    async def sessions(self, limit: int = 50, query: str | None = None) -> list[WireSession]:
        """The newest conversations."""
        answer = await self.request("session.list", limit=limit, query=query)
        return cast(list[WireSession], answer["sessions"])

    async def close_session(self, session_id: str) -> bool:
        """End a live session; its conversation stays and can be resumed."""
        self._watched.pop(session_id, None)
        answer = await self.request("session.close", session_id=session_id)
        return bool(answer["closed"])
