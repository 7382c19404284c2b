"""The agent of a chat: kept between turns while it is current, else built."""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any

from conversation.turn_events import compression_events
from tools.toolset_names import wanted_on

from . import agent_cache
from .asking import ChatAsker
from .config import Platform
from .platforms.registry import find_manifest
from .session import SessionEntry, SessionSource

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.rotation import Rotation
    from tools.base import Asker

    from .run import GatewayRunner


async def agent_for(
    runner: GatewayRunner,
    key: str,
    entry: SessionEntry,
    source: SessionSource,
) -> AIAgent:
    """The chat's agent, in the session its entry says."""
    row = await runner._session_db.get_session(entry.session_id)
    count = int(row["message_count"] or 0) if row else None
    wanted = _signature(runner, entry, source)
    with agent_cache.guarded(runner._agent_cache_lock):
        cached = runner._agent_cache.get(key)
    if (
        cached is not None
        and cached[0] is not agent_cache.PENDING
        and cached[1] == wanted
        and agent_cache.is_current(cached, entry.session_id, count)
    ):
        agent = cached[0]
        if agent.session_id != entry.session_id:
            agent.move_to(entry.session_id)
            keep_agent(runner, key, (agent, wanted, count, entry.session_id))
    else:
        agent = _build(runner, key, entry, source)
        if cached is not None:
            _hand_over(cached[0], agent, entry.session_id)
            runner._evict_cached_agent(key)
        keep_agent(runner, key, (agent, wanted, count, entry.session_id))
    runner.chat_options.apply(key, agent)
    return agent


def _hand_over(old: Any, new: Any, session_id: str) -> None:
    """Let what runs in the background of a session go on under the agent that takes its place."""
    if getattr(old, "session_id", None) == session_id:
        fresh = new.workspace
        new.workspace = old.workspace
        new.workspace.settings = fresh.settings
        old.workspace = fresh


def kept_agent(
    runner: GatewayRunner, key: str, entry: SessionEntry, source: SessionSource
) -> AIAgent | None:
    """The agent that is kept for this very session, if the configuration is still the same."""
    with agent_cache.guarded(runner._agent_cache_lock):
        cached = runner._agent_cache.get(key)
    if cached is None or len(cached) < 4 or cached[0] is agent_cache.PENDING:
        return None
    agent = cached[0]
    is_same = cached[3] == agent.session_id == entry.session_id
    return agent if is_same and cached[1] == _signature(runner, entry, source) else None


def keep_agent(runner: GatewayRunner, key: str, entry: agent_cache.Entry) -> None:
    """Keep an agent for the next turn; those that nobody used for long make room."""
    runner._agent_used[key] = time.monotonic()  # or it would be the first to go
    with agent_cache.guarded(runner._agent_cache_lock):
        runner._agent_cache[key] = entry
        runner._agent_cache.move_to_end(key)
    if len(runner._agent_cache) > runner.config.cache_size:
        runner._sweep_idle_cached_agents()


def _signature(runner: GatewayRunner, entry: SessionEntry, source: SessionSource) -> str:
    model = runner.settings.model
    return agent_cache.signature(
        model=model.name,
        provider=model.provider,
        base_url=model.base_url,
        key=hashlib.sha256(model.api_key.encode()).hexdigest(),
        override=entry.model_override,
        toolsets=wanted_on(runner.settings.raw, source.platform.value).names,
        user_id=source.user_id,
        user_id_alt=source.user_id_alt,
    )


def _build(runner: GatewayRunner, key: str, entry: SessionEntry, source: SessionSource) -> AIAgent:
    from agent.build import build_agent, build_models

    override = entry.model_override or {}
    wanted = override.get("model")
    if wanted and override.get("provider"):
        wanted = f"{override['provider']}:{wanted}"
    agent = build_agent(
        runner.settings,
        runner._session_db.sync,
        model=build_models(runner.settings, wanted) if wanted else runner.shared_model(),
        session_id=entry.session_id,
        platform=source.platform.value,
        user_id=source.owner,
        session_facts={
            "session_key": key,
            "chat_id": source.chat_id,
            "chat_type": source.chat_type,
            "thread_id": source.thread_id,
            "display_name": source.chat_name or source.user_name,
        },
        asker=_asker(runner, key, source),
        platform_hint=_prompt_hint(source.platform),
    )
    _add_holders(runner, key, source, agent)
    return agent


def _add_holders(runner: GatewayRunner, key: str, source: SessionSource, agent: AIAgent) -> None:
    """Let whatever the gateway keeps of an agent's session follow when it is compressed."""

    def follow_in_cache(rotation: Rotation) -> None:
        with agent_cache.guarded(runner._agent_cache_lock):
            cached = runner._agent_cache.get(key)
            if cached is not None and cached[0] is agent and len(cached) > 3:
                # How many messages it has is counted after the turn.
                runner._agent_cache[key] = (agent, cached[1], None, rotation.new_session_id)

    agent.holders.add(
        "chat bindings",
        lambda rotation: runner.session_store.follow(
            rotation.old_session_id, rotation.new_session_id
        ),
    )
    agent.holders.add("agent cache", follow_in_cache)
    loop = asyncio.get_running_loop()
    events = compression_events(
        lambda: runner.hooks,
        lambda work: loop.call_soon_threadsafe(runner.spawn, work),
        source.platform.value,
        source.user_id,
    )
    agent.holders.add("event hooks", events)


def _prompt_hint(platform: Platform) -> str:
    """What the agent is told of the place where its answers are read."""
    manifest = find_manifest(platform.value)
    return manifest.prompt_hint if manifest is not None else ""


def _asker(runner: GatewayRunner, key: str, source: SessionSource) -> Asker:
    """Whom the chat's tools ask: the chat, unless its platform has a way of its own."""
    own = getattr(runner.adapters.get(source.platform), "asker", None)
    if own is not None:
        asker: Asker = own(key, source)
        return asker
    return ChatAsker(runner.questions, runner.adapters, runner.delivery, key, source)
