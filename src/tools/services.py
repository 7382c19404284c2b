"""What the layer above lends to tools.

A tool checks whether it has the service it needs and says so if not: the same tool runs in a chat,
in a server for other programs, and in a test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .delegate import Delegate


class SideModel(Protocol):
    """Asks a model something beside the conversation."""

    def ask_blocking(
        self, task: str, system: str, prompt: str, *, max_tokens: int, timeout: float | None = None
    ) -> str:
        """The model's answer to a task of that name; raises if there is none."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Services lent by the layer above; each is None where there is none."""

    delegate: Delegate | None = None
    """Starts sub-agents."""
    call_tool: Callable[[str, dict[str, Any]], str] | None = None
    """Runs a tool by its name for a program of the agent; callable from any thread."""
    notify: Callable[[str, str, bool], object] | None = None
    """Stores a notification for the conversation under a name, once; quietly or not."""
    auxiliary: SideModel | None = None
    """Asks a model something beside the conversation."""
    session_environ: Callable[[], Mapping[str, str]] | None = None
    """The session's values as environment variables of a command."""
    jobs: Callable[[str, Mapping[str, str]], str] | None = None
    """Makes and changes the person's jobs: an action, and what it needs."""
    sudo_password: Callable[[], str | None] | None = None
    """Asks the person for the password that sudo wants."""
    resolver: Callable[[str, int], Awaitable[list[str]]] | None = None
    """Resolves names of hosts in place of the system."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What plugins lend to their own tools, by names of theirs."""

    def replaced_by(self, other: Services | None) -> Services:
        """These services, with what `other` has in their place."""
        if other is None:
            return self
        values = {field.name: getattr(other, field.name) for field in dataclasses.fields(other)}
        return dataclasses.replace(self, **{name: value for name, value in values.items() if value})
