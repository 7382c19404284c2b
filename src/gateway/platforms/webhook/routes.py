"""The routes of the webhook platform: a secret, what to ask the agent, where the answer goes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tools.screening import outside, suspicion

from ...config import Platform
from ...session import SessionSource

MAX_VALUE = 20_000
MAX_PROMPT = 60_000
DEFAULT_PROMPT = "A message came to the webhook {route}. Do what it calls for.\n\n{body}"
SHORTEST_SECRET = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PLACE = re.compile(r"\{([A-Za-z_][\w-]*(?:\.[\w-]+)*)\}")
_KEYS = frozenset({"secret", "prompt", "deliver", "events"})


class RouteError(ValueError):
    """A route cannot be used as configured; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Route:
    """One address, `/hooks/<name>`."""

    name: str
    secret: str = field(repr=False)
    prompt: str = DEFAULT_PROMPT
    deliver: SessionSource | None = None
    """The chat that reads the answer; None to keep it in the history only."""
    events: frozenset[str] = frozenset()
    """GitHub's events that are wanted; empty for all."""


def read_routes(given: Any) -> dict[str, Route]:
    """The configured routes by name; raises RouteError."""
    if not isinstance(given, Mapping) or not given:
        raise RouteError("Set platforms.webhook.routes: at least one name with a secret.")
    return {str(name): _route(str(name), route) for name, route in given.items()}


def _route(name: str, given: Any) -> Route:
    where = f"platforms.webhook.routes.{name}"
    if not _NAME.fullmatch(name):
        raise RouteError(f"{where}: a name has letters, digits, _ and - only.")
    if not isinstance(given, Mapping):
        raise RouteError(f"{where} must have a secret, and may have prompt, deliver and events.")
    unknown = ", ".join(sorted(str(key) for key in given if key not in _KEYS))
    if unknown:
        raise RouteError(f"{where}: {unknown} is not known; there are {', '.join(sorted(_KEYS))}.")
    secret = given.get("secret")
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
        raise RouteError(
            f"{where}.secret must have at least {SHORTEST_SECRET} characters; make one with:"
            " openssl rand -hex 32"
        )
    events = given.get("events") or ()
    if isinstance(events, str):
        events = [events]
    return Route(
        name,
        secret,
        str(given.get("prompt") or DEFAULT_PROMPT),
        _target(where, given.get("deliver")),
        frozenset(str(event) for event in events),
    )


def _target(where: str, given: Any) -> SessionSource | None:
    if given in (None, "none", "history"):
        return None
    fields = given if isinstance(given, Mapping) else {}
    platform, chat_id = str(fields.get("platform") or ""), str(fields.get("chat_id") or "")
    usable = set(Platform) - {Platform.WEBHOOK, Platform.API_SERVER}
    if platform not in usable or not chat_id:
        raise RouteError(
            f"{where}.deliver must be none, or name a chat: {{platform: telegram, chat_id: '42'}}."
        )
    thread_id = fields.get("thread_id")
    return SessionSource(
        Platform(platform),
        chat_id,
        chat_type=str(fields.get("chat_type") or "dm"),
        thread_id=str(thread_id) if thread_id else None,
    )


def render(route: Route, body: bytes, event: str) -> str:
    """The prompt of a delivery: `{body}`, `{event}`, `{route}`, or a path into its JSON.

    A value that looks like an order to the model stands between marks, with a notice.
    """
    text = body.decode("utf-8", "replace")
    try:
        payload: Any = json.loads(text)
    except (ValueError, RecursionError):
        payload = None
    known = {"body": text, "event": event, "route": route.name}

    def value(match: re.Match[str]) -> str:
        path = match[1]
        text = _cut(known[path] if path in known else _at(payload, path.split(".")), MAX_VALUE)
        return f"\n{outside(text)}\n" if suspicion(text) else text

    prompt = _cut(_PLACE.sub(value, route.prompt), MAX_PROMPT)
    # Only people use commands: what came from outside is never one.
    return f"{route.name}: {prompt}" if prompt.lstrip().startswith("/") else prompt


def _at(payload: Any, path: list[str]) -> str:
    for step in path:
        if isinstance(payload, dict):
            payload = payload.get(step)
        elif isinstance(payload, list) and step.isascii() and step.isdigit():
            payload = payload[int(step)] if int(step) < len(payload) else None
        else:
            return ""
    if payload is None:
        return ""
    return payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)


def _cut(text: str, most: int) -> str:
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}\n[… {left} characters left out]"
