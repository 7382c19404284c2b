"""Who somebody on IRC is: their account of the network's services, or `nick!user@host`.

A nickname alone says nothing: whoever takes it next has it. So a person is known by what the server
vouches for, and a text goes to a nickname only while whom it is for has it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TypeVar

from .client import Client, Whois
from .protocol import Line, fold

KNOWN_SECONDS = 300.0
MOST_KNOWN = 1000

V = TypeVar("V")


class People:
    """The people one connection has to do with."""

    def __init__(self, *, by_account: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._by_account = by_account
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, str]] = OrderedDict()
        """By mask: when the server was asked, and what the person is called."""
        self._nicks: OrderedDict[str, str] = OrderedDict()
        """By what a person is called: under which nickname they wrote last."""

    async def identify(self, client: Client, line: Line) -> str:
        """What the writer of a line is called; empty if they have no account and need one."""
        person = await self._name_of(client, line)
        if person:
            _put(self._nicks, person, line.nick)
        return person

    async def _name_of(self, client: Client, line: Line) -> str:
        if not self._by_account:
            return mask_of(line.prefix, client.mapping)
        if "account-tag" in client.capabilities:
            return fold(line.tags.get("account", ""), client.mapping)
        known = self._known.get(line.prefix)
        if known is not None and self._clock() - known[0] < KNOWN_SECONDS:
            return known[1]
        said = await client.whois(line.nick)
        is_same = mask_of(said.mask, client.mapping) == mask_of(line.prefix, client.mapping)
        person = fold(said.account, client.mapping) if is_same else ""
        if person:
            _put(self._known, line.prefix, (self._clock(), person))
        return person

    def nick_of(self, person: str) -> str:
        """The nickname under which a person is probably reached."""
        return self._nicks.get(person) or person.partition("!")[0]

    def fits(self, person: str, said: Whois, mapping: str) -> bool:
        """Whether whoever has a nickname now is that person."""
        if "!" in person:
            return mask_of(said.mask, mapping) == person
        return bool(said.account) and fold(said.account, mapping) == person


def mask_of(prefix: str, mapping: str) -> str:
    """nick!user@host in the form in which it is compared."""
    return fold(prefix, mapping) if "!" in prefix else ""


def _put(table: OrderedDict[str, V], key: str, value: V) -> None:
    table[key] = value
    table.move_to_end(key)
    while len(table) > MOST_KNOWN:
        table.popitem(last=False)
