"""Background processes of a conversation.

Each has a thread that reads its output into a bounded buffer and a private log file, and that tells
the conversation when a line matches or the process ends. A process whose end is to be reported
stays in the ledger until the report is stored, so that the next start reports it if this one is
killed. Ended ones can be asked about for an hour.
"""

from __future__ import annotations

import contextvars
import itertools
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from ..base import ToolContext, ToolError, Workspace
from ..own_folders import output_folder
from ..terminal.backends import Ending, Launch
from ..terminal.output import Cleaner, KeptFile
from ..terminal.place import Place
from ..terminal.run import Run
from .watch import Watcher, check_patterns

log = logging.getLogger(__name__)

MAX_RUNNING = 24
MAX_KEPT = 64
KEPT_SECONDS = 3600
IN_MEMORY = 200_000
"""Characters of each process's output."""
_STATE = "processes"
_FIRST_LOOK = 0.2
_NO_MESSAGES = " No messages are sent here: poll it instead."

Notify = Callable[[str, str, bool], bool]
"""Stores a notification for the conversation under a name, quietly or not; False if that failed."""


class Background:
    """A background process and what is known of it."""

    def __init__(
        self,
        context: ToolContext,
        place: Place,
        launch: Launch,
        notify: Notify,
        tells_end: bool = False,
    ) -> None:
        self.id = f"proc_{os.urandom(4).hex()}"
        self.command = launch.command
        self.started = time.time()
        self.ended_at: float | None = None
        self.ending: Ending | None = None
        self.killed = False
        self.closed = False
        """It was ended because its conversation was closed."""
        self.done = threading.Event()
        self.looked_at = threading.Event()
        """Set when the starting call has checked whether it ended at once."""
        self.is_told = False
        """Whether the starting call has reported its end."""
        self.typed = ""
        """What was written to it since the last end of line."""
        self._place = place
        self._notify = notify
        self._tells_end = tells_end
        self._lock = threading.Lock()
        self._recent, self._position, self._polled = "", 0, 0
        home = context.workspace.home
        self.log = KeptFile(output_folder(context), self.id)
        try:
            self.run = Run(
                place.backend,
                launch,
                home,
                context.session_id,
                "background",
                tells_as=self.id if tells_end else "",
            )
        except BaseException:
            self.log.close()
            self.log.path.unlink(missing_ok=True)
            raise

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return self._place.backend.name == "local"

    def follow(self, patterns: list[str]) -> None:
        """Read to the end; the body of the process's thread."""
        cleaner, watcher = Cleaner(), Watcher(patterns)
        reports = itertools.count(1)

        def take(data: bytes, *, end: bool = False) -> None:
            text = cleaner.feed(data, end=end)
            if text:
                with self._lock:
                    self._recent = (self._recent + text)[-IN_MEMORY:]
                    self._position += len(text)
                    self.log.write(text)
                watcher.feed(text)
            if (report := watcher.report(ended=end)) is not None:
                self._notify(f"[{self.id} {report}", f"{self.id}:{next(reports)}", False)

        try:
            while not self.run.ended():
                take(self.run.read(1.0))
            self.run.rest(take)
            take(b"", end=True)
        finally:
            self._finish()
        if self._tells_end:
            self._tell_end()

    def _finish(self) -> None:
        try:
            if not self.run.ended():
                self.run.stop()
            self.ending, left = self.run.finish()
            if left:
                self._place.markers.add(self.run.launch.marker)
        finally:
            self.ended_at = time.time()
            with self._lock:
                self.log.close()
            self.done.set()

    def _tell_end(self) -> None:
        """Notify the conversation of its end, unless the end was reported already."""
        status = self.status()
        self.run.note_end(status)
        self.looked_at.wait()
        is_known = self.is_told or (self.killed and not self.closed)
        text = f"[{self.id} {status}: {short(self.command)}]\n{self.tail(20)}"
        if is_known or self._notify(text, end_name(self.id), self.closed):
            self.run.forget()

    def status(self) -> str:
        """In words."""
        seconds = (self.ended_at or time.time()) - self.started
        if not self.done.is_set():
            return f"running for {seconds:.0f} s"
        if self.closed:
            return f"was stopped with its conversation after {seconds:.0f} s"
        if self.killed:
            return f"killed after {seconds:.0f} s"
        code = self.ending.code if self.ending else None
        problem = f" ({self.ending.problem})" if self.ending and self.ending.problem else ""
        return f"ended with exit code {code} after {seconds:.0f} s{problem}"

    def news(self) -> str:
        """What it printed since this was last asked."""
        with self._lock:
            new = self._position - self._polled
            self._polled = self._position
            text = self._recent[-new:] if new else ""
            self.log.flush()
        lost = new - len(text)
        if lost:
            text = f"[… {lost:,} characters skipped; read_file {self.log.path} has them …]\n{text}"
        return text

    def tail(self, lines: int) -> str:
        """Its last lines."""
        with self._lock:
            return "\n".join(self._recent.splitlines()[-lines:])

    def flush(self) -> Path:
        """The log file, with all that was printed so far."""
        with self._lock:
            self.log.flush()
        return self.log.path

    def kill(self) -> None:
        """End it and everything it started."""
        if not self.done.is_set():
            self.killed = True
            self.run.stop()
            self.done.wait(5)


class Table:
    """The background processes of one conversation."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Background] = {}

    def add(self, make: Callable[[], Background]) -> Background:
        """Start one more, if there may be."""
        with self._lock:
            self._forget_old()
            running = sum(not process.done.is_set() for process in self._known.values())
            if running >= MAX_RUNNING:
                raise ToolError(
                    f"{running} background processes are running, which is the limit. End some of"
                    " them with process(action='kill')."
                )
        process = make()
        with self._lock:
            self._known[process.id] = process
        return process

    def get(self, name: str | None) -> Background:
        """The process of that name."""
        with self._lock:
            process = self._known.get(name or "")
            if process is None:
                names = ", ".join(self._known) or "none"
                raise ToolError(f"There is no background process {name!r}. Known: {names}.")
            return process

    def all(self) -> list[Background]:
        """Every process that is known, the oldest first."""
        with self._lock:
            self._forget_old()
            return list(self._known.values())

    def _forget_old(self) -> None:
        ended = [process for process in self._known.values() if process.done.is_set()]
        ended.sort(key=lambda process: process.ended_at or 0, reverse=True)
        oldest = time.time() - KEPT_SECONDS
        for index, process in enumerate(ended):
            if index >= MAX_KEPT or (process.ended_at or 0) < oldest:
                del self._known[process.id]


def table_of(workspace: Workspace) -> Table:
    """The conversation's processes."""
    with workspace.lock:
        table = workspace.state.setdefault(_STATE, Table())
        assert isinstance(table, Table)
        return table


def start_background(
    context: ToolContext,
    place: Place,
    launch: Launch,
    password: str | None,
    notify_on_complete: bool,
    patterns: list[str],
) -> str:
    """Start a process for the conversation; returns what to tell the model."""
    patterns = check_patterns(patterns)
    notify = _notifier(context)
    can_tell = context.services.notify is not None
    tells_end = notify_on_complete and can_tell
    process = table_of(context.workspace).add(
        lambda: Background(context, place, launch, notify, tells_end)
    )
    threading.Thread(target=process.follow, args=(patterns,), name=process.id, daemon=True).start()
    try:
        if password is not None:
            process.run.child.write(password.encode() + b"\n", 5, process.done.is_set)
        if process.done.wait(_FIRST_LOOK):
            process.is_told = True
            return f"{process.id} {process.status()}:\n{process.news()}".rstrip("\n:")
    finally:
        process.looked_at.set()
    wanted = bool(notify_on_complete or patterns)
    return (
        f"Started {process.id}, process id {process.run.child.pid}. Look at it with process("
        f"action='poll', session_id='{process.id}'); its output is also in {process.log.path}."
        + (_NO_MESSAGES if wanted and not can_tell else "")
    )


def close_processes(workspace: Workspace) -> None:
    """End every background process of a conversation."""
    with workspace.lock:
        table = workspace.state.pop(_STATE, None)
    if isinstance(table, Table):
        for process in table.all():
            process.closed = not process.done.is_set()
            process.kill()


def end_name(process_id: str) -> str:
    """The name of the notification of a process's end, which makes it unique."""
    return f"{process_id}:ended"


def short(command: str) -> str:
    """A command on one line of moderate length."""
    line = " ".join(command.split())
    return line if len(line) <= 80 else line[:79] + "…"


def _notifier(context: ToolContext) -> Notify:
    notify = context.services.notify
    if notify is None:
        return lambda text, name, quiet: True
    carried = contextvars.copy_context()

    def send(text: str, name: str, quiet: bool) -> bool:
        try:
            carried.copy().run(notify, text, name, quiet)
        except Exception:
            # Whatever the function above us does, the output must still be read.
            log.exception("A notification could not be stored")
            return False
        return True

    return send
