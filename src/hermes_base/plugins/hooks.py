"""The hooks: which there are, who listens, and how they are called.

Callbacks get keyword arguments only, in the order in which they were registered; what they return
(other than None) is handed to the code that fired the hook, which uses what makes sense of it. A
name with no callbacks costs one dict lookup.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from .calls import LIMIT, Callback

log = logging.getLogger(__name__)

SCHEMA_VERSION = "hermes.observer.v1"

KNOWN_HOOKS = frozenset({
    "on_session_start", "on_session_end", "on_session_finalize", "on_session_reset",
    "pre_llm_call", "post_llm_call", "transform_llm_output",
    "pre_api_request", "post_api_request", "api_request_error",
    "pre_tool_call", "post_tool_call", "transform_tool_result", "transform_terminal_output",
    "pre_verify", "subagent_start", "subagent_stop", "pre_gateway_dispatch",
    "pre_approval_request", "post_approval_response",
    "pre_compress", "post_compress",
})  # fmt: skip
"""What is fired. Callbacks for any other name are kept, in case somebody fires it."""


class Hooks:
    """The callbacks by hook. Lists are replaced, never changed, so that firing needs no lock."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Callback]] = {}
        self.limit = LIMIT
        self._lock = threading.Lock()

    def add(self, name: str, callback: Callback) -> None:
        """Call `callback` when the hook is fired, after those that are there already."""
        with self._lock:
            self.callbacks[name] = [*self.callbacks.get(name, ()), callback]

    def fire(self, name: str, kwargs: dict[str, Any]) -> list[Any]:
        """Call everybody; returns what they returned, without the Nones."""
        callbacks = self.callbacks.get(name)
        if not callbacks:
            return []
        kwargs = {**kwargs, "telemetry_schema_version": SCHEMA_VERSION}
        returned = [callback(kwargs, self.limit) for callback in callbacks]
        if any(callback.is_off for callback in callbacks):
            self._drop_those_that_are_off(name)
        return [value for value in returned if value is not None]

    def _drop_those_that_are_off(self, name: str) -> None:
        with self._lock:
            left = [callback for callback in self.callbacks.get(name, ()) if not callback.is_off]
            if left:
                self.callbacks[name] = left
            else:
                self.callbacks.pop(name, None)
