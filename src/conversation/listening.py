"""Hearing what other processes have to say to the turns that run here, and who watches them.

One thread for each store looks while turns run: when the server tells that there is a signal or a
watch, and every few seconds all the same, as notifications may be lost. A turn that ends before the
next look costs nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.elsewhere import ENDED, STEER, STOP, TAKEN, UNKNOWN
from hermes_state import SIGNALS, StoreClosedError, StoreError

from .broadcast import Broadcasts
from .watching import LOGS

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
FILE_LOOK_SECONDS = 0.5
"""Between two looks into a file, which tells nobody what was written."""
PACE_SECONDS = 0.05
IDLE_SECONDS = 30.0
"""After so long without a turn the thread ends."""


class _Turn(NamedTuple):
    agent: Any
    conversation_id: Callable[[], str]


class Listener:
    """Listens for the turns of one process that use one store."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._turns: list[_Turn] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._broadcasts = Broadcasts(db, LOGS)
        self._complaint = ""

    @contextlib.contextmanager
    def hearing(self, agent: Any, conversation_id: Callable[[], str]) -> Iterator[None]:
        """Let others reach an agent's turn for the length of a `with` block."""
        turn = _Turn(agent, conversation_id)
        with self._changed:
            self._turns.append(turn)
            if self._thread is None or not self._thread.is_alive():  # also after a fork
                self._thread = threading.Thread(
                    target=self._listen, name="hermes-listening", daemon=True
                )
                self._thread.start()
            elif len(self._turns) == 1:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._turns.remove(turn)
            if self._broadcasts.is_used:
                self._broadcasts.turn_ended(conversation_id())

    def _listen(self) -> None:
        on_server = self._db.is_on_server
        topic, seen = self._db.wake.topic(SIGNALS), -1
        pause = LOOK_SECONDS if on_server else FILE_LOOK_SECONDS
        while self._has_turns():
            seen = topic.wait(seen, pause, PACE_SECONDS)
            try:
                self.look()
                self._complaint = ""
            except StoreClosedError:
                _forget(self)
                return
            except StoreError as error:
                if str(error) != self._complaint:  # once, not with every look
                    log.warning("What others tell the turns here is not known now: %s", error)
                self._complaint = str(error)

    def _has_turns(self) -> bool:
        """Wait for a turn; False, and the thread is not counted on any more, if none comes."""
        with self._changed:
            if not self._turns and not self._changed.wait_for(lambda: self._turns, IDLE_SECONDS):
                self._thread = None
                _forget(self)
                return False
            return True

    def look(self) -> None:
        """Do what was asked for, and show the turns that are watched."""
        for signal in self._db.list_signals():
            agent = self._agent_in(signal["conversation_id"])
            # A turn that is only now beginning is told at the next look.
            if agent is not None and self._db.take_signal(signal["id"]):
                outcome = act(agent, signal)
                if signal["kind"] == STEER:  # nobody waits for its answer
                    self._db.withdraw_signal(signal["id"])
                else:
                    self._db.settle_signal(signal["id"], outcome)
        if self._db.is_on_server:
            self._broadcasts.follow(self._db.list_watches())

    def _agent_in(self, conversation_id: str) -> Any | None:
        with self._changed:
            turns = list(self._turns)
        fitting = (turn.agent for turn in turns if turn.conversation_id() == conversation_id)
        return next(fitting, None)


def act(agent: Any, signal: dict[str, Any]) -> str:
    """Do with a running turn what a signal asks for; returns what became of it."""
    if signal["kind"] == STOP:
        return TAKEN if agent.interrupt() else ENDED
    if signal["kind"] == STEER:
        text, inbox_id = signal["payload"]["text"], signal["payload"]["inbox_id"]
        return TAKEN if agent.steer(text, inbox_id) else ENDED
    return UNKNOWN


_listeners: dict[SessionDB, Listener] = {}
_lock = threading.Lock()


def listener_of(db: SessionDB) -> Listener:
    """The one that listens at a store in this process."""
    with _lock:
        known = _listeners.get(db)
        if known is None:
            known = _listeners[db] = Listener(db)
        return known


def _forget(listener: Listener) -> None:
    """Keep no store open for a listener that has nothing to do."""
    with _lock:
        if _listeners.get(listener._db) is listener:
            del _listeners[listener._db]
