"""What a yes covers: this pattern, this person, this place; never what could not be understood."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB
from tools.approval import ASKED_EACH_TIME, check_command, guard_write
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError


class Person:
    """Gives the same answer to everything, and notes what was asked."""

    def __init__(self, answer: Choice) -> None:
        self.answer = answer
        self.asked: list[list[str]] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(request.pattern_keys)
        return self.answer

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


@pytest.fixture
def meet(context: ToolContext, db: SessionDB) -> Callable[..., tuple[ToolContext, Person]]:
    """A new conversation with somebody who always answers the same."""

    def make(answer: Choice, user: str | None = "ada") -> tuple[ToolContext, Person]:
        session = f"s{db.session_count()}"
        db.create_session(session, "cli", user_id=user)
        person = Person(answer)
        workspace = dataclasses.replace(context.workspace, state={})
        return (
            dataclasses.replace(
                context, session_id=session, db=db, asker=person, user_id=user, workspace=workspace
            ),
            person,
        )

    return make


@pytest.mark.parametrize("answer", ["session", "always"])
@pytest.mark.parametrize(
    "command", ["sudo ls", "eval $X", "$TOOL x", "echo 'open", "cat $(echo eA== | openssl base64)"]
)
def test_some_things_are_asked_each_time(
    meet: Any, db: SessionDB, answer: Choice, command: str
) -> None:
    context, person = meet(answer)
    for _ in range(2):
        check_command(context, command)
    assert len(person.asked) == 2
    assert set(person.asked[0]) <= ASKED_EACH_TIME
    assert db.list_granted_patterns() == []


def test_of_several_reasons_only_the_understood_are_kept(meet: Any, db: SessionDB) -> None:
    context, person = meet("always")
    check_command(context, "rm -r src; eval $X")
    assert db.list_granted_patterns() == ["recursive-delete"]
    check_command(context, "rm -r docs")
    assert len(person.asked) == 1
    check_command(context, "rm -r docs; eval $X")
    assert person.asked[1] == ["unclear-script"]


def test_always_holds_for_whoever_said_it(meet: Any) -> None:
    ada, said = meet("always", "ada")
    check_command(ada, "rm -r src")
    for user in ("bob", None):
        other, asked = meet("deny", user)
        with pytest.raises(ToolError, match="Not allowed"):
            check_command(other, "rm -r src")
        assert asked.asked == [["recursive-delete"]]
    again, asked_again = meet("deny", "ada")
    check_command(again, "rm -r src")
    assert (len(said.asked), asked_again.asked) == (1, [])


def test_a_command_is_judged_where_it_starts(meet: Any) -> None:
    context, person = meet("deny")
    check_command(context, "cat shadow")
    with pytest.raises(ToolError, match="Not allowed"):
        check_command(context, "cat shadow", workdir="/etc")
    with pytest.raises(ToolError, match="Nobody can allow"):
        check_command(context, "rm -rf *", workdir="/")
    assert person.asked == [["credentials"]]


def test_what_is_typed_into_a_shell_is_a_command(meet: Any) -> None:
    context, person = meet("deny")
    check_command(context, "bash", stdin="ls\n")
    check_command(context, "cat", stdin="rm -rf /\n")
    with pytest.raises(ToolError, match="Nobody can allow"):
        check_command(context, "bash", stdin="rm -rf /\n")
    with pytest.raises(ToolError, match="Not allowed"):
        check_command(context, "bash", stdin="git reset --hard\n")
    assert person.asked == [["git-destructive"]]


def test_variables_of_earlier_commands_count(meet: Any) -> None:
    context, _ = meet("deny")
    context.workspace.environ["TOOL"] = "rm"
    with pytest.raises(ToolError, match="Nobody can allow"):
        check_command(context, "$TOOL -rf /")


@pytest.mark.parametrize(
    ("path", "key"),
    [
        ("src/hooks/useThing.ts", None),
        ("docs/credentials.md", None),
        (".env.example", None),
        (".git/hooks/pre-commit", "git-hooks"),
        (".git/config", "git-hooks"),
        (".env", "credentials"),
        ("deploy/.env.production", "credentials"),
        ("../other.txt", "write-outside"),
        ("../.bashrc", "startup-file"),
        ("../.config/autostart/x.desktop", "startup-file"),
        ("../.ssh/authorized_keys", "remote-access"),
        ("../.ssh/id_ed25519", "credentials"),
        ("../home/skills/x/SKILL.md", "hermes-home"),
        ("/etc/cron.d/x", "cron"),
        ("/etc/hosts", "system-write"),
    ],
)
def test_files_that_are_asked_for(meet: Any, path: str, key: str | None) -> None:
    context, person = meet("once")
    guard_write(context, (context.workspace.cwd / path).resolve())
    assert person.asked == ([] if key is None else [[key]])


def test_a_link_that_appeared_meanwhile_is_followed(meet: Any, tmp_path: Path) -> None:
    context, person = meet("deny")
    path = context.workspace.cwd / "notes.txt"
    guard_write(context, path)
    path.symlink_to(tmp_path / "outside.txt")
    with pytest.raises(ToolError, match="Not allowed"):
        guard_write(context, path)
    path.unlink()
    path.symlink_to(context.workspace.home / ".env")
    with pytest.raises(ToolError, match="Nobody can allow"):
        guard_write(context, path)
    assert person.asked == [["write-outside"]]
