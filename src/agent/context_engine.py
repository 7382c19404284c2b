"""ContextEngine: another way to keep a conversation within its model's window.

A plugin subclasses it and registers an instance with `ctx.register_context_engine(engine)`;
`context.engine` in config.yaml names the one to use, and `hermes_base.plugins.get_context_engine`
finds it. `name` may be a property or a method.
"""

# ruff: noqa: B027 - what an engine does not care about is left as it is: nothing

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

Messages = list[dict[str, Any]]


class ContextEngine(ABC):
    """What an engine must do, and what it may.

    Calls come one after the other, on a thread of the engine's own, also from several conversations
    at once: `on_session_start` names the one. The built-in compression is used where an engine
    fails or hangs.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that `context.engine` chooses it by."""

    # When

    @abstractmethod
    def update_from_response(self, usage: dict[str, Any]) -> None:
        """A request was answered: `prompt_tokens`, `completion_tokens`, `total_tokens` and more."""

    @abstractmethod
    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        """Whether the conversation is to be made smaller, before each further request of a turn.

        What no longer fits the model's window is compressed in any case.
        """

    def should_compress_preflight(self, messages: Messages) -> bool:
        """The same before a turn's first request, from the stored conversation."""
        return False

    def should_defer_preflight_to_real_usage(self, rough_tokens: int) -> bool:
        """Asked after a yes to that: whether to wait until the provider has counted."""
        return False

    # How

    def has_content_to_compress(self, messages: Messages) -> bool:
        """Asked before `compress`: whether there is anything that could be made smaller."""
        return True

    @abstractmethod
    def compress(
        self,
        messages: Messages,
        current_tokens: int | None = None,
        focus_topic: str | None = None,
        force: bool = False,
        memory_context: str = "",
    ) -> Messages:
        """The messages that stand for `messages` from now on; the newest request among them."""

    # Its life

    def on_session_start(self, session_id: str, **kwargs: Any) -> None:
        """An agent begins to work in a session (`platform`, `conversation_id`).

        With `boundary_reason="compression"` the conversation was compressed, and that is stored:
        it goes on from `old_session_id` in this session, the same one if that was in place.
        """

    def on_session_end(self, session_id: str, messages: Messages) -> None:
        """The agent leaves the session: it was closed, reset, or put out of memory for now."""

    def on_session_reset(self) -> None:
        """A new conversation begins; `on_session_start` follows."""

    def update_model(
        self,
        model: str,
        context_length: int,
        base_url: str = "",
        api_key: str = "",
        provider: str = "",
        api_mode: str = "",
    ) -> None:
        """The model that is asked: when an agent is built, and when another one is chosen.

        Keys are not handed out: `api_key` and `api_mode` are empty.
        """

    # What it offers

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools that the agent gets with this engine; asked once, when it is built."""
        return []

    def handle_tool_call(self, name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of those tools; `messages` is the conversation, `session_id` where it is."""
        raise NotImplementedError(f"There is no tool {name!r}.")

    def get_status(self) -> dict[str, Any]:
        """Figures that /usage shows."""
        return {}
