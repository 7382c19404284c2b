"""What plugins registered, in the shape Hermes' own tools and search engines have."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base import plugins
from hermes_base.plugins.host import Host
from hermes_base.plugins.output import diverted
from hermes_base.plugins.registrations import PluginTool
from tools.base import Tool, ToolContext, ToolError
from tools.web.search import Hit, add_provider

log = logging.getLogger(__name__)


def as_tool(spec: PluginTool, environ: Mapping[str, str]) -> Tool:
    """A plugin's tool as agents have them; ValueError if its schema makes no sense."""
    schema: Any = spec.schema.get("function", spec.schema)
    parameters = schema.get("parameters") if isinstance(schema, Mapping) else None
    if parameters is None:
        is_plain = isinstance(schema, Mapping) and isinstance(schema.get("properties"), Mapping)
        parameters = schema if is_plain else {}
    if not isinstance(parameters, Mapping) or not isinstance(
        parameters.get("properties", {}), Mapping
    ):
        raise ValueError(f"the parameters of the tool {spec.name} are no JSON schema")
    about = spec.description or str(schema.get("description") or f"A tool of {spec.plugin}.")
    return Tool(
        name=spec.name,
        description=about,
        run=_runner(spec),
        parameters={"type": "object", "properties": {}, **parameters},
        toolset=spec.toolset,
        check=_checker(spec, environ),
    )


def _runner(spec: PluginTool) -> Callable[..., Any]:
    accepted = _accepted(spec.handler)

    def run(context: ToolContext, /, **arguments: Any) -> Any:
        facts = {
            "session_id": context.session_id,
            "task_id": context.session_id,
            "tool_call_id": context.call_id,
        }
        known = {name: value for name, value in facts.items() if accepted(name)}
        try:
            with diverted(f"The plugin {spec.plugin}"):
                result = spec.handler(arguments, **known)
                return asyncio.run(result) if inspect.iscoroutine(result) else result
        except SystemExit as error:
            raise ToolError(f"{spec.name} ended itself ({error}).") from error

    return run


def _accepted(function: Callable[..., Any]) -> Callable[[str], bool]:
    """Says which keyword arguments a function takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return lambda name: False
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return lambda name: True
    return lambda name: name in parameters


def _checker(spec: PluginTool, environ: Mapping[str, str]) -> Callable[[], str | None]:
    def check() -> str | None:
        missing = [name for name in spec.requires_env if not environ.get(name)]
        if missing:
            return f"it needs {', '.join(missing)}"
        try:
            usable = spec.check_fn() if spec.check_fn else True
        except Exception as error:  # noqa: BLE001 - a plugin's own code; the reason is logged
            return f"its check failed: {error}"
        return None if usable else f"the plugin {spec.plugin} says it cannot be used here"

    return check


def plugin_tools() -> list[tuple[Tool, bool]]:
    """The tools of the loaded plugins, each with whether it may replace one of Hermes' own."""
    host = plugins.get_host()
    specs = plugins.registered().tools
    return [] if host is None or not specs else added_tools(specs, host, plugins.get_environ())


def added_tools(
    specs: Mapping[str, PluginTool], host: Host, environ: Mapping[str, str]
) -> list[tuple[Tool, bool]]:
    """Every usable tool of a plugin, and whether it may replace one of Hermes' own."""
    tools = []
    for spec in specs.values():
        try:
            tool = as_tool(spec, environ)
        except (ValueError, TypeError, AttributeError) as error:
            log.error("The tool %s of the plugin %s is left out: %s", spec.name, spec.plugin, error)
            continue
        may_replace = spec.override and host.allows(spec.plugin, "allow_tool_override")
        tools.append((tool, may_replace))
    return tools


def add_search_providers(providers: Mapping[str, Any]) -> None:
    """Offer plugins' search engines under their names."""
    for name, provider in providers.items():
        add_provider(name, _maker(provider))


def _maker(provider: Any) -> Callable[[Mapping[str, Any]], Any]:
    return lambda settings: provider if hasattr(provider, "hosts") else _PlainEngine(provider)


class _PlainEngine:
    """A search engine whose `search(query, limit)` blocks and returns plain data."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        available = getattr(provider, "is_available", None)
        if callable(available) and not available():
            raise ToolError("The search engine of the plugin says that it cannot be used here.")

    def hosts(self) -> list[str]:
        """None that it would fetch through Hermes."""
        return []

    async def search(self, query: str, limit: int, get: Any) -> list[Any]:
        """Its results, as far as they make sense."""
        answer = await asyncio.to_thread(self._provider.search, query, limit)
        data = answer.get("data", answer) if isinstance(answer, dict) else answer
        entries = data.get("web") if isinstance(data, dict) else data
        if not isinstance(entries, list):
            problem = answer.get("error") if isinstance(answer, dict) else None
            raise ToolError(f"The search failed: {problem or 'no results came back'}.")
        return [
            Hit(
                str(entry.get("title") or entry["url"]),
                str(entry["url"]),
                str(entry.get("description") or entry.get("content") or ""),
            )
            for entry in entries[:limit]
            if isinstance(entry, dict) and entry.get("url")
        ]
