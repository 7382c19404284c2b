"""A chat as slash commands see it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.slash.surface import CommandError, Surface
from conversation.abandoned import runs_elsewhere
from hermes_state import NOBODY, is_owned, person_of
from tools.memory_scope import MemoryScope

from . import handoff
from .asking import why_not_allowed
from .link_codes import LinkCodeError
from .links import is_anothers
from .person_links import link_person, unlink_person
from .session import SessionSource

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.config import Config
    from hermes_state import AsyncSessionDB

    from .agent_source import AgentSource
    from .asking import Questions
    from .authorization import Authorization
    from .chat_options import ChatOptions
    from .chat_turns import ChatTurns
    from .delivery import Delivery
    from .links import Links
    from .pipeline import Inbound
    from .platforms.base import MessageEvent
    from .session_store import SessionStore


@dataclass(frozen=True, slots=True)
class CommandParts:
    """What the slash commands of chats need."""

    db: AsyncSessionDB
    settings: Config
    store: SessionStore
    authorization: Authorization
    delivery: Delivery
    agents: AgentSource
    options: ChatOptions
    turns: ChatTurns
    links: Links
    questions: Questions
    reset: Callable[[MessageEvent], Awaitable[str]]
    """Ends a chat's session and begins a new one; returns what the chat is told."""
    switch_chat: Callable[[str, str, SessionSource], Awaitable[None]]
    """Binds a chat to another conversation."""


class ChatSurface(Surface):
    """One chat of one person. Commands run in a thread of their own; the gateway in its loop."""

    scope = "gateway"

    def __init__(self, parts: CommandParts, inbound: Inbound, options: dict[str, Any]) -> None:
        super().__init__(parts.db.sync, parts.settings)
        self._parts = parts
        self._turns = parts.turns
        self._inbound = inbound
        self._loop = asyncio.get_running_loop()
        self._key = inbound.session_key
        self._source: SessionSource = inbound.event.source
        self.platform = self._source.platform.value
        self.user_id = self._source.owner
        self.access = parts.authorization.access(self._source, self._key)
        self.options = options

    @property
    def memory(self) -> MemoryScope:
        """Whose memories and skills there are: the person's, or in a group the group's."""
        source = self._source
        is_operator = source.person is not None and source.person.is_operator
        return MemoryScope(source.owner, source.group, is_operator=is_operator, is_local=False)

    @property
    def session_id(self) -> str:
        """The session the chat is in."""
        return self._parts.store.get_or_create_session(self._source).session_id

    @property
    def agent(self) -> AIAgent | None:
        """The conversation's agent, if it has one now: the one whose turn runs, or the chat's."""
        agents = self._turns.conversations.agents
        running = agents.get(self._turns.running_key(self._key) or "")
        if hasattr(running, "run"):
            return running
        entry = self._parts.agents.cache.get(self._key)
        agent = entry[0] if entry is not None else None
        return agent if hasattr(agent, "run") else None

    def build_agent(self) -> AIAgent:
        """The chat's agent, built now if need be."""
        entry = self._parts.store.get_or_create_session(self._source)
        agent: Any = self._in_loop(self._parts.agents.agent_for(self._key, entry, self._source))
        return agent

    @property
    def running(self) -> bool:
        """Whether a turn runs in the chat."""
        key = self._turns.running_key(self._key) or self._key
        return key in self._turns.conversations.agents

    def session_facts(self) -> dict[str, Any]:
        """Whose a new session is, and in which chat."""
        source = self._source
        return {
            "user_id": source.owner, "session_key": self._key, "chat_id": source.chat_id,
            "chat_type": source.chat_type, "thread_id": source.thread_id,
            "display_name": source.chat_name or source.user_name,
        }  # fmt: skip

    def new_session(self, title: str | None) -> None:
        """Begin anew in this chat."""
        self._in_loop(self._parts.reset(self._inbound.event))
        if title:
            self._parts.store.set_wished_title(self._key, title)  # set with its first message

    def switch_session(self, session_id: str) -> None:
        """Bind the chat to another conversation of the same person."""
        self._in_loop(self._parts.switch_chat(self._key, session_id, self._source))

    def link(self, code: str) -> str:
        """A code for this chat's conversation, or with one: join the conversation it is for. Behind
        "person" the same for who one is."""
        about, _, given = code.partition(" ")
        if about.lower() == "person":
            return link_person(self.db, self._source, given.strip())
        if code:
            return self._refusable(self._parts.links.join(self._key, self._source, code))
        return self._refusable(self._parts.links.offer(self._key, self._source))

    def unlink_person(self) -> str:
        """Undo how this chat's account came to its person."""
        return unlink_person(self.db, self._source)

    def require_own(self) -> None:
        """Raise CommandError where the conversation is another's, who has let this chat in."""
        entry = self._parts.store.get_or_create_session(self._source)
        if is_anothers(self.db, entry, self._source):
            raise CommandError("Only whose conversation it is can do that.")

    def unlink(self, everybody: bool) -> str:
        """Leave a conversation that is shared, or send the others out of it."""
        return self._refusable(self._parts.links.leave(self._key, self._source, everybody))

    def follow(self, wanted: bool | None) -> bool:
        """Be shown here what the person says elsewhere in the chat's conversation, or no longer."""
        store, source = self._parts.store, self._source
        if source.chat_type != "dm" or source.person is None:
            raise CommandError("Others would read it here. Write /follow to me directly.")
        if wanted is not None:
            store.set_follows(source, wanted)
        return bool(store.get_or_create_session(source).follows)

    def set_home(self) -> str:
        """Make this chat the one that conversations are handed over to."""
        return handoff.set_home(self.db, self._source)

    def job_place(self) -> dict[str, Any]:
        """In this chat, in whatever conversation it is in then."""
        source = self._source
        self._parts.store.get_or_create_session(source)
        to = {
            "session_key": self._key, "platform": source.platform.value,
            "chat_id": source.chat_id, "thread_id": source.thread_id,
        }  # fmt: skip
        return {"where": "chat", "session_key": self._key, "deliver": "chat", "to": to}

    def queue(self, text: str) -> int:
        """Keep a message until the running turn is over; returns how many wait in this chat."""
        return int(self._in_loop(self._turns.queue(self._inbound, text)))

    def steer(self, text: str) -> bool:
        """Add a message to the running turn of the chat's conversation, here or in another
        process."""
        if not self.running and not runs_elsewhere(self.db, self.session_id):
            return False
        self._in_loop(self._turns.send(self._inbound, text, mode="steer"))
        return True

    def answer_approvals(self, choice: str, everything: bool = False) -> int:
        """Answer a pending approval request of this chat, or of the conversation's turn wherever
        that runs."""
        questions, is_operator = self._parts.questions, self.access.role == "operator"
        waiting = questions.list_open(self._key, "approval")
        for question in waiting if everything else waiting[:1]:
            refusal = question.why_not(choice, self._source, is_operator=is_operator)
            if refusal is not None:
                raise CommandError(refusal)
        count = questions.answer(self._key, "approval", choice, all=everything)
        return count or self._answer_asked(choice, everything)

    def answer_question(self, text: str) -> bool:
        """Answer a question that was asked in this chat, or elsewhere in its conversation."""
        is_own = self._parts.questions.answer(self._key, "clarify", text) > 0
        return is_own or super().answer_question(text)

    def _answer_asked(self, choice: str, everything: bool) -> int:
        session_id = self.session_id
        waiting = self.here.asked(session_id)
        chosen = waiting if everything else waiting[:1]
        for asked in chosen if choice != "deny" else ():
            refusal = why_not_allowed(
                choice,
                is_own=is_owned(asked, self.user_id or NOBODY),
                is_operators=self._is_operators(asked["user_id"]),
                is_operator=self.access.role == "operator",
            )
            if refusal is not None:
                raise CommandError(refusal)
        return sum(
            self.here.answer_asked(asked["id"], session_id, choice, self.user_id)
            for asked in chosen
        )

    def _is_operators(self, user_id: str | None) -> bool:
        person = self.db.get_person(person_of(user_id))
        return person is not None and person.is_operator

    def set_model(self, name: str) -> str:
        """Use another model in this chat."""
        self.config.model_named(name)
        self._parts.store.set_model_override(self._key, {"model": name})
        return name

    def say(self, text: str) -> None:
        """Tell the chat something while a slow command works."""
        self._in_loop(self._parts.delivery.say(self._source, self._key, text))

    def _refusable(self, work: Any) -> str:
        try:
            return str(self._in_loop(work))
        except LinkCodeError as error:
            raise CommandError(str(error)) from error

    def _in_loop(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=120)
