"""Without a wall, what a conversation wrote is judged by its content when it is run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.approval import check_command
from tools.base import ApprovalRequest, Choice, ToolContext, ToolError, Workspace
from tools.files.patch import patch
from tools.files.write import write_file
from tools.written import written_files

OUT = "echo x > ~/.bashrc"
"""What must not happen unasked, whoever runs it."""


class Denies:
    def __init__(self) -> None:
        self.asked: list[str] = []

    def approve(self, request: ApprovalRequest) -> Choice:
        self.asked.append(request.description)
        return "deny"

    def clarify(self, question: str, choices: list[str]) -> str:
        return ""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    home, root = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    root.mkdir()
    return Workspace(home, root, settings={"terminal": {"sandbox": "off"}})


@pytest.fixture
def context(workspace: Workspace) -> ToolContext:
    return ToolContext("s1", "call_1", workspace=workspace, asker=Denies())


def is_asked(context: ToolContext, command: str) -> bool:
    try:
        check_command(context, command)
    except ToolError:
        return True
    return False


@pytest.mark.parametrize(
    ("path", "text", "command"),
    [
        ("Makefile", f"all:\n\t{OUT}\n", "make"),
        ("Makefile", f"all: ; {OUT}\n", "make all"),
        ("Makefile", "OUT = ~/.bashrc\nall:\n\t@echo x > $(OUT)\n", "make"),
        ("Makefile", f"X := $(shell {OUT})\nall:\n\ttrue\n", "make"),
        ("sub/Makefile", f"all:\n\t{OUT}\n", "make -C sub"),
        ("build.mk", f"all:\n\t{OUT}\n", "make -f build.mk"),
        ("run.sh", f"{OUT}\n", "sh run.sh"),
        ("run.sh", f"#!/bin/sh\n{OUT}\n", "./run.sh"),
        ("run", f"#!/usr/bin/env bash\n{OUT}\n", "chmod +x run && ./run"),
        ("env.sh", f"{OUT}\n", ". ./env.sh"),
        ("run.py", "import os\n", "python run.py"),
        ("run.py", "import os\n", "python3.12 -u ./run.py"),
        ("run.py", "import os\n", "cd . && env X=1 python run.py"),
        ("run.py", "#!/usr/bin/env python3\nprint(1)\n", "./run.py"),
        ("pkg/run.py", "import os\n", "python -m pkg.run"),
        ("pkg/__main__.py", "import os\n", "python -m pkg"),
        ("pkg/__main__.py", "import os\n", "python pkg"),
        ("run.js", "require('fs')\n", "node run.js"),
        ("run.rb", "puts 1\n", "ruby run.rb"),
        ("run.pl", "print 1\n", "timeout 5 perl run.pl"),
        ("main.go", "package main\n", "go run main.go"),
        ("package.json", f'{{"scripts": {{"x": "{OUT}"}}}}', "npm run x"),
        ("package.json", f'{{"scripts": {{"pretest": "{OUT}", "test": "true"}}}}', "npm test"),
        ("package.json", f'{{"scripts": {{"postinstall": "{OUT}"}}}}', "npm install"),
        ("package.json", f'{{"scripts": {{"x": "{OUT}"}}}}', "yarn x"),
        ("package.json", "{broken", "npm run x"),
        ("Rakefile", "task :default\n", "rake"),
        ("noxfile.py", "import nox\n", "nox"),
        ("justfile", f"all:\n  {OUT}\n", "just"),
    ],
)
def test_what_was_written_is_judged_when_it_is_run(
    context: ToolContext, path: str, text: str, command: str
) -> None:
    assert not is_asked(context, command)
    write_file.run(context, path=path, content=text)
    assert is_asked(context, command)


@pytest.mark.parametrize(
    ("path", "text", "command"),
    [
        ("Makefile", "CC = gcc\nall: x.o\n\t$(CC) -o x $^\nclean:\n\trm -rf build\n", "make all"),
        ("Makefile", ".PHONY: test\ntest:\n\tpytest -q $$ARGS\n", "make test"),
        ("run.sh", "#!/bin/sh\nset -e\necho hello > out.txt\npytest -q\n", "./run.sh"),
        ("package.json", '{"scripts": {"test": "jest", "x": "eslint ."}}', "npm test"),
        ("package.json", '{"name": "a"}', "npm install"),
        ("tests/test_a.py", "def test_a(): pass\n", "pytest tests/test_a.py"),
        ("notes.md", "# Notes\n", "cat notes.md"),
    ],
)
def test_harmless_files_run_unasked(
    context: ToolContext, path: str, text: str, command: str
) -> None:
    write_file.run(context, path=path, content=text)
    assert not is_asked(context, command)


def test_files_that_were_there_before_are_their_own_business(context: ToolContext) -> None:
    (context.workspace.root / "run.py").write_text("import os\n")
    (context.workspace.root / "Makefile").write_text(f"all:\n\t{OUT}\n")
    assert not is_asked(context, "python run.py")
    assert not is_asked(context, "make")


@pytest.mark.parametrize(
    "writing",
    [
        "printf 'import os' > run.py",
        "cat > run.py <<'EOF'\nimport os\nEOF",
        "echo x | tee run.py",
        "cp template.txt run.py",
        "sed -i s/a/b/ run.py",
    ],
)
def test_what_a_command_wrote_is_remembered(context: ToolContext, writing: str) -> None:
    assert not is_asked(context, writing)
    assert str(context.workspace.root.resolve() / "run.py") in written_files(context.workspace)
    assert is_asked(context, "python run.py")


def test_what_a_patch_changed_is_remembered(context: ToolContext) -> None:
    (context.workspace.root / "run.py").write_text("a = 1\n")
    text = "*** Begin Patch\n*** Update File: run.py\n@@\n-a = 1\n+a = 2\n*** End Patch"
    patch.run(context, mode="patch", patch=text)
    assert is_asked(context, "python run.py")


def test_another_name_of_a_file_is_the_same_file(context: ToolContext) -> None:
    write_file.run(context, path="run.py", content="import os\n")
    (context.workspace.root / "link.py").symlink_to("run.py")
    assert is_asked(context, "python link.py")


def test_a_denied_command_wrote_nothing(context: ToolContext) -> None:
    assert is_asked(context, f"{OUT}; echo x > run.py")
    assert written_files(context.workspace) == frozenset()


def test_the_question_names_the_file(context: ToolContext) -> None:
    write_file.run(context, path="run.py", content="import os\n")
    assert is_asked(context, "python run.py")
    assert isinstance(context.asker, Denies)
    assert context.asker.asked == ["Runs a file that this conversation wrote: run.py"]


def test_a_script_that_runs_itself_is_followed_once(context: ToolContext) -> None:
    write_file.run(context, path="run.sh", content="sh run.sh\n")
    assert not is_asked(context, "sh run.sh")


def test_many_runs_of_a_long_script_end(context: ToolContext) -> None:
    write_file.run(context, path="run.sh", content="echo a b c\n" * 5_000)
    assert is_asked(context, "sh run.sh;" * 300)


def test_a_script_on_disk_is_known_by_its_first_line(context: ToolContext) -> None:
    """Also without an ending: only what must never be done counts in it."""
    script = context.workspace.root / "deploy"
    for first in ("#!/bin/sh", "#!/usr/bin/env bash", "#! /usr/bin/env -S bash -e"):
        script.write_text(f"{first}\nmake install\n")
        assert not is_asked(context, "./deploy")
        script.write_text(f"{first}\nrm -rf /\n")
        assert is_asked(context, "./deploy")
