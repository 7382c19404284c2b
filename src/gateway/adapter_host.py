"""The gateway as its adapters see it: `AdapterHost` and `RequestHost`, for one platform."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_state import LeaseLostError
from tools.objects import are_shared, put_file

from . import media
from .config import GatewayConfig, Platform
from .platforms.base import MessageEvent
from .platforms.host import AdapterLimits
from .requests import Requests, event_of
from .session import SessionSource

if TYPE_CHECKING:
    from agent.access import Access
    from agent.config import Config
    from hermes_state import AsyncSessionDB, PlatformLease, SessionDB

    from .asking import Questions
    from .authorization import Authorization
    from .delivery import Delivery
    from .dispatch_hook import DispatchHook
    from .message_parts import PartsExpected
    from .requests import Request, RequestParts
    from .session_store import SessionStore


class GatewayHost:
    """What one adapter may ask of the gateway."""

    def __init__(
        self,
        platform: Platform,
        home: Path,
        config: GatewayConfig,
        *,
        accept: Callable[[MessageEvent], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, object]], asyncio.Task[Any]],
        authorization: Authorization,
        parts: PartsExpected,
        store: SessionStore,
        db: AsyncSessionDB,
        delivery: Delivery,
        requests: Callable[[], RequestSide],
        lease: Callable[[], PlatformLease | None] = lambda: None,
    ) -> None:
        """`accept` takes a message in, and returns when it is stored; `spawn` runs a coroutine
        until the gateway stops. `parts` puts messages together that came in pieces; `requests`
        makes what an adapter needs that answers within a request; `lease` is the one under which
        the platform is held."""
        self.home = home
        self.accept = accept
        self.spawn = spawn
        self.is_allowed = authorization.is_allowed
        self.expects = parts.expects
        self.limits = AdapterLimits(
            media_bytes=config.max_inbound_media_bytes,
            gives_pairing_codes=config.unauthorized_dm_behavior == "pair",
        )
        self._platform = platform
        self._config = config
        self._parts = parts
        self._store = store
        self._db = db
        self._delivery = delivery
        self._new_requests = requests
        self.shelf: StoreShelf | None = None
        if db.sync.is_on_server:
            self.shelf = StoreShelf(db.sync, lease)
        self.records = StoreRecords(db.sync, platform.value, lease)

    def expecting(self, source: SessionSource) -> AbstractContextManager[None]:
        """While the files of a message are fetched: earlier parts of that message wait."""
        return self._parts.fetching(self._store.key_of(source))

    async def keep_file(self, chat_id: str, name: str, data: AsyncGenerator[bytes, None]) -> Path:
        """Keep a file that came with a message; MediaTooLargeError beyond the limit, StoreError if
        other gateways could not have it."""
        folder, limit = self._platform.value, self.limits.media_bytes
        path = await media.keep(self.home, folder, chat_id, name, data, limit)
        if are_shared(self._db.sync):
            # Before its message is: another gateway may be the one to go on with that.
            await asyncio.to_thread(put_file, self._db.sync, self.home, path)
        return path

    def serves(self, platform: Platform) -> bool:
        """Whether another platform is enabled."""
        config = self._config.platforms.get(platform)
        return config is not None and config.enabled

    async def deliver(self, to: SessionSource, text: str, key: str) -> None:
        """Enqueue a text for a chat of any platform, once per `key`."""
        session_key = self._store.key_of(to)
        await self._db.add_delivery(
            key,
            text,
            session_key=session_key,
            platform=to.platform.value,
            chat_id=to.chat_id,
            thread_id=to.thread_id,
        )
        self.spawn(self._delivery.flush(session_key))

    async def release(self, source: SessionSource) -> int:
        """Send what was held for a chat until somebody wrote in it."""
        keys = await self._db.release_deliveries(source.platform.value, source.chat_id)
        for session_key in keys:
            self.spawn(self._delivery.flush(session_key))
        return len(keys)

    async def not_shown(self, key: str, reason: str, *, held: bool) -> None:
        """Take back that the text of a key was delivered."""
        await self._delivery.take_back(key, reason, held=held)

    @cached_property
    def requests(self) -> RequestSide:
        """For an adapter that answers within a request."""
        return self._new_requests()


class StoreShelf:
    """What an adapter keeps with the lease of its platform."""

    def __init__(self, db: SessionDB, lease: Callable[[], PlatformLease | None]) -> None:
        self._db = db
        self._lease = lease

    def read(self) -> dict[str, Any]:
        """Everything that was kept; nothing where the platform is not held."""
        lease = self._lease()
        return {} if lease is None else self._db.get_kept_for_platform(lease.name)

    def write(self, kept: Mapping[str, Any]) -> None:
        """Keep facts by name; LeaseLostError if another gateway has the platform by now."""
        lease = self._lease()
        if lease is None:
            raise LeaseLostError("nothing is held here")
        self._db.keep_for_platform(lease, kept)


class StoreRecords:
    """What an adapter keeps by name, in the store; on a server under the lease of its platform."""

    def __init__(
        self, db: SessionDB, platform: str, lease: Callable[[], PlatformLease | None]
    ) -> None:
        self._db = db
        self._platform = platform
        self._lease = lease

    def read(self, prefix: str = "") -> dict[str, str]:
        """The values of all names that begin with `prefix`."""
        return self._db.get_platform_records(self._platform, prefix)

    def write(self, changes: Mapping[str, str | None]) -> None:
        """Write values by name; LeaseLostError if another gateway has the platform by now."""
        lease = self._lease()
        if lease is None and self._db.is_on_server:
            raise LeaseLostError("nothing is held here")
        self._db.keep_platform_records(self._platform, changes, lease)


class RequestSide:
    """What an adapter may ask of the gateway whose requests wait for their answers."""

    def __init__(
        self,
        home: Path,
        settings: Config,
        sessions: SessionStore,
        states: Mapping[str, str],
        hook: DispatchHook,
        parts: RequestParts,
        facts: Callable[[], dict[str, Any]],
    ) -> None:
        """`states` are those of the platforms; `facts` counts, for status and metrics."""
        self.home = home
        self.settings = settings
        self.store: AsyncSessionDB = parts.db
        self.questions: Questions = parts.questions
        self.queue: Requests = Requests(parts)
        self.facts = facts
        self._sessions = sessions
        self._states = states
        self._hook = hook
        self._parts = parts
        self._conversations = parts.turns.conversations

    @property
    def is_running(self) -> bool:
        """False once the gateway is being stopped."""
        return self._parts.is_running()

    async def passes_hooks(self, request: Request) -> bool:
        """Whether plugins let a request go on; they may have rewritten its text."""
        if not self._hook.is_used():
            return True
        event = event_of(request)
        before = event.text
        if not await self._hook.passes(event, request.id):
            return False
        if event.text != before:
            request.content = event.text
        return True

    async def identify(self, source: SessionSource) -> None:
        """Note with a source who its sender is."""
        await self._parts.authorization.identify(source)

    def access(self, source: SessionSource, key: str | None = None) -> Access:
        """What whoever asks may use, in the conversation of that key."""
        return self._parts.authorization.access(source, key)

    def session_for(self, source: SessionSource) -> str:
        """The id of the session that a key is bound to; a new one if there was none."""
        return self._sessions.get_or_create_session(source).session_id

    def running_agent(self, session_key: str) -> Any | None:
        """The agent whose turn runs in a conversation."""
        return self._conversations.agents.get(session_key)

    def forget_agent(self, session_key: str) -> None:
        """Let the agent of a conversation go."""
        self._parts.agents.cache.evict(session_key)

    def health(self) -> Mapping[str, Any]:
        """Platforms with their states, and how many agents and turns there are."""
        return {
            "platforms": dict(self._states),
            "active_agents": len(self._conversations.agents),
            "cached_agents": len(self._parts.agents.cache.entries),
            "turns_in_flight": self._conversations.in_flight,
        }
