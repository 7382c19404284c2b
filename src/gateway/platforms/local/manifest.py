"""A platform in memory, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest

MANIFEST = Manifest(
    name="local",
    label="Local",
    adapter="gateway.platforms.local.adapter:LocalAdapter",
    capabilities=Capabilities(
        max_length=4000, edits=True, buttons=True, typing=True, reactions=True, edit_interval=0.01
    ),
)
