"""What tools get from the environment, with `.env` beneath it.

Tools look at no environment but what commands run in: which variable stands for which of their
settings is known here, where `.env` is known too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from tools.terminal.environ import named

from .config.values import Findings

log = logging.getLogger(__name__)


def web_from(section: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The section `web`, completed with the variables that may stand for its keys."""
    filled: dict[str, Any] = _filled("web", section, environ)
    for provider, key, value in (
        ("searxng", "url", environ.get("SEARXNG_URL")),
        ("brave", "api_key", environ.get("BRAVE_API_KEY")),
    ):
        given = filled.get(provider)
        given = given if isinstance(given, Mapping) else {}
        if value and not given.get(key):
            filled[provider] = {**given, key: value}
    return filled


def mcp_servers_from(section: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The servers of `mcp_servers` that are not off, with `${NAME}` filled in, in `env` and
    `headers`."""
    return {
        name: {
            key: _filled(f"mcp_servers.{name}.{key}", value, environ)
            if key in ("env", "headers")
            else value
            for key, value in entry.items()
        }
        if isinstance(entry, Mapping)
        else entry
        for name, entry in section.items()
        if not (isinstance(entry, Mapping) and entry.get("enabled") is False)
    }


def passed_from(names: Iterable[str], environ: Mapping[str, str]) -> dict[str, str]:
    """What `terminal.pass_env` names, also if it is only in `.env`."""
    return named(environ, names)


def _filled(key: str, value: Any, environ: Mapping[str, str]) -> Any:
    """`value` with each ${NAME} in its texts replaced; a name that is not set is logged."""
    if isinstance(value, Mapping):
        return {name: _filled(f"{key}.{name}", inner, environ) for name, inner in value.items()}
    if not isinstance(value, str) or "${" not in value:
        return value
    findings = Findings("config.yaml", environ)
    text = findings.expand(key, value)
    for warning in findings.warnings:
        log.warning("%s", warning)
    return text
