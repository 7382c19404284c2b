"""The events a client hands out: those of each session in the order of their numbers, each once.

Where one is missing, and after a connection was made again, what was not seen is asked for; what
comes meanwhile is held back. If the server does not have it any more, an event "session.snapshot"
brings everything as it is now. If the server does not know the session any more, because it was
started anew, the conversation is resumed and goes on under a new live id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from .rpc import SESSION_NOT_FOUND
from .shapes import Missed, Opened

log = logging.getLogger(__name__)


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
    """A session that is watched, and how much of it was seen."""

    session_key: str
    last_seen: int
    epoch: str
    held: list[Event] | None = None
    """Events that came while earlier ones were being asked for."""


class Watching:
    """The sessions a client watches."""

    def __init__(
        self, request: Callable[..., Awaitable[Any]], emit: Callable[[Event], None]
    ) -> None:
        self._request = request
        self._emit = emit
        self._watched: dict[str, _Watched] = {}
        self._early: dict[str, int] = {}
        """Newest number of sessions whose opening is not answered yet."""
        self._moved: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, session: Opened) -> None:
        """A session was opened, or shown as a whole: what comes after that is handed out."""
        sid, latest = session["session_id"], session["latest_seq"]
        known = self._watched.get(sid)
        if known is not None:
            known.last_seen = max(known.last_seen, latest)
            return
        self._watched[sid] = _Watched(session["session_key"], latest, session["epoch"])
        if self._early.pop(sid, 0) > latest:
            self._catch_up(sid)

    def forget(self, session_id: str) -> None:
        """Hand out nothing more of a session."""
        self._watched.pop(session_id, None)

    def last_seen(self, session_id: str) -> int:
        """The number of the newest event of a session that was handed out."""
        return self._watched[session_id].last_seen

    async def current_id(self, session_id: str) -> str:
        """The live id a session has now; waits while it is being caught up with."""
        while True:
            while session_id in self._moved:
                session_id = self._moved[session_id]
            watched = self._watched.get(session_id)
            if watched is None or watched.held is None or not self._tasks:
                return session_id
            await asyncio.wait(self._tasks)

    def reconnected(self) -> None:
        """There is a new connection: ask for what was missed."""
        for sid in list(self._watched):
            self._catch_up(sid)

    async def aclose(self) -> None:
        """Ask for nothing more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def received(self, params: dict[str, Any]) -> None:
        """An event came."""
        event = Event(
            params.get("type", ""),
            params.get("session_id", ""),
            params.get("payload") or {},
            params.get("seq"),
        )
        watched = self._watched.get(event.session_id)
        if event.type == "events.missed":
            self._catch_up(event.session_id)
        elif event.seq is None:
            self._emit(event)
        elif watched is None:
            self._early[event.session_id] = event.seq
        elif watched.held is not None:
            watched.held.append(event)
        elif event.seq == watched.last_seen + 1:
            self._hand_out(watched, event)
        elif event.seq > watched.last_seen:
            self._catch_up(event.session_id)

    def _hand_out(self, watched: _Watched, event: Event) -> None:
        if event.seq is None or event.seq <= watched.last_seen:
            return
        watched.last_seen = event.seq
        watched.session_key = event.payload.get("stored_session_id") or watched.session_key
        self._emit(event)

    def _catch_up(self, sid: str) -> None:
        watched = self._watched.get(sid)
        if watched is None or watched.held is not None:
            return
        watched.held = []
        task = asyncio.create_task(self._ask(sid, watched))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, sid: str, watched: _Watched) -> None:
        try:
            missed: Missed = await self._request(
                "session.events.since",
                session_id=sid,
                last_seen=watched.last_seen,
                epoch=watched.epoch,
            )
        except RpcFailedError as error:
            if error.code == SESSION_NOT_FOUND:
                await self._reopen(sid, watched)
                return
            log.error("Cannot catch up with %s: %s", sid, error)
            self._emit(Event("session.gone", sid, {"message": str(error), "code": error.code}))
        except ConnectionLostError:
            watched.held = None  # asked again with the next connection
        else:
            if missed["snapshot"] is not None:
                self._show(sid, watched, missed["snapshot"])
            for params in missed["events"]:
                event = Event(params["type"], sid, params.get("payload") or {}, params["seq"])
                self._hand_out(watched, event)
            self._release(watched)

    async def _reopen(self, sid: str, watched: _Watched) -> None:
        try:
            opened: Opened = await self._request("session.resume", session_id=watched.session_key)
        except RpcFailedError as error:
            self._watched.pop(sid, None)
            self._emit(Event("session.gone", sid, {"message": str(error), "code": error.code}))
            return
        except ConnectionLostError:
            watched.held = None
            return
        self._watched.pop(sid, None)
        self._moved[sid] = opened["session_id"]
        shown = {**opened, "previous_session_id": sid}
        self._emit(Event("session.snapshot", opened["session_id"], shown))
        self.opened(opened)

    def _show(self, sid: str, watched: _Watched, snapshot: Opened) -> None:
        watched.last_seen, watched.epoch = snapshot["latest_seq"], snapshot["epoch"]
        watched.session_key = snapshot["session_key"]
        self._emit(Event("session.snapshot", sid, cast(dict[str, Any], snapshot)))

    def _release(self, watched: _Watched) -> None:
        held, watched.held = watched.held or [], None
        for event in held:
            self._hand_out(watched, event)
