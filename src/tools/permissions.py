"""What a person may use: lists of names, and the check before a tool runs.

A list is read as people write it: names, `all`, `none`, names with `*` in them, and `-name` for
what is taken away again. What is taken away stays away, wherever in the list it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from .toolset_names import ALL, MEANS

if TYPE_CHECKING:
    from .base import Mode, Tool, ToolContext

EVERY_MODE: tuple[Mode, ...] = ("plan", "guarded", "full")


@dataclass(frozen=True, slots=True)
class Names:
    """Which names are allowed: those that every one of the lists allows."""

    lists: tuple[tuple[str, ...], ...] = ()
    """Without any, everything is allowed."""
    reserved: frozenset[str] = frozenset()
    """Names that a list must say by themselves: `all` and `*` do not stand for them."""

    def allow(self, *names: str) -> bool:
        """Whether something may be used; `names` are what it is called, and its groups."""
        return all(self._in(listed, names) for listed in self.lists)

    def _in(self, listed: tuple[str, ...], names: tuple[str, ...]) -> bool:
        is_reserved = not self.reserved.isdisjoint(names)
        is_allowed = False
        for item in listed:
            if item.startswith("-"):
                if _matches(item[1:], names):
                    return False
            elif item in names or (not is_reserved and _matches(item, names)):
                is_allowed = True
        return is_allowed

    def narrowed(self, listed: tuple[str, ...] | None) -> Names:
        """What a further list allows as well; None is no list."""
        return self if listed is None else Names((*self.lists, listed), self.reserved)


ALL_NAMES = Names()


def _matches(item: str, names: tuple[str, ...]) -> bool:
    if item in names or item in (ALL, "*"):
        return True
    if "*" in item:
        return any(_pattern(item).fullmatch(name) for name in names)
    return item in MEANS and any(
        meant == ALL or meant in names for meant in MEANS[item]
    )  # as people know toolsets from Hermes Agent


@cache
def _pattern(item: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, item.split("*"))), re.S)


@dataclass(frozen=True, slots=True)
class Permissions:
    """What the agent may do for somebody."""

    role: str = "operator"
    tools: Names = ALL_NAMES
    modes: tuple[Mode, ...] = EVERY_MODE
    may_leave: bool = True
    """Whether they may let the agent leave their workspace, where everybody has one."""

    def allow_tool(self, tool: Tool) -> bool:
        """Whether a tool may be used."""
        return self.tools.allow(tool.name, tool.toolset)

    def allow_toolset(self, name: str) -> bool:
        """Whether what belongs to a toolset may be used, beside its tools."""
        return self.tools.allow(name)

    def nearest_mode(self, mode: Mode) -> Mode:
        """A mode, or the most that is allowed below it."""
        allowed = [known for known in EVERY_MODE if known in self.modes] or ["plan"]
        below = [known for known in allowed if _rank(known) <= _rank(mode)]
        return below[-1] if below else allowed[0]


EVERYTHING = Permissions()


def _rank(mode: Mode) -> int:
    return EVERY_MODE.index(mode)


def check_permitted(context: ToolContext, tool: Tool) -> None:
    """Return if a tool may be used for whoever the agent works for; ToolError if not."""
    permissions = context.permissions
    if permissions is EVERYTHING or permissions.allow_tool(tool):
        return
    from .base import ToolError

    raise ToolError(
        f"{tool.name} may not be used here by {some(permissions.role)}; the operator decides that."
        " Go on without it, and say what it would have been needed for."
    )


def some(role: str) -> str:
    """Somebody of a role, in words."""
    return f"{'an' if role[:1] in 'aeiou' else 'a'} {role}"
