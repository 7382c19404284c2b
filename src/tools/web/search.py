"""Search engines behind one seam: a provider turns a query into hits.

A provider is made from its section of the web settings and gets the function it may fetch with, so
that all of them keep to the limits of `http`. Plugins add theirs with `add_provider`.

    web:
      search_provider: searxng
      searxng: {url: "http://localhost:8888"}
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlencode, urlsplit

from ..base import ToolError
from .http import Response

Get = Callable[[str, Mapping[str, str]], Awaitable[Response]]
"""Fetch a URL with these headers."""

_TAG = re.compile(r"<[^>]{0,200}>")


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search."""

    title: str
    url: str
    extract: str = ""


class SearchProvider(Protocol):
    """A search engine."""

    def hosts(self) -> list[str]:
        """Hosts that the person configured, which may therefore be at a private address."""
        ...

    async def search(self, query: str, limit: int, get: Get) -> list[Hit]:
        """The best results first; ToolError if the engine does not answer properly."""
        ...


Maker = Callable[[Mapping[str, Any]], SearchProvider]
"""Makes a provider from its settings; ToolError says what to configure."""

_providers: dict[str, Maker] = {}


def add_provider(name: str, make: Maker) -> None:
    """Offer a provider under a name; a second one of the same name replaces the first."""
    _providers[name] = make


def search_provider(settings: Mapping[str, Any]) -> SearchProvider:
    """The provider that the web settings choose; ToolError says what to configure."""
    name = settings.get("search_provider")
    known = ", ".join(sorted(_providers))
    if not name:
        raise ToolError(
            f"No search provider is set. Set web.search_provider in the settings: {known}."
        )
    make = _providers.get(str(name))
    if make is None:
        raise ToolError(f"There is no search provider {str(name)!r}. There are: {known}.")
    section = settings.get(str(name))
    return make(section if isinstance(section, Mapping) else {})


def check_search(settings: Mapping[str, Any]) -> str | None:
    """Why the web cannot be searched with these settings, or None."""
    try:
        search_provider(settings)
    except ToolError as error:
        return str(error)
    return None


class SearXNG:
    """A SearXNG instance, by its JSON interface (which its settings must enable)."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._url = str(settings.get("url") or "").rstrip("/")
        if not self._url.startswith(("http://", "https://")):
            raise ToolError(
                "SearXNG needs its address: set web.searxng.url in the settings, "
                'for instance "http://localhost:8888", or SEARXNG_URL in .env.'
            )

    def hosts(self) -> list[str]:
        """The instance."""
        host = urlsplit(self._url).hostname
        return [host] if host else []

    async def search(self, query: str, limit: int, get: Get) -> list[Hit]:
        """Ask the instance."""
        parameters = urlencode({"q": query, "format": "json"})
        response = await get(f"{self._url}/search?{parameters}", {"Accept": "application/json"})
        if response.status == 403:
            raise ToolError(
                "SearXNG refuses JSON: add `json` to search.formats in its settings.yml."
            )
        results = _answer(response, "SearXNG").get("results")
        return _hits(results, "content", limit)


class Brave:
    """Brave Search, with a key."""

    _ADDRESS = "https://api.search.brave.com/res/v1/web/search"

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._key = str(settings.get("api_key") or "")
        self._address = str(settings.get("url") or self._ADDRESS)
        if not self._key:
            raise ToolError(
                "Brave Search needs a key: set BRAVE_API_KEY in .env, or web.brave.api_key in the "
                "settings."
            )

    def hosts(self) -> list[str]:
        """Nothing private, unless a URL was configured."""
        host = urlsplit(self._address).hostname
        return [host] if host and self._address != self._ADDRESS else []

    async def search(self, query: str, limit: int, get: Get) -> list[Hit]:
        """Ask the service."""
        parameters = urlencode({"q": query, "count": limit})
        headers = {"Accept": "application/json", "X-Subscription-Token": self._key}
        response = await get(f"{self._address}?{parameters}", headers)
        if response.status in (401, 403, 422):
            raise ToolError("Brave Search refuses the key. Tell the user to check it.")
        web = _answer(response, "Brave Search").get("web")
        return _hits(web.get("results") if isinstance(web, dict) else None, "description", limit)


def _answer(response: Response, name: str) -> dict[str, Any]:
    if response.status == 429:
        raise ToolError(f"{name} was asked too often. Wait a while, or use pages you know.")
    if response.status != 200 or response.cut:
        raise ToolError(f"{name} answered with status {response.status}. Try again later.")
    try:
        answer = json.loads(response.body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ToolError(
            f"{name} did not answer with JSON. Is {response.url[:100]} the right address?"
        )
    return answer


def _hits(results: Any, extract: str, limit: int) -> list[Hit]:
    """What an engine lists, as far as it makes sense."""
    hits = []
    for entry in results if isinstance(results, list) else ():
        url = entry.get("url") if isinstance(entry, dict) else None
        if isinstance(url, str) and url.startswith(("http://", "https://")):
            title = _plain(entry.get("title")) or url
            hits.append(Hit(title, "".join(url.split()), _plain(entry.get(extract))))
        if len(hits) == limit:
            break
    return hits


def _plain(value: Any) -> str:
    """Text of an engine on one line, without the tags some of them put around matches."""
    if not isinstance(value, str):
        return ""
    try:
        text = html.unescape(_TAG.sub("", value[:5_000]))
    except ValueError:
        text = value[:5_000]
    return " ".join(text.split())


add_provider("searxng", SearXNG)
add_provider("brave", Brave)
