"""How often ten working sessions ask the person, without a wall and with one.

Files are written for real. Commands are judged, and what they need beyond a wall (a host, a place
outside) is asked for as it would be when they run; every question is answered with "once". Without
a wall nobody asks about hosts, so a wall is also counted where the person has allowed the usual
ones, in `terminal.allowed_hosts` or by answering "always" to each once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tools import approval
from tools.base import ApprovalRequest, Choice, ToolContext, Workspace
from tools.files.read import read_file
from tools.files.write import write_file
from tools.wall.guardhouse import close_walls, guardhouse_of
from tools.wall.leaving import parse_needs

from .everyday import PROJECT
from .working_sessions import SESSIONS, Call

AT_MOST = 1 / 5
USUAL_HOSTS = ["github.com", "*.github.com", "pypi.org", "files.pythonhosted.org",
               "registry.npmjs.org", "*.crates.io"]  # fmt: skip


class Person:
    """Says yes, once, and counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(f"{request.command}: {request.description}")
        return "once"

    def clarify(self, question: str, choices: list[str]) -> str:
        raise AssertionError("nothing here has a question of its own")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def replay(place: Path, calls: list[Call], hosts: list[str] | None = None) -> list[str]:
    """The questions that a session asks."""
    root, outside = place / "project", place / "outside"
    for folder in (place / ".hermes", outside, root / ".git"):
        folder.mkdir(parents=True)
    for name, text in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    person = Person()
    settings = {"approvals": {"mode": "manual"}, "terminal": {"allowed_hosts": hosts or []}}
    workspace = Workspace(place / ".hermes", root, settings=settings)
    context = ToolContext("s1", "call_1", workspace=workspace, asker=person)
    for call in calls:
        make(context, call, str(outside))
    close_walls(workspace)
    return person.asked


def make(context: ToolContext, call: Call, outside: str) -> None:
    """What a call asks before it does anything, and what it asks on its way."""
    text = call.text.replace("{outside}", outside)
    guardhouse = guardhouse_of(context.workspace)
    if call.tool == "write":
        write_file.run(context, text, call.content)
    elif call.tool == "read":
        read_file.run(context, text)
    elif call.tool == "code":
        if guardhouse is None:
            approval.check_action(context, "execute-code", "Run a Python program", text)
    else:
        needs = [need.replace("{outside}", outside) for need in call.needs if guardhouse]
        approval.check_command(context, text, needs=parse_needs(context, needs))
        for host in call.hosts if guardhouse else ():
            # As its proxy does when a program of the command connects.
            guardhouse._context = replace(context, call_id=text)
            guardhouse._decide((), host, 443)


def test_a_wall_asks_at_most_a_fifth_where_the_usual_hosts_are_allowed(
    kind: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = []
    for number, (name, calls) in enumerate(SESSIONS.items()):
        monkeypatch.setenv("HERMES_WALL", "none")
        before = replay(place / f"{number}-open", calls)
        monkeypatch.setenv("HERMES_WALL", kind)
        first = replay(place / f"{number}-first", calls)
        after = replay(place / f"{number}-walled", calls, USUAL_HOSTS)
        assert len(after) <= len(before), f"{name}: {after}"
        rows.append((name, len(calls), len(before), len(first), len(after)))
    _, _, before_all, _, after_all = totals = (
        "in all",
        *(sum(int(row[column]) for row in rows) for column in range(1, 5)),
    )
    # Shown with -s or -rP; docs/security.md has it.
    print("| session | calls | no wall | wall, no host allowed | wall, usual hosts allowed |")
    for row in (*rows, totals):
        print("|", " | ".join(map(str, row)), "|")
    assert after_all <= before_all * AT_MOST
