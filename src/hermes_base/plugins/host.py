"""What plugins borrow from the running program: its agents, its model, its profile.

Agents are known weakly: a plugin never keeps a conversation alive. The session that the calling
code belongs to decides which agent is meant.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hermes_base.session_context import get_session_env

if TYPE_CHECKING:
    from .hooks import Hooks
    from .registrations import Registrations

log = logging.getLogger(__name__)


class Program(Protocol):
    """What the program that loads plugins provides for registrations that need its other parts."""

    def new_llm(self, host: Host, plugin: str) -> Any:
        """The configured model, for one plugin."""

    def join(self, registered: Registrations) -> None:
        """Make known what other parts of Hermes look up in tables of their own."""

    def add_shell_hooks(
        self,
        config_raw: Mapping[str, Any],
        home: Path,
        environ: Mapping[str, str],
        hooks: Hooks,
    ) -> None:
        """Add what `hooks:` in the configuration names."""


class Host:
    """The program, as far as plugins may use it."""

    def __init__(
        self,
        home: Path,
        entries: Mapping[str, Any] | None = None,
        new_llm: Callable[[Host, str], Any] | None = None,
    ) -> None:
        """`entries` is `plugins.entries` of the configuration: what single plugins may do."""
        self.home = home
        self._entries = entries or {}
        self._new_llm = new_llm
        self.new_model: Callable[[str | None], Any] | None = None
        """Builds the configured model, or the one of that name; lent by whoever builds agents."""
        self._agents: weakref.WeakSet[Any] = weakref.WeakSet()
        self._latest: weakref.ref[Any] | None = None

    @property
    def profile_name(self) -> str:
        """The profile Hermes runs in."""
        is_named = self.home.parent.name == "profiles"
        return self.home.name if is_named else "default"

    def allows(self, plugin: str, *keys: str) -> bool:
        """Whether `plugins.entries.<plugin>.<keys>` is true."""
        value: Any = self._entries.get(plugin)
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return value is True

    def add_agent(self, agent: Any) -> None:
        """Let plugins reach this agent while it lives."""
        self._agents.add(agent)
        self._latest = weakref.ref(agent)

    def agent(self) -> Any | None:
        """The agent of the calling code's session, else the one built last."""
        session_id = get_session_env("HERMES_SESSION_ID")
        for agent in list(self._agents):
            if session_id and agent.session_id == session_id:
                return agent
        return self._latest() if self._latest is not None else None

    def inject(self, content: str) -> bool:
        """Put a message into the running turn, stored first; False if that cannot be done."""
        agent = self.agent()
        try:
            return agent is not None and bool(agent.steer(content))
        except Exception:
            # The store's errors are not known in this package; False tells the plugin.
            log.exception("A plugin's message could not be stored")
            return False

    def dispatch(self, tool_name: str, args: dict[str, Any]) -> str:
        """Run a tool of the current agent; what goes wrong is returned as text."""
        agent = self.agent()
        if agent is None:
            return "Error: no agent is running whose tools could be used."
        return str(agent.services.call_tool.answer(tool_name, dict(args)))

    def llm(self, plugin: str) -> Any:
        """The configured model, for one plugin."""
        if self._new_llm is None:
            raise RuntimeError("No model is configured in this program.")
        return self._new_llm(self, plugin)
