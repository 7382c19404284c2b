"""A tool: a function with a name, a schema, and its kind of side effect.

    @tool(toolset="files", effect="none")
    def count_lines(context: ToolContext, path: str) -> str:
        \"\"\"Count the lines of a text file.

        path: the file to look at
        \"\"\"
        return str(len(context.resolve(path).read_text().splitlines()))

The schema that models see is made from the signature and the docstring. A tool returns text, or
something JSON can hold; it fails by raising ToolError with what to try instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from hermes_state import OPERATOR

from .memory_scope import MemoryScope
from .permissions import EVERYTHING, Permissions
from .services import Services

if TYPE_CHECKING:
    from hermes_state import Owner, SessionDB, Wake

LOOK_SECONDS = 0.5
"""How often to check that an approval is still pending, if no write woke the waiter."""

Effect = Literal["none", "idempotent", "effectful"]
"""Whether running a tool twice, or not knowing if it ran, can do harm."""

Mode = Literal["plan", "guarded", "full"]
"""What a conversation may do: nothing but look; what its wall lets through; anything."""

Choice = Literal["once", "session", "always", "deny"]


class ToolError(Exception):
    """A failure the model should read: say what went wrong and what to try instead."""


def _undecided() -> Choice | None:
    """A question that only the asker itself can answer."""
    return None


class Answered(threading.Event):
    """Set when a question was answered here; it also wakes those who wait for the store."""

    def __init__(self, wake: Wake | None = None) -> None:
        super().__init__()
        self._wake = wake

    def set(self) -> None:
        """Mark the question as answered or withdrawn."""
        super().set()
        if self._wake is not None:
            self._wake.ring()


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A question to the person; with a store, a row that anybody with the token may decide."""

    id: str
    token: str
    command: str
    """What is to be done."""
    description: str
    """Why it is asked."""
    pattern_keys: list[str]
    expires_at: float
    """When the request counts as denied for want of an answer."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    decided: Callable[[], Choice | None] = _undecided
    """What somebody decided meanwhile, here or in another process."""
    wake: Wake | None = None
    """Says when to look again; None without a store."""
    clock: Callable[[], float] = time.time
    """By which it expires: the store's, which is the same for all who may answer."""

    @property
    def seconds_left(self) -> float:
        """How long it may still be answered; not above zero if its time has passed."""
        return self.expires_at - self.clock()

    @property
    def choices(self) -> tuple[Choice, ...]:
        """What can be answered; what is asked each time cannot be allowed for longer."""
        from .approval import ASKED_EACH_TIME

        if self.pattern_keys and ASKED_EACH_TIME.issuperset(self.pattern_keys):
            return ("once", "deny")
        return ("once", "session", "always", "deny")

    def await_choice(self, answered: threading.Event, answer: Callable[[], str | None]) -> Choice:
        """Wait for the decision, here (`answered`) or elsewhere; none in time is a denial."""
        while not self.cancelled.is_set() and (left := self.seconds_left) > 0:
            seen = self.wake.number if self.wake is not None else 0
            decided = self.decided()
            if decided is not None:
                return decided
            if answered.is_set():
                return answer() or "deny"  # type: ignore[return-value]
            if self.wake is not None:
                self.wake.wait(seen, min(LOOK_SECONDS, left))
            else:
                answered.wait(min(LOOK_SECONDS, left))
        return "deny"


class Asker(Protocol):
    """How a tool reaches the person; offered by the front end."""

    def approve(self, request: ApprovalRequest) -> Choice:
        """Ask whether something dangerous may be done; blocks until answered or timed out."""
        ...

    def clarify(self, question: str, choices: list[str]) -> str:
        """Ask a question; the answer may be one of the choices or anything else."""
        ...


class NobodyToAsk:
    """For runs without a person: nothing dangerous is allowed, no question is answered."""

    def approve(self, request: ApprovalRequest) -> Choice:
        """Deny."""
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        """Say that nobody answers."""
        raise ToolError("Nobody is there to answer. Decide yourself and say what you assumed.")


@dataclass(slots=True)
class Workspace:
    """What lasts from one tool call of a conversation to the next."""

    home: Path
    """The Hermes home."""
    cwd: Path
    """The working directory; commands may change it."""
    environ: dict[str, str] = field(default_factory=dict)
    """Variables that commands have set."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Sections of the configuration that concern tools: terminal, approvals, web, mcp, …"""
    state: dict[str, Any] = field(default_factory=dict)
    """Whatever a tool keeps for the conversation, under its own name."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    root: Path = Path()
    """Where the person put the conversation: what is inside may be written. It stays where it is,
    wherever commands go; without one, it is the first working directory."""
    folders: list[Path] = field(default_factory=list)
    """Further folders that the person added."""
    mode: Mode = "guarded"
    others: tuple[Path, ...] = ()
    """Folders in which everybody has a workspace, if people do: what is not this conversation's own
    in there does not exist for it, and only operators may let it leave its root."""
    uploads: Path | None = None
    """Where the files are that came with its messages, in a chat; those of others do not exist."""

    def __post_init__(self) -> None:
        if self.root == Path():
            self.root = self.cwd

    def section(self, name: str) -> Mapping[str, Any]:
        """A section of the configuration; empty if there is none."""
        section = self.settings.get(name)
        return section if isinstance(section, Mapping) else {}

    @property
    def is_local(self) -> bool:
        """Whether commands run on this machine, and not in a container or elsewhere."""
        return self.section("terminal").get("backend") in (None, "", "local")


@dataclass(slots=True)
class TurnFacts:
    """The turn that a tool runs in."""

    id: str = ""
    """Empty outside of turns."""
    request_id: str = ""
    """The model call that asked for the tool, while plugins are told of model calls."""
    changed_paths: set[str] = field(default_factory=set)
    """The files that the turn's tools changed, while plugins are told of tool calls."""


def _quiet(text: str) -> None:
    """Progress that nobody watches."""


@dataclass(slots=True)
class ToolContext:
    """What a running tool may know of its surroundings."""

    session_id: str
    call_id: str
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set when the user interrupts: a tool in a thread must stop soon after."""
    progress: Callable[[str], None] = _quiet
    """Show what is going on, for people to watch (live output)."""
    workspace: Workspace = field(default_factory=lambda: Workspace(Path.home(), Path.cwd()))
    db: SessionDB | None = None
    """The store, for tools that look into past conversations."""
    user_id: str | None = None
    """Whose conversation this is; None for the operator."""
    owner: Owner = OPERATOR
    """Whose past conversations may be shown."""
    permissions: Permissions = EVERYTHING
    """What may be used for them."""
    memory: MemoryScope = field(default_factory=MemoryScope)
    """Whose memories and skills there are."""
    written_by: str = "agent"
    """What the tool is used by: the agent in a turn, or a review of the conversation."""
    asker: Asker = field(default_factory=NobodyToAsk)
    turn: TurnFacts = field(default_factory=TurnFacts)
    services: Services = field(default_factory=Services)
    """What the layer above lends to tools that need it."""

    def resolve(self, path: str) -> Path:
        """A path as the user or model wrote it: `~` and relative to the working directory."""
        return self.workspace.cwd / Path(path).expanduser()


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool, as it is registered."""

    name: str
    description: str
    run: Callable[..., Any]
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    effect: Effect = "effectful"
    toolset: str = "other"
    check: Callable[[], str | None] | None = None
    """Says why the tool cannot be used here, or None if it can."""
    max_output: int = 50_000
    """Characters of its result that the model gets at once; all of it stays reachable."""

    def schema(self) -> dict[str, Any]:
        """The tool as models are told of it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }


def tool(
    *,
    toolset: str,
    effect: Effect,
    name: str | None = None,
    check: Callable[[], str | None] | None = None,
    max_output: int = 50_000,
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function `f(context, …)`; see the head of this module."""
    from .schema import describe

    def make(function: Callable[..., Any]) -> Tool:
        description, parameters = describe(function)
        return Tool(
            name=name or function.__name__,
            description=description,
            run=function,
            parameters=parameters,
            effect=effect,
            toolset=toolset,
            check=check,
            max_output=max_output,
        )

    return make
