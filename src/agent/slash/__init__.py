"""Slash commands: one table for the terminal and the chat platforms.

    surface = MySurface(...)                    # what this front end offers, see Surface
    if is_command(line):
        result = run(surface, line)             # off the request thread if is_slow(surface, line)
        show(wire(result))                      # {"type": "exec", "output": "…"}

`complete(surface, text)` completes names and arguments; `catalog(scope)` lists what there is. A
command is a function in one of the files here with `@command(...)` above it.
"""

from .complete import Completion, Item, complete
from .dispatch import is_command, is_slow, run
from .results import Alias, Exec, Plugin, Prefill, Result, Send, Skill, wire
from .surface import CommandError, Surface
from .table import Command, Scope, UnknownCommandError, catalog, lookup

__all__ = [
    "Alias", "Command", "CommandError", "Completion", "Exec", "Item", "Plugin", "Prefill",
    "Result", "Scope", "Send", "Skill", "Surface", "UnknownCommandError", "catalog", "complete",
    "is_command", "is_slow", "lookup", "run", "wire",
]  # fmt: skip
