"""Every command in the README is run, in the order in which a newcomer would."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state import SessionDB

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


class Command:
    """A line after a `$`, and what the page says it prints."""

    def __init__(self, line: str) -> None:
        self.line = line.split("  #")[0].strip()
        self.printed: list[str] = []


def console_blocks() -> list[list[Command]]:
    found = []
    for block in re.findall(r"(?ms)^```console\n(.*?)^```", README):
        commands: list[Command] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            elif line.strip():
                commands[-1].printed.append(line.rstrip())
        found.append(commands)
    return found


TOUR, GATEWAY, BACKUP = console_blocks()


class Person:
    """Somebody with an empty home and `hermes` on the path."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.store = home / ".hermes" / "state.db"

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HERMES_", "MAKE", "MFLAGS", "ARGS"))
            and not name.endswith("_API_KEY")
        }
        path = f"{BIN}{os.pathsep}{kept['PATH']}"
        return {**kept, "HOME": str(self.home), "PATH": path, "TERM": "dumb"}

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", line],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def does(self, line: str) -> str:
        done = self.run(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        return done.stdout


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / ".hermes").mkdir(mode=0o700)
    return Person(tmp_path)


@pytest.fixture
def with_model(person: Person, model_cache: Path) -> Person:
    """The small model is there already; fetching it has tests of its own."""
    from agent.providers.embedded_fetch import ensure_weights

    pytest.importorskip("xllamacpp")
    weights = ensure_weights(model_cache)
    folder = person.home / ".hermes" / "models"
    folder.mkdir(mode=0o700)
    (folder / weights.name).symlink_to(weights)
    return person


def normal(text: str) -> list[str]:
    """Lines without what differs from run to run (times, ids, sizes), and the wall of a machine."""
    text = re.sub(r"(?m)^. wall\n(?: {4}.*\n)*", "", text)
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", text)
    text = re.sub(r"\d{8}_\d{6}_[0-9a-f]{6}", "ID", text)
    text = re.sub(r"\d+(\.\d+)? [kM]?B|\d+ bytes", "SIZE", text)
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_the_tour(with_model: Person) -> None:
    for command in TOUR:
        printed = with_model.does(command.line)
        expected = normal("\n".join(command.printed))
        if "chat -Q" in command.line:
            # A model's words may differ between processors; what they say may not.
            (answer,) = expected
            name = re.findall(r"[A-Z]\w+", answer)[-1]
            assert name in printed, (command.line, printed)
        elif "search" in command.line:
            assert set(normal(printed)) & set(expected), (command.line, printed)
        else:
            assert normal(printed) == expected, command.line


def test_the_two_commands(with_model: Person) -> None:
    assert re.findall(r"(?m)^    (make \w+)", README) == ["make chat", "make test"]
    root = shlex.quote(str(ROOT))
    # The environment that runs this test: setting one up has tests of its own.
    venv = shlex.quote(str(BIN.parent))
    make = f"make -C {root} --no-print-directory -o {venv}/.ready VENV={venv}"
    asked = f"echo 'What is the capital of France?' | {make} chat"
    assert "Paris" in with_model.does(asked)
    collect = "--collect-only tests/docs/test_readme.py -p no:cacheprovider"
    assert "test_readme.py" in with_model.does(f"{make} test ARGS='{collect}'")


def test_the_commands_of_a_backup(person: Person) -> None:
    with SessionDB(person.store) as db:
        db.append_message(db.create_session("s", "cli"), "user", "Keep this.")
    for command in BACKUP:
        if " watch " not in command.line:
            person.does(command.line)
            continue
        watching = subprocess.Popen(
            ["bash", "-c", f"exec {command.line}"],
            cwd=person.home,
            env={**person.environment, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert watching.stdout is not None
        assert watching.stdout.readline(), "it says what it has done"
        watching.send_signal(signal.SIGINT)
        said, _ = watching.communicate(timeout=60)
        assert watching.returncode in (0, 130), said


API = "hunter2-hunter2-hunter2-hunter2-hunter2"


@pytest.fixture
def served(with_model: Person, unused_tcp_port: int) -> Iterator[int]:
    """A gateway that programs can talk to, started with the README's own command."""
    (with_model.home / ".hermes" / "config.yaml").write_text(
        "platforms:\n  api_server:\n    enabled: true\n"
        f"    port: {unused_tcp_port}\n    key: {API}\n"
    )
    start = next(one.line for one in GATEWAY if one.line.endswith("start"))
    with_model.does(start)
    yield unused_tcp_port
    with_model.does("hermes gateway stop")


def test_the_gateway_and_a_program(with_model: Person, served: int) -> None:
    block = next(
        one for one in re.findall(r"(?ms)^```python\n(.*?)^```", README) if "OpenAI" in one
    )
    program = block.replace("8642", str(served)).replace("…", API)
    assert program.count(API) == 1 and str(served) in program
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=with_model.environment,
        cwd=with_model.home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.strip(), done.stderr


def test_letting_somebody_in(person: Person) -> None:
    approve = next(one.line for one in GATEWAY if "pairing" in one.line)
    with SessionDB(person.store) as db:
        code = db.offer_pairing("telegram", "7", "Ann")
    assert code
    person.does(approve.replace("CODE", str(code)))
    with SessionDB(person.store) as db:
        assert db.is_paired("telegram", "7")


def test_the_set_up_says_what_it_needs_where_nobody_answers(person: Person) -> None:
    setup = next(one.line for one in GATEWAY if one.line.endswith("setup"))
    for line, asks in ((setup, "Which platform?"), ("hermes setup", "Which model provider?")):
        done = person.run(line)
        assert done.returncode == 1 and asks in done.stdout, (line, done.stderr)
        assert "not changed" in done.stdout + done.stderr or "Nothing was changed" in (
            done.stdout + done.stderr
        )
        assert not (person.home / ".hermes" / "config.yaml").exists()


def test_no_command_was_forgotten() -> None:
    lines = [command.line for block in (TOUR, GATEWAY, BACKUP) for command in block]
    run_here = {"setup", "start", "pairing approve CODE"}
    assert {one.line.split("hermes ")[1].removeprefix("gateway ") for one in GATEWAY} == run_here
    assert all("hermes" in line for line in lines) and len(lines) >= 11
