"""A program and its arguments, as the rules see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .marks import CONTENT, UNKNOWN, has_unknown

if TYPE_CHECKING:
    from .walk import Walker


@dataclass(slots=True)
class Options:
    """Arguments sorted into options, their values and the rest."""

    flags: set[str] = field(default_factory=set)
    """Letters of short options and names of long ones."""
    values: dict[str, list[str]] = field(default_factory=dict)
    operands: list[str] = field(default_factory=list)
    is_unclear: bool = False
    """Whether an argument could turn out to be an option."""

    def has(self, *names: str) -> bool:
        """Whether one of the options is given; long ones may be shortened."""
        return any(
            flag == name or (len(flag) > 2 and len(name) > 1 and name.startswith(flag))
            for flag in self.flags
            for name in names
        )

    def get(self, *names: str) -> list[str]:
        """The values given to an option."""
        return [
            value
            for flag, values in self.values.items()
            for value in values
            if flag in names or any(len(flag) > 2 and name.startswith(flag) for name in names)
        ]


def sort_options(
    arguments: list[str],
    valued: str = "",
    long_valued: tuple[str, ...] = (),
    *,
    until_operand: bool = False,
) -> Options:
    """Sort arguments; `valued` are the letters, `long_valued` the names that take a value."""
    options = Options()
    index = 0
    while index < len(arguments):
        argument = arguments[index]
        index += 1
        if argument == "--":
            options.operands += arguments[index:]
            break
        if argument.startswith("--"):
            name, equals, value = argument[2:].partition("=")
            if not equals and name in long_valued and index < len(arguments):
                value = arguments[index]
                index += 1
            options.flags.add(name)
            options.values.setdefault(name, []).append(value)
        elif argument.startswith("-") and len(argument) > 1:
            index += _short(options, argument[1:], arguments[index : index + 1], valued)
        else:
            options.is_unclear |= bool(argument) and has_unknown(argument[0])
            options.operands.append(argument)
            if until_operand:
                options.operands += arguments[index:]
                break
    return options


def _short(options: Options, letters: str, following: list[str], valued: str) -> int:
    """Sort `-abc`; returns how many further arguments it takes."""
    for position, letter in enumerate(letters):
        options.flags.add(letter)
        options.is_unclear |= has_unknown(letter)
        if letter in valued:
            rest = letters[position + 1 :]
            value = rest or (following[0] if following else "")
            options.values.setdefault(letter, []).append(value)
            return 0 if rest else len(following)
    return 0


@dataclass(slots=True)
class Call:
    """A program that is about to be started."""

    shell: Walker
    name: str
    arguments: list[str]
    stdin: str | None
    """What is piped into it; None if nothing is."""

    def options(
        self, valued: str = "", long_valued: tuple[str, ...] = (), *, until_operand: bool = False
    ) -> Options:
        """The arguments, sorted."""
        return sort_options(self.arguments, valued, long_valued, until_operand=until_operand)

    def report(self, key: str, description: str, hard: bool = False) -> None:
        """Note a danger."""
        self.shell.report(key, description, hard)

    def run(self, command: list[str]) -> str:
        """Follow another program that this one starts."""
        return self.shell.run(command, self.stdin)

    @property
    def input(self) -> str:
        """What it reads from its input, as far as it is known."""
        return UNKNOWN if self.stdin is None else self.stdin

    def contents(self, paths: list[str]) -> str:
        """What is in files, as far as it was written by the same command."""
        return "".join(
            self.input if path == "-" else self.shell.written(path, CONTENT) for path in paths
        )


Rule = Callable[[Call], str | None]
"""What is known of a program: notes its dangers, and gives what it prints if that is known."""


def reports(key: str, description: str) -> Rule:
    """The rule of a program that is dangerous whatever its arguments."""

    def rule(call: Call) -> str:
        call.report(key, description)
        return UNKNOWN

    return rule


def table(names: str, rule: Rule) -> dict[str, Rule]:
    """The same rule for several programs."""
    return dict.fromkeys(names.split(), rule)
