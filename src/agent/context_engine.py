"""ContextEngine: another way to keep a conversation within its model's window.

A plugin subclasses it and registers an instance with `ctx.register_context_engine(engine)`;
`context.engine` in config.yaml names the one to use, and `hermes_cli.plugins.get_context_engine`
finds it. `name` may be a property or a method.
"""

# ruff: noqa: B027 - what an engine does not care about is left as it is: nothing

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

Messages = list[dict[str, Any]]


class ContextEngine(ABC):
    """What an engine must do, and what it may."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `context.engine` chooses it by."""

    @abstractmethod
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """A request was answered; `usage` says how many tokens it had."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the conversation is to be made smaller now."""

    @abstractmethod
    def compress(
        self,
        messages: Messages,
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> Messages:
        """The messages that stand for `messages` from now on."""

    def should_compress_preflight(self, messages: Messages) -> bool:
        """Whether a stored conversation is too large before it is sent at all."""
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Whether an estimate is to be left aside in favour of the provider's own count."""
        return False

    def has_content_to_compress(self, messages: Messages) -> bool:
        """Whether there is anything that could be made smaller."""
        return True

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """A session begins, or goes on under another id (`boundary_reason`)."""

    def on_session_end(self, session_id: str, messages: Messages) -> None:
        """A session is over."""

    def on_session_reset(self) -> None:
        """A new conversation begins."""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools that the agent gets with this engine."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of those tools."""
        raise NotImplementedError(f"There is no tool {name!r}.")

    def get_status(self) -> dict[str, Any]:
        """Figures for whoever wants to see them."""
        return {}

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        api_mode: str = "",
    ) -> None:
        """The conversation goes on with another model."""
