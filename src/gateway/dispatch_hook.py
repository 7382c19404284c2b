"""The hook `pre_gateway_dispatch`: plugins leave messages out, or rewrite them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from hermes_base import plugins

if TYPE_CHECKING:
    from .platforms.base import MessageEvent
    from .session_store import SessionStore

log = logging.getLogger(__name__)


HOOK = "pre_gateway_dispatch"


class DispatchHook:
    """Asks the plugins about every message."""

    def __init__(self, gateway: object, store: SessionStore) -> None:
        """`gateway` is only handed to the plugins, which are promised it."""
        self._gateway = gateway
        self._store = store

    @staticmethod
    def is_used() -> bool:
        """Whether a plugin wants to be asked."""
        return plugins.has_hook(HOOK)

    async def passes(self, event: MessageEvent, name: str) -> bool:
        """Whether a message goes on; its text may be another one after that. `name` is for the
        log."""
        wishes = await asyncio.to_thread(
            plugins.invoke_hook,
            HOOK,
            event=event,
            gateway=self._gateway,
            session_store=self._store,
        )
        for wish in wishes or ():
            if not isinstance(wish, dict):
                continue
            if wish.get("action") == "skip":
                log.info("%s was left out: %s", name, wish.get("reason"))
                return False
            if wish.get("action") == "rewrite" and isinstance(wish.get("text"), str):
                event.text = wish["text"]
            return True
        return True
