"""The plain chat's side of its conversation: what is run in a terminal, and how it is shown there.

The main thread waits while the worker runs a turn. Ctrl-C stops whatever the worker is at: a turn
is interrupted, and a message that waits for another process's turn is not sent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from agent.events import Event, TurnStarted, watch_text
from agent.outcome import NotStarted, Superseded, TurnOutcome
from agent.request import Question, TakenOver, TurnRequest, WaitingNotes
from agent.threads import run_to_end
from conversation.abandoned import TAKEN_AWAY
from conversation.door import Abandoned, Door, Origin
from conversation.event_hooks import HANDLER_SECONDS, hooks_of
from conversation.service import Conversations
from conversation.turn_events import compression_events, tell_beside
from hermes_base import session_context
from hermes_cli.abandoned_in_terminal import say, take_over
from hermes_state import AsyncSessionDB, StoreError, at_hand, plain_text

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.events import Watcher
    from hermes_cli.chat import Chat

log = logging.getLogger(__name__)

INTERRUPTED = "[interrupted]"
NOT_SENT = "[interrupted; your message was not sent]"


class TerminalDoor(Door[TurnRequest]):
    """The terminal of one `hermes chat`."""

    key = "terminal"
    stopped_by = "Ctrl-C"

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        hooks = hooks_of(chat.config.home)
        self._hooks = hooks
        self._conversations = Conversations(
            AsyncSessionDB(chat.db), lambda: chat.config.agent, lambda: hooks
        )
        self._tellers: list[threading.Thread] = []
        self._is_working = self._is_stopped = False
        self.cannot_tell = False
        """Whether a turn for notes failed: no further one before the next line is typed."""
        self._last: TurnOutcome | None = None
        self._code = 0

    # For the chat

    def work(self, first: TurnRequest | Abandoned) -> int:
        """Run a turn and the notes that wait after it; the exit code that they come to."""
        self._last, self._code, self._is_stopped = None, 0, False
        self._is_working = True
        try:
            run_to_end(self._conversations.run(self, first))
        finally:
            self._is_working = False
            session_context.set_current_session_id(self.session_id())
        return self._code

    def finish_abandoned(self) -> None:
        """Finish the conversation's abandoned turn, if there is one."""
        rows = self._chat.db.list_abandoned_turns(self._chat.agent.conversation_id)
        if rows:
            self.work(Abandoned(rows[0]))
        from agent.goals import advance_stalled

        advance_stalled(self._chat.db)

    def stop(self) -> bool:
        """Stop the worker: no new turn, no waiting; False if it is idle.

        Called by signal handlers.
        """
        if self._is_working:
            self._is_stopped = True
            self._chat.db.wake.ring()
        return self._is_working

    def has_notes(self) -> bool:
        """Whether notes wait for the conversation."""
        try:
            return not self.cannot_tell and self._chat.db.has_notes(self.session_id())
        except StoreError as error:
            log.warning("Could not check for waiting notes: %s", error)
            return False

    def tell_compressions(self, agent: AIAgent) -> None:
        """Fire event hooks for an agent's compressions."""
        events = compression_events(
            lambda: self._hooks, self._tell_beside, agent.platform, agent.user_id
        )
        agent.holders.add("event hooks", events)

    def _tell_beside(self, telling: Coroutine[Any, Any, object]) -> None:
        """Call a handler on a thread of its own: between turns no event loop runs."""
        self._tellers.append(tell_beside(telling))

    def finish_telling(self) -> None:
        """Wait for handlers of compression events that still run."""
        until = time.monotonic() + HANDLER_SECONDS
        for teller in self._tellers:
            teller.join(max(0.0, until - time.monotonic()))

    # What is to be run

    def session_id(self) -> str:
        """The session the chat is in."""
        return self._chat.agent.session_id

    async def next(self) -> TurnRequest | None:
        """The notes that wait, after a turn that went well."""
        last = self._last
        if last is None or last.failed or last.interrupted or last.is_silent or self._is_stopped:
            return None
        return WaitingNotes() if await at_hand(self._chat.db, self.has_notes) else None

    async def prepare(self, request: TurnRequest) -> AIAgent:
        """The chat's agent."""
        return self._chat.agent

    def request(self, request: TurnRequest) -> TurnRequest:
        """What was asked for."""
        return request

    def origin(self, request: TurnRequest) -> Origin:
        """The terminal."""
        agent = self._chat.agent
        session_id = agent.session_id
        if isinstance(request, TakenOver):
            session_id = request.taken.session_id
        return Origin(agent.platform, session_id, user_id=agent.user_id)

    def asked(self, request: TurnRequest) -> str:
        """The question's text."""
        return plain_text(request.content) if isinstance(request, Question) else ""

    async def confirm(self, request: TurnRequest) -> TurnRequest | None:
        """False after an interruption, and for notes that another process has taken."""
        if self._is_stopped or self._code == 130:
            self._tell_stopped(request)
            return None
        is_wanted = isinstance(request, Question) or await at_hand(self._chat.db, self.has_notes)
        return request if is_wanted else None

    # One turn

    def watch(self, request: TurnRequest, agent: Any) -> Watcher | None:
        """Show the answer as it is streamed; in quiet mode only the answer to the question."""
        is_shown = not (isinstance(request, TakenOver) and self._chat.is_quiet)
        show = watch_text(self._chat.show) if is_shown else None

        def watch(event: Event) -> None:
            if isinstance(event, TurnStarted) and self._is_stopped:
                agent.interrupt()  # Ctrl-C came before the turn had begun
            if show is not None:
                show(event)

        return watch

    async def run(self, agent: Any, request: TurnRequest, watch: Watcher) -> TurnOutcome:
        """Run the turn, unless it was stopped while event hooks were told of it."""
        if self._is_stopped and not isinstance(request, TakenOver):
            return NotStarted(session_id=agent.session_id, reason="stopped")
        return await super().run(agent, request, watch)

    async def deliver(self, request: TurnRequest, outcome: TurnOutcome) -> None:
        """Say how the turn has ended."""
        self._last = outcome
        if isinstance(request, WaitingNotes):
            self.cannot_tell = outcome.failed and not outcome.api_calls
        if isinstance(outcome, NotStarted) and outcome.is_silent:
            return
        await self._chat.end_turn()
        if isinstance(outcome, NotStarted) and outcome.interrupted:
            self._tell_stopped(request)
        else:
            self._code = self._tell_end(outcome)

    def _tell_end(self, outcome: TurnOutcome) -> int:
        """Report how the turn ended; returns the exit code."""
        if isinstance(outcome, Superseded):
            say(f"[{TAKEN_AWAY}]")
            return 1
        if outcome.interrupted:
            say(INTERRUPTED)
            return 130
        if outcome.failed:
            say(f"hermes: {outcome.error}")
            return 1
        if outcome.partial:
            say(f"[{outcome.error or 'The answer was cut at its longest allowed length.'}]")
        return 0

    def _tell_stopped(self, request: TurnRequest) -> None:
        """Say that a request was not begun with."""
        say(NOT_SENT if isinstance(request, Question) else INTERRUPTED)
        self._code = 130

    async def say(self, request: TurnRequest, text: str) -> None:
        """Show a line apart from the answer."""
        self._chat.end_line()
        say(text)

    def is_asking(self) -> bool:
        """Whether a tool's question stands in the terminal."""
        return self._chat.asker.is_asking

    # Turns of other processes

    def wait_begins(self, request: TurnRequest, text: str) -> None:
        """Say why nothing happens."""
        say(text)

    def gives_up(self, request: TurnRequest) -> bool:
        """After Ctrl-C."""
        return self._is_stopped

    async def wait_ends(self, request: TurnRequest, has_ended: bool) -> None:
        """Say that a message was not sent, if it was not."""
        if not has_ended:
            self._tell_stopped(request)

    async def take_over(self, turn: Abandoned) -> TurnRequest | None:
        """Take over an abandoned turn, or close it; StoreError if that cannot be stored."""
        db, config = self._chat.db, self._chat.config
        try:
            taken = await at_hand(
                db, take_over, db, turn.row, config.agent, config.replicas.workspace
            )
        except StoreError as error:
            # An error that the worker does not retry: the person is told now.
            raise StoreError(str(error)) from error
        return None if taken is None else TakenOver(taken)
