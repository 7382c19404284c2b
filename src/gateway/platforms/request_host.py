"""What an adapter gets that answers within a request, as the API does: turns, and the store.

Chats need none of this: their messages are accepted, and their answers are delivered.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agent.access import Access
    from agent.config import Config
    from hermes_state import AsyncSessionDB

    from ..asking import Questions
    from ..requests import Request, Requests
    from ..session import SessionSource


class RequestHost(Protocol):
    """The gateway, as an adapter sees it whose requests wait for their answers."""

    @property
    def home(self) -> Path:
        """The Hermes home."""

    @property
    def settings(self) -> Config:
        """The configuration of the agent."""

    @property
    def store(self) -> AsyncSessionDB:
        """The store."""

    @property
    def queue(self) -> Requests:
        """Takes requests, and runs their turns one at a time per conversation."""

    @property
    def questions(self) -> Questions:
        """What turns ask while they run."""

    @property
    def is_running(self) -> bool:
        """False once the gateway is being stopped."""

    async def passes_hooks(self, request: Request) -> bool:
        """Whether plugins let a request go on; they may have rewritten its text."""

    async def identify(self, source: SessionSource) -> None:
        """Note with a source who its sender is."""

    def access(self, source: SessionSource, key: str | None = None) -> Access:
        """What whoever asks may use, in the conversation of that key."""

    def session_for(self, source: SessionSource) -> str:
        """The id of the session that a key is bound to; a new one if there was none."""

    def running_agent(self, session_key: str) -> Any | None:
        """The agent whose turn runs in a conversation."""

    def forget_agent(self, session_key: str) -> None:
        """Let the agent of a conversation go."""

    def facts(self) -> dict[str, Any]:
        """The gateway in numbers, as metrics and status tell them."""

    def health(self) -> Mapping[str, Any]:
        """Platforms with their states, and how many agents and turns there are."""
