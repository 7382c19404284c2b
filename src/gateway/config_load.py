"""The gateway's part of config.yaml and the environment, checked and completed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from agent.config import Config
from agent.config.schema import GATEWAY_KEYS
from agent.plugin_loading import load_plugins
from hermes_base.redaction import register_secret

from .config import GatewayConfig, Platform, PlatformConfig, ResetPolicy
from .platforms.registry import all_manifests

log = logging.getLogger(__name__)

_TRUE = ("1", "true", "yes", "on")
_SECRETS = ("token", "password")
"""Keys that hold secrets in the section of a platform that has no manifest."""


def load_gateway_config(config: Config) -> GatewayConfig:
    """What the gateway is told; what cannot be used is logged and left at its default."""
    load_plugins(config.raw, config.home, config.environ)
    section = config.section("gateway")
    reset = config.raw.get("session_reset") or section.get("session_reset") or {}
    platforms = config.section("platforms")
    allow_all = _is_true(config.environ.get("GATEWAY_ALLOW_ALL_USERS"))
    gateway = GatewayConfig(
        platforms=_platforms(platforms, config.environ, allow_all),
        reset=_policy(reset),
        reset_by_type=_policies(_either(config, "reset_by_type")),
        reset_by_platform=_policies(_either(config, "reset_by_platform")),
        busy_input_mode=config.display.busy_input_mode,
        reset_triggers=_names(config.raw.get("reset_triggers")) or ("/new", "/reset"),
        streaming=_mapping(_either(config, "streaming")),
    )
    for name in GATEWAY_KEYS:
        value = section.get(name, config.raw.get(name))
        if value is not None:
            _set(gateway, name, value)
    guard = _mapping(_either(config, "restart_loop_guard"))
    for name, key in (("max_restarts", "max_restarts"), ("restart_window", "window")):
        if guard.get(key) is not None:
            _set(gateway, name, guard[key])
    return gateway


def _either(config: Config, name: str) -> Any:
    """A key below `gateway`, or else at the top of the file."""
    return config.section("gateway").get(name) or config.raw.get(name)


def _set(target: GatewayConfig, name: str, value: Any) -> None:
    default = getattr(target, name)
    if default is None:
        fits = isinstance(value, int) and not isinstance(value, bool) and value > 0
    elif isinstance(default, bool):
        fits = isinstance(value, bool)
    elif isinstance(default, int | float):
        fits = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    else:
        fits = isinstance(value, type(default))
    if fits:
        setattr(target, name, value)
    else:
        log.warning("gateway.%s: %r cannot be used; it stays %r", name, value, default)


WEB = "web"


def serves_page(settings: Config) -> bool:
    """Whether the web page is to be served beside the gateway."""
    return _mapping(settings.section("platforms").get(WEB)).get("enabled") is True


def _platforms(
    section: Mapping[str, Any], environ: Mapping[str, str], allow_all: bool
) -> dict[Platform, PlatformConfig]:
    platforms = {}
    manifests = all_manifests()
    for name in sorted({str(name) for name in section} | manifests.keys()):
        if name == WEB:  # the page is served by a process of its own, which reads its section
            continue
        try:
            platform = Platform.of(name)
        except ValueError:
            log.warning("platforms.%s is not a platform Hermes knows; it is left out", name)
            continue
        given = dict(_mapping(section.get(name)))
        manifest = manifests.get(name)
        for key, variable in manifest.environment.items() if manifest else ():
            if environ.get(variable) and not given.get(key):
                given[key] = environ[variable]
        if given:
            secrets = manifest.secrets if manifest else _SECRETS
            enabled_by = manifest.enabled_by if manifest else ()
            platforms[platform] = _platform(given, secrets, enabled_by, allow_all)
    return platforms


def _platform(
    given: dict[str, Any],
    secret_keys: tuple[str, ...],
    enabled_by: tuple[str, ...],
    allow_all: bool,
) -> PlatformConfig:
    is_set_up = any(given.get(key) for key in (*secret_keys, *enabled_by))
    secrets = [str(given[key]) for key in secret_keys if given.get(key)]
    token = str(given.pop("token", "") or "")
    enabled = given.pop("enabled", None)
    if secrets:
        for secret in secrets:
            register_secret(secret)
    return PlatformConfig(
        enabled=is_set_up if enabled is None else _is_true(enabled),
        token=token,
        allowed_users=_names(given.pop("allowed_users", ())),
        admins=_names(given.pop("admins", ())),
        allow_all=allow_all or _is_true(given.pop("allow_all", False)),
        extra=given,
    )


def _policy(given: Any) -> ResetPolicy:
    policy = ResetPolicy()
    if not isinstance(given, Mapping):
        return policy
    mode = str(given.get("mode", "none"))
    if mode not in ("none", "idle", "daily", "both"):
        log.warning("session_reset.mode: %r is not one of none, idle, daily, both", mode)
        mode = "none"
    policy.mode = mode
    if isinstance(hour := given.get("at_hour"), int) and 0 <= hour <= 23:
        policy.at_hour = hour
    if isinstance(minutes := given.get("idle_minutes"), int) and minutes > 0:
        policy.idle_minutes = minutes
    policy.notify = _is_true(given.get("notify", True))
    if "notify_exclude_platforms" in given:
        policy.notify_exclude_platforms = _names(given["notify_exclude_platforms"])
    hours = given.get("bg_process_max_age_hours")
    if isinstance(hours, int | float) and hours >= 0:
        policy.bg_process_max_age_hours = float(hours)
    return policy


def _policies(given: Any) -> dict[str, ResetPolicy]:
    return {str(name): _policy(value) for name, value in _mapping(given).items()}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple):
        value = [value] if value else []
    return tuple(str(item).strip() for item in value if str(item).strip())


def _is_true(value: Any) -> bool:
    return str(value).strip().lower() in _TRUE
