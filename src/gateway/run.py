"""GatewayRunner: wires adapters, inbound pipeline, turns and delivery; starts and stops them.

The names here are relied on from outside and may be replaced at run time; each method touches only
what it needs.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.abandoned_work import end_abandoned_tasks
from agent.access import table_of
from agent.outcome import outcome_from_dict
from agent.workspaces import Workspaces
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from conversation.tasks import Tasks
from hermes_state import StoreError

from . import agent_cache, boundaries, metrics, restart, status
from .abandoned_in_chats import AbandonedTurns
from .adapter_host import GatewayHost, RequestSide
from .agent_cache import AgentCache
from .agent_source import AgentSource
from .asking import Questions
from .authorization import Authorization
from .balance import Balance
from .chat_door import ChatParts
from .chat_options import ChatOptions
from .chat_sessions import ChatSessions, reset_chat
from .chat_turns import ChatTurns
from .commands import Commands
from .config import GatewayConfig, Platform, PlatformConfig, ResetPolicy
from .delivery import Delivery
from .dispatch_hook import DispatchHook
from .expiry import Expiry, feed_search, prune, watch_expiry
from .handoff import Handoffs
from .jobs import GatewayJobs
from .links import Links, may_see
from .notes import NoteTurns
from .pipeline import Pipeline
from .platforms.base import MessageEvent, PlatformAdapter
from .platforms.create import create_adapter
from .platforms.events.hooks import wanted_events
from .recovery import Recovery
from .replica import Replica, shared_settings
from .replies import normalize_empty_response
from .requests import RequestParts
from .session import SessionEntry, SessionSource
from .session_store import SessionStore
from .supervision import Supervisor
from .surface import CommandParts
from .workspaces import folder_of_chat

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import AsyncSessionDB, SessionDB

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
        self._tasks = Tasks("the gateway")
        self._background_tasks = self._tasks.running
        self._stopping: asyncio.Task[None] | None = None
        self.stopped = asyncio.Event()
        self.ending = asyncio.Event()
        """Set when the process should end; whoever runs the gateway waits for it."""
        self.restart = restart.Restart(home, self.ending)
        self.started_at = time.time()
        self.agents = AgentCache(config, self._running_agents, self._policy_of)
        self._agent_cache, self._agent_cache_lock = self.agents.entries, self.agents.lock
        self.session_store = SessionStore(
            session_db.sync, config, home=home, is_busy=self.agents.works_in
        )
        self.adapters: dict[Platform, PlatformAdapter] = {}
        self.questions = Questions()
        self.hooks: Any = EventHooks(home / "hooks")
        self._model: Any = None
        self.replica = Replica(
            session_db, shared_settings(settings), settings.replicas.address or None,
            settings.replicas.prefer,
        )  # fmt: skip
        self.authorization = Authorization(
            config, session_db, table_of(settings), with_doors=bool(settings.limits.people)
        )
        self.delivery = Delivery(
            session_db, self.adapters, config, home, self._tasks.spawn,
            may_see=functools.partial(may_see, self.session_store, self.authorization),
            lease_of=lambda platform: self.supervisor.lease_of(platform),
        )  # fmt: skip
        self.conversations = Conversations(
            session_db,
            lambda: self.settings.agent,
            lambda: self.hooks,
            is_running=self.is_running,
            limit=config.max_concurrent_sessions,
            spawn=self._tasks.spawn,
            agents=self._running_agents,
            linked=self.session_store.linked_chats,
            send=self.delivery.wake_chat,
            has_room=self.replica.find_room(config.max_concurrent_sessions),
        )
        self._wire()

    def _wire(self) -> None:
        """Give each stage of a message's way what it needs, and no more."""
        config, settings, db, store = (
            self.config, self.settings, self._session_db, self.session_store,
        )  # fmt: skip
        adapters, authorization, delivery = self.adapters, self.authorization, self.delivery
        places = self.conversations.places
        chats = ChatSessions(store, db, self._evict_cached_agent)
        options = ChatOptions(store, places, {"reasoning": settings.model.reasoning_effort})
        workspaces = Workspaces(config.workspaces, self.home)
        delivery.folder_of = functools.partial(folder_of_chat, workspaces, db.sync, store)
        agents = AgentSource(
            self.agents, db, store, settings, self.shared_model, options, adapters, self.questions,
            delivery, lambda: self.hooks, self._tasks.spawn, authorization.access,
            workspaces,
        )  # fmt: skip
        links = Links(store, db, self.conversations, authorization, delivery, chats)
        abandoned = AbandonedTurns(
            db, store, config, settings, self.conversations, authorization, delivery,
            self._tasks.spawn,
        )  # fmt: skip
        self.turns = ChatTurns(
            self.conversations,
            options,
            ChatParts(
                config, db, store, agents, adapters, delivery, self.questions, abandoned,
                self.is_running,
                follow=lambda *chat: self._follow_rotation(*chat),
                recount=lambda *chat: self._refresh_agent_cache_message_count(*chat),
                serves=lambda platform: self.supervisor.serves(platform),
                still_holds=lambda lease: self.supervisor.still_holds(lease),
            ),
        )  # fmt: skip
        commands = Commands(
            CommandParts(
                db, settings, store, authorization, delivery, agents, options, self.turns, links,
                self.questions, self._handle_reset_command, chats.switch_chat,
            ),
            self.restart,
            lambda *event: self.emit_event(*event),
        )  # fmt: skip
        self.hook = DispatchHook(self, store)
        self.pipeline = Pipeline(
            config, db, store, authorization, delivery, self.questions, self.turns, self.hook,
            commands, serves=lambda platform: self.supervisor.serves(platform),
            lease_of=lambda platform: self.supervisor.lease_of(platform),
            still_holds=lambda lease: self.supervisor.still_holds(lease), home=settings.home,
        )  # fmt: skip
        self.request_parts = RequestParts(
            db, agents, self.questions, self.turns, self.is_running, authorization
        )
        self.handoffs = Handoffs(
            db, store, config, adapters, authorization, delivery, places, chats.switch_chat,
            self._evict_cached_agent, lambda platform: self.supervisor.is_elsewhere(platform),
        )  # fmt: skip
        notes = NoteTurns(db, store, authorization, self.turns)
        jobs = GatewayJobs(
            db, settings, store, agents, adapters, self.questions, delivery, self.turns,
            self.is_running,
        )  # fmt: skip
        self.turns.job_door = jobs.door_of
        self.scheduler = jobs.scheduler()
        self.recovery = Recovery(
            db,
            store,
            settings,
            delivery,
            abandoned,
            notes,
            self.turns,
            self.pipeline,
            self.scheduler,
        )
        self.supervisor = Supervisor(
            config.platforms, adapters, self._make_adapter, recover=self.recovery.recover,
            resume=delivery.resume_platform, replica=self.replica, lost=self.recovery.forget,
            settle=delivery.drain,
        )  # fmt: skip
        self.balance = Balance(
            db, self.replica, self.supervisor, store, delivery, self.turns.runs_in
        )

    # Start and stop

    async def start(self) -> None:
        """Connect every enabled platform, and recover what an earlier run left."""
        self._running = True
        self.started_at = time.time()
        self.conversations.since = await self._session_db.at_hand(self._session_db.sync.now)
        await self._session_db.at_hand(self.session_store.refresh)
        await self.replica.start()
        await self._session_db.set_webhooks(wanted_events(self.config))
        await self.delivery.resume()
        await self.supervisor.connect_all()
        await restart.tell_back(self.home, self.delivery)
        self.spawn(self._session_expiry_watcher())
        self.spawn(self.handoffs.watch(self.is_running))
        self.spawn(self.recovery.watch(self.adapters, self.is_running))
        if self.settings.jobs.enabled:
            await self.scheduler.recover(with_own=True)
            self.spawn(self.scheduler.watch(self.is_running))
        self.spawn(self.replica.keep_tidy(end_abandoned_tasks))
        self.spawn(self.balance.watch(self.is_running))
        self._update_runtime_status("running")
        platforms = [platform.value for platform in self.adapters]
        await self.hooks.emit("gateway:startup", {"platforms": platforms})

    async def stop(self) -> None:
        """Accept nothing more, let turns end for a while, notify the others' chats, disconnect."""
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
        is_handed_over = await self._hand_over()
        conversations = getattr(self, "conversations", None)
        if conversations is not None:
            cut_off = await conversations.drain(self._drain_seconds())
            home = self.home if is_handed_over or self.restart.wanted else None
            await restart.notify_interrupted(
                cut_off, self.session_store, self._session_db, self.delivery, home
            )
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
        if self._shares_store():
            await self.replica.leave()
        for key in list(getattr(self, "_agent_cache", ())):
            self._evict_cached_agent(key)
        status.remove_pid_file()
        self._update_runtime_status("stopped")
        stopped = getattr(self, "stopped", None)
        if stopped is not None:
            stopped.set()

    async def _hand_over(self) -> bool:
        """Let another replica go on with the chats at once, if there is one: it sends what our
        turns still say, and goes on with those that do not end in time."""
        if not self._shares_store():
            return False
        try:
            if not await self.replica.has_others():
                return False
            await self.supervisor.hand_over()
        except StoreError as error:
            log.warning("Other replicas go on when our leases have run out: %s", error)
        return True

    def _make_adapter(self, platform: Platform, config: PlatformConfig) -> PlatformAdapter:
        return create_adapter(platform, config, self.host_for(platform), self.settings.environ)

    def host_for(self, platform: Platform) -> GatewayHost:
        """What the adapter of a platform may ask of this gateway."""
        return GatewayHost(
            platform,
            self.home,
            self.config,
            accept=self.pipeline.accept,
            spawn=self._tasks.spawn,
            authorization=self.authorization,
            parts=self.turns.parts,
            store=self.session_store,
            db=self._session_db,
            delivery=self.delivery,
            requests=self._request_side,
            lease=lambda: self.supervisor.lease_of(platform),
        )

    def _request_side(self) -> RequestSide:
        return RequestSide(
            self.home, self.settings, self.session_store, self.supervisor.states, self.hook,
            self.request_parts, self.facts,
        )  # fmt: skip

    def is_running(self) -> bool:
        """Whether it takes messages: False once it is being stopped."""
        return self._running

    def _drain_seconds(self) -> float:
        wanted = self.settings.agent.restart_drain_timeout if self.restart.wanted else 0
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
        return self._tasks.spawn(work)

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
        hooks = getattr(self, "hooks", None)
        return await reset_chat(
            self.session_store,
            self._store_db(),
            self._running_agents,
            self._evict_cached_agent,
            hooks,
            event,
        )

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

        For a substitute of an agent; an agent notifies its holders itself.
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
        await agent_cache.recount(
            self._agent_cache, self._agent_cache_lock, self._session_db, session_key, session_id
        )

    def _evict_cached_agent(self, session_key: str) -> None:
        """Let a chat's agent go, and free what it holds."""
        lock = getattr(self, "_agent_cache_lock", None)
        agent_cache.evict(getattr(self, "_agent_cache", None), lock, session_key)

    def _cleanup_agent_resources(self, agent: Any) -> None:
        """End what an agent's tools have left running; never raises."""
        agent_cache.close_agent(agent)

    def _sweep_idle_cached_agents(self) -> int:
        """Let go of agents that nobody used for long, and of the oldest if there are too many."""
        return self.agents.sweep()

    def _policy_of(self, session_key: str) -> ResetPolicy:
        entry = self.session_store.entry(session_key)
        platform = entry.platform.value if entry and entry.platform else ""
        return self.config.policy_for(platform, entry.chat_type if entry else "dm")

    # Expiry

    async def _session_expiry_watcher(self, interval: float = 300) -> None:
        """End sessions that their reset policy says are over, each once."""
        feed = functools.partial(feed_search, self._store_db())
        await watch_expiry(self.expiry(), self.is_running, interval, self.prune, feed)

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
            db=self._store_db(),
            may_end=self._ends if self._shares_store() else None,
        )

    def _shares_store(self) -> bool:
        replica = getattr(self, "replica", None)
        return replica is not None and replica.is_shared

    async def _ends(self, entry: SessionEntry) -> bool:
        """Whether it is this replica that ends a session: that which has its chat, or one of all
        where no one has."""
        platform = entry.platform
        if platform is not None and self.supervisor.is_held(platform):
            return self.supervisor.serves(platform)
        return await self.replica.leads()

    def _store_db(self) -> SessionDB | None:
        db = getattr(self, "_session_db", None)
        return getattr(db, "sync", None)

    async def prune(self) -> int:
        """Delete what is configured to be deleted; returns how many files that were."""
        config, settings = getattr(self, "config", None), getattr(self, "settings", None)
        if config is None or settings is None:
            return 0
        if not await self.replica.leads():
            return 0
        days = config.session_store_max_age_days
        return await prune(
            self._session_db.sync, self.home, settings.sessions, days,
            config.media_days, config.media_bytes,
        )  # fmt: skip
