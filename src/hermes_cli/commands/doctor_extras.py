"""Which optional packages the configuration needs, and whether they are there."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from agent.config import Config
from gateway.config_load import load_gateway_config
from gateway.platforms.registry import find_manifest
from tools.extras import install_hint


def missing_extras(config: Config) -> Iterator[tuple[str, str]]:
    """What is configured but lacks its package, each with how to install it."""
    for platform, settings in load_gateway_config(config).platforms.items():
        manifest = find_manifest(platform.value)
        if manifest is None or not settings.enabled:
            continue
        if not all(find_spec(module) for module in manifest.modules):
            advice = _advice(manifest.extra) if manifest.extra else manifest.install_hint
            yield f"The platform {platform.value}", advice
    if config.store and find_spec("psycopg") is None:
        yield "The store on a server", _advice("postgres")
    wants_meaning = config.search.meaning == "on" or config.search.model
    if wants_meaning and config.search.meaning != "off" and find_spec("numpy") is None:
        yield "Search by meaning", _advice("meaning")
    servers = config.section("mcp_servers").values()
    is_used = any(
        not isinstance(server, dict) or server.get("enabled") is not False for server in servers
    )
    if is_used and find_spec("mcp") is None:
        yield "What is under mcp_servers", _advice("mcp")


def _advice(extra: str) -> str:
    return install_hint(extra)
