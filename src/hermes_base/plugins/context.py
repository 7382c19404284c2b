"""PluginContext: what a plugin gets to register itself with, and to work with later.

    def register(ctx):
        ctx.register_hook("post_tool_call", count)
        ctx.register_command("calls", lambda arguments: f"{total} calls")

A method that asks for something Hermes has no use for yet keeps what it was given and says so in
the log, so that a plugin with such a part still loads.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .hooks import KNOWN_HOOKS
from .manifest import Manifest
from .registrations import (
    MIDDLEWARE_KINDS,
    AuxiliaryTask,
    CliCommand,
    Kept,
    ModelProvider,
    PlatformManifest,
    PluginCommand,
    PluginPlatform,
    PluginSkill,
    PluginTool,
    Registrations,
    name_of,
)

if TYPE_CHECKING:
    from .host import Host

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class PluginContext:
    """One plugin's door to Hermes."""

    def __init__(self, manifest: Manifest, host: Host) -> None:
        self.manifest = manifest
        self.registrations = Registrations()
        self._host = host
        self._open = True

    def close(self) -> None:
        """End registering; what comes later is refused."""
        self._open = False

    # What it adds

    def register_tool(
        self,
        name: str,
        toolset: str,
        schema: dict[str, Any],
        handler: Callable[..., Any],
        check_fn: Callable[[], Any] | None = None,
        requires_env: list[str] | None = None,
        is_async: bool = False,
        description: str = "",
        emoji: str = "",
        override: bool = False,
    ) -> None:
        """Give the agent a tool: `handler(args, **facts)` returns text, or what JSON can hold.

        `schema` is the function's JSON schema (`description`, `parameters`). A tool of Hermes' own
        is replaced only with `override` and `plugins.entries.<plugin>.allow_tool_override: true`.
        """
        self._check(name, handler)
        if not isinstance(schema, dict):
            raise TypeError(f"the schema of the tool {name} must be a dict")
        self.registrations.tools[name] = PluginTool(
            self._plugin, name, toolset or self._plugin, schema, handler, check_fn,
            tuple(requires_env or ()), is_async, description, override,
        )  # fmt: skip

    def register_command(
        self, name: str, handler: Callable[..., Any], description: str = "", args_hint: str = ""
    ) -> None:
        """Add a slash command: `handler(arguments)` returns what is shown, or None."""
        name = name.removeprefix("/")
        self._check(name, handler)
        self.registrations.commands[name] = PluginCommand(
            self._plugin, name, handler, description, args_hint
        )

    def register_cli_command(
        self,
        name: str,
        help: str,
        setup_fn: Callable[..., Any],
        handler_fn: Callable[..., Any] | None = None,
        description: str = "",
    ) -> None:
        """Add `hermes <name>`: `setup_fn(parser)` adds its options, `handler_fn(args)` runs it."""
        self._check(name, setup_fn)
        self.registrations.cli_commands[name] = CliCommand(
            self._plugin, name, help, setup_fn, handler_fn, description
        )

    def register_hook(self, hook_name: str, callback: Callable[..., Any]) -> None:
        """Have `callback(**kwargs)` called at a moment of a conversation; docs/plugins.md lists
        them all."""
        self._check(hook_name, callback)
        if hook_name not in KNOWN_HOOKS:
            log.warning("The plugin %s listens to %r, a hook nobody knows", self._plugin, hook_name)
        self.registrations.hooks.append((self._plugin, hook_name, callback))

    def register_middleware(self, kind: str, callback: Callable[..., Any]) -> None:
        """Change requests (`tool_request`, `llm_request`) or wrap their execution
        (`tool_execution`, `llm_execution`)."""
        self._check(kind, callback)
        if kind not in MIDDLEWARE_KINDS:
            log.warning("The plugin %s has middleware of an unknown kind: %r", self._plugin, kind)
        self.registrations.middleware.append((self._plugin, kind, callback))

    def register_platform(
        self,
        name: str | PlatformManifest,
        label: str = "",
        adapter_factory: Callable[..., Any] | None = None,
        check_fn: Callable[..., Any] | None = None,
        validate_config: Callable[..., Any] | None = None,
        required_env: list[str] | None = None,
        install_hint: str = "",
        **entry_kwargs: Any,
    ) -> None:
        """Add a chat platform: a `gateway.platforms.manifest.Manifest`, or its pieces by name.

        By name, `adapter_factory(config, on_message)` makes its adapter. It is served if every
        variable of `required_env` is set, `check_fn()` is true (else `install_hint` is shown) and
        `validate_config(config)` is not false. Of further keywords `allowed_users_env`,
        `allow_all_env` and `platform_hint` are read.
        """
        if not isinstance(name, str):
            self._refuse_if_closed()
            manifest = name
            platform = PluginPlatform(
                self._plugin, manifest.name, manifest.label, manifest=manifest
            )
            self.registrations.platforms[manifest.name] = platform
            return
        self._check(name, adapter_factory)
        self.registrations.platforms[name] = PluginPlatform(
            self._plugin, name, label, adapter_factory, check_fn, validate_config,
            tuple(required_env or ()), install_hint, entry_kwargs,
        )  # fmt: skip

    def register_context_engine(self, engine: Any) -> None:
        """Offer another way to keep a conversation within its window; `context.engine` in
        config.yaml chooses it by its name."""
        self._refuse_if_closed()
        self.registrations.context_engines[name_of(engine)] = engine

    def register_memory_provider(self, provider: Any) -> None:
        """Offer another memory; `memory.provider` in config.yaml chooses it by its name."""
        self._refuse_if_closed()
        self.registrations.memory_providers[name_of(provider)] = provider

    def register_model_provider(
        self,
        name: str,
        base_url: str = "",
        key_variables: list[str] | None = None,
        api_mode: str = "chat_completions",
        aliases: list[str] | None = None,
        build: Callable[..., Any] | None = None,
    ) -> None:
        """Make a provider of models known by name, for `model.provider` in config.yaml.

        With `base_url` it speaks one of the known protocols (`api_mode`); otherwise
        `build(settings)` returns a model of its own.
        """
        self._check(name, build or print)
        if not base_url and build is None:
            raise ValueError(f"the model provider {name} needs a base_url or a build function")
        self.registrations.model_providers[name] = ModelProvider(
            self._plugin, name, base_url.rstrip("/"), tuple(key_variables or ()), api_mode,
            tuple(aliases or ()), build,
        )  # fmt: skip

    def register_web_search_provider(self, provider: Any) -> None:
        """Offer a search engine; `web.search_provider` in config.yaml chooses it by its name."""
        self._refuse_if_closed()
        self.registrations.search_providers[name_of(provider)] = provider

    def register_skill(self, name: str, path: Path | str, description: str = "") -> None:
        """Bring a skill: `path` is its SKILL.md. The agent reads it as `<plugin>:<name>`."""
        self._check(name, print)
        path = Path(path)
        if not path.is_file():
            raise FileNotFoundError(f"the skill {name} has no file {path}")
        skill = PluginSkill(self._plugin, name, path, description)
        self.registrations.skills[f"{self._plugin}:{name}"] = skill

    def register_auxiliary_task(
        self,
        key: str,
        *,
        display_name: str,
        description: str,
        defaults: dict[str, Any] | None = None,
    ) -> None:
        """Declare a side task; it is kept, and nothing uses it yet."""
        self._check(key, print)
        self.registrations.auxiliary_tasks[key] = AuxiliaryTask(
            self._plugin, key, display_name, description, dict(defaults or {})
        )

    def __getattr__(self, name: str) -> Callable[..., None]:
        """`register_…` for parts that Hermes does not have (yet): kept, with a note in the log."""
        if not name.startswith("register_"):
            raise AttributeError(f"PluginContext has no {name!r}")

        def keep(*arguments: Any, **named: Any) -> None:
            self._refuse_if_closed()
            log.info("%s of the plugin %s is kept, but nothing uses it yet", name, self._plugin)
            kept = Kept(self._plugin, name, (*arguments, *named.values()))
            self.registrations.kept.append(kept)

        return keep

    # What it works with

    @property
    def llm(self) -> Any:
        """The configured model, to ask something beside the conversation: `agent.plugin_llm`."""
        return self._host.llm(self._plugin)

    @property
    def profile_name(self) -> str:
        """The profile Hermes runs in: "default", or the name of a folder in profiles/."""
        return self._host.profile_name

    @property
    def home(self) -> Path:
        """The Hermes home."""
        return self._host.home

    def inject_message(self, content: str, role: str = "user") -> bool:
        """Put a message into the running conversation; False if there is none to take it."""
        return self._host.inject(content if role == "user" else f"[{role}] {content}")

    def dispatch_tool(self, tool_name: str, args: dict[str, Any], **kwargs: Any) -> str:
        """Run a tool as the agent would, approvals included; an error is returned as text."""
        return self._host.dispatch(tool_name, args)

    # Checks

    @property
    def _plugin(self) -> str:
        return self.manifest.name

    def _check(self, name: str, function: Callable[..., Any] | None) -> None:
        self._refuse_if_closed()
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: use letters, digits, - and _")
        if not callable(function):
            raise TypeError(f"{name}: {function!r} cannot be called")

    def _refuse_if_closed(self) -> None:
        if not self._open:
            raise RuntimeError("Plugins register in register(), not later.")
