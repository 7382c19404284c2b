"""What a shell command is made of, as far as its meaning matters here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Text:
    """Characters; quoted ones are neither split nor patterns."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Ansi:
    """`$'…'`; shells that do not know it take it as a dollar sign and a quoted text."""

    text: str
    otherwise: str


@dataclass(frozen=True, slots=True)
class Variable:
    """`$name`, `${name}` and `${name<operator><operand>}`."""

    name: str
    quoted: bool = False
    operator: str = ""
    """`:-`, `#`, `//`, `:` (substring), …; `length` for `${#name}`, `indirect` for `${!name}`."""
    operand: Word = ()
    subscript: Word | None = None
    is_braced: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """`$(…)` and `` `…` ``: what a script prints."""

    script: Script
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """`<(…)` and `>(…)`: the name of a pipe to a script."""

    script: Script
    reads: bool
    """Whether the script reads what is written to the pipe."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`$((…))`."""

    word: Word
    script: Script
    """The same, read as commands: some shells do."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An extended pattern, `@(a|b)`; its parts matter only for what they run."""

    parts: Word


Part: TypeAlias = Text | Ansi | Variable | Output | Process | Arithmetic | Choice
Word: TypeAlias = tuple[Part, ...]


@dataclass(slots=True)
class HereDocument:
    """The text under a command; filled in when the parser gets there."""

    delimiter: str
    quoted: bool
    strips_tabs: bool
    body: Word = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """`2>file`, `<<EOF` and the like."""

    operator: str
    target: Word
    descriptor: str = ""
    document: HereDocument | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`name=value`, `name+=value`, `name[subscript]=value`, `name=(values)`."""

    name: str
    value: Word = ()
    values: tuple[Word, ...] | None = None
    subscript: Word | None = None
    appends: bool = False


@dataclass(frozen=True, slots=True)
class Simple:
    """A command with its arguments."""

    assignments: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """`{ …; }` and `( … )`."""

    script: Script
    redirects: tuple[Redirect, ...] = ()
    is_subshell: bool = False


@dataclass(frozen=True, slots=True)
class Branches:
    """`if` and `case`: the first script runs, each of the others may."""

    first: Script
    others: tuple[Script, ...]
    redirects: tuple[Redirect, ...] = ()
    words: tuple[Word, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """`for`, `while`, `until`, `select`."""

    condition: Script
    body: Script
    redirects: tuple[Redirect, ...] = ()
    variable: str = ""
    words: tuple[Word, ...] | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """`[[ … ]]` and `(( … ))`."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()
    script: Script | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """A definition."""

    name: str
    body: Node


Node: TypeAlias = Simple | Group | Branches | Loop | Test | Function


@dataclass(frozen=True, slots=True)
class Item:
    """A pipeline and what connects it to the next one: `;`, `&`, `&&` or `||`."""

    commands: tuple[Node, ...]
    connector: str = ";"


@dataclass(frozen=True, slots=True)
class Script:
    """Pipelines in their order."""

    items: tuple[Item, ...] = field(default=())
