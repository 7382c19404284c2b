"""The API server, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting

PORT = 8642

MANIFEST = Manifest(
    name="api_server",
    label="API server",
    adapter="gateway.platforms.api.adapter:ApiServerAdapter",
    capabilities=Capabilities(max_length=10_000_000, people=False, pushes=False),
    environment={
        "enabled": "API_SERVER_ENABLED",
        "key": "API_SERVER_KEY",
        "host": "API_SERVER_HOST",
        "port": "API_SERVER_PORT",
    },
    settings=(
        Setting("host", "text", "127.0.0.1", "where the API listens"),
        Setting("port", "whole number", str(PORT), "and on which port"),
        Setting("key", "text, a secret", "made and kept", "the key of the one owner"),
        Setting("keys", "section", "", "keys by owner, e.g. `{alice: …}`"),
        Setting("max_body_bytes", "whole number", "33554432", "the largest request"),
    ),
    setup_label="API server for programs",
    set_up="gateway.platforms.api.setup:set_up",
    extra="api",
    modules=("starlette", "uvicorn"),
    prompt_hint="You answer through an API. Markdown is fine unless you are asked otherwise.",
    order=30,
)
