"""Receives signals from other processes for turns that run here, and their watches.

One thread for each store polls while turns run: when the server notifies of a signal or a watch,
and every few seconds in any case, as notifications may be lost. A turn that ends before the next
poll costs nothing.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.elsewhere import (
    ANSWER,
    ENDED,
    MAKE_WAY,
    STEER,
    STOP,
    TAKEN,
    UNANSWERED,
    UNKNOWN,
)
from hermes_state import SIGNALS, StoreClosedError, StoreError

from .broadcast import Broadcasts
from .watching import LOGS

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
FILE_LOOK_SECONDS = 0.5
"""Poll interval for a file, which sends no notifications."""
PACE_SECONDS = 0.05
EARLY_SECONDS = 0.1
"""Until the next look for a turn that was only just beginning."""
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
        topic, seen, is_early = self._db.wake.topic(SIGNALS), -1, False
        pause = LOOK_SECONDS if on_server else FILE_LOOK_SECONDS
        while self._has_turns():
            seen = topic.wait(seen, EARLY_SECONDS if is_early else pause, PACE_SECONDS)
            try:
                is_early = not self.look()
                self._complaint = ""
            except StoreClosedError:
                _forget(self)
                return
            except StoreError as error:
                if str(error) != self._complaint:  # once, not with every poll
                    log.warning("Could not read signals for running turns: %s", error)
                self._complaint = str(error)

    def _has_turns(self) -> bool:
        """Wait for a turn; False, and the thread is not counted on any more, if none comes."""
        with self._changed:
            if not self._turns and not self._changed.wait_for(lambda: self._turns, IDLE_SECONDS):
                self._thread = None
                _forget(self)
                return False
            return True

    def look(self) -> bool:
        """Do what was asked for, and show the turns that are watched; False if a signal is for a
        turn that is only now beginning."""
        is_done = True
        for signal in self._db.list_signals():
            agent = self._agent_of(signal["conversation_id"], signal["fence"])
            if agent is None:
                is_done = False
            elif self._db.take_signal(signal["id"]):
                outcome = act(agent, signal)
                if signal["kind"] in UNANSWERED:
                    self._db.withdraw_signal(signal["id"])
                else:
                    self._db.settle_signal(signal["id"], outcome)
        if self._db.is_on_server:
            self._broadcasts.follow(self._db.list_watches())
        return is_done

    def _agent_of(self, conversation_id: str, fence: int) -> Any | None:
        """The agent whose turn it is; others may be here that wait for its end."""
        with self._changed:
            turns = list(self._turns)
        fitting = (turn.agent for turn in turns if turn.conversation_id() == conversation_id)
        return next((agent for agent in fitting if agent.runs_turn(fence)), None)


def act(agent: Any, signal: dict[str, Any]) -> str:
    """Do with a running turn what a signal asks for; returns what became of it.

    The turn is named by its number: its agent may run the next one by now.
    """
    fence, payload = signal["fence"], signal["payload"]
    if signal["kind"] == STOP:
        return TAKEN if agent.interrupt(fence) else ENDED
    if signal["kind"] == MAKE_WAY:
        return TAKEN if agent.make_way(fence) else ENDED
    if signal["kind"] == STEER:
        return TAKEN if agent.steer(payload["text"], payload["inbox_id"], fence) else ENDED
    if signal["kind"] == ANSWER:
        return TAKEN if agent.questions.answer(payload["request_id"], payload["answer"]) else ENDED
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
