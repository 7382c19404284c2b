"""What a shell knows while it works: variables, functions, where it is, what it has written.

A variable has every value it could have at that point. Where two ways meet, so do their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from .marks import BETWEEN, UNKNOWN
from .syntax import Node

Values = frozenset[str]

MOST_VALUES = 8
LONGEST_VALUE = 100_000
ANYTHING: Values = frozenset({UNKNOWN})


def values_of(texts: Iterable[str]) -> Values:
    """The values, or anything if they are too many or too long to follow."""
    values = frozenset(texts)
    if len(values) > MOST_VALUES or any(len(value) > LONGEST_VALUE for value in values):
        return ANYTHING
    return values


def as_array(elements: Iterable[str]) -> str:
    """A value that stands for several fields."""
    return BETWEEN + BETWEEN.join(elements)


def elements_of(value: str) -> list[str]:
    """The fields of an array, or the one value of anything else."""
    if not value.startswith(BETWEEN):
        return [value]
    return [] if value == BETWEEN else value[1:].split(BETWEEN)


@dataclass(slots=True)
class State:
    """The state of a shell; `fork` before a way that may not be taken, `join` behind it."""

    directories: Values
    """Where it may be."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables that were set before."""
    variables: dict[str, Values] = field(default_factory=dict)
    functions: dict[str, Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """What was written, by absolute path."""
    programs: dict[str, str] = field(default_factory=dict)
    """Further names of programs: links and copies."""
    exported: set[str] = field(default_factory=set)
    """Variables that programs get to see."""

    @property
    def size(self) -> int:
        """How much a copy costs."""
        return len(self.variables) + len(self.functions) + len(self.files) + 1

    def fork(self) -> State:
        """A copy that can go its own way."""
        return replace(
            self,
            variables=dict(self.variables),
            functions=dict(self.functions),
            aliases=dict(self.aliases),
            files=dict(self.files),
            programs=dict(self.programs),
            exported=set(self.exported),
        )

    def child(self, arguments: Iterable[str] = (), name: str = "bash") -> State:
        """What a shell that is started from this one begins with."""
        state = self.fork()
        for variable, values in self.variables.items():
            if variable not in self.exported and variable not in self.environ:
                state.variables[variable] = values_of(values | {""})
        state.variables["@"] = frozenset({as_array(arguments)})
        state.variables["0"] = frozenset({name})
        state.aliases = {}
        return state

    def join(self, other: State) -> None:
        """Take in what could also be the case."""
        for name in self.variables.keys() | other.variables.keys():
            mine, theirs = self.lookup(name), other.lookup(name)
            if mine != theirs:
                self.variables[name] = values_of(mine | theirs)
        for path in self.files.keys() | other.files.keys():
            if self.files.get(path, "") != other.files.get(path, ""):
                known = {self.files.get(path, ""), other.files.get(path, "")} - {""}
                self.files[path] = known.pop() if len(known) == 1 else UNKNOWN
        self.functions = {**other.functions, **self.functions}
        self.aliases = {**other.aliases, **self.aliases}
        self.programs = {**other.programs, **self.programs}
        self.directories = values_of(self.directories | other.directories)
        self.exported &= other.exported

    def assign(self, name: str, values: Iterable[str]) -> None:
        """Set a variable."""
        self.variables[name] = values_of(values) or frozenset({""})

    def lookup(self, name: str) -> Values:
        """What a variable may hold; anything, if nobody knows."""
        known = self.variables.get(name)
        if known is not None:
            return known
        if name == "PWD":
            return self.directories
        if name in ("@", "*"):
            return self.variables.get("@", frozenset({BETWEEN}))
        if name.isdigit():
            return self._argument(int(name))
        value = self.environ.get(name)
        return ANYTHING if value is None else frozenset({value})

    def _argument(self, number: int) -> Values:
        if number == 0:
            return frozenset({"bash"})
        arguments = set()
        for value in self.variables.get("@", frozenset({BETWEEN})):
            if not value.startswith(BETWEEN):
                return ANYTHING
            elements = elements_of(value)
            arguments.add(elements[number - 1] if number <= len(elements) else "")
        return frozenset(arguments)
