"""GatewayRunner: wires adapters, inbound pipeline, turns and delivery; starts and stops them.

The names here are relied on from outside and may be replaced at run time; each method touches only
what it needs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.outcome import outcome_from_dict
from conversation.event_hooks import EventHooks
from conversation.service import Conversations

from . import agent_cache, boundaries, metrics, restart, status, take_over
from .adapter_host import GatewayHost, RequestSide
from .asking import Questions
from .authorization import Authorization
from .background_work import works_for, works_in
from .chat_options import ChatOptions
from .config import GatewayConfig, Platform, PlatformConfig, ResetPolicy
from .delivery import Delivery
from .expiry import Expiry, prune, watch_expiry
from .handoff import Handoffs
from .link_codes import LinkCodes
from .links import Links
from .pipeline import Pipeline
from .platforms.base import MessageEvent, PlatformAdapter
from .platforms.create import create_adapter
from .recovery import recover
from .replies import normalize_empty_response
from .session import SessionEntry, SessionSource
from .session_store import SessionStore, sharing
from .supervision import Supervisor
from .turns import Turns

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import AsyncSessionDB

__all__ = ["_AGENT_PENDING_SENTINEL", "GatewayRunner", "_normalize_empty_agent_response", "asyncio"]

log = logging.getLogger(__name__)

_AGENT_PENDING_SENTINEL = agent_cache.PENDING


def _normalize_empty_agent_response(
    agent_result: Mapping[str, Any], response: str, history_len: int = 0
) -> str:
    """`response`, or what a person should read when the turn has none."""
    outcome = outcome_from_dict(agent_result)
    return normalize_empty_response(outcome, response, history_len=history_len)


class GatewayRunner:
    """Many conversations at once, from every connected platform."""

    def __init__(
        self, config: GatewayConfig, settings: Config, session_db: AsyncSessionDB, home: Path
    ) -> None:
        self.config = config
        self.settings = settings
        self.home = home
        self._session_db = session_db
        self._running = False
        self._running_agents: dict[str, Any] = {}
        self._agent_cache: OrderedDict[str, agent_cache.Entry] = OrderedDict()
        self._agent_cache_lock = threading.Lock()
        self._agent_used: dict[str, float] = {}
        self._agent_weights: dict[str, int] = {}
        self._background_tasks: set[asyncio.Task[Any]] = set()
        self._stopping: asyncio.Task[None] | None = None
        self.stopped = asyncio.Event()
        self.ending = asyncio.Event()
        """Set when the process should end; whoever runs the gateway waits for it."""
        self.restarting = False
        self.started_at = time.time()
        self.session_store = SessionStore(
            session_db.sync,
            config,
            home=home,
            is_busy=lambda one: works_in(one, self._agent_cache, self._policy_of),
        )
        self.adapters: dict[Platform, PlatformAdapter] = {}
        self.recovered: set[Platform] = set()
        self.questions = Questions()
        self.link_codes = LinkCodes()
        self.chat_titles: dict[str, str] = {}
        self.hooks: Any = EventHooks(home / "hooks")
        self._model: Any = None
        self.authorization = Authorization(config, session_db)
        self.delivery = Delivery(session_db, self.adapters, config, home, self.spawn)
        self.conversations = Conversations(
            session_db,
            lambda: self.settings.agent,
            lambda: self.hooks,
            is_running=lambda: self._running,
            limit=config.max_concurrent_sessions,
            spawn=self.spawn,
            agents=self._running_agents,
        )
        self.turns = Turns(self, self.conversations)
        self.pipeline = Pipeline(self)
        self.chat_options = ChatOptions(
            self.session_store,
            self.conversations.places,
            {"reasoning": settings.model.reasoning_effort},
        )
        self.links = Links(
            self.session_store, session_db, self.link_codes, self.turns, self.authorization,
            self.delivery, self,
        )  # fmt: skip
        self.handoffs = Handoffs(
            session_db,
            self.session_store,
            config,
            self.adapters,
            self.authorization,
            self.delivery,
            self.conversations.places,
            self.switch_chat,
            self._evict_cached_agent,
        )
        self.supervisor = Supervisor(
            config.platforms,
            self.adapters,
            self._make_adapter,
            recover=partial(recover, self),
            resume=self.delivery.resume_platform,
        )

    # Start and stop

    async def start(self) -> None:
        """Connect every enabled platform, and go on with what an earlier run left."""
        self._running = True
        self.started_at = self.conversations.since = time.time()
        await self.delivery.resume()
        await self.supervisor.connect_all()
        await restart.tell_back(self.home, self.delivery)
        self.spawn(self._session_expiry_watcher())
        self.spawn(self.handoffs.watch(lambda: self._running))
        self.spawn(take_over.watch(self))
        self._update_runtime_status("running")
        platforms = [platform.value for platform in self.adapters]
        await self.hooks.emit("gateway:startup", {"platforms": platforms})

    async def stop(self) -> None:
        """Take nothing more, let turns end for a while, tell what is cut off, disconnect."""
        if getattr(self, "_stopping", None) is None:
            self._stopping = asyncio.ensure_future(self._stop())
        stopping = self._stopping
        assert stopping is not None
        await asyncio.shield(stopping)

    async def _stop(self) -> None:
        self._running = False
        supervisor = getattr(self, "supervisor", None)
        if supervisor is not None:
            await supervisor.stop_receiving()
        conversations = getattr(self, "conversations", None)
        if conversations is not None:
            cut_off = await conversations.drain(self._drain_seconds())
            home = self.home if self.restarting else None
            await restart.tell_cut_off(cut_off, self.session_store, self.delivery, home)
        for agent in list(self._running_agents.values()):
            await self._finalize_running(agent)
        self._stop_background_work()
        delivery = getattr(self, "delivery", None)
        if delivery is not None:
            await delivery.drain()
        for task in list(self._background_tasks):
            task.cancel()
        if supervisor is not None:
            await supervisor.disconnect_all()
        for key in list(getattr(self, "_agent_cache", ())):
            self._evict_cached_agent(key)
        status.remove_pid_file()
        self._update_runtime_status("stopped")
        stopped = getattr(self, "stopped", None)
        if stopped is not None:
            stopped.set()

    def _make_adapter(self, platform: Platform, config: PlatformConfig) -> PlatformAdapter:
        return create_adapter(platform, config, self.host_for(platform), self.settings.environ)

    def host_for(self, platform: Platform) -> GatewayHost:
        """What the adapter of a platform may ask of this gateway."""
        return GatewayHost(
            platform,
            self.home,
            self.config,
            accept=self.handle_message,
            spawn=self.spawn,
            authorization=self.authorization,
            parts=self.turns.parts,
            store=self.session_store,
            db=self._session_db,
            delivery=self.delivery,
            requests=partial(RequestSide, self),
        )

    def _drain_seconds(self) -> float:
        wanted = self.settings.agent.restart_drain_timeout if self.restarting else 0
        return wanted or self.config.drain_timeout

    async def _finalize_running(self, agent: Any) -> None:
        if agent is _AGENT_PENDING_SENTINEL:
            return
        session_id = getattr(agent, "session_id", None)
        interrupt = getattr(agent, "interrupt", None)
        if interrupt is not None:
            interrupt()
        await boundaries.tell(
            "on_session_finalize", session_id=session_id, platform="gateway", reason="shutdown"
        )
        self._cleanup_agent_resources(agent)

    def _stop_background_work(self) -> None:
        background = sys.modules.get("agent.background")  # not imported: nothing runs
        db = getattr(self, "_session_db", None)
        if background is not None and db is not None:
            background.stop_all(db.sync)

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        """Run a coroutine beside everything else, until the gateway stops."""
        task = asyncio.ensure_future(work)
        self._background_tasks.add(task)
        task.add_done_callback(self._background_done)
        return task

    def _background_done(self, task: asyncio.Task[Any]) -> None:
        self._background_tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("A task of the gateway failed", exc_info=task.exception())

    def _update_runtime_status(self, state: str) -> None:
        home = getattr(self, "home", None)
        status.write_runtime_status(
            state,
            home,
            **self.facts(),
        )

    def facts(self) -> dict[str, Any]:
        """How it is: platforms, turns, chats and deliveries, for status and metrics."""
        return metrics.gather(
            self.conversations,
            self.delivery,
            self.supervisor.states,
            waiting=self.turns.waiting,
            chats=len(self.session_store.list_sessions()),
            agents=len(self._agent_cache),
            started_at=self.started_at,
        )

    # Messages

    async def handle_message(self, event: MessageEvent) -> None:
        """A message has come in; returns when it is stored."""
        await self.pipeline.accept(event)

    async def _handle_reset_command(self, event: MessageEvent) -> str:
        """/new and /reset: end the chat's session and begin a new one."""
        key = self.session_store._generate_session_key(event.source)
        old_entry = self.session_store._entries.get(key)
        old_id = old_entry.session_id if old_entry else None
        agent = self._running_agents.get(key)
        if agent is not None and agent is not _AGENT_PENDING_SENTINEL:
            agent.interrupt()
        new_entry = self.session_store.reset_session(key)
        if new_entry is None:
            new_entry = self.session_store.get_or_create_session(event.source, force_new=True)
        self._evict_cached_agent(key)
        platform = event.source.platform.value
        is_left = old_id and sharing(self.session_store._entries, key, old_id)
        await boundaries.session_replaced(
            None if is_left else old_id, new_entry.session_id, platform
        )
        hooks = getattr(self, "hooks", None)
        if hooks is not None:
            facts = {"platform": platform, "user_id": event.source.user_id, "session_key": key}
            await hooks.emit("session:end", facts)
            await hooks.emit("session:reset", facts)
        return "✨ New session. What we said before is kept; /resume brings it back."

    async def switch_chat(self, session_key: str, session_id: str, source: SessionSource) -> None:
        """Bind a chat to another conversation; whoever asks has checked whose it is."""
        old_id = self.session_store.peek_session_id(session_key)
        self.session_store.get_or_create_session(source)
        session_entry = self.session_store.switch_session(session_key, session_id)
        if session_entry is None:
            raise ValueError(f"There is no session {session_id}.")
        if old_id and self.session_store.is_shared(session_key, old_id):
            old_id = None  # it goes on in other chats
        await boundaries.session_replaced(old_id, session_entry.session_id, source.platform.value)

    async def leave_conversation(self, session_key: str, source: SessionSource) -> None:
        """Give a chat a conversation of its own; the one it was in goes on in the others."""
        session_entry = self.session_store.reset_session(session_key)
        self._evict_cached_agent(session_key)
        if session_entry is not None:
            platform = source.platform.value
            await boundaries.session_replaced(None, session_entry.session_id, platform)

    async def emit_event(self, event: str, source: SessionSource, session_key: str) -> None:
        """Tell the gateway's event hooks."""
        await self.hooks.emit(
            event,
            {
                "platform": source.platform.value,
                "user_id": source.user_id,
                "chat_id": source.chat_id,
                "session_key": session_key,
                "session_id": self.session_store.peek_session_id(session_key),
            },
        )

    def shared_model(self) -> Any:
        """The configured model, one for all chats: its connections are shared."""
        if self._model is None:
            from agent.build import build_models

            self._model = build_models(self.settings)
        return self._model

    def _follow_rotation(self, session_entry: SessionEntry, new_id: str) -> bool:
        """Bind the chat to the session a compression moved to, before anybody is answered.

        For whoever runs in an agent's place; an agent tells its holders itself.
        """
        if not new_id or new_id == session_entry.session_id:
            return False
        self.session_store.follow(session_entry.session_id, new_id)
        session_entry.session_id = new_id
        self.session_store._save()
        return True

    # Agents between turns

    async def _refresh_agent_cache_message_count(self, session_key: str, session_id: str) -> None:
        """After a turn of our own: what the session has now is what we know."""
        row = await self._session_db.get_session(session_id)
        if row is None:
            return
        with agent_cache.guarded(self._agent_cache_lock):
            entry = self._agent_cache.get(session_key)
            if entry is not None:
                count = int(row["message_count"] or 0)
                self._agent_cache[session_key] = agent_cache.rebaselined(entry, session_id, count)

    def _evict_cached_agent(self, session_key: str) -> None:
        """Let a chat's agent go, and free what it holds."""
        cache = getattr(self, "_agent_cache", None)
        if cache is None:
            return
        with agent_cache.guarded(getattr(self, "_agent_cache_lock", None)):
            entry = cache.pop(session_key, None)
        if entry is not None and entry[0] is not _AGENT_PENDING_SENTINEL:
            self._cleanup_agent_resources(entry[0])

    def _cleanup_agent_resources(self, agent: Any) -> None:
        """End what an agent's tools have left running; never raises."""
        close = getattr(agent, "close", None)
        if close is None:
            return
        try:
            close()
        except Exception:
            # The agent is let go either way; what it left is reaped at the next start.
            log.exception("An agent could not be closed")

    def _sweep_idle_cached_agents(self) -> int:
        """Let go of agents that nobody used for long, and of the oldest if there are too many."""
        with agent_cache.guarded(self._agent_cache_lock):
            keys = agent_cache.oldest_beyond(
                self._agent_cache,
                self._agent_used,
                self._agent_weights,
                size=self.config.cache_size,
                most_bytes=self.config.cache_bytes,
                idle_seconds=self.config.cache_idle_seconds,
            )
        keys = [key for key in keys if key not in self._running_agents and not self.works_for(key)]
        for key in keys:
            self._evict_cached_agent(key)
            self._agent_used.pop(key, None)
            self._agent_weights.pop(key, None)
        return len(keys)

    def works_for(self, session_key: str) -> bool:
        """Whether something still runs in the background of a chat's agent."""
        return works_for(self._agent_cache.get(session_key), partial(self._policy_of, session_key))

    def _policy_of(self, session_key: str) -> ResetPolicy:
        entry = self.session_store.entry(session_key)
        platform = entry.platform.value if entry and entry.platform else ""
        return self.config.policy_for(platform, entry.chat_type if entry else "dm")

    def note_weight(self, session_key: str, agent: Any) -> None:
        """After a turn: how much the agent holds now; the oldest go if all hold too much."""
        self._agent_weights[session_key] = agent_cache.weight(agent)
        if sum(self._agent_weights.values()) > self.config.cache_bytes:
            self._sweep_idle_cached_agents()

    # Expiry

    async def _session_expiry_watcher(self, interval: float = 300) -> None:
        """End sessions that their reset policy says are over, each once."""
        await watch_expiry(self.expiry(), lambda: self._running, interval, self.prune)

    def expiry(self) -> Expiry:
        """What ends sessions that are over."""
        config, turns = getattr(self, "config", None), getattr(self, "turns", None)
        return Expiry(
            self.session_store,
            self._running_agents,
            self._evict_cached_agent,
            self._sweep_idle_cached_agents,
            max_age_days=config.session_store_max_age_days if config is not None else None,
            tell=turns.tell_expired if turns is not None else None,
        )

    async def prune(self) -> int:
        """Delete what is configured to be deleted; returns how many files that were."""
        config, settings = getattr(self, "config", None), getattr(self, "settings", None)
        if config is None or settings is None:
            return 0
        days = config.session_store_max_age_days
        return await prune(self._session_db.sync, self.home, settings.sessions, days)
