"""Completion of what is being typed: the name of a command, or its argument."""

from __future__ import annotations

import logging
from typing import NamedTuple

from hermes_state import StoreError

from .dispatch import plugin_commands, skill_names
from .surface import CommandError, Surface
from .table import catalog, lookup, normal

log = logging.getLogger(__name__)

MOST = 50


class Item(NamedTuple):
    """One candidate."""

    text: str
    """What is put in place of what was typed."""
    display: str
    meta: str
    """A word of explanation."""


class Completion(NamedTuple):
    """The candidates, and from where on they replace the text."""

    items: list[Item]
    replace_from: int


def complete(surface: Surface, text: str) -> Completion:
    """Candidates for a line that begins with a slash; none for any other."""
    if not text.startswith("/"):
        return Completion([], len(text))
    name, space, rest = text[1:].partition(" ")
    if not space:
        return Completion(_names(surface, name.lower())[:MOST], 0)
    typed = rest.lstrip()
    start = len(text) - len(typed)
    command = lookup(name, surface.scope)
    allow = surface.access.commands.allow
    if command is None or command.complete is None or not allow(command.name):
        return Completion([], start)
    try:
        candidates = [Item(word, word, meta) for word, meta in command.complete(surface, typed)]
    except (CommandError, StoreError) as error:
        log.debug("No completion for %s: %s", name, error)
        candidates = []
    return Completion(candidates[:MOST], start)


def _names(surface: Surface, typed: str) -> list[Item]:
    allow = surface.access.commands.allow
    items = [
        Item(f"/{alias}", f"/{alias} {command.args}".rstrip(), command.summary)
        for command in catalog(surface.scope)
        if allow(command.name)
        for alias in (command.name, *command.aliases)
        # An alias is offered only to those who began to type it.
        if alias.startswith(typed) and (alias == command.name or typed)
    ]
    items += [
        Item(
            f"/{command.name}", f"/{command.name} {command.args_hint}".rstrip(), command.description
        )
        for command in plugin_commands().values()
        if command.name.startswith(typed) and allow(normal(command.name))
    ]
    items += [
        Item(f"/{key}", f"/{key}", f"skill: {name}")
        for key, name in skill_names(surface).items()
        if key.startswith(typed)
    ]
    return sorted(items)
