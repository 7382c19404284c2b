"""The platforms: one file each, imported when it is enabled."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ..config import Platform, PlatformConfig
from .base import PlatformAdapter

if TYPE_CHECKING:
    from ..run import GatewayRunner

ADAPTERS = {
    Platform.LOCAL: "local:LocalAdapter",
    Platform.TELEGRAM: "telegram:TelegramAdapter",
    Platform.MATRIX: "matrix:MatrixAdapter",
    Platform.API_SERVER: "api_server:ApiServerAdapter",
    Platform.WEBHOOK: "webhook:WebhookAdapter",
}


class UnsupportedPlatformError(ValueError):
    """The configuration enables a platform that this Hermes has no adapter for."""


def create_adapter(
    platform: Platform, config: PlatformConfig, runner: GatewayRunner
) -> PlatformAdapter:
    """The adapter of a platform: ours, or one that a plugin registered."""
    from hermes_cli import plugins

    registered = plugins.get_platforms().get(platform.value)
    if registered is not None:
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
