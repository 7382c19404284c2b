"""Boundary hooks: where a session begins and ends; once, in order, within a time limit.

A hook that fails or hangs delays nobody: each call has its time, and whatever it does, the session
goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import Any

from hermes_base import plugins

log = logging.getLogger(__name__)

HOOK_SECONDS = 10.0


async def tell(event: str, **facts: Any) -> None:
    """Fire a boundary hook off the event loop, and wait for it at most `HOOK_SECONDS`."""

    def fire() -> None:
        plugins.invoke_hook(event, **facts)

    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(HOOK_SECONDS):
            await loop.run_in_executor(None, context.run, fire)
    except TimeoutError:
        log.warning("%s took longer than %.0f s; it is not waited for", event, HOOK_SECONDS)
    except Exception:
        # Plugins are not ours: what they do wrong must not reach the user.
        log.exception("%s failed", event)


async def session_replaced(old_id: str | None, new_id: str | None, platform: str) -> None:
    """A chat begins anew: the old session's end, then the new one's beginning."""
    if old_id:
        await tell("on_session_finalize", session_id=old_id, platform=platform)
    if new_id:
        await tell("on_session_reset", session_id=new_id, platform=platform)
