"""Plugins: which there are, and which are loaded from the next start on."""

from __future__ import annotations

from agent.config import ConfigError
from agent.config.write import set_plugin_enabled
from hermes_base import plugins
from hermes_base.plugins.discovery import Choice, FoundPlugin, find_plugins, read_choice

from .. import shapes_settings as wire
from ..rpc import Call, RpcError, method

BAD_ACTION = 4017
UNKNOWN_PLUGIN = 4019
NOT_WRITTEN = 5026


@method("plugins.list", slow=True)
def list_plugins(call: Call) -> wire.Plugins:
    """Every plugin that is there, and whether it is loaded."""
    config = call.config
    choice = read_choice(config.raw)
    plugins = find_plugins(config.home, config.environ)
    return {
        "plugins": [_info(plugin, choice) for plugin in plugins],
        "user_count": sum(plugin.source != "bundled" for plugin in plugins),
        "bundled_count": sum(plugin.source == "bundled" for plugin in plugins),
    }


def _info(plugin: FoundPlugin, choice: Choice) -> wire.PluginInfo:
    manifest = plugin.manifest
    enabled = not plugin.names & choice.disabled and (
        plugin.source == "bundled" or bool(plugin.names & choice.enabled)
    )
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "source": plugin.source,
        "enabled": enabled,
        "loaded": manifest.name in plugins.loaded_plugins(),
        "problem": plugin.problem or plugins.plugin_problems().get(manifest.name, ""),
    }


@method("plugins.manage", slow=True)
def manage(
    call: Call, action: str = "list", name: str = "", enable: bool | None = None
) -> wire.PluginChange:
    """List plugins, or enable or disable one in config.yaml; it counts from the next start on.

    The action toggle takes `enable`.
    """
    if action == "list":
        return dict(list_plugins(call))  # type: ignore[return-value]  # the same keys
    wanted = {"enable": True, "disable": False, "toggle": enable}.get(action)
    if wanted is None:
        raise RpcError(
            BAD_ACTION, "action must be list, enable or disable, or toggle with enable given."
        )
    known = list_plugins(call)["plugins"]
    if name not in [plugin["name"] for plugin in known]:
        there = ", ".join(plugin["name"] for plugin in known) or "none"
        raise RpcError(UNKNOWN_PLUGIN, f"There is no plugin {name[:80]!r}. There are: {there}.")
    try:
        changed = set_plugin_enabled(call.config.home / "config.yaml", name, wanted)
    except (ConfigError, OSError) as error:
        raise RpcError(NOT_WRITTEN, str(error)) from error
    call.hub.reload_config()
    after = next(plugin for plugin in list_plugins(call)["plugins"] if plugin["name"] == name)
    return {"ok": True, "unchanged": not changed, "name": name, "plugin": after}
