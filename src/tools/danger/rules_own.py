"""The agent's own command is one program with one rule, however it is called.

Commands that only read may run; every other one, known here or not, needs approval: the agent must
not free itself of its own rules. A test walks the real table of commands.
"""

from __future__ import annotations

from itertools import takewhile
from pathlib import PurePosixPath

from .call import Call, Rule
from .marks import UNKNOWN, as_literal, has_marks, readable

READING: dict[str, tuple[str, ...]] = {
    "sessions": ("list", "search", "show", "tree", "stats"),
    "model": ("", "list"),
    "config": ("get", "check", "path"),
    "tools": ("", "list", "show"),
    "approvals": ("", "list"),
    "skills": ("", "list", "show"),
    "memory": ("", "show", "find", "history"),
    "plugins": ("list",),
    "hooks": ("list",),
    "gateway": ("status",),
    "pairing": ("list",),
    "people": ("", "list", "show"),
    "cron": ("", "list", "history"),
    "store": ("check",),
    "insights": ("",),
    "doctor": ("",),
    "logs": ("",),
    "completion": ("",),
    "version": ("",),
}
"""Commands and those of their actions that change nothing and start nothing; "" is none."""
READING_OPTIONS = frozenset({
    "-n", "--limit", "--source", "--archived", "--all", "--json", "--role", "--newest", "--why", "--tools",
    "--env", "--days", "--lines", "-f", "--follow", "--level", "--file", "--session",
    "--shared", "--where",
})  # fmt: skip
"""Options of theirs that change nothing either."""
WITHOUT_ACTION = frozenset({"insights", "doctor", "logs", "completion", "version"})
"""Commands that have no actions: what follows are their arguments."""

_BEFORE = frozenset({"--safe-mode", "--plain", "-Q", "--quiet"})
"""Options before a command that leave its rule as it is."""
_MODULES = ("hermes_cli", "hermes_cli.main", "hermes_cli.__main__")
_FILES = ("hermes_cli/main.py", "hermes_cli/__main__.py", "hermes_cli")


def own_module(module: str) -> bool:
    """Whether `python -m module` is the agent's own command."""
    return module in _MODULES


def own_file(path: str) -> bool:
    """Whether `python path` is the agent's own command."""
    plain = PurePosixPath(as_literal(path))
    return plain.name in ("hermes", "hermes.exe") or any(map(plain.match, _FILES))


def _hermes(call: Call) -> str:
    if any(name.startswith("HERMES_") for name in call.shell.state.variables):
        call.report("own-rules", "Runs the agent with settings of its own")
    elif not _only_reads(call.arguments):
        command = readable(" ".join(call.arguments))[:60] or "hermes"
        call.report("own-rules", f"Runs or changes the agent itself: {command}")
    return UNKNOWN


def _only_reads(arguments: list[str]) -> bool:
    before = list(takewhile(lambda option: option in _BEFORE, arguments))
    words = arguments[len(before) :]
    if words in (["--version"], ["-h"], ["--help"]):
        return True
    if not words or has_marks(words[0]) or words[0] not in READING:
        return False
    if words[1:] in (["-h"], ["--help"]):
        return True
    command, rest = words[0], words[1:]
    action = "" if command in WITHOUT_ACTION or not rest else rest.pop(0)
    if action.startswith("-") or has_marks(action) or action not in READING[command]:
        return False
    # What is not known beforehand may turn out to be an option.
    return all(_is_reading_argument(argument) for argument in rest)


def _is_reading_argument(argument: str) -> bool:
    if has_marks(argument[:1]):
        return False
    name = argument.partition("=")[0]
    return not argument.startswith("-") or name in READING_OPTIONS or name[1:].isdigit()


OWN: dict[str, Rule] = {"hermes": _hermes}
