"""Loading one plugin: import its code and let it register, within a time limit.

Nothing a plugin does here reaches Hermes unless all of it worked: its registrations are handed over
at the end, and its modules are forgotten if it failed.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from .calls import call_bounded
from .context import PluginContext
from .discovery import FoundPlugin
from .host import Host
from .manifest import BrokenPlugin
from .registrations import Registrations

log = logging.getLogger(__name__)

LOAD_LIMIT = 30.0
"""Seconds for importing and registering."""
PACKAGE = "hermes_plugins"
"""Under this name plugin folders are imported, so that they cannot stand in for other modules."""


def load(plugin: FoundPlugin, host: Host, environ: Mapping[str, str]) -> Registrations:
    """What the plugin registers; BrokenPlugin says why it cannot be used."""
    missing = [name for name in plugin.manifest.requires_env if not environ.get(name)]
    if missing:
        raise BrokenPlugin(f"it needs {', '.join(missing)}; set it in .env in the Hermes home")
    context = PluginContext(plugin.manifest, host)
    owner = f"The plugin {plugin.manifest.name}"
    outcome = call_bounded(lambda: _register(plugin, context), LOAD_LIMIT, owner)
    context.close()
    if not outcome.finished:
        raise BrokenPlugin(f"it did not finish loading within {LOAD_LIMIT:g} s")
    if outcome.error is not None:
        _forget(plugin)
        if isinstance(outcome.error, BrokenPlugin):
            raise outcome.error
        kind = type(outcome.error).__name__
        raise BrokenPlugin(f"loading it failed: {kind}: {outcome.error}") from outcome.error
    return context.registrations


def _register(plugin: FoundPlugin, context: PluginContext) -> None:
    module = _import_folder(plugin) if plugin.folder else plugin.entry_point.load()
    register: Callable[[PluginContext], Any] | None = getattr(module, "register", None)
    if register is None and callable(module):
        register = module  # an entry point may name the function itself
    if not callable(register):
        raise BrokenPlugin("it has no function register(ctx)")
    register(context)


def _module_name(plugin: FoundPlugin) -> str:
    return f"{PACKAGE}.{re.sub(r'[^A-Za-z0-9_]', '_', plugin.manifest.name)}"


def _import_folder(plugin: FoundPlugin) -> Any:
    assert plugin.folder is not None
    init = plugin.folder / "__init__.py"
    if not init.is_file():
        raise BrokenPlugin(f"{plugin.folder} has no __init__.py")
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = []
        sys.modules[PACKAGE] = package
    name = _module_name(plugin)
    spec = importlib.util.spec_from_file_location(
        name, init, submodule_search_locations=[str(plugin.folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _forget(plugin: FoundPlugin) -> None:
    name = _module_name(plugin)
    for loaded in [
        module for module in sys.modules if module == name or module.startswith(f"{name}.")
    ]:
        del sys.modules[loaded]
