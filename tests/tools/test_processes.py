"""The process tool with real background processes."""

from __future__ import annotations

import os
import queue
import re
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from tools.base import ToolContext, ToolError, Workspace
from tools.processes import background as processes_background
from tools.processes import watch
from tools.processes.background import close_processes, table_of
from tools.processes.ledger import Ledger
from tools.processes.tool import process
from tools.processes.watch import Watcher
from tools.services import Services
from tools.terminal.tool import close_terminal, terminal

Tool = Callable[..., str]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What had to be approved; everything but "forbidden" is."""
    commands: list[str] = []

    def check(context: ToolContext, command: str, **_: object) -> None:
        commands.append(command)
        if "forbidden" in command:
            raise ToolError("denied")

    approval = types.ModuleType("tools.approval")
    approval.check_command = check  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools.approval", approval)
    monkeypatch.setattr(tools, "approval", approval, raising=False)
    return commands


@pytest.fixture
def start(context: ToolContext) -> Iterator[Tool]:
    """Starts a background process; returns its name."""

    def start(command: str, **arguments: Any) -> str:
        text = terminal.run(context, command, background=True, **arguments)
        name = re.search(r"proc_[0-9a-f]{8}", text)
        assert name, text
        return name[0]

    yield start
    close_terminal(context.workspace)
    # Its end is told before its line is taken out.
    until(lambda: Ledger(context.workspace.home).records() == [])


@pytest.fixture
def act(context: ToolContext) -> Tool:
    def act(action: str, session_id: str | None = None, **arguments: Any) -> str:
        return str(process.run(context, action, session_id, **arguments))

    return act


def news(text: str) -> str:
    """A result of the tool without its first line, which says how the process is."""
    return text.partition("\n")[2]


def poll_until(act: Tool, name: str, wanted: str, text: str = "") -> str:
    """Poll until a text has come; returns everything that came."""
    deadline = time.monotonic() + 60
    while wanted not in text:
        assert time.monotonic() < deadline, text
        text += news(act("poll", name))
        time.sleep(0.01)
    return text


def test_output_is_polled_piece_by_piece(act: Tool, start: Tool) -> None:
    name = start("echo one; read line; echo two; read line; echo three")
    assert poll_until(act, name, "one") == "one"
    assert act("poll", name).startswith(f"{name} running for ")
    assert poll_until(act, name, "two", news(act("submit", name, data=""))) == "two"
    act("submit", name, data="")
    assert act("wait", name, timeout=60).startswith(f"{name} ended with exit code 0 after")
    assert act("log", name) == "one\ntwo\nthree"
    assert news(act("poll", name)) == ""


def test_input_is_written_submitted_and_closed(act: Tool, start: Tool) -> None:
    name = start("read line; echo got $line; cat; echo eof")
    act("write", name, data="he")
    act("write", name, data="llo")
    text = news(act("submit", name, data=" world"))
    assert poll_until(act, name, "world", text) == "got hello world"
    text = news(act("write", name, data="rest\n"))
    assert poll_until(act, name, "rest", text) == "rest"
    act("close", name)
    act("wait", name, timeout=60)
    assert act("log", name).endswith("\neof")
    with pytest.raises(ToolError, match="reads nothing any more"):
        act("write", name, data="x")


def test_a_pseudo_terminal_takes_input_too(act: Tool, start: Tool) -> None:
    name = start("stty -echo; test -t 0 && read -p 'name? ' line; echo hello $line; cat", pty=True)
    poll_until(act, name, "name?")
    poll_until(act, name, "hello you", news(act("submit", name, data="you")))
    act("close", name)
    assert "exit code 0" in act("wait", name, timeout=60)


def test_a_process_that_does_not_read_cannot_block_us(
    act: Tool, start: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.processes.tool._WRITE_SECONDS", 0.2)
    name = start("sleep 600")
    with pytest.raises(ToolError, match="not reading its input"):
        act("write", name, data="x" * 2_000_000)
    assert "running" in act("poll", name)


def test_a_process_that_closed_its_input_is_told(act: Tool, start: Tool) -> None:
    name = start("exec <&-; echo closed; exec sleep 600")
    poll_until(act, name, "closed")
    with pytest.raises(ToolError, match="closed its input"):
        for _ in range(100):
            act("write", name, data="x" * 100_000)


def test_what_is_typed_into_a_process_is_approved_even_in_pieces(
    act: Tool, start: Tool, asked: list[str]
) -> None:
    name = start("bash")
    act("write", name, data="echo for")
    with pytest.raises(ToolError, match="denied"):
        act("submit", name, data="bidden")
    text = news(act("submit", name, data="ward"))
    assert poll_until(act, name, "forward", text) == "forward"
    assert asked[-1] == "echo forward"


def test_the_log_can_be_read_in_ranges(act: Tool, start: Tool) -> None:
    name = start("seq 1 1000")
    act("wait", name, timeout=60)
    assert act("log", name).splitlines()[-1] == "1000"
    assert len(act("log", name).splitlines()) == 200
    assert act("log", name, limit=2) == "999\n1000"
    note, *lines = act("log", name, offset=10, limit=3).splitlines()
    assert lines == ["10", "11", "12"]
    assert note.startswith("[lines 10 to 12;")
    assert act("log", name, offset=2000) == "[no lines from 2000 on]"
    (path,) = map(Path, re.findall(r"/\S+\.txt", note))
    assert path.stat().st_mode & 0o777 == 0o600


def test_memory_is_bounded_and_what_passed_by_is_in_the_log(
    act: Tool, start: Tool, context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_background, "IN_MEMORY", 1_000)
    name = start("read line; seq 1 100000")
    text = act("submit", name, data="") + act("wait", name, timeout=60) + "\n" + act("log", name)
    assert "characters skipped; read_file " in text
    assert text.endswith("\n100000")
    path = Path(text.split("read_file ")[1].split(" ")[0])
    assert path.read_text().splitlines() == [str(number) for number in range(1, 100_001)]


def test_kill_ends_everything_it_started(act: Tool, start: Tool) -> None:
    seconds = f"{3000 + int.from_bytes(os.urandom(3), 'big')}"
    name = start(f"setsid sleep {seconds} & sleep {seconds} & echo begun; sleep {seconds}")
    poll_until(act, name, "begun")
    assert act("kill", name).startswith(f"{name} killed after")
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            assert seconds.encode() not in entry.read_bytes().split(b"\0")
        except OSError:
            continue  # it ended while we were looking
    assert act("kill", name).startswith(f"{name} killed after")


def test_waiting_has_an_end_and_can_be_interrupted(
    act: Tool, start: Tool, context: ToolContext
) -> None:
    name = start("sleep 600")
    assert "running" in act("wait", name, timeout=0.1)
    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(act("wait", name, timeout=600)))
    thread.start()
    context.cancelled.set()
    thread.join(60)
    assert not thread.is_alive()
    assert "running" in results[0]


def test_a_process_that_ends_at_once_is_told_at_once(context: ToolContext, start: Tool) -> None:
    start("true")  # for its cleaning up
    text = terminal.run(context, "surely-no-such-command", background=True)
    assert "ended with exit code 127" in text
    assert "command not found" in text


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


class Told:
    """Stands for the agent that keeps what its tools want to tell."""

    def __init__(self) -> None:
        self._notes: queue.Queue[tuple[str, str, bool]] = queue.Queue()

    def __call__(self, text: str, name: str, quiet: bool = False) -> None:
        self._notes.put((text, name, quiet))

    def next(self) -> tuple[str, str, bool]:
        return self._notes.get(timeout=60)

    def is_empty(self) -> bool:
        return self._notes.empty()


def test_the_end_and_watched_lines_are_told(act: Tool, start: Tool, context: ToolContext) -> None:
    told = Told()
    context.services = Services(notify=told)
    name = start(
        "echo starting; echo server is ready on 80; read line; echo bye; exit 3",
        notify_on_complete=True,
        watch_patterns=["ready"],
    )
    text = f"[{name} printed a line with 'ready']\nserver is ready on 80"
    assert told.next() == (text, f"{name}:1", False)
    act("submit", name, data="")
    text, known_as, quiet = told.next()
    assert text.startswith(f"[{name} ended with exit code 3 after")
    assert text.endswith("bye")
    assert (known_as, quiet) == (f"{name}:ended", False)


def test_what_the_call_itself_has_told_is_not_told_again(start: Tool, context: ToolContext) -> None:
    start("true")  # for its cleaning up
    told = Told()
    context.services = Services(notify=told)
    text = terminal.run(context, "exit 7", background=True, notify_on_complete=True)
    assert "exit code 7" in text
    (process,) = (one for one in table_of(context.workspace).all() if one.command == "exit 7")
    until(lambda: not Ledger(context.workspace.home).records())
    assert process.done.is_set() and told.is_empty()


def test_one_that_is_killed_on_purpose_is_not_told(
    act: Tool, start: Tool, context: ToolContext
) -> None:
    told = Told()
    context.services = Services(notify=told)
    act("kill", start("sleep 600", notify_on_complete=True))
    until(lambda: not Ledger(context.workspace.home).records())
    assert told.is_empty()


def test_one_that_ends_with_its_conversation_is_told_quietly(
    start: Tool, context: ToolContext
) -> None:
    told = Told()
    context.services = Services(notify=told)
    name = start("sleep 600", notify_on_complete=True)
    close_processes(context.workspace)
    text, known_as, quiet = told.next()
    assert "was stopped with its conversation" in text
    assert (known_as, quiet) == (f"{name}:ended", True)


def test_where_nothing_can_be_told_the_model_knows(start: Tool, context: ToolContext) -> None:
    start("true")  # for its cleaning up
    text = terminal.run(context, "sleep 600", background=True, notify_on_complete=True)
    assert "No messages are sent here" in text


def test_an_end_that_cannot_be_stored_stays_in_the_ledger(
    act: Tool, start: Tool, context: ToolContext, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(text: str, name: str, quiet: bool = False) -> None:
        raise RuntimeError("nobody there")

    context.services = Services(notify=fail)
    name = start(
        "echo ready; read line; echo more", notify_on_complete=True, watch_patterns=["ready"]
    )
    act("submit", name, data="")
    assert "more" in act("log", name) or "more" in act("wait", name, timeout=60)
    until(lambda: caplog.text.count("could not be stored") == 2)
    (record,) = Ledger(context.workspace.home).records()
    assert (record.tells_as, record.command) == (name, "echo ready; read line; echo more")
    assert record.ended.startswith("ended with exit code 0")
    Ledger(context.workspace.home).remove(record.marker)


def reports(watcher: Watcher, text: str) -> list[str]:
    watcher.feed(text)
    return [report for report in [watcher.report()] if report is not None]


def test_a_pattern_that_always_matches_does_not_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(watch.time, "monotonic", lambda: now)
    watcher, told = Watcher(["x"]), []
    for _ in range(1000):
        told += reports(watcher, "x\nx\n")
        now += 1
    assert len(told) == watch.MOST_REPORTS
    assert "further lines are not reported" in told[-1]
    assert all(len(text.splitlines()) <= watch.MOST_LINES + 3 for text in told)
    assert "[and 10 more such lines]" in told[1]


def test_what_matches_soon_after_is_told_later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(watch.time, "monotonic", lambda: now)
    watcher = Watcher(["one", "two"])
    assert reports(watcher, "one\n") == ["printed a line with 'one']\none"]
    assert reports(watcher, "two\none again\n") == []
    now = watch.INTERVAL
    assert watcher.report() == "printed 2 lines with 'two', 'one']\ntwo\none again"
    watcher.feed("two\n")
    assert watcher.report() is None
    assert watcher.report(ended=True) == "printed a line with 'two']\ntwo"


def test_a_pattern_is_found_across_pieces_and_in_a_prompt() -> None:
    assert reports(Watcher(["ready"]), "already") == ["printed a line with 'ready']\nalready"]
    watcher = Watcher(["Password:"])
    assert reports(watcher, "Pass") == []
    assert reports(watcher, "word:") == ["printed a line with 'Password:']\nPassword:"]


def test_patterns_have_limits(start: Tool) -> None:
    for patterns in (["x"] * (watch.MOST_PATTERNS + 1), ["x" * (watch.LONGEST_PATTERN + 1)]):
        with pytest.raises(ToolError, match="watch_patterns takes at most"):
            start("true", watch_patterns=patterns)


def test_there_is_a_limit_to_how_many_run(
    start: Tool, act: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes_background, "MAX_RUNNING", 2)
    first = start("sleep 600")
    start("sleep 600")
    with pytest.raises(ToolError, match="which is the limit"):
        start("sleep 600")
    act("kill", first)
    start("sleep 600")
    assert len(act("list").splitlines()) == 3


def test_ended_ones_are_forgotten_after_an_hour(
    act: Tool, start: Tool, context: ToolContext
) -> None:
    name, other = start("true"), start("sleep 600")
    act("wait", name, timeout=60)
    table_of(context.workspace).get(name).ended_at = time.time() - 3599
    assert name in act("list")
    table_of(context.workspace).get(name).ended_at = time.time() - 3601
    assert act("list").startswith(other)
    with pytest.raises(ToolError, match=f"Known: {other}"):
        act("poll", name)


def test_processes_belong_to_their_conversation(
    act: Tool, start: Tool, context: ToolContext, tmp_path: Path
) -> None:
    name = start("sleep 600")
    stranger = ToolContext("s2", "c", workspace=Workspace(context.workspace.home, tmp_path))
    assert process.run(stranger, "list") == "No background processes."
    with pytest.raises(ToolError, match="no background process"):
        process.run(stranger, "kill", name)
    assert "running" in act("poll", name)


def test_a_background_process_starts_where_the_conversation_is(
    act: Tool, start: Tool, context: ToolContext
) -> None:
    terminal.run(context, "mkdir sub; cd sub; export A=1")
    name = start("pwd; echo $A; cd /; export A=2")
    act("wait", name, timeout=60)
    assert act("log", name) == f"{context.workspace.cwd}\n1"
    assert terminal.run(context, "pwd; echo $A").endswith("sub\n1")


def test_the_schema_has_the_parameters_that_transcripts_use() -> None:
    assert list(process.parameters["properties"]) == [
        "action", "session_id", "data", "timeout", "offset", "limit",
    ]  # fmt: skip
