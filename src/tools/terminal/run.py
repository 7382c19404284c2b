"""One run of a command, from the ledger's first line about it to its last.

However a run ends (by itself, by its time limit, by an interrupt, by an error of ours), everything
it started is ended with it and the ledger forgets it. The exception is what a finished command left
in the background: that goes on until the conversation or Hermes ends, and the ledger remembers it.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from ..base import ToolError
from ..processes.identity import Seen, Target, members, start_time, stop
from ..processes.ledger import Ledger, Record
from ..trees import remove_tree
from .backends import Backend, Ending, Launch
from .remote import TrailerFilter
from .spawn import spawn

log = logging.getLogger(__name__)

How = Literal["ended", "timeout", "cancelled"]

_TICK = 0.05
TIMEOUT_GRACE = 2.0
"""Seconds between asking politely and killing."""
_CANCEL_GRACE = 0.1
"""A person is waiting."""


class Run:
    """A command that has been started."""

    def __init__(
        self,
        backend: Backend,
        launch: Launch,
        home: Path,
        session: str,
        kind: str,
        tells_as: str = "",
    ) -> None:
        """Start it; ToolError says why that is not possible.

        With `tells_as` its conversation is to be notified of its end: the ledger keeps the run
        until `forget`.
        """
        self.launch = launch
        self._tells = bool(tells_as)
        self._left: list[Seen] = []
        self._backend = backend
        self._ledger = Ledger(home)
        self.problem = ""
        """Why something may still be running that was to be ended."""
        try:
            launch.folder.mkdir(mode=0o700, parents=True)
            invocation = backend.prepare(launch)
            command = " ".join(launch.command.split())[:80] if tells_as else ""
            self._ledger.add(
                Record(
                    launch.marker,
                    session,
                    kind,
                    where=backend.where,
                    tells_as=tells_as,
                    command=command,
                )
            )
            self._filter = TrailerFilter(invocation.trailer)
            self.child = spawn(
                invocation.argv,
                invocation.environ,
                invocation.cwd,
                pty=launch.pty,
                stdin=launch.needs_input,
                warden=invocation.warden,
            )
        except BaseException as error:
            self._release()
            self.forget()
            if isinstance(error, OSError):
                raise ToolError(f"The command could not be started: {error}.") from error
            raise
        # A client's processes are its group; what is marked may run in a container of this machine.
        self._target = Target(
            launch.marker,
            self.child.pid,
            start_time(self.child.pid),
            group_only=bool(backend.where),
        )
        try:
            self._ledger.update(launch.marker, pid=self._target.pid, start=self._target.start)
        except BaseException:
            self.stop(_CANCEL_GRACE)
            raise

    def read(self, seconds: float) -> bytes:
        """What the command printed next; empty if that takes longer, or it has ended."""
        return self._filter.feed(self.child.read(seconds))

    def ended(self) -> bool:
        """Whether the command itself has ended, whatever it left behind."""
        return self._filter.complete or self.child.ended()

    def rest(self, take: Callable[[bytes], object]) -> None:
        """Read what is left of the output of a command that has ended."""
        if not self._filter.complete:
            self.child.rest(lambda data: take(self._filter.feed(data)))
        take(self._filter.rest())

    def stop(self, grace: float | None = None) -> None:
        """End the command and everything it has started."""
        grace = TIMEOUT_GRACE if grace is None else grace
        try:
            self._backend.kill(self.launch.marker, grace)
        except OSError as error:
            self.problem = f"what it started may still be running: {error}"
            log.warning("A run on %s could not be ended: %s", self._backend.name, error)
        self._signal(signal.SIGTERM)
        survivors = stop([self._target], grace, between=self.child.ended)
        self._signal(signal.SIGKILL)
        if survivors:
            self.problem = f"processes of another user could not be ended: {survivors}"

    def _signal(self, number: signal.Signals) -> None:
        """Reach the whole group, also on a system without /proc, while its leader is our child."""
        if not self.child.ended():
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.child.pid, number)

    def finish(self) -> tuple[Ending, list[Seen]]:
        """Close a run that has ended: how it ended, and which processes it left behind."""
        if not self.child.ended():
            # The command has ended over there, but something keeps the connection open.
            stop([self._target], _CANCEL_GRACE, between=self.child.ended)
        code = self.child.process.poll()
        if code is not None and code < 0:
            code = 128 - code  # as shells put it
        try:
            ending = self._backend.ending(self.launch, code, self._filter.trailer)
        finally:
            self.child.close()
            self._release()
            self._left = self._left_behind()
            if not self._tells:
                self.forget()
        return ending, self._left

    def _release(self) -> None:
        if self.launch.release is not None:
            self.launch.release()

    def note_end(self, status: str) -> None:
        """Record in the ledger how a run ended, until the conversation is notified."""
        try:
            self._ledger.update(self.launch.marker, ended=status)
        except OSError as error:
            # Then the notification after a crash does not say how it ended.
            log.warning("The ledger of processes could not be written: %s", error)

    def _left_behind(self) -> list[Seen]:
        try:
            os.killpg(self.child.pid, 0)
        except ProcessLookupError:
            return []  # the usual case, and much quicker to see than to search for
        except PermissionError:
            pass
        return members([Target(self.launch.marker, self.child.pid, group_only=True)])

    def forget(self) -> None:
        """Remove the record of a run that has ended, after its notification if there is one."""
        remove_tree(self.launch.folder)
        with suppress(OSError):  # gone with the folder, or replaced: then it goes with the wall
            self.launch.state_file.unlink(missing_ok=True)
        try:
            if self._left:
                self._ledger.update(self.launch.marker, kind="left", tells_as="")
            elif not self.problem:
                self._ledger.remove(self.launch.marker)
        except OSError as error:
            # The record is harmless, since it names a process that is gone; the result is not.
            log.warning("The ledger of processes could not be written: %s", error)


def run_to_end(
    run: Run, seconds: float, take: Callable[[bytes], object], cancelled: Callable[[], bool]
) -> How:
    """Read a run's output until it ends, its time is over or the user interrupts."""
    deadline = time.monotonic() + seconds
    how: How = "ended"
    try:
        while not run.ended():
            if cancelled():
                how = "cancelled"
                break
            left = deadline - time.monotonic()
            if left <= 0:
                how = "timeout"
                break
            take(run.read(min(left, _TICK)))
    except BaseException:
        run.stop(_CANCEL_GRACE)
        raise
    if how != "ended":
        run.stop(None if how == "timeout" else _CANCEL_GRACE)
    run.rest(take)
    return how
