"""What an agent learns from its conversation, wired to its turns.

The agent says when a session, a turn and the end come; from there on this decides what is done
about it: memory providers are called, a new conversation gets its title, and every so many user
turns it is reviewed. Nothing here raises into a turn.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.auxiliary import AuxiliaryError
from agent.events import Event, ReviewFinished, TitleSet
from agent.model import Message
from hermes_state import SessionDB, StoreError, at_hand
from tools.base import Tool

from .jobs import Background
from .memory_providers import MemoryProviders
from .message_text import plain
from .titles import first_words, propose_title, store_title

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.outcome import TurnOutcome

    from .proposals import Proposal

log = logging.getLogger(__name__)

TITLE_TASK = "title_generation"
TITLE_SECONDS = 60.0
TITLE_TOKENS = 1_000
TITLE_WITHIN_TURNS = 3
"""Questions after which no title is proposed any more."""
REVIEW_TASK = "review"
REVIEW_TOOLS = ("memory", "skill_manage")
"""What a review changes things with, where the agent has it."""
REVIEW_TOKENS = 8_000
RECALL_SHARE = 2
"""Characters recalled per token of the model's window, divided by this: about an eighth of it."""


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """What an agent does beside its turns."""

    titles: bool = True
    """Name new conversations."""
    review_every: int = 10
    """User turns after which the conversation is reviewed; 0 never."""
    review_seconds: float = 120.0
    """How long a review may take."""
    review_at_end_turns: int = 3
    """User turns since the last review for which a session's end is worth one."""
    review_at_end_seconds: float = 5.0
    """How long the end of a session waits for it."""
    recall: bool = False
    """Send earlier turns along with a message that refers to them."""


OFF = LearningSettings(titles=False, review_every=0)


class Learner:
    """Learns beside the turns of one agent."""

    def __init__(
        self,
        agent: AIAgent,
        settings: LearningSettings,
        providers: MemoryProviders,
        emit: Callable[[Event], None],
    ) -> None:
        self._agent = agent
        self._settings = settings
        self.providers = providers
        self._has_providers = bool(providers)
        self._emit = emit
        self._background = Background()
        self._lock = threading.Lock()
        self._turns_until_review = 0
        """Turns in which the store need not be asked whether a review is due."""
        self._turns_unstored = 0
        """Turns since the last review, for a conversation without a store."""
        self._to_name: tuple[str, str] | None = None
        """The session that was to be named, and the question it began with."""

    # Around a turn

    async def session_begins(self) -> None:
        """A turn is about to begin, in this session or another one than before."""
        agent = self._agent
        if self._has_providers:
            await self.providers.begin(
                agent.session_id,
                hermes_home=str(agent.workspace.home),
                platform=agent.platform,
                user_id=agent.memory.provider_name,
            )

    async def recall(self, question: Any, messages: Sequence[Message]) -> str:
        """The turn begins; returns what is to be sent along with the question."""
        earlier = await self._earlier_turns(question) if self._settings.recall else ""
        if not self._has_providers:
            return earlier
        agent, text = self._agent, plain(question)
        number = sum(message.get("role") == "user" for message in messages)
        self.providers.tell(
            "on_turn_start", number, text, model=agent.model, platform=agent.platform
        )
        recalled = await self.providers.recall(text, agent.llm.context_length // RECALL_SHARE)
        return "\n\n".join(filter(None, (recalled, earlier)))

    async def _earlier_turns(self, question: Any) -> str:
        """What was said earlier about what the question refers to."""
        agent, db = self._agent, self._agent.db
        if db is None:
            return ""
        from .earlier_turns import earlier_turns

        def look() -> str:
            memory = agent.memory
            if memory.chat is not None and not memory.spaces(db, agent.session_id).shown:
                return ""  # others read along, and the person has not said that they may
            return earlier_turns(db, agent.owner, plain(question), agent.session_id)

        try:
            # In a thread: the first search after a long time has much to read.
            return await asyncio.to_thread(look)
        except StoreError as error:
            log.warning("Earlier turns could not be searched: %s", error)
            return ""  # the turn goes on without them

    def turn_ended(self, question: Any, outcome: TurnOutcome) -> None:
        """The turn is over and stored; what follows happens beside the next one."""
        if not outcome.completed:
            return
        messages, answer = list(outcome.messages), outcome.text
        if self._has_providers:
            text, session_id = plain(question), self._agent.session_id
            self.providers.tell("sync_turn", text, answer, session_id=session_id, messages=messages)
            self.providers.tell("queue_prefetch", text, session_id=session_id)
        self._name_conversation(messages, answer)
        self._review_when_due(messages)

    def _asker(
        self, task: str, tokens: int, seconds: float
    ) -> Callable[[str, str], Awaitable[str]] | None:
        """A function that asks the task's model; None if no suitable model is configured."""
        auxiliary = self._agent.auxiliary
        if auxiliary is None or getattr(auxiliary.model_for(task), "small", False):
            return None

        async def ask(system: str, prompt: str) -> str:
            return await auxiliary.ask(task, system, prompt, max_tokens=tokens, timeout=seconds)

        return ask

    # Titles

    def _name_conversation(self, messages: Sequence[Message], answer: str) -> None:
        db = self._agent.db
        questions = [message for message in messages if message.get("role") == "user"]
        if (
            db is None
            or not self._settings.titles
            or self._to_name is not None
            or not 0 < len(questions) <= TITLE_WITHIN_TURNS
        ):
            return
        self._to_name = self._agent.session_id, plain(questions[0].get("content"))
        self._background.start("title", lambda: self._name(db, answer), TITLE_SECONDS * 2)

    async def _name(self, db: SessionDB, answer: str) -> None:
        assert self._to_name is not None
        session_id, question = self._to_name
        session = await at_hand(db, db.get_session, session_id)
        # A sub-agent's conversation is not listed, a branch has its title from where it began.
        if session is None or session["title"] or session["parent_session_id"]:
            return
        ask = self._asker(TITLE_TASK, TITLE_TOKENS, TITLE_SECONDS)
        title = await propose_title(question, answer, ask)
        await at_hand(db, self._set_title, db, session_id, title)

    def _set_title(self, db: SessionDB, session_id: str, title: str | None) -> None:
        session_id = db.get_compression_tip(session_id)  # it may have been compressed meanwhile
        stored = store_title(db, session_id, title) if title else None
        if stored is not None:
            self._emit(TitleSet(session_id, stored))

    # Reviews

    def _review_when_due(self, messages: Sequence[Message]) -> None:
        with self._lock:
            self._turns_unstored += 1
            self._turns_until_review -= 1
            due = self._turns_until_review <= 0
        if due and self._can_review():
            self._start_review(messages, self._settings.review_every)

    def _can_review(self) -> bool:
        reviews = self._settings.review_every > 0 and self._agent.auxiliary is not None
        return reviews and bool(self._tools())

    def _tools(self) -> dict[str, Tool]:
        """What a review may change things with: what the agent itself could have used."""
        return {tool.name: tool for tool in self._agent.tools if tool.name in REVIEW_TOOLS}

    def _start_review(self, messages: Sequence[Message], turns: int) -> bool:
        given = list(messages)

        async def work() -> None:
            if await at_hand(self._agent.db, self._claim, turns):
                await self._review(given)

        return self._background.start("review", work, self._settings.review_seconds)

    def _claim(self, turns: int) -> bool:
        """Claim the next review, if enough turns have passed since the last one."""
        db = self._agent.db
        with self._lock:
            missing = max(turns - self._turns_unstored, 0)
        if db is not None:
            missing = db.claim_review(self._agent.session_id, turns)
        with self._lock:
            if missing == 0:
                self._turns_unstored = 0
            self._turns_until_review = missing or self._settings.review_every
        return missing == 0

    async def _review(self, messages: list[Message]) -> None:
        from .review import review

        try:
            ask = self._asker(REVIEW_TASK, REVIEW_TOKENS, self._settings.review_seconds)
            if ask is None:
                return
            context = self._agent._tool_context("review", lambda text: None)
            context.written_by = "review"
            made = await review(messages, ask, self._tools(), context)
        except (AuxiliaryError, ValueError) as error:  # no answer, or no model as configured
            log.warning("The conversation %s was not reviewed: %s", self._agent.session_id, error)
            return
        if made:
            self._emit(ReviewFinished(summary(made)))

    # The end

    def commit(self, history: Sequence[Message] | None) -> None:
        """The session ends for the user: notify memory providers, and review once more if worth it.

        It waits a bounded time, so call it off an event loop. It never raises.
        """
        try:
            messages = [
                message
                for message in history or ()
                if isinstance(message, dict) and message.get("role")
            ]
            messages = messages or self._agent._session_messages or []
            self.providers.session_ends(messages)
            if messages and self._can_review():
                deadline = time.monotonic() + self._settings.review_at_end_seconds
                self._background.wait("review", self._settings.review_at_end_seconds)
                self._start_review(messages, self._settings.review_at_end_turns)
                self._background.wait("review", max(0.0, deadline - time.monotonic()))
        except Exception:
            # A failure to learn must not fail the end of a session.
            log.exception("The memory of %s was not committed", self._agent.session_id)
        finally:
            self._background.give_up("review")

    def close(self) -> None:
        """Cancel running jobs; a conversation that was being named gets a plain title."""
        naming = "title" in self._background.give_up()
        if naming and self._to_name is not None and self._agent.db is not None:
            session_id, question = self._to_name
            try:
                self._set_title(self._agent.db, session_id, first_words(question))
            except StoreError as error:
                log.info("Session %s was not named: %s", session_id, error)
        self.providers.close()


def summary(made: Sequence[Proposal]) -> str:
    """One line for the person about what was kept."""
    return "Saved to memory: " + "; ".join(proposal.in_words() for proposal in made)
