"""The table: every command with its names, arguments, scope and function.

A function becomes a command by its decorator; the first line of its docstring is what people read
in `/help`. The files with commands are imported when the table is first looked at.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal, TypeVar

from .surface import CommandError

if TYPE_CHECKING:
    from .results import Result
    from .surface import Surface

Scope = Literal["cli", "gateway", "both"]
Handler = Callable[["Surface", str], "Result | str"]
H = TypeVar("H", bound=Handler)
Completer = Callable[["Surface", str], Iterable["tuple[str, str]"]]
"""Given what was typed of an argument: candidates, each with a word of explanation."""

_FILES = (
    "conversation", "rewind", "compress", "control", "chats", "people", "work", "jobs", "walls",
    "approvals", "models", "tools", "info",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    name: str
    aliases: tuple[str, ...]
    args: str
    summary: str
    scope: Scope
    handler: Handler
    category: str
    slow: bool = False
    """It may take seconds: the front end runs it off the thread that takes requests."""
    complete: Completer | None = None

    def fits(self, scope: Scope) -> bool:
        """Whether a front end of this scope has the command."""
        return "both" in (self.scope, scope) or self.scope == scope


class UnknownCommandError(CommandError):
    """There is no such command; the message names the nearest."""


_registered: dict[str, Command] = {}


def command(
    name: str,
    *,
    category: str,
    args: str = "",
    aliases: tuple[str, ...] = (),
    scope: Scope = "both",
    slow: bool = False,
    complete: Completer | None = None,
) -> Callable[[H], H]:
    """Enter a function `f(surface, args)` into the table."""

    def enter(handler: H) -> H:
        summary = (inspect.getdoc(handler) or "").partition("\n")[0].rstrip(".")
        entry = Command(name, aliases, args, summary, scope, handler, category, slow, complete)
        for key in (name, *aliases):
            if _registered.setdefault(key, entry).name != name:
                raise ValueError(f"There is a command /{key} already.")
        return handler

    return enter


@cache
def table() -> dict[str, Command]:
    """Every command under each of its names."""
    for file in _FILES:
        importlib.import_module(f"agent.slash.{file}")
    return _registered


def catalog(scope: Scope) -> list[Command]:
    """The commands that a front end of this scope has, by category and name."""
    order: dict[str, int] = {}
    for command in table().values():
        order.setdefault(command.category, len(order))
    return sorted(
        {command.name: command for command in table().values() if command.fits(scope)}.values(),
        key=lambda command: (order[command.category], command.name),
    )


def parse(line: str) -> tuple[str, str]:
    """The name and the arguments of a line such as "/title A plan"."""
    words = line.strip().removeprefix("/").split(maxsplit=1)
    name, args = (*words, "", "")[:2]
    return normal(name), args.strip()


def normal(name: str) -> str:
    """A name as the table has it: chat platforms write "/reload_skills@bot"."""
    return name.partition("@")[0].lower().replace("_", "-")


def lookup(name: str, scope: Scope = "both") -> Command | None:
    """The command of that name or alias, if a front end of this scope has it."""
    command = table().get(normal(name))
    return command if command is not None and command.fits(scope) else None


def unknown(name: str, names: Iterable[str]) -> UnknownCommandError:
    """The error for a name that none of `names` is, with the nearest of them."""
    near = difflib.get_close_matches(name, sorted(set(names)), n=1, cutoff=0.6)
    hint = f" Did you mean /{near[0]}?" if near else ""
    return UnknownCommandError(f"There is no command /{name}.{hint} /help lists them.")
