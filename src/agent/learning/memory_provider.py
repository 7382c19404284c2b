"""The seam for other places to remember in: what a provider of memory may do.

The names and signatures are those that plugins are written against. See `memory_providers` for when
each is called.
"""
# ruff: noqa: B027 - what a provider does not care about is left as it is: nothing

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class MemoryProvider(ABC):
    """A place to remember in. All calls come one after the other, from a thread of their own.

    Only the first three must be written; `name` may also be a property. A provider may be shared by
    several conversations: where `session_id` is given, it says which one is meant.
    """

    @abstractmethod
    def name(self) -> str:
        """A short name, for logs and for whoever reads what it recalled."""

    @abstractmethod
    def is_available(self) -> bool:
        """Whether it can be used here: configured, installed. Does not ask the network."""

    @abstractmethod
    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """A session begins; `kwargs` are hermes_home, platform and user_id: whose memory it is, a
        person's id, "chat:…" for a group's, or None for the operator's."""

    def system_prompt_block(self) -> str:
        """A part of the system prompt; asked for once, when the session's prompt is built."""
        return ""

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """What to recall for a question; sent with it, never stored. Must be quick."""
        return ""

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """A turn has ended: time to prepare what the next one may need."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[dict[str, Any]] | None = None,
    ) -> None:
        """A turn was answered; `messages` is the conversation with it."""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Tools to offer to the model, each with name, description and parameters."""
        return []

    def handle_tool_call(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run one of these tools; returns what the model reads."""
        raise NotImplementedError(f"{tool_name} is not a tool of this provider")

    def shutdown(self) -> None:
        """Nobody uses it any more: write what is still to be written."""

    def on_turn_start(self, turn_number: int, message: str, **kwargs: Any) -> None:
        """A turn begins."""

    def on_session_end(self, messages: list[dict[str, Any]]) -> None:
        """A session ends for the user."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """The conversation goes on in another session; `reset`: another conversation begins."""

    def on_pre_compress(self, messages: list[dict[str, Any]]) -> str:
        """The conversation is about to be compressed; what the summary should not miss."""
        return ""

    def on_delegation(
        self, task: str, result: str, *, child_session_id: str = "", **kwargs: Any
    ) -> None:
        """A sub-agent has finished a task."""

    def get_config_schema(self) -> list[dict[str, Any]]:
        """What there is to configure, for a setup dialogue."""
        return []

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Keep what was entered there."""

    def on_memory_write(
        self, action: str, target: str, content: str, metadata: dict[str, Any] | None = None
    ) -> None:
        """MEMORY.md or USER.md was changed."""

    def backup_paths(self) -> list[str]:
        """Files and folders of its own that belong into a backup."""
        return []
