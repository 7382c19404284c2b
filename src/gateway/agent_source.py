"""The agent of a chat: kept between turns while it is current, else built."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.limits_of import limits_of
from conversation.room import Share
from conversation.turn_events import compression_events
from hermes_state import NOBODY
from tools.toolset_names import wanted_on

from . import agent_cache
from .asking import ChatAsker, Questions
from .config import Platform
from .media import folder_for
from .platforms.registry import find_manifest
from .session import SessionEntry, SessionSource
from .workspaces import find_folder

if TYPE_CHECKING:
    from agent.access import Access
    from agent.agent import AIAgent
    from agent.config import Config
    from agent.workspaces import Workspaces
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
    access: Callable[[SessionSource, str], Access]
    """What whoever wrote may use in a chat, and what is set for them there."""
    workspaces: Workspaces
    """Where the agent works for whom."""
    toolsets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By platform: those that the configuration names."""

    async def agent_for(self, key: str, entry: SessionEntry, source: SessionSource) -> AIAgent:
        """The chat's agent, in the session its entry says."""
        row = await self.db.get_session(entry.session_id)
        count = int(row["message_count"] or 0) if row else None
        access = self.access(source, key)
        wanted = self._signature(entry, source, access)
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
            folder = await self.db.at_hand(find_folder, self.workspaces, self.db.sync, source, key)
            agent = self._build(key, entry, source, access, folder)
            home, is_free = self.settings.home, access.permissions.may_leave
            agent.workspace.uploads = folder_for(home, source.platform.value, source.chat_id)
            if folder is not None:
                confine = functools.partial(self.workspaces.confine, is_free=is_free)
                await self.db.at_hand(confine, self.db.sync, agent.workspace)
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
        signature = self._signature(entry, source, self.access(source, key))
        return agent if is_same and cached[1] == signature else None

    def keep_uncounted(self, key: str, agent: AIAgent) -> None:
        """Keep an agent without a count of messages, which it looks after itself."""
        cached = self.cache.get(key)
        if cached is not None and cached[0] is agent and cached[2:] != (None, agent.session_id):
            self.cache.keep(key, (agent, cached[1], None, agent.session_id))

    def _signature(self, entry: SessionEntry, source: SessionSource, access: Access) -> str:
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
            access=access.mark,
            limits=source.person and source.person.limits,
        )

    def _toolsets(self, platform: str) -> tuple[str, ...]:
        if platform not in self.toolsets:
            self.toolsets[platform] = wanted_on(self.settings.raw, platform).names
        return self.toolsets[platform]

    def share(self, source: SessionSource) -> Share | None:
        """How many turns of whoever wrote may run at once; None for any number."""
        owner = source.owner
        if owner is None:
            return None
        limits = limits_of(self.settings, owner, source.person, source.doors)
        if limits is None or limits.turns_at_once is None:
            return None
        return Share(owner, limits.turns_at_once)

    def _build(
        self,
        key: str,
        entry: SessionEntry,
        source: SessionSource,
        access: Access,
        folder: Path | None,
    ) -> AIAgent:
        from agent.build import build_agent, build_models

        wanted = _model_of(entry, access)
        agent = build_agent(
            self.settings,
            self.db.sync,
            model=build_models(self.settings, wanted) if wanted else self.shared_model(),
            session_id=entry.session_id,
            platform=source.platform.value,
            user_id=source.owner,
            owner=source.owner or NOBODY,
            person=source.person,
            access=access,
            cwd=folder,
            group=source.group,
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


def _model_of(entry: SessionEntry, access: Access) -> str:
    """The model that was chosen for a chat, if whoever writes may use it, or the one that is
    configured for them; empty for the one that all share."""
    override = entry.model_override or {}
    chosen = override.get("model") or ""
    if chosen and override.get("provider"):
        chosen = f"{override['provider']}:{chosen}"
    return access.model if not chosen or access.why_no_model(chosen) else chosen


def _hand_over(old: Any, new: Any, session_id: str) -> None:
    """Let what runs in the background of a session go on under the agent that takes its place."""
    is_same = getattr(old, "session_id", None) == session_id
    if is_same and old.workspace.root == new.workspace.root:  # the same person's, or chat's
        fresh = new.workspace
        new.workspace = old.workspace
        new.workspace.settings, new.workspace.others = fresh.settings, fresh.others
        new.workspace.mode = new.permissions.nearest_mode(new.workspace.mode)
        old.workspace = fresh


def _prompt_hint(platform: Platform) -> str:
    """What the agent is told of the place where its answers are read."""
    manifest = find_manifest(platform.value)
    return manifest.prompt_hint if manifest is not None else ""
