"""Every platform there is: the packages beside this file, and what plugins registered."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from hermes_base import plugins

from .manifest import Capabilities, Manifest

if TYPE_CHECKING:
    from hermes_base.plugins.registrations import PluginPlatform

    from ..config import PlatformConfig
    from .base import PlatformAdapter
    from .host import AdapterHost


@cache
def own_manifests(package: str = __package__) -> dict[str, Manifest]:
    """The platforms that a package holds, each a package with a `manifest.py`, by name."""
    folder = importlib.import_module(package)
    manifests = {}
    for module in pkgutil.iter_modules(folder.__path__):
        place = f"{package}.{module.name}.manifest"
        if module.ispkg and find_spec(place) is not None:
            manifest: Manifest = importlib.import_module(place).MANIFEST
            manifests[manifest.name] = manifest
    return manifests


def all_manifests() -> dict[str, Manifest]:
    """Every platform by name, in the order of menus; a plugin's replaces ours of that name."""
    manifests = {**own_manifests(), **_of_plugins()}
    return dict(sorted(manifests.items(), key=lambda item: (item[1].order, item[0])))


def find_manifest(name: str) -> Manifest | None:
    """The platform of this name, if there is one."""
    registered = plugins.get_platforms().get(name)
    return _of_plugin(registered) if registered is not None else own_manifests().get(name)


def capabilities_of(name: str) -> Capabilities:
    """What a platform can do; what most can, for one that nobody describes."""
    manifest = find_manifest(name)
    return manifest.capabilities if manifest is not None else Capabilities()


def _of_plugins() -> dict[str, Manifest]:
    return {name: _of_plugin(each) for name, each in plugins.get_platforms().items()}


def _of_plugin(registered: PluginPlatform) -> Manifest:
    """The manifest that a plugin registered, or one of the pieces it registered by name."""
    if registered.manifest is not None:
        return cast(Manifest, registered.manifest)
    more = registered.extra
    factory = registered.adapter_factory
    assert factory is not None, "checked when it was registered"
    variables = {
        "allowed_users": more.get("allowed_users_env"),
        "allow_all": more.get("allow_all_env"),
    }

    def make(config: PlatformConfig, host: AdapterHost) -> PlatformAdapter:
        adapter: PlatformAdapter = factory(config, host.accept)
        adapter.host = host
        return adapter

    # One that takes the place of ours is configured as ours is; its adapter is its own.
    ours = own_manifests().get(registered.name) or Manifest(registered.name, "", make)
    nature = ours.capabilities
    return replace(
        ours,
        label=registered.label,
        adapter=make,
        formatter=None,
        capabilities=Capabilities(people=nature.people, pushes=nature.pushes, signed=nature.signed),
        environment={
            **ours.environment,
            **{key: str(name) for key, name in variables.items() if name},
        },
        required_environment=registered.required_env,
        extra="",
        modules=(),
        install_hint=registered.install_hint,
        check=registered.check_fn,
        validate=registered.validate_config,
        prompt_hint=str(more.get("platform_hint") or ours.prompt_hint),
    )
