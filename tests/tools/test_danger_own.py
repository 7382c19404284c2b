"""The rule about the agent's own command knows every command that there is."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from hermes_cli.commands.table import COMMANDS
from hermes_cli.main import build_parser
from tools.danger.analyse import analyse
from tools.danger.rules_own import READING, READING_OPTIONS, WITHOUT_ACTION

PROJECT, USER = Path("/home/ada/project"), Path("/home/ada")

CHANGING = {
    "sessions": {"export", "import", "rename", "branch", "delete", "prune", "archive", "repair",
                 "optimize", "meaning"},
    "model": {"set", "pull"}, "config": {"set"}, "tools": {"disable", "enable"},
    "approvals": {"revoke"}, "memory": {"add", "edit", "remove", "undo"},
    "plugins": {"enable", "disable"}, "skills": {"share", "remove"},
    "hooks": {"doctor", "accept", "revoke", "test"}, "mcp": {"serve", "list"},
    "gateway": {"run", "start", "stop", "restart", "setup", "install", "new-platform",
                "matrix"},
    "store": {"move", "put-files"}, "pairing": {"approve", "revoke"},
    "people": {"add", "rename", "merge", "unmerge", "role", "limit", "workspace", "remove",
               "code", "join"},
    "cron": {"add", "edit", "pause", "resume", "run", "remove", "run-due", "import"},
    "web": {"code", "devices", "revoke"},
    "backup": {"increment", "watch", "points", "verify"},
}  # fmt: skip
"""Actions that change or start something, or that nobody needs often enough to judge them."""
CHANGING_ALONE = {"send", "chat", "setup", "web", "mcp", "backup", "restore", "import"}
"""Commands of which nothing may run unasked."""
CHANGING_OPTIONS = {("doctor", "--fix"), ("doctor", "--acknowledge"), ("store", "--url"),
                    ("memory", "--person"), ("memory", "--group")}  # fmt: skip


def subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    return {}


def options(parser: argparse.ArgumentParser) -> set[str]:
    found = {option for action in parser._actions for option in action.option_strings}
    return found - {"-h", "--help"}


def is_asked(command: str) -> bool:
    return any(
        finding.pattern_key == "own-rules"
        for finding in analyse(command, PROJECT, user_home=USER, home=USER / ".hermes")
    )


def test_every_command_is_either_harmless_or_asked() -> None:
    assert {name for name, _, _ in COMMANDS} == READING.keys() | CHANGING_ALONE


@pytest.mark.parametrize("name", [name for name, _, _ in COMMANDS])
def test_every_action_and_option_is_judged(name: str) -> None:
    parser = subcommands(build_parser())[name]
    actions = subcommands(parser)
    assert (name in WITHOUT_ACTION) == (name in READING and not actions)
    reading = set(READING.get(name, ())) - {""}
    assert set(actions) == reading | CHANGING.get(name, set())
    for action in actions:
        assert is_asked(f"hermes {name} {action} x") == (action not in reading)
    for action in reading or ({""} if name in READING else set()):
        for option in options(actions[action] if action else parser):
            is_changing = (name, option) in CHANGING_OPTIONS
            assert (option in READING_OPTIONS) != is_changing
            assert is_asked(f"hermes {name} {action} {option}") == is_changing
