"""Abandoned turns: one server takes each over, whether anybody watches or not.

A thread looks at the store every few seconds. The first server to take a turn over has it. The
window that showed it is given a moment to come back with a server of its own; after that the turn
runs in a session that nobody has opened, which is closed when it is done unless somebody joins.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from conversation import abandoned
from conversation.door import Abandoned

from . import history, inbox, lists, live, prompts, viewing
from .hub import Hub, Session

if TYPE_CHECKING:
    from hermes_state import SessionDB, Wake

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0
GRACE_SECONDS = 8.0
"""Since the turn's last heartbeat (one comes every five), for its window to come back."""

PACE_SECONDS = 0.25
"""Shortest poll interval in a store that is written to all the time."""

_wanted = threading.Event()
_wakes: list[Wake] = []
"""The wake of the watched store, once there is one."""


def look_soon() -> None:
    """Poll now."""
    _wanted.set()
    for wake in _wakes:
        wake.ring()


def note_elsewhere(hub: Hub, sid: str, session: Session) -> None:
    """Show a turn that another process runs here, and remember it, so that its end is told."""
    if not session.get("running"):
        key = live.current_key(session)
        session["elsewhere"] = abandoned.runs_elsewhere(hub.get_db(), key)
        if session["elsewhere"]:
            viewing.begin(hub, sid, session)


class Watcher:
    """Takes over abandoned turns and follows turns of other processes, while the server runs."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._is_over = False
        self._complaint = ""

    def run(self) -> None:
        """Poll until `stop`; the first time also for turns that were abandoned just now."""
        grace = 0.0
        while not self._is_over:
            _wanted.clear()
            seen = _wakes[0].number if _wakes else 0
            try:
                self.look(grace)
                self._complaint = ""
            except Exception as error:  # noqa: BLE001 - store, configuration: the next look may do
                self._complain(error)
            grace = GRACE_SECONDS
            if not _wakes:
                _wanted.wait(LOOK_SECONDS)
            elif not _wanted.is_set():
                _wakes[0].wait(seen, LOOK_SECONDS, PACE_SECONDS)

    def stop(self) -> None:
        """Take nothing over any more; returns when that is certain."""
        with live.OPENING:
            self._is_over = True
        look_soon()

    def look(self, grace: float) -> None:
        """Take over turns abandoned for `grace` seconds, and report those finished elsewhere."""
        from agent.home import hermes_home
        from agent.store import has_store

        if not has_store(hermes_home()):
            return  # nothing was ever said here
        from agent.abandoned_work import end_abandoned_tasks
        from agent.goals import advance_stalled

        db = self._hub.get_db()
        _wakes[:] = [db.wake]
        end_abandoned_tasks(db)
        advance_stalled(db)
        self._hub.check_peers()
        for turn in abandoned.list_to_resume(db):
            if _is_ours(turn) and turn["silent"] >= grace:
                self._take(db, turn)
        for sid, session in list(self._hub.get_sessions().items()):
            if session.get("elsewhere") and not session.get("running"):
                self._follow(db, sid, session)
            elif session.get("headless"):
                self._close_if_done(sid, session)
            elif not session.get("running"):
                note_elsewhere(self._hub, sid, session)
                if not session.get("elsewhere"):
                    history.follow_writes(self._hub, sid, session)
        if db.list_noted():
            self._tell_notes(db)
        lists.tell(self._hub)

    def _tell_notes(self, db: SessionDB) -> None:
        """Run notes in idle sessions that another process stored, or that were not run in time."""
        for sid, session in list(self._hub.get_sessions().items()):
            is_idle = session.get("agent") is not None and not session.get("running")
            if is_idle and not session.get("closing") and db.has_notes(live.current_key(session)):
                prompts.run_waiting(self._hub, sid, session)

    def _take(self, db: SessionDB, turn: dict[str, Any]) -> None:
        from .revive import revived

        with live.OPENING:  # nobody opens the conversation meanwhile
            if self._is_over:
                return
            open_here = self._live_in(db, turn["conversation_id"])
            if open_here is None:
                config = self._hub.get_config()
                settings, workspace = config.agent, config.replicas.workspace
                if not abandoned.is_resumed(turn, settings, workspace):
                    abandoned.take_over_turn(db, turn, settings, workspace)
                    return
                live.make_room(self._hub)
                session = revived(self._hub, db.get_compression_tip(turn["session_id"]), 80)
                session |= {"headless": True, "detached_at": time.time()}
                prompts.begin_with(self._hub, session, Abandoned(turn))
                return
        sid, session = open_here
        if not session.get("closing"):
            prompts.run_waiting(self._hub, sid, session)

    def _live_in(self, db: SessionDB, conversation_id: str) -> tuple[str, Session] | None:
        for sid, session in list(self._hub.get_sessions().items()):
            row = db.get_session(live.current_key(session))
            if row is not None and row["conversation_id"] == conversation_id:
                return sid, session
        return None

    def _follow(self, db: SessionDB, sid: str, session: Session) -> None:
        """See whether a turn that another process runs in a live conversation has ended."""
        key = live.current_key(session)
        if abandoned.has_abandoned_turn(db, key):
            prompts.run_waiting(self._hub, sid, session)
        elif abandoned.runs_elsewhere(db, key):
            viewing.begin(self._hub, sid, session)  # by another one, perhaps
        else:
            session["elsewhere"] = False
            viewing.await_end(session)
            viewing.end(self._hub, sid, session)
            history.reload(self._hub, sid, session)
            prompts.run_waiting(self._hub, sid, session, is_opened=True)

    def _close_if_done(self, sid: str, session: Session) -> None:
        with live.OPENING:  # no client can join between the check and the end
            if not session.get("running") and session.get("headless"):
                live.close_aside(self._hub, sid, "turn_ended")

    def _complain(self, error: Exception) -> None:
        """Once for each reason, not every few seconds."""
        text = f"{type(error).__name__}: {error}"
        if text != self._complaint:
            log.warning("Cannot look after abandoned turns: %s", text)
        self._complaint = text


def _is_ours(turn: dict[str, Any]) -> bool:
    """Whether a session server takes it over; the gateway does if a chat waits for the answer.

    An abandoned turn of a plain terminal is taken over when its conversation is opened.
    """
    return turn["source"] == inbox.SOURCE and turn["deliver_to"] is None
