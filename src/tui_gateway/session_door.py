"""A live session's side of its conversation: its prompts, and its turns as events of the protocol.

Each session has a thread for as long as it has something to do. Reporting a turn's end to clients
and choosing what is run next are one step: a client that sees the end finds the session idle, or
with its next prompt.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.home import hermes_home
from agent.outcome import NotStarted, TurnOutcome, outcome_from_dict
from agent.request import Question, TakenOver, TurnRequest, WaitingNotes
from agent.threads import run_to_end
from conversation import abandoned
from conversation.door import Abandoned, Door, NotNowError, Origin
from conversation.event_hooks import hooks_of
from conversation.mirror import LinkedChats
from conversation.offering import Offers
from conversation.pace import Pace
from conversation.service import Conversations
from hermes_base import session_context
from hermes_state import AsyncSessionDB, SessionDB, TakenTurn

from . import agents, asking, history, inbox, live, other_processes, turn_ends, viewing
from .hub import Hub, Session
from .inbox import SOURCE, Notes, Prompt, mark_running

if TYPE_CHECKING:
    from agent.events import Watcher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Taken:
    """A turn that this process has taken over."""

    turn: TakenTurn


Work: TypeAlias = Prompt | Notes | Taken


class SessionDoor(Door[Work]):
    """One live session, claimed by whoever makes this (`prompts`)."""

    def __init__(self, hub: Hub, sid: str, session: Session) -> None:
        self.key = sid
        self._hub, self._session = hub, session
        self._complete: dict[str, Any] | None = None
        """The end of the last turn, not reported yet."""
        self._stays_idle = False
        """Whether nothing further is run now: the store fails, or the session is closed."""
        self._told_nothing = False
        """Whether notes were not delivered here: another process has taken them, perhaps."""
        self._was_overtaken = False
        """Whether another process took the abandoned turn over first."""
        self._offers = Offers(hub.get_db())
        self._is_claimed = True
        self._refusal: Exception | None = None

    # What is to be run

    def session_id(self) -> str:
        """The durable session the conversation is in."""
        return live.current_key(self._session)

    async def next(self) -> Work | None:
        """The next prompt; with none, the session is given back."""
        session = self._session
        with session["history_lock"]:
            work = None if session.get("_finalized") or self._stays_idle else self._first()
            self._tell_end()
            mark_running(session, work)
            self._is_claimed = work is not None
        if self._was_overtaken and work is None:
            # Only now: a client that checks because of it must find that no turn runs here.
            other_processes.note_elsewhere(self._hub, self.key, session)
            history.reload(self._hub, self.key, session)
        self._was_overtaken = False
        return work

    def _first(self) -> Prompt | Notes | None:
        try:
            if self._told_nothing:
                self._told_nothing = False
                return inbox.oldest(self._hub, self._session)
            return inbox.first(self._hub, self._session)
        except Exception:
            # What waits is on disk and is run when the session is opened again.
            log.exception("Cannot look for waiting prompts")
            return None

    def _tell_end(self) -> None:
        complete, self._complete = self._complete, None
        if complete is not None:
            self._hub.emit("message.complete", self.key, complete)

    def release(self) -> None:
        """Release the session after a failure, so that it takes prompts again."""
        if self._is_claimed:
            self._is_claimed = False
            with self._session["history_lock"]:
                self._tell_end()
                mark_running(self._session, None)

    async def fault(self, item: Work | Abandoned, error: Exception) -> bool:
        """The configuration or the store: the person is told, and the prompt waits on."""
        self._end(turn_ends.not_built(self._hub, self.key, error))
        return True

    async def gather(self, work: Work) -> bool:
        """Notes are left to the running turn, which takes them at its next step."""
        if not isinstance(work, Notes):
            return True
        self._told_nothing = abandoned.runs_elsewhere(self._hub.get_db(), self.session_id())
        return not self._told_nothing

    async def confirm(self, work: Work) -> Work | None:
        """The prompt, unless the turn of another process has read it: then it is answered."""
        if not isinstance(work, Prompt) or not self._offers.has_offered(work.inbox_id):
            return work
        if any(row["id"] == work.inbox_id for row in inbox.list_own(self._hub, self._session)):
            return work
        if not viewing.was_shown(self._session):
            self._complete = turn_ends.answered_elsewhere(self._session["history"])
        viewing.end(self._hub, self.key, self._session)
        return None

    # One turn

    async def prepare(self, work: Work) -> Any:
        """The session's agent."""
        hub, session = self._hub, self._session
        with session["history_lock"]:
            self._tell_end()  # of the abandoned turn that was finished first
            mark_running(session, work, is_stopped=bool(session.get("stop_wanted")))
            session["is_viewing"] = False
        session_context.set_session_vars(**self.origin(work).context())
        try:
            agent = agents.ensure_agent(hub, self.key, session)
        except Exception as error:
            self._refusal = error
            raise
        if session.get("_finalized"):
            raise NotNowError  # closed meanwhile: what is to be done waits until it is opened again
        session["recovered"] = isinstance(work, Taken)
        session["noted"] = isinstance(work, Notes)
        session["prompt"] = work.content if isinstance(work, Prompt) else ""
        if isinstance(work, Taken):
            hub.reap_orphans()  # those of the abandoned turn must not run beside this
        return agent

    def request(self, work: Work) -> TurnRequest:
        """The turn that is asked of the agent."""
        if isinstance(work, Prompt):
            return Question(work.content, (work.inbox_id,))
        return WaitingNotes() if isinstance(work, Notes) else TakenOver(work.turn)

    def origin(self, work: Work) -> Origin:
        """The window."""
        return Origin(
            platform=SOURCE,
            session_id=self.session_id(),
            user_id=self._session.get("user_id"),
            ui_session_id=self.key,
        )

    def asked(self, work: Work) -> str:
        """The prompt's text."""
        from hermes_state import plain_text

        return plain_text(work.content) if isinstance(work, Prompt) else ""

    def name(self, work: Work) -> str:
        """The prompt's name in the inbox."""
        return work.inbox_id if isinstance(work, Prompt) else super().name(work)

    def watch(self, work: Work, agent: Any) -> Watcher | None:
        """How the answer's text is rendered, as it comes."""
        hub, session = self._hub, self._session
        session["renderer"] = hub.make_stream_renderer(session.get("cols", 80))
        # What the conversation's log tells is translated already; a stand-in for an agent has none.
        return None if session.get("unfollow") else agents.translator(hub, self.key, session)

    async def run(self, agent: Any, request: TurnRequest, watch: Watcher) -> TurnOutcome:
        """Run the turn. A stand-in for an agent may have only the public door, for questions."""
        if isinstance(request, Question) and not hasattr(agent, "run_blocking"):
            from agent.events import TextStreamed

            result = agent.run_conversation(
                request.content, stream_callback=lambda text: watch(TextStreamed(text))
            )
            return outcome_from_dict(result, str(getattr(agent, "session_id", "")))
        return await super().run(agent, request, watch)

    def keeps(self, work: Work, outcome: NotStarted) -> bool:
        """A prompt that could not be begun is run once the cause is fixed, and one whose session
        was closed when it is opened again."""
        return outcome.failed or bool(self._session.get("_finalized"))

    async def settle(self, work: Work, outcome: TurnOutcome, agent: Any | None) -> None:
        """Follow the agent's session, and prepare the report of the turn's end."""
        hub, session, refusal = self._hub, self._session, self._refusal
        self._refusal = None
        session["stop_wanted"] = False  # that was for this turn
        if agent is None:
            self._end(None if refusal is None else turn_ends.not_built(hub, self.key, refusal))
        elif isinstance(work, Notes) and outcome.is_silent and not outcome.failed:
            self._told_nothing = True
        else:
            try:
                self._end(self._followed(work, outcome))
            except Exception as error:
                # The last boundary of the turn: whatever happened, the person is told.
                log.exception("The end of the turn in %s failed", self.key)
                self._end(turn_ends.failed(f"{type(error).__name__}: {error}"))

    def _followed(self, work: Work, outcome: TurnOutcome) -> dict[str, Any]:
        """Update the session from the turn; returns the report of its end."""
        hub, session = self._hub, self._session
        hub._sync_session_key_after_compress(
            self.key, session, clear_pending_title=False, restart_slash_worker=True
        )
        with session["history_lock"]:
            if isinstance(outcome.messages, list):
                session["history"] = outcome.messages
                session["history_version"] = session.get("history_version", 0) + 1
            if outcome.is_silent:
                session["elsewhere"] = (
                    True  # `other_processes` tells when it has been answered there
                )
                session["history"] = history.stored(hub, session)
        history.apply_pending_title(hub, self.key, session)
        is_dropped = isinstance(outcome, NotStarted) and outcome.interrupted
        complete = turn_ends.completed(
            hub, session, outcome, turn_ends.NOT_BEGUN if is_dropped else None
        )
        if is_dropped and isinstance(work, Prompt):
            complete["dropped"] = inbox.own_id(work.inbox_id)
        return {**complete, "unstored": True} if self._is_unstored(work, outcome) else complete

    def _is_unstored(self, work: Work, outcome: TurnOutcome) -> bool:
        """Whether the prompt was refused and still waits in the inbox."""
        if isinstance(work, Notes):
            return outcome.failed and self._hub.get_db().has_notes(self.session_id())
        if not isinstance(work, Prompt) or not outcome.failed or outcome.api_calls:
            return False
        try:
            waiting = self._hub.get_db().list_waiting(self.session_id())
        except Exception:
            # It would be answered twice only if the store had also lost the inbox row's state.
            log.exception("Could not check whether the prompt %s waits", work.inbox_id)
            return True
        return any(row["id"] == work.inbox_id for row in waiting)

    def _end(self, complete: dict[str, Any] | None) -> None:
        """Keep the report of the turn's end until it is decided what runs next."""
        self._complete = complete
        self._stays_idle = complete is None or bool(complete.get("unstored"))

    async def say(self, work: Work, text: str) -> None:
        """Tell the clients."""
        self._hub.emit("status.update", self.key, {"kind": "notice", "text": text})

    def is_asking(self) -> bool:
        """Whether the clients are asked something."""
        return bool(asking.pending_of(self._session))

    # Turns of other processes

    def wait_begins(self, work: Work, text: str) -> None:
        """Tell the clients; whoever stops the prompt now need not wait for the next look."""
        self._session["awaits_other"] = self._hub.get_db().wake.ring
        self._hub.emit("status.update", self.key, {"kind": "notice", "text": text})

    async def offer(self, work: Work, turn: Mapping[str, Any]) -> None:
        """Let the turn read the prompts that wait here, in their order, if they are to steer; have
        it make way if they are to interrupt."""
        for row in inbox.list_own(self._hub, self._session):
            if row["facts"].get(inbox.INTERRUPTS):
                await self._offers.make_way(self.session_id(), turn, row["id"])
            if not row["facts"].get(inbox.STEERS) or not isinstance(row["content"], str):
                return
            if not await self._offers.offer(self.session_id(), turn, row["content"], row["id"]):
                return

    def gives_up(self, work: Work) -> bool:
        """Whether the prompt was stopped, or the session is closed."""
        return bool(self._session.get("stop_wanted") or self._session.get("_finalized"))

    async def wait_ends(self, work: Work, has_ended: bool) -> None:
        """Show what the other has said; a prompt that was stopped is dropped."""
        session = self._session
        if isinstance(work, Prompt) and self._offers.has_offered(work.inbox_id):
            viewing.await_end(session)  # its last events may be about the prompt
        session.pop("awaits_other", None)
        session["elsewhere"] = not has_ended  # then `other_processes` tells of its end
        if has_ended:
            history.reload(self._hub, self.key, session)
        elif session.get("_finalized"):
            self._end(None)  # the prompt waits until the session is opened again
        elif isinstance(work, Prompt):
            self._hub.get_db().drop_message(work.inbox_id)
            self._end(turn_ends.not_begun(inbox.own_id(work.inbox_id)))

    async def take_over(self, turn: Abandoned) -> Work | None:
        """Take over an abandoned turn, or close it; clients are shown either."""
        config = self._hub.get_config()
        taken = abandoned.take_over_turn(
            self._hub.get_db(), turn.row, config.agent, config.replicas.workspace
        )
        if taken is None:
            self._was_overtaken = True
            return None
        history.reload(self._hub, self.key, self._session)
        return Taken(taken)


_PACE = Pace()
"""Of all sessions together: each has an event loop of its own."""


def run(hub: Hub, sid: str, session: Session, first: Prompt | Notes | Abandoned) -> None:
    """Do one thing in a session that is claimed, then what waits there; in a thread of its own,
    so that no session holds up another."""
    door = SessionDoor(hub, sid, session)
    try:
        hooks = hooks_of(hermes_home())
        conversations = Conversations(
            _for_coroutines(hub.get_db()), lambda: hub.get_config().agent, lambda: hooks,
            pace=_PACE, linked=_linked_chats(hub.get_db()),
        )  # fmt: skip
        conversations.since = hub.get_db().now()
        run_to_end(conversations.run(door, first))
    except Exception:
        # The last boundary of the thread: the session takes prompts again, and the queue is on
        # disk.
        log.exception("The turns in %s have ended", sid)
        door.release()


@functools.lru_cache(maxsize=1)
def _linked_chats(db: SessionDB) -> LinkedChats:
    return LinkedChats(db)


@functools.lru_cache(maxsize=1)
def _for_coroutines(db: SessionDB) -> AsyncSessionDB:
    return AsyncSessionDB(db)
