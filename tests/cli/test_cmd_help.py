"""Every command of `hermes --help` and every example in its help is run, here or where it says."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_cli.commands.table import COMMANDS
from hermes_cli.main import build_parser
from hermes_state import SessionDB

HERE = Path(__file__).parent

_spec = importlib.util.spec_from_file_location("cli_exports", HERE / "exports.py")
assert _spec is not None
assert _spec.loader is not None
exports = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(exports)


def parsers() -> Iterator[argparse.ArgumentParser]:
    waiting: list[argparse.ArgumentParser] = [build_parser()]
    while waiting:
        one = waiting.pop(0)
        yield one
        for action in one._actions:
            if isinstance(action, argparse._SubParsersAction):
                waiting += action.choices.values()


def examples() -> list[str]:
    found = []
    for one in parsers():
        lines = (one.epilog or "").partition("examples:\n")[2].splitlines()
        found += [re.split(r"\s{2,}", line.strip())[0] for line in lines]
    return list(dict.fromkeys(found))


ELSEWHERE = {
    # A person at a terminal, tested with a pseudo-terminal and a scripted model.
    "hermes": "test_chat_terminal.py",
    "hermes chat": "test_chat_terminal.py",
    'hermes chat -q "What is new here?"': "test_chat.py",
    'git diff | hermes chat -q "Review"': "test_chat.py",
    "hermes chat --continue": "test_chat.py",
    'hermes chat --resume "Trip to Rome"': "test_chat.py",
    "hermes chat --mode plan": "test_modes.py",
    # Questions, answered by a script.
    "hermes setup": "test_cmd_setup.py",
    "hermes setup --model-only": "test_cmd_setup.py",
    "hermes setup --no-check": "test_cmd_setup.py",
    "hermes setup --yes": "test_cmd_setup.py",
    "hermes setup --undo": "test_cmd_setup.py",
    "hermes import ~/.openclaw": "test_import_openclaw.py",
    # A platform, and a job that there is.
    'hermes cron add "daily 08:30" "What is in the news?" --deliver telegram': "test_cmd_cron.py",
    "hermes cron history NAME": "test_cmd_cron.py",
    'hermes send --to telegram "The backup is done."': "test_cmd_cron.py",
    "df -h | hermes send --to telegram:42": "test_cmd_cron.py",
    "hermes send --to home --file report.pdf": "test_cmd_cron.py",
    'hermes send --to home --id backup-today "Done."': "test_cmd_cron.py",
    # A server.
    "hermes store check --url postgresql://me@host/db": "test_cmd_store.py",
    "hermes store move --to postgresql://me@host/db": "test_cmd_store.py",
    "hermes store move --to file": "test_cmd_store.py",
    "hermes store put-files": "test_cmd_store_files.py",
    # Entries, skills and devices that are there.
    "hermes skills remove knitting": "test_cmd_settings.py",
    'hermes memory edit 3fa2c1 "Prefers long answers"': "test_cmd_settings.py",
    "hermes memory undo": "test_cmd_settings.py",
    "hermes web revoke 3f2a": "../web/test_gate.py",
    # Processes that stay.
    "hermes web": "../web/pages.py",
    "hermes web --no-open": "../web/pages.py",
    "hermes gateway setup": "test_gateway_command.py",
    "hermes gateway run": "test_gateway_command.py",
    "hermes gateway start": "test_gateway_command.py",
    "hermes pairing approve CODE": "test_gateway_command.py",
    "hermes logs -f": "test_cmd_upkeep.py",
    "hermes backup watch --every 60": "test_cmd_backup_points.py",
    # A time that depends on when the test runs.
    'hermes restore --at "2026-11-15 14:00"': "test_cmd_backup_points.py",
}


def is_about_backups(example: str) -> bool:
    return "backup" in example or "restore" in example


@pytest.fixture
def furnished(rome, example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """A home, and around it the files that the example names."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (rome.home / "config.yaml").write_text("tools: {disabled: [web_fetch]}\nmodel: gpt-5\n")
    (rome.home / "config.yaml").chmod(0o600)
    (rome.home / ".env").write_text("OPENAI_API_KEY=sk-test\n")
    (rome.home / ".env").chmod(0o600)
    skill = rome.home / "skills" / "release-notes"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: release-notes\ndescription: How.\n---\nDo it.\n")
    memories = rome.home / "memories"
    memories.mkdir()
    (memories / "MEMORY.md").write_text("It was called Hermes before.\n")
    (memories / "MEMORY.md").chmod(0o600)
    logs = rome.home / "logs"
    logs.mkdir()
    for name in ("agent", "errors"):
        (logs / f"{name}.log").write_text(
            "2026-01-01 10:10:10,000 WARNING x [20260101_101010_aaaaaa]: hello\n"
        )
    weights = rome.home / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    weights.parent.mkdir()
    with weights.open("wb") as file:
        file.truncate(98_362_432)
    with SessionDB(rome.home / "state.db") as db:
        db.grant_patterns(["git-push-force", "recursive-delete"], None)
        db.ensure_person("telegram:42", "Ada")
        db.merge_persons(db.add_person("Bob").id, "telegram:42")
    if "everything.jsonl" in example:
        assert rome("sessions", "export", "--all", "-o", "everything.jsonl").code == 0
    if is_about_backups(example):  # they take longer than most commands
        assert rome("backup", "-o", "backup.tar.gz").code == 0
        assert rome("backup", "increment").code == 0
        assert rome("backup", "increment", "--to", str(tmp_path / "points")).code == 0
    old = tmp_path / "old-hermes"
    old.mkdir()
    (old / "config.yaml").write_text("model: gpt-5\n")
    for folder in (".zfunc", ".config/fish/completions", "claude"):
        (tmp_path / folder).mkdir(parents=True)
    with zipfile.ZipFile("chatgpt-export.zip", "w") as archive:
        archive.writestr("conversations.json", json.dumps(exports.chatgpt()))
    Path("claude/conversations.json").write_text(json.dumps(exports.claude()))
    return rome


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(one, marks=pytest.mark.sqlite if is_about_backups(one) else ())
        for one in examples()
        if one not in ELSEWHERE
    ],
)
def test_every_example_works(furnished, example: str) -> None:  # type: ignore[no-untyped-def]
    if ">" in example:
        program = shlex.join([sys.executable, "-m", "hermes_cli.main"])
        done = subprocess.run(
            ["bash", "-c", example.replace("hermes", program, 1)], capture_output=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return
    words = [
        str(Path(word).expanduser()) + "/" * word.endswith("/") if word.startswith("~") else word
        for word in shlex.split(example)
    ]
    if words[1] == "restore" and "--check" not in words:
        words.append("--yes")
    said = furnished(*words[1:])
    assert said.code == 0, said
    assert said.out.strip() or "-o" in words, said


def test_examples_tested_elsewhere_are_examples() -> None:
    assert set(ELSEWHERE) <= set(examples())
    for file in ELSEWHERE.values():
        assert (HERE / file).is_file()


@pytest.mark.parametrize("parser", list(parsers()), ids=lambda one: one.prog)
def test_every_command_has_help(cli, parser: argparse.ArgumentParser) -> None:  # type: ignore[no-untyped-def]
    said = cli(*parser.prog.split()[1:], "--help")
    assert said.code == 0
    assert said.out.startswith(f"usage: {parser.prog}")
    assert said.err == ""


@pytest.mark.parametrize("command", [name for name, _, _ in COMMANDS])
def test_every_command_refuses_what_it_does_not_know(cli, command: str) -> None:  # type: ignore[no-untyped-def]
    said = cli(command, "--no-such-option")
    assert said.code == 2
    assert said.out == ""
    assert said.err.startswith("hermes: ")
    assert len(said.err.splitlines()) == 1


def test_misspelt_words_are_recognised(cli) -> None:  # type: ignore[no-untyped-def]
    assert "Did you mean sessions?" in cli.fails("sesions")
    assert "Did you mean list?" in cli.fails("sessions", "lst")
    assert "Did you mean --json?" in cli.fails("sessions", "list", "--jsn")
    assert "Did you mean markdown?" in cli.fails("sessions", "export", "x", "-f", "markdwn")
    assert "sessions" in cli.fails("sessions")
    assert "required" in cli.fails("sessions", "show")


def test_help_and_version_import_little(cli) -> None:  # type: ignore[no-untyped-def]
    for option in ("--help", "--version"):
        code = (
            f"import sys; from hermes_cli.main import main\ntry: main([{option!r}])\n"
            "except SystemExit: pass\n"
            "print([m for m in sys.modules if m.split('.')[0] in "
            "('agent', 'hermes_state', 'tools', 'gateway', 'apsw', 'json', 'typing', 'pathlib',"
            " 'yaml', 'shutil')], file=sys.stderr)"
        )
        # Without site: what is installed beside Hermes may import things at every start.
        done = subprocess.run(
            [sys.executable, "-S", "-c", f"import sys; sys.path += {sys.path!r}\n{code}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert "hermes" in done.stdout
        assert done.stderr.strip() == "[]"


def test_the_table_is_what_the_parsers_say(cli) -> None:  # type: ignore[no-untyped-def]
    commands = next(
        one for one in build_parser()._actions if isinstance(one, argparse._SubParsersAction)
    )
    assert list(commands.choices) == [name for name, _, _ in COMMANDS]
    briefly = cli("--help").out
    for name, help_, _ in COMMANDS:
        assert re.search(rf"^    {name} +{re.escape(help_)}$", briefly, re.MULTILINE), name
