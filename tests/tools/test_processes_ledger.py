"""Whatever kills Hermes, its next start leaves nothing of it running, and nothing else is hurt."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.processes import ledger as processes_ledger
from tools.processes.identity import (
    MARKER,
    Target,
    is_running,
    machine,
    members,
    new_marker,
    start_time,
    stop,
)
from tools.processes.ledger import FILE, Ledger, Record, reap_orphans, stop_mine

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="needs /proc, which only Linux has"
)

HERMES = """
import sys, threading, time
from pathlib import Path
from tools.base import ToolContext, Workspace
from tools.terminal.tool import terminal

home, seconds = Path(sys.argv[1]), sys.argv[2]
context = ToolContext("s1", "c1", workspace=Workspace(home, home))
both = f"setsid sleep {seconds} & sleep {seconds} & echo begun; sleep {seconds}"
terminal.run(context, both, background=True)
begun = threading.Event()
context.progress = lambda text: begun.set()
threading.Thread(target=lambda: terminal.run(context, both), daemon=True).start()
assert begun.wait(30)
terminal.run(ToolContext("s1", "c2", workspace=context.workspace), f"sleep {seconds} & true")
print("ready", flush=True)
time.sleep(600 if sys.argv[3] == "wait" else 0)
"""


@pytest.fixture
def seconds() -> str:
    """A length of sleep that no other process sleeps."""
    return f"{3000 + int.from_bytes(os.urandom(3), 'big')}"


@pytest.fixture
def sleeper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts processes that are none of Hermes' business, unless they are marked."""
    started: list[subprocess.Popen[bytes]] = []

    def start(seconds: str, **environ: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["sleep", seconds], env={**os.environ, **environ}, start_new_session=True
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


def sleeping(seconds: str) -> int:
    """How many processes sleep for that long."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            count += (entry / "cmdline").read_bytes() == f"sleep\0{seconds}\0".encode()
        except OSError:
            continue
    return count


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def hermes(home: Path, seconds: str, then: str) -> subprocess.Popen[bytes]:
    """A process with commands running in the foreground, in the background and left behind."""
    process = subprocess.Popen(
        [sys.executable, "-c", HERMES, str(home), seconds, then], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    eventually(lambda: sleeping(seconds) == 7 or process.poll() is not None)
    return process


def ended_process() -> tuple[int, int]:
    """The id and start time of a process that has ended."""
    process = subprocess.Popen(["sleep", "600"])
    start = start_time(process.pid)
    assert start is not None
    process.kill()
    process.wait()
    return process.pid, start


def orphan(marker: str, **facts: Any) -> Record:
    """A record whose owner has ended."""
    pid, start = ended_process()
    return Record(marker, "s1", "foreground", owner_pid=pid, owner_start=start, **facts)


def test_after_a_kill_the_next_start_ends_everything(tmp_path: Path, seconds: str) -> None:
    home = tmp_path / "home"
    process = hermes(home, seconds, "wait")
    assert reap_orphans(home) == 0, "its owner is alive"
    assert sleeping(seconds) == 7
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert sleeping(seconds) == 7, "nothing has ended them yet"
    assert reap_orphans(home) == 3
    assert sleeping(seconds) == 0
    assert Ledger(home).records() == []
    assert reap_orphans(home) == 0


def test_an_ordinary_end_leaves_nothing_running(tmp_path: Path, seconds: str) -> None:
    process = hermes(tmp_path, seconds, "end")
    assert process.wait(60) == 0
    assert sleeping(seconds) == 0
    assert Ledger(tmp_path).records() == []


def test_a_process_that_was_started_but_not_yet_written_down_is_found(
    tmp_path: Path, seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    marker = new_marker()
    process = sleeper(seconds, **{MARKER: f"outer:{marker}"})
    eventually(lambda: sleeping(seconds))
    Ledger(tmp_path).add(orphan(marker))
    assert reap_orphans(tmp_path) == 1
    assert process.wait(60) != 0


def test_a_process_id_that_is_somebody_elses_now_is_left_alone(
    tmp_path: Path, seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = sleeper(seconds)
    start = start_time(process.pid)
    assert start is not None
    Ledger(tmp_path).add(orphan(new_marker(), pid=process.pid, start=start - 1))
    assert reap_orphans(tmp_path) == 1
    assert process.poll() is None
    assert is_running(process.pid, start)


def test_an_owner_whose_id_was_reused_counts_as_dead(
    tmp_path: Path, seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process, bystander = sleeper(seconds), sleeper(seconds)
    start = start_time(bystander.pid)
    assert start is not None
    record = Record(
        new_marker(), "s1", "background", pid=process.pid, start=start_time(process.pid),
        owner_pid=bystander.pid, owner_start=start - 1,
    )  # fmt: skip
    Ledger(tmp_path).add(record)
    assert reap_orphans(tmp_path) == 1
    assert process.wait(60) != 0
    assert bystander.poll() is None


def test_records_from_before_a_reboot_end_nothing_here(
    tmp_path: Path, seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = sleeper(seconds)
    computer, boot, namespace = machine()
    record = orphan(new_marker(), pid=process.pid, start=start_time(process.pid))
    Ledger(tmp_path).add(replace(record, machine=[computer or "x", "another boot", namespace]))
    reap_orphans(tmp_path)
    assert process.poll() is None
    assert boot


def test_records_of_another_container_are_kept_for_a_day(tmp_path: Path) -> None:
    elsewhere = ["another computer", "another boot", "pid:[1]"]
    ledger = Ledger(tmp_path)
    ledger.add(replace(orphan("new"), machine=elsewhere))
    ledger.add(replace(orphan("old"), machine=elsewhere, at=time.time() - 90_000))
    assert reap_orphans(tmp_path) == 0
    assert [record.marker for record in ledger.records()] == ["new"]


def test_what_moved_out_of_the_group_of_a_finished_run_is_left_alone(
    seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    marker = new_marker()
    process = sleeper(seconds, **{MARKER: marker})
    eventually(lambda: sleeping(seconds))
    assert [one.pid for one in members([Target(marker)])] == [process.pid]
    assert members([Target(marker, pid=1, group_only=True)]) == []
    own_group = Target(marker, pid=process.pid, group_only=True)
    assert [one.pid for one in members([own_group])] == [process.pid]


def test_processes_that_multiply_while_being_stopped_are_all_stopped(seconds: str) -> None:
    marker = new_marker()
    forking = f"trap '' TERM; while :; do sleep {seconds} & sleep 0.02; done"
    process = subprocess.Popen(
        ["bash", "-c", forking], env={**os.environ, MARKER: marker}, start_new_session=True
    )
    eventually(lambda: sleeping(seconds) > 3)
    target = Target(marker, process.pid, start_time(process.pid))
    assert stop([target], 0.2, between=process.poll) == []
    assert sleeping(seconds) == 0
    process.wait()


def test_a_stopped_process_can_be_ended(
    seconds: str, sleeper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    process = sleeper(seconds)
    process.send_signal(signal.SIGSTOP)
    assert stop([Target(new_marker(), process.pid, start_time(process.pid))], 2) == []
    assert process.wait() == -signal.SIGTERM


def test_the_ledger_is_private_and_survives_many_writers(tmp_path: Path) -> None:
    home = tmp_path / "home"
    write = (
        "import sys; from pathlib import Path;"
        "from tools.processes.ledger import Ledger, Record;"
        "ledger = Ledger(Path(sys.argv[1]));"
        "[ledger.add(Record(f'{sys.argv[2]}-{n}', 's', 'container')) for n in range(20)];"
        "[ledger.remove(f'{sys.argv[2]}-{n}') for n in range(10)];"
        "import os; os._exit(0)"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", write, str(home), str(number)])
        for number in range(4)
    ]
    threads = [
        threading.Thread(target=Ledger(home).add, args=(Record(f"t-{n}", "s", "container"),))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [writer.wait(60) for writer in writers] == [0] * 4
    assert len(Ledger(home).records()) == 4 * 10 + 8
    assert (home / FILE).stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in home.iterdir()) == [FILE, f"{FILE}.lock"]


def test_a_damaged_ledger_is_put_aside_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for damage in ("{", "[]", '{"processes": [{"pid": 1}]}', '{"processes": 7}', ""):
        (tmp_path / FILE).write_text(damage)
        assert reap_orphans(tmp_path) == 0
        assert "cannot be read" in caplog.text
        assert (tmp_path / f"{FILE}.unreadable").read_text() == damage
        Ledger(tmp_path).add(Record("next", "s", "container"))
        assert len(Ledger(tmp_path).records()) == 1
        caplog.clear()


def test_a_ledger_of_a_later_version_is_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(Record("m", "s", "container"))
    content = json.loads((tmp_path / FILE).read_text())
    content["processes"][0]["something_new"] = 1
    (tmp_path / FILE).write_text(json.dumps(content))
    assert [record.marker for record in ledger.records()] == ["m"]


def test_only_what_this_process_started_is_stopped_at_its_end(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.add(Record("mine", "s", "foreground"))
    ledger.add(Record("other", "s", "foreground", owner_pid=1, owner_start=start_time(1)))
    stop_mine(tmp_path)
    assert [record.marker for record in ledger.records()] == ["other"]
    assert processes_ledger.stop_mine(tmp_path / "nowhere") is None
