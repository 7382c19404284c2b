"""Child processes for tests: forked, so that each costs milliseconds, and never left behind."""

import os
import pickle
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

PATIENCE = 60.0
"""Seconds after which a child that says nothing is taken for hanging."""


class Failed(AssertionError):
    """A child ended with an exception; its traceback is the text."""


class Child:
    """A forked process that runs `work` and sends back what it returned or raised."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.reader)
            self._run(work, writer)
        os.close(writer)

    @staticmethod
    def _run(work: Callable[[], Any], writer: int) -> None:
        try:
            answer = ("returned", work())
        except BaseException as error:  # noqa: BLE001 - everything goes to the parent
            answer = ("raised", (type(error), str(error), traceback.format_exc()))
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)

    def outcome(self) -> tuple[str, Any]:
        """("returned", value), ("raised", (type, text, traceback)) or ("died", status)."""
        received = b""
        deadline = time.monotonic() + PATIENCE
        try:
            while True:
                left = deadline - time.monotonic()
                if not select.select([self.reader], [], [], max(left, 0))[0]:
                    os.kill(self.pid, signal.SIGKILL)
                    raise Failed("the child hangs")
                piece = os.read(self.reader, 1 << 16)
                if not piece:
                    break
                received += piece
        finally:
            os.close(self.reader)
            _, status = os.waitpid(self.pid, 0)
        return pickle.loads(received) if received else ("died", status)

    def result(self) -> Any:
        """What the child returned; Failed if it did not."""
        kind, value = self.outcome()
        if kind != "returned":
            raise Failed(value[2] if kind == "raised" else f"the child died: {value}")
        return value


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a child process."""
    return Child(work).result()


def race(works: Sequence[Callable[[], Any]], prepare: Callable[[], Any] | None = None) -> list[Any]:
    """Run each in a child of its own, all let go at the same moment; what they returned.

    `prepare` runs in each child before the start; what it returns is given to the work.
    """
    gate_reader, gate_writer = os.pipe()
    ready_reader, ready_writer = os.pipe()

    def waiting(work: Callable[..., Any]) -> Callable[[], Any]:
        def run() -> Any:
            os.close(gate_writer)
            given = () if prepare is None else (prepare(),)
            os.write(ready_writer, b"r")
            os.read(gate_reader, 1)  # returns when the parent closes its end
            return work(*given)

        return run

    children = [Child(waiting(work)) for work in works]
    os.close(gate_reader)
    os.close(ready_writer)
    ready = 0
    while ready < len(children):
        said = os.read(ready_reader, len(children))
        if not said:
            break  # a child failed before the start; its result says why
        ready += len(said)
    os.close(ready_reader)
    os.close(gate_writer)
    return [child.result() for child in children]


def killed(work: Callable[[], Any]) -> None:
    """Run `work` in a child that is killed right after, with what `work` returned still open."""

    def run() -> None:
        kept = work()  # noqa: F841 - an open store stays open
        os.kill(os.getpid(), signal.SIGKILL)

    kind, value = Child(run).outcome()
    if kind != "died":
        raise Failed(value)
