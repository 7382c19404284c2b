"""The terminal tool with real processes on this machine."""

from __future__ import annotations

import os
import resource
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from tools.base import ToolContext, ToolError
from tools.processes.ledger import Ledger
from tools.schema import fit
from tools.services import Services
from tools.terminal.tool import close_terminal, terminal

Run = Callable[..., str]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What had to be approved; everything is."""
    commands: list[str] = []
    approval = types.ModuleType("tools.approval")
    approval.check_command = lambda context, command, **_: commands.append(command)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools.approval", approval)
    monkeypatch.setattr(tools, "approval", approval, raising=False)
    return commands


@pytest.fixture
def run(context: ToolContext) -> Iterator[Run]:
    def run(command: str, **arguments: Any) -> str:
        return str(terminal.run(context, command, **arguments))

    yield run
    close_terminal(context.workspace)
    assert Ledger(context.workspace.home).records() == []
    assert not list(context.workspace.home.glob("tool-runs/*"))


def processes_with(text: str) -> list[int]:
    """The processes whose command line contains a text."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                gone = (entry / "stat").read_bytes().rpartition(b")")[2].split()[0] == b"Z"
            except OSError:
                continue
            if text.encode() in words and not gone:
                found.append(int(entry.name))
    return found


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def unique_seconds() -> str:
    """A length of sleep that no other process sleeps."""
    return f"{3000 + int.from_bytes(os.urandom(3), 'big')}"


# Output


def test_output_and_errors_come_together_and_in_order(run: Run) -> None:
    assert run("echo one; echo two >&2; echo three") == "one\ntwo\nthree"
    assert run("true") == "[no output]"


def test_the_exit_code_is_told_with_a_hint(run: Run) -> None:
    assert run("echo x; exit 3") == "x\n[exit code 3]"
    assert "[exit code 127: command not found" in run("surely-no-such-command")
    assert "[exit code 126: found, but" in run("/etc/passwd")
    assert run("kill -9 $$").startswith("[exit code 137: killed")
    assert run("kill -USR1 $$") == "[exit code 138: ended by SIGUSR1]"
    assert run("echo a | grep b") == "[exit code 1: nothing matched]"
    assert run("false") == "[exit code 1]"


def test_bytes_that_are_no_text_and_escape_sequences_do_no_harm(run: Run) -> None:
    assert run(r"printf '\033[31mred\033[0m \377\376 a\000b\n'") == "red \ufffd\ufffd ab"
    assert run("head -c 100000 /dev/urandom; echo; echo the end").endswith("\nthe end")


def test_there_is_no_standard_input(run: Run) -> None:
    assert run("cat; read line; echo $?") == "1"


def test_output_is_shown_while_the_command_runs(context: ToolContext, run: Run) -> None:
    pieces: list[str] = []
    seen = context.workspace.cwd / "seen"

    def show(text: str) -> None:
        pieces.append(text)
        if "first" in text:
            seen.touch()

    context.progress = show
    # It ends only because its first line was shown while it was running.
    assert "second" in run(f"echo first; until [ -e {seen} ]; do sleep 0.02; done; echo second")
    assert "".join(pieces) == "first\nsecond\n"


def test_much_more_output_than_is_kept_takes_little_memory(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.terminal.output.FILE_LIMIT", 5_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    line = "a line of output that is fifty characters long!"
    text = run(f"echo the start; yes '{line}' | head -c 200M")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    assert text.startswith("the start\n")
    assert len(text) < 50_000
    path = Path(text.split("read_file ")[1].split(" ")[0])
    assert path.stat().st_size == 5_000_000
    assert path.stat().st_mode & 0o777 == 0o600


# The environment


def test_credentials_do_not_reach_commands(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("HERMES_HOME", "/elsewhere")
    text = run("env; echo ${HERMES_HOME-none}")
    assert "sk-very-secret" not in text
    assert text.endswith("none")


def test_credentials_that_are_named_do(
    context: ToolContext, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "named")
    context.workspace.settings = {"terminal": {"pass_env": ["GITHUB_TOKEN"]}}
    assert run("echo $GITHUB_TOKEN") == "named"


def test_the_session_is_told_and_not_kept(context: ToolContext, run: Run) -> None:
    ids = iter(["one", "two"])
    context.services = Services(session_environ=lambda: {"HERMES_SESSION_ID": next(ids)})
    assert run("echo $HERMES_SESSION_ID") == "one"
    assert run("echo $HERMES_SESSION_ID") == "two"
    assert context.workspace.environ == {}


# Ends

UNTIL_IT_SLEEPS = 'until [ "$(ps -o comm= -p $!)" = sleep ]; do sleep 0.01; done'


def test_a_time_limit_ends_everything_the_command_started(run: Run) -> None:
    seconds = unique_seconds()
    sleep = f"sleep {seconds}"
    command = f"setsid {sleep} & (trap '' TERM; {sleep}) & echo begun; {sleep}"
    for limit in (0.5, 30):  # a busy machine may not have begun within the first
        text = run(command, timeout=limit)
        if text.startswith("begun"):
            break
    assert text.startswith(f"begun\n[timed out after {limit} s;")
    assert processes_with(seconds) == []


def test_a_shell_that_ignores_the_polite_signal_is_killed(run: Run) -> None:
    seconds = unique_seconds()
    run(f"trap '' TERM; while :; do sleep {seconds}; done", timeout=0.3)
    assert processes_with(seconds) == []


def test_the_time_limit_comes_from_the_settings_and_has_bounds(
    context: ToolContext, run: Run
) -> None:
    context.workspace.settings = {"terminal": {"timeout": 0.2}}
    assert "timed out after 0.2 s" in run("sleep 60")
    for wrong in (-1, 3601, 120_000):
        with pytest.raises(ToolError, match="at most 3600"):
            run("true", timeout=wrong)


@pytest.mark.parametrize("pty", [False, True])
def test_an_interrupt_ends_a_command_at_once(context: ToolContext, run: Run, pty: bool) -> None:
    seconds = unique_seconds()
    command = f"trap '' TERM; setsid sleep {seconds} & echo begun; sleep {seconds}"
    begun = threading.Event()
    context.progress = lambda text: begun.set() if "begun" in text else None
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(run(command, pty=pty)))
    thread.start()
    assert begun.wait(60)
    context.cancelled.set()
    thread.join(60)
    assert not thread.is_alive()
    assert "[interrupted by the user" in results[0]
    assert processes_with(seconds) == []


def test_a_daemon_that_holds_the_output_does_not_hold_up_the_result(
    context: ToolContext, run: Run
) -> None:
    seconds = unique_seconds()
    text = run(f"sleep {seconds} & {UNTIL_IT_SLEEPS}; echo started")
    assert text.startswith("started\n[still running in the background: ")
    assert f"(sleep {seconds})" in text
    kinds = [record.kind for record in Ledger(context.workspace.home).records()]
    assert [kind for kind in kinds if kind != "wall"] == ["left"]
    assert len(processes_with(seconds)) == 1
    close_terminal(context.workspace)
    assert processes_with(seconds) == []


def test_a_daemon_that_detached_itself_is_let_go(context: ToolContext, run: Run) -> None:
    seconds = unique_seconds()
    try:
        detached = f"setsid sleep {seconds} >/dev/null 2>&1 & {UNTIL_IT_SLEEPS}; echo ok"
        assert run(detached) == "ok"
        assert Ledger(context.workspace.home).records() == []
        close_terminal(context.workspace)
        assert len(processes_with(seconds)) == 1
    finally:
        for pid in processes_with(seconds):
            os.kill(pid, 9)


def test_a_command_that_closes_its_output_is_still_waited_for(run: Run) -> None:
    assert run("exec >&- 2>&-; sleep 0.2; exit 5") == "[exit code 5]"


def test_searching_by_command_line_does_not_find_the_shell_itself(run: Run) -> None:
    assert run("pgrep -f some_quite_unusual_text_xyz") == "[exit code 1: nothing matched]"


def test_commands_that_cannot_be_run_are_refused(run: Run) -> None:
    with pytest.raises(ToolError, match="empty"):
        run("  \n ")
    with pytest.raises(ToolError, match="NUL"):
        run("echo a\0b")
    with pytest.raises(ToolError, match="too long"):
        run("echo " + "x" * 100_000)
    assert run("cat <<'END' | wc -c\n" + "x" * 80_000 + "\nEND").strip() == "80001"


# The pseudo-terminal


def test_under_a_pseudo_terminal_programs_see_a_terminal(run: Run) -> None:
    lines = run(
        "tty; stty size; test -t 0 && test -t 1 && echo terminal; echo x >/dev/tty", pty=True
    )
    assert lines.splitlines()[0].startswith("/dev/")
    assert lines.splitlines()[1:] == ["40 120", "terminal", "x"]
    assert run("test -t 1 || echo none") == "none"


def test_a_program_that_reads_the_terminal_comes_to_an_end(run: Run) -> None:
    assert run("cat; echo after", pty=True) == "after"


# Asking


def test_a_command_is_approved_before_anything_runs(
    context: ToolContext, run: Run, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("echo fine")
    assert asked == ["echo fine"]

    def deny(context: ToolContext, command: str, **_: object) -> None:
        raise ToolError("denied")

    monkeypatch.setattr(tools.approval, "check_command", deny)
    for background in (False, True):
        with pytest.raises(ToolError, match="denied"):
            run("touch made", background=background)
    assert not (context.workspace.cwd / "made").exists()


SUDO = """#!/bin/sh
ticket="$TICKETS/ticket-$PPID"
case "$1" in
  -n) [ -e "$ticket" ] || exit 1; shift; exec "$@" ;;
  -S) IFS= read -r line
      [ "$line" = "open sesame" ] || { echo "Sorry, try again." >&2; exit 1; }
      : >"$ticket"; exit 0 ;;
esac
[ -e "$ticket" ] || { echo "sudo: a password is required" >&2; exit 1; }
exec "$@"
"""


@pytest.fixture
def sudo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sudo that wants a password once for each shell, as the real one does without a terminal."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "tickets").mkdir()
    (tmp_path / "bin" / "sudo").write_text(SUDO)
    (tmp_path / "bin" / "sudo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TICKETS", str(tmp_path / "tickets"))


@pytest.mark.usefixtures("sudo")
def test_sudo_gets_its_password_from_the_user(
    context: ToolContext, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    asked = 0

    def ask() -> str:
        nonlocal asked
        asked += 1
        return "open sesame"

    context.services = Services(sudo_password=ask)
    with caplog.at_level("DEBUG"):
        assert run("echo in | sudo cat; sudo echo done; cat; env | grep -c sesame") == (
            "in\ndone\n0\n[exit code 1: nothing matched]"
        )
        assert run("echo plain") == "plain"
    assert asked == 1
    assert "sesame" not in caplog.text
    assert not any(
        b"sesame" in path.read_bytes()
        for path in context.workspace.home.rglob("*")
        if path.is_file()
    )


@pytest.mark.usefixtures("sudo")
def test_sudo_without_a_password_fails_clearly(context: ToolContext, run: Run) -> None:
    assert "a password is required" in run("sudo echo x")
    context.services = Services(sudo_password=lambda: None)
    assert "a password is required" in run("sudo echo x")
    context.services = Services(sudo_password=lambda: "wrong")
    assert run("sudo echo x") == "Sorry, try again.\n[exit code 1]"
    with pytest.raises(ToolError, match="pty=false"):
        run("sudo echo x", pty=True)


def test_the_schema_has_the_parameters_that_transcripts_use() -> None:
    assert list(terminal.parameters["properties"]) == [
        "command", "background", "timeout", "workdir", "pty", "notify_on_complete",
        "watch_patterns", "needs",
    ]  # fmt: skip
    assert terminal.parameters["required"] == ["command"]
    sent = {"command": "ls", "timeout": "20", "background": "false"}
    assert fit(sent, terminal.parameters, "terminal")["timeout"] == 20


def test_an_interrupt_before_the_start_starts_nothing(context: ToolContext, run: Run) -> None:
    context.cancelled.set()
    assert "before the command was started" in run("touch made")
    assert not (context.workspace.cwd / "made").exists()


def test_a_directory_whose_name_is_no_text_can_be_told(context: ToolContext, run: Run) -> None:
    text = run(r"mkdir $'\377dir'; cd $'\377dir'")
    assert text.encode() == f"[working directory: {context.workspace.cwd.parent}/?dir]".encode()
    assert run("ls -d ../*dir | wc -l") == "1"
