"""What a platform is, as its package says: name, environment, settings, setup, capabilities.

Each platform's package has a `manifest.py` with one `MANIFEST`; a plugin registers one. Everything
that needs to know a platform reads it: configuration, `hermes gateway setup`, `hermes doctor`, the
documentation, and whoever makes the adapter. It is cheap to import: heavy things are named as
`"module:name"` and imported when they are used.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..config import PlatformConfig
    from .base import PlatformAdapter
    from .host import AdapterHost

Formatter = Callable[[str], str]
"""Markdown as the platform takes it."""
AdapterFactory = Callable[["PlatformConfig", "AdapterHost"], "PlatformAdapter"]
Ask = Callable[[str], str]
Say = Callable[[str], None]
SetUp = Callable[[Path, Ask, Ask, Say], int]
"""`set_up(home, ask, ask_secret, say)` asks and writes by itself; returns the exit code."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a platform can do."""

    max_length: int = 4000
    """How long one message may be, as `PlatformAdapter.measure` counts."""
    edits: bool = False
    buttons: bool = False
    typing: bool = False
    reactions: bool = False
    reaction_answers: bool = False
    """Whether a reaction of a person under a question answers it, as a button would."""
    media: bool = False
    attaches: bool = False
    """Whether a text and its files are one message, which is shown once as a text is."""
    repeatable: bool = False
    """Whether a text that is sent again under the same key is shown once, by whichever process."""
    edit_interval: float = 1.0
    """Seconds between two edits of a streamed answer, by the platform's rate limit."""
    most_edits: int = 0
    """How often one message can be edited; 0 for any number. The last is for the whole answer."""
    people: bool = True
    """Whether people read there, who are told of a restart; programs ask again themselves."""
    pushes: bool = True
    """Whether a text can be sent that answers no request; else answers go back within theirs."""
    signed: bool = False
    """Whether each message proves by itself that its sender may talk, as a signed request does."""


@dataclass(frozen=True, slots=True)
class SetupQuestion:
    """One question of `hermes gateway setup`; the answer is kept in `.env`."""

    variable: str
    prompt: str
    secret: bool = False
    pattern: str = ""
    """What the whole answer must look like; anything if empty."""
    problem: str = ""
    """What is said of an answer that does not."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A key of the platform's section, as docs/configuration.md describes it."""

    key: str
    kind: str
    default: str
    text: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One platform."""

    name: str
    """Of its section in config.yaml, of its conversations' source, of its chats' keys."""
    label: str
    """What people call it."""
    adapter: str | AdapterFactory
    """Makes the adapter from the section and its host; usually the adapter's class."""
    capabilities: Capabilities = Capabilities()
    formatter: str | Formatter | None = None
    """Markdown as the platform takes it; None sends it as it is."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Keys of the section that may come from the environment instead: key → variable."""
    required_environment: tuple[str, ...] = ()
    """Variables without which it is not served."""
    secrets: tuple[str, ...] = ("token", "password")
    """Keys that hold secrets: kept out of logs; having one enables the platform."""
    enabled_by: tuple[str, ...] = ()
    """Keys that are no secrets and enable the platform too, where it can be used without one."""
    settings: tuple[Setting, ...] = ()
    """Keys of the section beside those that every platform has."""
    setup_label: str = ""
    """Its name in the menu of `hermes gateway setup`, if not its label."""
    setup_intro: str = ""
    """What is said before the first question."""
    questions: tuple[SetupQuestion, ...] = ()
    set_up: str | SetUp | None = None
    """Asks and writes what questions cannot; used instead of them."""
    extra: str = ""
    """The optional part of Hermes that brings its libraries."""
    modules: tuple[str, ...] = ()
    """What those libraries are imported as."""
    install_hint: str = ""
    """What to do where `check` fails, if not to install `extra`."""
    check: Callable[[], object] | None = None
    """False where something is missing on this machine."""
    validate: Callable[[PlatformConfig], object] | None = None
    """False, or a list of problems, for a section that cannot be used."""
    prompt_hint: str = ""
    """What the agent is told of the place where its answers are read."""
    order: int = 100
    """Its place in menus and tables; those with the same stand by name."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "environment", MappingProxyType(dict(self.environment)))

    @property
    def has_setup(self) -> bool:
        """Whether `hermes gateway setup` can connect it."""
        return bool(self.questions or self.set_up)

    def make_adapter(self, config: PlatformConfig, host: AdapterHost) -> PlatformAdapter:
        """A new adapter, with what it needs of its gateway."""
        factory: AdapterFactory = resolve(self.adapter)
        adapter = factory(config, host)
        adapter.describe(self)
        return adapter

    def find_formatter(self) -> Formatter:
        """What makes Markdown as the platform takes it."""
        formatter: Formatter = str if self.formatter is None else resolve(self.formatter)
        return formatter


def resolve(named: Any) -> Any:
    """The object that `"module:name"` stands for; anything else is that object itself."""
    if not isinstance(named, str):
        return named
    module, _, name = named.partition(":")
    return getattr(importlib.import_module(module), name)
