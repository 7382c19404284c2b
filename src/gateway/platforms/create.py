"""An enabled platform's adapter, made from its manifest once everything it needs is there."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ..config import Platform, PlatformConfig
from .base import PlatformAdapter
from .host import AdapterHost
from .manifest import Manifest
from .registry import all_manifests, find_manifest

log = logging.getLogger(__name__)


class UnsupportedPlatformError(ValueError):
    """The configuration enables a platform that this Hermes has no adapter for."""


class UnusablePlatformError(RuntimeError):
    """A platform cannot be used here; the message says what it needs."""


def create_adapter(
    platform: Platform, config: PlatformConfig, host: AdapterHost, environ: Mapping[str, str]
) -> PlatformAdapter:
    """The adapter of a platform: ours, or one that a plugin registered."""
    manifest = find_manifest(platform.value)
    if manifest is None:
        known = ", ".join(all_manifests())
        raise UnsupportedPlatformError(
            f"There is no adapter for {platform.value}; there are {known}."
        )
    problem = _problem(manifest, config, environ)
    if problem:
        raise UnusablePlatformError(f"{manifest.label} cannot be used: {problem}")
    adapter = manifest.make_adapter(config, host)
    adapter.platform = platform
    return adapter


def _problem(manifest: Manifest, config: PlatformConfig, environ: Mapping[str, str]) -> str:
    """What keeps a platform from being used; empty if nothing does."""
    missing = [name for name in manifest.required_environment if not environ.get(name)]
    if missing:
        return f"{', '.join(missing)} must be set, e.g. in .env"
    try:
        if manifest.check is not None and not manifest.check():
            return manifest.install_hint or "its plugin says that something is missing"
        if manifest.validate is not None:
            # As in Hermes Agent: false, or a list of problems.
            problems = manifest.validate(config)
            if isinstance(problems, list | tuple) and problems:
                return "; ".join(map(str, problems))
            if problems is False:
                return f"platforms.{manifest.name} in config.yaml is not complete"
    except Exception as error:
        # A plugin's own code: whatever it raises is a reason not to use it.
        log.exception("A check of the platform %s failed", manifest.name)
        return f"its check failed: {error}"
    return ""
