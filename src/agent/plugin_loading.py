"""Loading plugins into the whole program: their models, search engines and shell hooks included.

`hermes_base.plugins` finds them and keeps what they register; what of it needs the agent or its
tools is joined here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_base import plugins
from tools.plugin_tools import add_search_providers

from .providers import known

if TYPE_CHECKING:
    from hermes_base.plugins.hooks import Hooks
    from hermes_base.plugins.host import Host
    from hermes_base.plugins.registrations import ModelProvider, Registrations

    from .plugin_llm import PluginLlm

log = logging.getLogger(__name__)


def load_plugins(
    config_raw: Mapping[str, Any], home: Path, environ: Mapping[str, str] | None = None
) -> None:
    """Load what `plugins:` and `hooks:` in the configuration ask for, once per process."""
    plugins.load_plugins(config_raw, home, environ, _Program())


class _Program:
    def new_llm(self, host: Host, plugin: str) -> PluginLlm:
        """The configured model, for one plugin."""
        from .plugin_llm import PluginLlm

        return PluginLlm(host, plugin)

    def join(self, registered: Registrations) -> None:
        """Make known what other parts of Hermes look up in tables of their own."""
        if registered.model_providers:
            add_model_providers(registered.model_providers)
        if registered.search_providers:
            add_search_providers(registered.search_providers)

    def add_shell_hooks(
        self,
        config_raw: Mapping[str, Any],
        home: Path,
        environ: Mapping[str, str],
        hooks: Hooks,
    ) -> None:
        """Add what `hooks:` in the configuration names."""
        from tools.shell_hooks import add_shell_hooks

        add_shell_hooks(config_raw, home, environ, hooks)


def add_model_providers(providers: Mapping[str, ModelProvider]) -> None:
    """Make plugins' model providers known by name."""
    for provider in providers.values():
        if provider.name in known.KNOWN and provider.name not in known.BUILDERS:
            log.info("The plugin %s replaces the model provider %s", provider.plugin, provider.name)
        known.KNOWN[provider.name] = known.KnownProvider(
            provider.base_url or f"plugin:{provider.plugin}",
            provider.key_variables,
            provider.api_mode,
        )
        known.ALIASES.update(dict.fromkeys(provider.aliases, provider.name))
        if provider.build is not None:
            known.BUILDERS[provider.name] = provider.build
