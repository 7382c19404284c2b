"""Whether a process has ended: one question, asked in one place, with one table of answers."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hermes_base import process
from hermes_base.process import has_ended, is_gone, machine, name_process, start_time, this_process

from ..test_structure import modules

HERE = ("this machine", "this boot", "pid:[1]")
NO_ID = ("", "this boot", "pid:[1]")
NOTHING = ("", "", "")


@pytest.fixture(scope="module")
def pids() -> Iterator[dict[str, int]]:
    """Processes of every kind: this one, another that runs, one nobody waited for, one gone."""
    command = [sys.executable, "-c", "input()"]
    running = subprocess.Popen(command, stdin=subprocess.PIPE)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    zombie = os.fork()
    if zombie == 0:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    yield {"own": os.getpid(), "running": running.pid, "zombie": zombie, "gone": gone.pid}
    os.waitpid(zombie, 0)
    running.communicate(b"\n")


@pytest.mark.parametrize(
    ("here", "place", "which", "start", "ended"),
    [
        (HERE, HERE, "own", "right", False),
        (HERE, HERE, "running", "right", False),
        (HERE, HERE, "running", "other", True),  # its id was used again
        (HERE, HERE, "running", None, False),  # it was not known when it started
        (HERE, HERE, "zombie", "right", True),  # it has ended, and nobody has asked yet how
        (HERE, HERE, "gone", "other", True),
        (HERE, HERE, "gone", None, True),
        (HERE, ("this machine", "another boot", "pid:[1]"), "own", "right", True),
        (HERE, ("this machine", "another boot", "pid:[2]"), "own", "right", True),
        (HERE, ("another machine", "another boot", "pid:[1]"), "gone", "other", False),
        (HERE, ("another machine", "this boot", "pid:[1]"), "gone", "other", False),
        (HERE, ("this machine", "this boot", "pid:[2]"), "gone", "other", False),  # a container
        (HERE, ("this machine", "", "pid:[1]"), "gone", "other", False),
        (("this machine", "", ""), HERE, "gone", "other", False),
        # Containers without an id of their machine: another boot may be another machine's.
        (NO_ID, ("", "another boot", "pid:[1]"), "gone", "other", False),
        (NO_ID, NO_ID, "gone", "other", True),
        (NO_ID, NO_ID, "running", "right", False),
        # A system that tells nothing: ids alone are looked at.
        (NOTHING, NOTHING, "gone", None, True),
        (NOTHING, NOTHING, "running", None, False),
        (HERE, ("this machine", "this boot"), "gone", "other", False),  # not understood
    ],
)
def test_when_a_process_has_ended(
    monkeypatch: pytest.MonkeyPatch,
    pids: dict[str, int],
    here: tuple[str, str, str],
    place: tuple[str, ...],
    which: str,
    start: str | None,
    ended: bool,
) -> None:
    monkeypatch.setattr(process, "machine", lambda: here)
    pid = pids[which]
    started = {"right": start_time(pid), "other": 1, None: None}[start]
    assert has_ended(place, pid, started) is ended
    if len(place) == 3:
        owner = "|".join((*place, str(pid), "" if started is None else str(started)))
        assert is_gone(owner) is ended


def test_a_process_that_may_not_be_signalled_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not has_ended(machine(), 4_000_000, None)


@pytest.mark.parametrize("pid", ["0", "-1", "²", "x", "", "99999999999999999999"])
def test_what_is_no_process_is_not_concluded_to_have_ended(pid: str) -> None:
    assert not is_gone("|".join((*machine(), pid, "1")))
    assert not is_gone("|".join((*machine(), pid, "")))


@pytest.mark.parametrize("owner", ["", "nonsense", "host:123:abc", "a|b|c", "||||", "a|b|c|1|x"])
def test_what_is_not_understood_is_left_to_the_heartbeat(owner: str) -> None:
    assert not is_gone(owner)


def test_this_process_is_not_gone() -> None:
    assert not is_gone(this_process())
    assert this_process() == name_process(os.getpid())


def test_a_forked_child_goes_by_its_own_name() -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, this_process().encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    told = os.read(reading, 1000).decode()
    os.close(reading)
    assert told != this_process() and is_gone(told)


def test_nobody_else_asks_whether_a_process_exists() -> None:
    """Four had an answer of their own once, and one of them was wrong."""
    asking = [
        module.name
        for module in modules()
        for node in module.nodes("os.kill")
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "os.kill"
        and ast.unparse(node.args[1]) == "0"
    ]
    assert asking == ["hermes_base.process"]
