"""Event hooks of a home: a folder each, with HOOK.yaml and `handle(event, context)`.

Each handler is on its own: one that fails or hangs is logged, and the others and the chat go on.
One that was brought from elsewhere does not run until a person agreed to it.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import inspect
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.threads import in_thread
from hermes_base.session_context import bind_context

log = logging.getLogger(__name__)

HANDLER_SECONDS = 10.0
NOT_AGREED = ".not-agreed"
"""A file in the folder of a hook that a person has not agreed to yet."""

Handler = Callable[[str, dict[str, Any]], Any]


def hooks_in(folder: Path) -> dict[str, bool]:
    """The names of the hooks in a folder, and whether each may run."""
    if not folder.is_dir():
        return {}
    return {
        hook.name: not (hook / NOT_AGREED).exists()
        for hook in sorted(folder.iterdir())
        if (hook / "HOOK.yaml").is_file()
    }


class EventHooks:
    """The handlers in a folder, loaded at the first event."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handlers: list[tuple[str, frozenset[str], Handler]] | None = None
        self.is_empty = False
        """Whether it is known that there are none."""

    @property
    def loaded_hooks(self) -> list[str]:
        """The names of the handlers."""
        return [name for name, _, _ in self._load()]

    async def emit(self, event: str, context: dict[str, Any]) -> list[Any]:
        """Call every handler of the event; returns what they return, without the Nones."""
        results = []
        for name, events, handler in self._load():
            if event in events or f"{event.partition(':')[0]}:*" in events:
                result = await self._call(name, handler, event, context)
                if result is not None:
                    results.append(result)
        return results

    async def _call(self, name: str, handler: Handler, event: str, context: dict[str, Any]) -> Any:
        try:
            async with asyncio.timeout(HANDLER_SECONDS):
                if inspect.iscoroutinefunction(handler):
                    return await handler(event, dict(context))
                # A daemon: a handler that never returns must not keep a program from ending.
                call = functools.partial(handler, event, dict(context))
                return await in_thread(bind_context(call))
        except Exception:
            # Handlers are not ours: what they do wrong must not reach the chat.
            log.exception("The hook %s failed on %s", name, event)
            return None

    def _load(self) -> list[tuple[str, frozenset[str], Handler]]:
        if self._handlers is None:
            self._handlers = []
            if self._folder.is_dir() and not _is_safe_mode():
                for folder in sorted(self._folder.iterdir()):
                    self._load_one(folder)
            self.is_empty = not self._handlers
        return self._handlers

    def _load_one(self, folder: Path) -> None:
        assert self._handlers is not None
        if not (folder / "HOOK.yaml").is_file():
            return
        if (folder / NOT_AGREED).exists():
            log.warning("The hook %s does not run: hermes hooks accept %s", folder, folder.name)
            return
        import yaml

        try:
            manifest = yaml.safe_load((folder / "HOOK.yaml").read_text(encoding="utf-8")) or {}
            spec = importlib.util.spec_from_file_location(
                f"hermes_hook_{folder.name}", folder / "handler.py"
            )
            assert spec is not None and spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            events = frozenset(str(event) for event in manifest.get("events") or ())
            self._handlers.append((str(manifest.get("name") or folder.name), events, module.handle))
        except Exception:
            # A broken hook is left out; the program starts.
            log.exception("The hook in %s is left out", folder)


@functools.lru_cache(maxsize=8)
def hooks_of(home: Path) -> EventHooks:
    """The event hooks of a home, loaded once in a process."""
    return EventHooks(home / "hooks")


def _is_safe_mode() -> bool:
    """Whether the program was started without code of others."""
    from hermes_base.plugins.discovery import is_true

    return is_true(os.environ, "HERMES_SAFE_MODE")
