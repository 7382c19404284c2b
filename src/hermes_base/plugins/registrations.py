"""What plugins have registered: plain records that the rest of Hermes reads.

A plugin's own registrations are gathered apart and taken over only when its `register` has
returned, so one that fails half-way leaves nothing behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

log = logging.getLogger(__name__)

MIDDLEWARE_KINDS = ("tool_request", "tool_execution", "llm_request", "llm_execution")


class PluginTool(NamedTuple):
    """A tool, as the plugin described it; `handler(args, **facts)` returns text."""

    plugin: str
    name: str
    toolset: str
    schema: Mapping[str, Any]
    handler: Callable[..., Any]
    check_fn: Callable[[], Any] | None = None
    requires_env: tuple[str, ...] = ()
    is_async: bool = False
    description: str = ""
    override: bool = False


class PluginCommand(NamedTuple):
    """A slash command; `handler(arguments)` returns what is shown, or None."""

    plugin: str
    name: str
    handler: Callable[..., Any]
    description: str = ""
    args_hint: str = ""


class CliCommand(NamedTuple):
    """A subcommand of `hermes`: `setup_fn(parser)` adds options, `handler_fn(args)` runs it."""

    plugin: str
    name: str
    help: str
    setup_fn: Callable[..., Any]
    handler_fn: Callable[..., Any] | None = None
    description: str = ""


class PlatformManifest(Protocol):
    """As `gateway.platforms.manifest.Manifest` is, as far as it is looked into here."""

    @property
    def name(self) -> str:
        """Of its section in config.yaml."""

    @property
    def label(self) -> str:
        """What people call it."""


class PluginPlatform(NamedTuple):
    """A chat platform that a plugin brings: a manifest, or the pieces that Hermes Agent knows."""

    plugin: str
    name: str
    label: str
    adapter_factory: Callable[..., Any] | None = None
    check_fn: Callable[..., Any] | None = None
    validate_config: Callable[..., Any] | None = None
    required_env: tuple[str, ...] = ()
    install_hint: str = ""
    extra: Mapping[str, Any] = {}
    manifest: PlatformManifest | None = None


class ModelProvider(NamedTuple):
    """A provider of models: an address that speaks a known protocol, or a maker of its own."""

    plugin: str
    name: str
    base_url: str = ""
    key_variables: tuple[str, ...] = ()
    api_mode: str = "chat_completions"
    aliases: tuple[str, ...] = ()
    build: Callable[..., Any] | None = None
    """`build(settings)` returns a model; for providers that speak something else."""


class PluginSkill(NamedTuple):
    """A skill that a plugin brings; it is called `<plugin>:<name>`."""

    plugin: str
    name: str
    path: Path
    description: str = ""


class AuxiliaryTask(NamedTuple):
    """A side task with a model setting of its own under `auxiliary.<key>`."""

    plugin: str
    key: str
    display_name: str
    description: str
    defaults: Mapping[str, Any]


class Kept(NamedTuple):
    """Something that was registered and has no use here yet."""

    plugin: str
    method: str
    arguments: tuple[Any, ...]


@dataclass(slots=True)
class Registrations:
    """Everything that one plugin, or all of them together, registered."""

    hooks: list[tuple[str, str, Callable[..., Any]]] = field(default_factory=list)
    """Plugin, hook, callback."""
    middleware: list[tuple[str, str, Callable[..., Any]]] = field(default_factory=list)
    """Plugin, kind, callback."""
    tools: dict[str, PluginTool] = field(default_factory=dict)
    commands: dict[str, PluginCommand] = field(default_factory=dict)
    cli_commands: dict[str, CliCommand] = field(default_factory=dict)
    platforms: dict[str, PluginPlatform] = field(default_factory=dict)
    context_engines: dict[str, Any] = field(default_factory=dict)
    memory_providers: dict[str, Any] = field(default_factory=dict)
    model_providers: dict[str, ModelProvider] = field(default_factory=dict)
    search_providers: dict[str, Any] = field(default_factory=dict)
    skills: dict[str, PluginSkill] = field(default_factory=dict)
    auxiliary_tasks: dict[str, AuxiliaryTask] = field(default_factory=dict)
    kept: list[Kept] = field(default_factory=list)

    def take(self, other: Registrations) -> None:
        """Add a plugin's registrations; of two with one name the later one wins."""
        self.hooks += other.hooks
        self.middleware += other.middleware
        self.kept += other.kept
        for name in _NAMED:
            mine, theirs = getattr(self, name), getattr(other, name)
            for key in mine.keys() & theirs.keys():
                log.warning("Two plugins bring %r (%s); the later one counts", key, name)
            mine.update(theirs)


_NAMED = (
    "tools", "commands", "cli_commands", "platforms", "context_engines", "memory_providers",
    "model_providers", "search_providers", "skills", "auxiliary_tasks",
)  # fmt: skip


def name_of(thing: Any) -> str:
    """The name of a provider or engine, whether it is an attribute or a method."""
    name = getattr(thing, "name", None)
    name = name() if callable(name) else name
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"{type(thing).__name__} needs a name (a text)")
    return name.strip()
