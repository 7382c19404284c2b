"""The platforms: one package each, imported when it is enabled."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING

from ..config import Platform, PlatformConfig
from .base import PlatformAdapter

if TYPE_CHECKING:
    from hermes_base.plugins.registrations import PluginPlatform

    from ..run import GatewayRunner

log = logging.getLogger(__name__)

ADAPTERS = {
    Platform.LOCAL: "local.adapter:LocalAdapter",
    Platform.TELEGRAM: "telegram.adapter:TelegramAdapter",
    Platform.MATRIX: "matrix.adapter:MatrixAdapter",
    Platform.API_SERVER: "api.adapter:ApiServerAdapter",
    Platform.WEBHOOK: "webhook.adapter:WebhookAdapter",
}


class UnsupportedPlatformError(ValueError):
    """The configuration enables a platform that this Hermes has no adapter for."""


class UnusablePlatformError(RuntimeError):
    """A plugin's platform cannot be used here; the message says what it needs."""


def _require_usable(
    registered: PluginPlatform, config: PlatformConfig, runner: GatewayRunner
) -> None:
    """Ask what the plugin registered with its platform; raises UnusablePlatformError."""
    environ = runner.settings.environ
    missing = [name for name in registered.required_env if not environ.get(name)]
    problem = f"{', '.join(missing)} must be set, e.g. in .env" if missing else ""
    try:
        if not problem and not registered.check_fn():
            problem = registered.install_hint or "its plugin says that something is missing"
        if not problem and registered.validate_config is not None:
            # As in Hermes Agent: false, or a list of problems.
            found = registered.validate_config(config)
            if isinstance(found, list | tuple) and found:
                problem = "; ".join(map(str, found))
            elif found is False:
                problem = f"platforms.{registered.name} in config.yaml is not complete"
    except Exception as error:
        # A plugin's own code: whatever it raises is a reason not to use it.
        log.exception("A check of the platform %s failed", registered.name)
        problem = f"its check failed: {error}"
    if problem:
        raise UnusablePlatformError(f"{registered.label} cannot be used: {problem}")


def create_adapter(
    platform: Platform, config: PlatformConfig, runner: GatewayRunner
) -> PlatformAdapter:
    """The adapter of a platform: ours, or one that a plugin registered."""
    from hermes_base import plugins

    registered = plugins.get_platforms().get(platform.value)
    if registered is not None:
        _require_usable(registered, config, runner)
        made: PlatformAdapter = registered.adapter_factory(config, runner.handle_message)
        return made
    place = ADAPTERS.get(platform)
    if place is None:
        known = ", ".join(one.value for one in ADAPTERS)
        raise UnsupportedPlatformError(
            f"There is no adapter for {platform.value}; there are {known}, and what plugins add."
        )
    module, _, name = place.partition(":")
    factory = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    adapter: PlatformAdapter = factory(config, runner.handle_message)
    bind = getattr(adapter, "bind", None)
    if bind is not None:
        bind(runner)
    return adapter
