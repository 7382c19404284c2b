"""The agent of a chat: kept between turns while it is current, else built."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.limits_of import limits_of
from conversation.room import Share
from conversation.turn_events import compression_events
from hermes_state import NOBODY
from tools.toolset_names import wanted_on

from . import agent_cache
from .asking import ChatAsker, Questions
from .config import Platform
from .platforms.registry import find_manifest
from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.config import Config
    from conversation.event_hooks import EventHooks
    from conversation.tasks import Spawn
    from hermes_state import AsyncSessionDB
    from tools.base import Asker

    from .agent_cache import AgentCache
    from .chat_options import ChatOptions
    from .delivery import Delivery
    from .platforms.base import PlatformAdapter
    from .session_store import SessionStore


@dataclass(frozen=True, slots=True)
class AgentSource:
    """Gives every chat its agent."""

    cache: AgentCache
    db: AsyncSessionDB
    store: SessionStore
    settings: Config
    shared_model: Callable[[], Any]
    """The configured model, one for all chats."""
    options: ChatOptions
    adapters: Mapping[Platform, PlatformAdapter]
    questions: Questions
    delivery: Delivery
    hooks: Callable[[], EventHooks]
    spawn: Spawn
    toolsets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By platform: those that the configuration names."""

    async def agent_for(self, key: str, entry: SessionEntry, source: SessionSource) -> AIAgent:
        """The chat's agent, in the session its entry says."""
        row = await self.db.get_session(entry.session_id)
        count = int(row["message_count"] or 0) if row else None
        wanted = self._signature(entry, source)
        cached = self.cache.get(key)
        if (
            cached is not None
            and cached[0] is not agent_cache.PENDING
            and cached[1] == wanted
            and agent_cache.is_current(cached, entry.session_id, count)
        ):
            agent: AIAgent = cached[0]
            if agent.session_id != entry.session_id:
                await self.db.at_hand(agent.move_to, entry.session_id)
                self.cache.keep(key, (agent, wanted, count, entry.session_id))
        else:
            agent = self._build(key, entry, source)
            if cached is not None:
                _hand_over(cached[0], agent, entry.session_id)
                self.cache.evict(key)
            self.cache.keep(key, (agent, wanted, count, entry.session_id))
        # A session without a row begins a conversation that goes by its name.
        conversation = str(row["conversation_id"]) if row else entry.session_id
        self.options.apply(entry, conversation, agent)
        return agent

    def kept_agent(self, key: str, entry: SessionEntry, source: SessionSource) -> AIAgent | None:
        """The agent that is kept for this very session, if the configuration is still the same."""
        cached = self.cache.get(key)
        if cached is None or len(cached) < 4 or cached[0] is agent_cache.PENDING:
            return None
        agent: AIAgent = cached[0]
        is_same = cached[3] == agent.session_id == entry.session_id
        return agent if is_same and cached[1] == self._signature(entry, source) else None

    def keep_uncounted(self, key: str, agent: AIAgent) -> None:
        """Keep an agent without a count of messages, which it looks after itself."""
        cached = self.cache.get(key)
        if cached is not None and cached[0] is agent and cached[2:] != (None, agent.session_id):
            self.cache.keep(key, (agent, cached[1], None, agent.session_id))

    def _signature(self, entry: SessionEntry, source: SessionSource) -> str:
        model = self.settings.model
        return agent_cache.signature(
            model=model.default,
            provider=model.provider,
            base_url=model.base_url,
            key=hashlib.sha256(model.api_key.encode()).hexdigest(),
            override=entry.model_override,
            toolsets=self._toolsets(source.platform.value),
            user_id=source.user_id,
            user_id_alt=source.user_id_alt,
            owner=source.owner,
            role=source.person and source.person.role,
            limits=source.person and source.person.limits,
        )

    def _toolsets(self, platform: str) -> tuple[str, ...]:
        if platform not in self.toolsets:
            self.toolsets[platform] = wanted_on(self.settings.raw, platform).names
        return self.toolsets[platform]

    def share(self, source: SessionSource) -> Share | None:
        """How many turns of whoever wrote may run at once; None for any number."""
        owner = source.owner
        limits = None if owner is None else limits_of(self.settings, owner, source.person)
        if owner is None or limits is None or limits.turns_at_once is None:
            return None
        return Share(owner, limits.turns_at_once)

    def _build(self, key: str, entry: SessionEntry, source: SessionSource) -> AIAgent:
        from agent.build import build_agent, build_models

        override = entry.model_override or {}
        wanted = override.get("model")
        if wanted and override.get("provider"):
            wanted = f"{override['provider']}:{wanted}"
        agent = build_agent(
            self.settings,
            self.db.sync,
            model=build_models(self.settings, wanted) if wanted else self.shared_model(),
            session_id=entry.session_id,
            platform=source.platform.value,
            user_id=source.owner,
            owner=source.owner or NOBODY,
            person=source.person,
            session_facts={
                "session_key": key,
                "chat_id": source.chat_id,
                "chat_type": source.chat_type,
                "thread_id": source.thread_id,
                "display_name": source.chat_name or source.user_name,
            },
            asker=self._asker(key, source),
            platform_hint=_prompt_hint(source.platform),
        )
        self._add_holders(key, source, agent)
        return agent

    def _add_holders(self, key: str, source: SessionSource, agent: AIAgent) -> None:
        """Add the gateway's holders of the session id, which follow a compression."""
        holders, loop = agent.holders, asyncio.get_running_loop()
        holders.add(
            "chat bindings",
            lambda rotation: self.store.follow(rotation.old_session_id, rotation.new_session_id),
        )
        holders.add(
            "agent cache", lambda rotation: self.cache.follow(key, agent, rotation.new_session_id)
        )
        events = compression_events(
            self.hooks,
            lambda work: loop.call_soon_threadsafe(self.spawn, work),
            source.platform.value,
            source.user_id,
        )
        holders.add("event hooks", events)

    def _asker(self, key: str, source: SessionSource) -> Asker:
        """Whom the chat's tools ask: the chat, unless its platform has a way of its own."""
        own = getattr(self.adapters.get(source.platform), "asker", None)
        if own is not None:
            asker: Asker = own(key, source)
            return asker
        return ChatAsker(self.questions, self.adapters, self.delivery, key, source)


def _hand_over(old: Any, new: Any, session_id: str) -> None:
    """Let what runs in the background of a session go on under the agent that takes its place."""
    if getattr(old, "session_id", None) == session_id:
        fresh = new.workspace
        new.workspace = old.workspace
        new.workspace.settings = fresh.settings
        old.workspace = fresh


def _prompt_hint(platform: Platform) -> str:
    """What the agent is told of the place where its answers are read."""
    manifest = find_manifest(platform.value)
    return manifest.prompt_hint if manifest is not None else ""
