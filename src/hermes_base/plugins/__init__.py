"""Plugins: the one door through which other people's code joins Hermes.

`load_plugins` finds and loads what the configuration enables, once per process; after that every
layer asks here what was registered. Hooks are fired with `plugins.invoke_hook(name, …)`, looked up
on this module at each call. With no plugins and no hooks configured nothing is read. What needs
other parts of Hermes (tools, models, shell hooks) is joined by the program that loads them: see
`agent.plugin_loading`.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .calls import LIMIT, Callback, Standing, call_bounded
from .hooks import Hooks

if TYPE_CHECKING:
    from .discovery import FoundPlugin
    from .host import Host, Program
    from .middleware import Middleware
    from .registrations import PluginCommand, PluginPlatform, PluginSkill, Registrations

log = logging.getLogger(__name__)

_lock = threading.Lock()
_hooks = Hooks()
_middleware: Middleware | None = None
_registered: Registrations | None = None
_host: Host | None = None
_environ: Mapping[str, str] = os.environ
_is_loaded = False
_problems: dict[str, str] = {}
_loaded: list[str] = []

COMMAND_LIMIT = 120.0
"""Seconds a plugin's slash command may take."""


def load_plugins(
    config_raw: Mapping[str, Any],
    home: Path,
    environ: Mapping[str, str] | None,
    program: Program,
) -> None:
    """Load what `plugins:` and `hooks:` in the configuration ask for; only the first call does.

    A plugin that cannot be loaded is logged with its name and the reason; the others are not
    affected. `environ` is the environment with `.env` beneath it; `program` joins them to the rest.
    """
    global _is_loaded, _environ
    if _is_loaded:
        return
    with _lock:
        if _is_loaded:
            return
        _environ = os.environ if environ is None else environ
        try:
            if _is_on("HERMES_SAFE_MODE"):
                log.info("Safe mode: no plugins and no shell hooks")
                return
            if config_raw.get("plugins") or _has_bundled():
                _load_all(config_raw, home, program)
            if config_raw.get("hooks"):
                program.add_shell_hooks(config_raw, home, _environ, _hooks)
        finally:
            _is_loaded = True


def _is_on(name: str) -> bool:
    return _environ.get(name, "").strip().lower() in ("1", "true", "yes", "on")


def _has_bundled() -> bool:
    return (Path(__file__).parent / "bundled_plugins").is_dir()


def _load_all(config_raw: Mapping[str, Any], home: Path, program: Program) -> None:
    global _registered, _host
    from .discovery import find_plugins, read_choice
    from .host import Host
    from .registrations import Registrations

    if _is_on("HERMES_PLUGINS_DEBUG"):
        _log_to_stderr()
    choice = read_choice(config_raw)
    _hooks.limit = choice.hook_timeout or LIMIT
    if not choice.enabled and not _has_bundled():
        return
    _host = Host(home, choice.entries, program.new_llm)
    _registered = Registrations()
    plugins = find_plugins(home, _environ)
    for plugin in plugins:
        reason = choice.why_not(plugin)
        if reason:
            log.debug(
                "The plugin %s (%s) is not loaded: %s", plugin.manifest.name, plugin.source, reason
            )
            if plugin.problem and reason == plugin.problem:
                _fail(plugin, reason)
        else:
            _load_one(plugin, program)
    for name in sorted(choice.enabled - {name for plugin in plugins for name in plugin.names}):
        _problems[name] = "it is not there"
        log.warning(
            "plugins.enabled names %r, but there is no such plugin in %s or among the installed"
            " packages",
            name,
            home / "plugins",
        )


def _load_one(found_plugin: FoundPlugin, program: Program) -> None:
    from .load import load
    from .manifest import BrokenPlugin

    assert _host is not None and _registered is not None
    _lend_variables(found_plugin)
    try:
        registered = load(found_plugin, _host, _environ)
    except BrokenPlugin as error:
        _fail(found_plugin, str(error), error.__cause__)
        return
    program.join(registered)
    _registered.take(registered)
    plugin, standing = found_plugin.manifest.name, Standing()
    for _, hook, function in registered.hooks:
        _hooks.add(hook, Callback(plugin, hook, function, standing=standing))
    for _, kind, function in registered.middleware:
        _middleware_table().add(kind, Callback(plugin, kind, function, standing=standing))
    _loaded.append(plugin)
    log.info(
        "Loaded the plugin %s %s (%s)", plugin, found_plugin.manifest.version, found_plugin.source
    )


def _fail(plugin: FoundPlugin, reason: str, cause: BaseException | None = None) -> None:
    _problems[plugin.manifest.name] = reason
    log.error("The plugin %s is not loaded: %s", plugin.manifest.name, reason, exc_info=cause)


def _lend_variables(plugin: FoundPlugin) -> None:
    """Plugins read `os.environ`; what their manifest declares may come from `.env` too."""
    for name in plugin.manifest.requires_env:
        value = _environ.get(name)
        if value and name not in os.environ:
            os.environ[name] = value


def _middleware_table() -> Middleware:
    global _middleware
    if _middleware is None:
        from .middleware import Middleware

        _middleware = Middleware()
        _middleware.limit = _hooks.limit
    return _middleware


def _log_to_stderr() -> None:
    logger = logging.getLogger("hermes_base.plugins")
    if not any(getattr(handler, "for_plugins", False) for handler in logger.handlers):
        handler = logging.StreamHandler(sys.stderr)
        handler.for_plugins = True  # type: ignore[attr-defined]
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)


def forget_plugins() -> None:
    """Begin anew: nothing is loaded, nothing is registered."""
    global _hooks, _middleware, _registered, _host, _is_loaded, _environ
    with _lock:
        _hooks, _middleware, _registered, _host = Hooks(), None, None, None
        _is_loaded, _environ = False, os.environ
        _problems.clear()
        _loaded.clear()


# Hooks and middleware


def has_hook(name: str) -> bool:
    """Whether a hook has listeners; check before collecting expensive arguments."""
    return name in _hooks.callbacks


def invoke_hook(name: str, /, **kwargs: Any) -> list[Any]:
    """Call everybody who listens to a hook; returns what they returned, without the Nones.

    Never raises, and each callback has a time limit. It blocks: call it off the event loop.
    """
    if name not in _hooks.callbacks:
        return []
    return _hooks.fire(name, kwargs)


def add_hook(
    name: str, function: Callable[..., Any], plugin: str = "hermes", limit: float | None = None
) -> None:
    """Listen to a hook from Hermes' own code or a test."""
    _hooks.add(name, Callback(plugin, name, function, limit))


def has_middleware(kind: str) -> bool:
    """Whether there is middleware for this kind of call."""
    return _middleware is not None and kind in _middleware.callbacks


def get_middleware() -> Middleware:
    """The middleware; ask `has_middleware` first."""
    return _middleware_table()


# What was registered


def registered() -> Registrations:
    """Everything the loaded plugins registered."""
    from .registrations import Registrations

    return _registered or Registrations()


def loaded_plugins() -> list[str]:
    """The names of the plugins that were loaded, in that order."""
    return list(_loaded)


def plugin_problems() -> dict[str, str]:
    """Why plugins that should have been loaded were not, by name."""
    return dict(_problems)


def get_commands() -> dict[str, PluginCommand]:
    """The slash commands of plugins by name (without the slash)."""
    return dict(_registered.commands) if _registered else {}


def run_command(name: str, arguments: str = "") -> str | None:
    """Run a plugin's slash command and return what to show; never raises, and blocks."""
    command = get_commands()[name]

    def run() -> Any:
        import asyncio
        import inspect

        result = command.handler(arguments)
        return asyncio.run(result) if inspect.iscoroutine(result) else result

    outcome = call_bounded(run, COMMAND_LIMIT, f"The plugin {command.plugin}")
    if not outcome.finished:
        log.warning("/%s of the plugin %s did not return", name, command.plugin)
        return f"/{name} took longer than {COMMAND_LIMIT:g} s and was abandoned."
    if outcome.error is not None:
        log.error("/%s of the plugin %s failed", name, command.plugin, exc_info=outcome.error)
        return f"/{name} failed: {type(outcome.error).__name__}: {outcome.error}"
    return None if outcome.value is None else str(outcome.value)


def get_platforms() -> dict[str, PluginPlatform]:
    """The chat platforms of plugins by name."""
    return dict(_registered.platforms) if _registered else {}


def get_skills() -> dict[str, PluginSkill]:
    """The skills of plugins by `<plugin>:<name>`."""
    return dict(_registered.skills) if _registered else {}


def get_context_engine(name: str) -> Any | None:
    """The context engine that `context.engine` names, or None.

    It has the methods of `agent.context_engine.ContextEngine`; whoever compresses a conversation
    asks here first and uses the built-in way if there is none.
    """
    return _registered.context_engines.get(name) if _registered else None


def get_memory_provider(name: str) -> Any | None:
    """The memory provider that `memory.provider` names, or None."""
    return _registered.memory_providers.get(name) if _registered else None


def get_host() -> Host | None:
    """What the loaded plugins borrow from; None if none were loaded."""
    return _host


def get_environ() -> Mapping[str, str]:
    """The environment that plugins were loaded with, `.env` beneath it."""
    return _environ


def lend(agent: Any = None, new_model: Callable[[str | None], Any] | None = None) -> None:
    """Let plugins reach an agent (weakly) and ask the configured model."""
    if _host is None:
        return
    if agent is not None:
        _host.add_agent(agent)
    if new_model is not None:
        _host.new_model = new_model
