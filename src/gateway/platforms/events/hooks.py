"""The hooks of the platform `events`: an address, a secret, and which events it gets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hermes_state.webhooks import EVENTS, Webhook

if TYPE_CHECKING:
    from ...config import GatewayConfig

SHORTEST_SECRET = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_KEYS = frozenset({"url", "secret", "events", "person"})


class HookError(ValueError):
    """A hook cannot be used as configured; the message says what to change."""


@dataclass(frozen=True, slots=True)
class Hook:
    """Where events go."""

    name: str
    url: str = field(repr=False)
    """Some have their secret in it."""
    secret: str = field(repr=False)
    events: tuple[str, ...] = EVENTS
    person: str = "operator"

    @property
    def wanted(self) -> Webhook:
        """What the store has to know of it."""
        return Webhook(self.name, self.events, self.person)


def read_hooks(given: Any) -> dict[str, Hook]:
    """The configured hooks by name; raises HookError."""
    if not isinstance(given, Mapping) or not given:
        raise HookError("Set platforms.events.hooks: at least one name with a url and a secret.")
    return {str(name): _hook(str(name), hook) for name, hook in given.items()}


def _hook(name: str, given: Any) -> Hook:
    where = f"platforms.events.hooks.{name}"
    if not _NAME.fullmatch(name):
        raise HookError(f"{where}: a name has letters, digits, _ and - only.")
    if not isinstance(given, Mapping):
        raise HookError(f"{where} must have a url and a secret.")
    unknown = ", ".join(sorted(str(key) for key in given if key not in _KEYS))
    if unknown:
        raise HookError(f"{where}: {unknown} is not known; there are {', '.join(sorted(_KEYS))}.")
    url, secret = str(given.get("url") or ""), given.get("secret")
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        raise HookError(f"{where}.url must be an address that begins with https:// or http://.")
    if not isinstance(secret, str) or len(secret) < SHORTEST_SECRET:
        raise HookError(
            f"{where}.secret must have at least {SHORTEST_SECRET} characters; make one with:"
            " openssl rand -hex 32"
        )
    events = given.get("events") or EVENTS
    wanted = (events,) if isinstance(events, str) else tuple(map(str, events))
    strange = ", ".join(event for event in wanted if event not in EVENTS)
    if strange:
        raise HookError(f"{where}.events: {strange} is not known; there are {', '.join(EVENTS)}.")
    return Hook(name, url, secret, wanted, str(given.get("person") or "operator"))


def wanted_events(config: GatewayConfig) -> list[Webhook]:
    """What the store has to know of all hooks; nothing while they cannot be used."""
    section = next((each for name, each in config.platforms.items() if name == "events"), None)
    if section is None or not section.enabled:
        return []
    try:
        return [hook.wanted for hook in read_hooks(section.extra.get("hooks")).values()]
    except HookError:
        return []  # the platform says why when it is connected
