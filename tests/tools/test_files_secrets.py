"""Files with credentials are not read unasked, whichever tool would read them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from hermes_state import SessionDB
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError
from tools.files.patch import patch
from tools.files.read import read_file
from tools.files.search import search_files

from .. import skips

SECRET = "hunter2-and-more"


class Person:
    """Gives one answer to everything, and notes what was asked."""

    def __init__(self, answer: Choice) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(request)
        return self.answer

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


@pytest.fixture
def secrets(context: ToolContext) -> list[Path]:
    """Files that anybody would want to be asked about."""
    cwd = context.workspace.cwd
    paths = [cwd / ".env", cwd / "id_rsa", cwd / "deploy/credentials.json", cwd / "server.key"]
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"first\npassword {SECRET}\nlast\n")
    (cwd / "link.txt").symlink_to(paths[0])
    return [*paths, cwd / "link.txt"]


def with_person(context: ToolContext, answer: Choice) -> tuple[ToolContext, Person]:
    person = Person(answer)
    return dataclasses.replace(context, asker=person), person


def test_a_no_keeps_every_tool_from_reading(context: ToolContext, secrets: list[Path]) -> None:
    context, person = with_person(context, "deny")
    for path in secrets:
        for attempt in (
            lambda path=path: read_file.run(context, str(path)),
            lambda path=path: search_files.run(context, "password", path=str(path)),
            lambda path=path: patch.run(
                context, path=str(path), old_string="passwort", new_string="x"
            ),
        ):
            before = len(person.asked)
            with pytest.raises(ToolError, match="holds secrets") as refused:
                attempt()
            assert SECRET not in str(refused.value)
            assert len(person.asked) == before + 1
            assert str(path.resolve()) in person.asked[-1].command


def test_a_yes_lets_it_be_read(context: ToolContext, secrets: list[Path]) -> None:
    for path in secrets:
        context, person = with_person(context, "once")
        assert SECRET in str(read_file.run(context, str(path)))
        assert SECRET in str(search_files.run(context, "password", path=str(path)))
        assert [request.pattern_keys for request in person.asked] == [["credentials"]] * 2


def test_what_was_read_with_leave_is_not_asked_for_again_to_edit_it(
    context: ToolContext, secrets: list[Path]
) -> None:
    context, person = with_person(context, "once")
    read_file.run(context, str(secrets[1]))
    patch.run(context, path=str(secrets[1]), old_string="first", new_string="1st")
    assert [request.command.split()[0] for request in person.asked] == ["read", "write"]


@pytest.mark.parametrize("name", [".env", "auth.json", "profiles/work/.env"])
def test_nobody_can_allow_the_agents_own_keys(context: ToolContext, name: str) -> None:
    path = context.workspace.home / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"KEY={SECRET}\n")
    context, person = with_person(context, "always")
    for attempt in (
        lambda: read_file.run(context, str(path)),
        lambda: search_files.run(context, "KEY", path=str(path)),
        lambda: patch.run(context, path=str(path), old_string="KEX", new_string="x"),
    ):
        with pytest.raises(ToolError, match="Nobody can allow") as refused:
            attempt()
        assert SECRET not in str(refused.value)
    assert person.asked == []


def test_a_decision_is_kept(context: ToolContext, db: SessionDB, secrets: list[Path]) -> None:
    db.create_session("s1", "cli")
    context, _ = with_person(dataclasses.replace(context, db=db), "session")
    read_file.run(context, str(secrets[0]))
    read_file.run(context, str(secrets[1]))
    kept = db.list_approvals("s1")
    assert [(row["command"].split()[0], row["how"]) for row in reversed(kept)] == [
        ("read", "person"),
        ("read", "granted"),
    ]


@pytest.mark.parametrize("with_ripgrep", [True, False])
def test_a_search_over_a_folder_leaves_them_out_and_says_so(
    context: ToolContext, secrets: list[Path], monkeypatch: pytest.MonkeyPatch, with_ripgrep: bool
) -> None:
    if not with_ripgrep:
        monkeypatch.setenv("PATH", "/nowhere")
    else:
        skips.need("rg")
    (context.workspace.cwd / "notes.txt").write_text("the password is elsewhere\n")
    context, person = with_person(context, "always")
    for mode in ("content", "files_only", "count"):
        found = str(search_files.run(context, "password", output_mode=mode))
        assert "notes.txt" in found
        assert SECRET not in found
        assert "id_rsa" not in found
        assert "[3 files that may hold secrets left out" in found
    hidden = str(search_files.run(context, "password", file_glob=".env"))
    assert SECRET not in hidden
    assert "[1 file that may hold secrets left out" in hidden
    assert person.asked == []


def test_how_many_were_left_out_tells_nothing_of_what_is_in_them(
    context: ToolContext, secrets: list[Path]
) -> None:
    right = str(search_files.run(context, f"^password {SECRET[:4]}"))
    wrong = str(search_files.run(context, "^password nope"))
    assert right.splitlines()[1:] == wrong.splitlines()[1:] != []
    assert right.splitlines()[0].startswith("No matches")


def test_they_are_still_found_by_name(context: ToolContext, secrets: list[Path]) -> None:
    found = str(search_files.run(context, "id_rsa", target="files"))
    assert "id_rsa" in found
    assert "secrets" not in found
