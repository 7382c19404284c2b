"""Waking up when something was written to the store, in this process or in another.

To wait for a change, take the number, check the condition, and wait for the number to change:

    seen = db.wake.number
    while not_yet():
        seen = db.wake.wait(seen, timeout=1.0)

A commit of this process is known at once. Those of others are known from their writes to the
write-ahead log, which the kernel reports (inotify). They are reported when the log is written,
shortly before the commit counts: so a waiter is woken several times within a few milliseconds.
Where the kernel reports nothing (another system, a network disk) the store is polled a few times a
second. What is no write (a process that died, a time that has come) is the caller's own timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import os
import select
import struct
import sys
import threading
import time
from pathlib import Path

from hermes_base.ready import wait_readable

log = logging.getLogger(__name__)

AFTER_WRITE = (0.002, 0.010, 0.025, 0.045, 0.065, 0.085, 0.120, 0.200)
"""Seconds after a write of others at which the commit it belongs to may count."""

DEAF_SECONDS = 0.02
"""How long reports are left with the kernel after one was read. It keeps one of a kind, so a store
that is written to all the time, by this process too, does not wake a thread for every page."""

POLL_SECONDS = 0.2
"""Poll interval where the kernel reports nothing."""

PACE_SECONDS = 0.02
"""How long a wait takes at least, so that a busy store does not keep those awake who wait."""

_IN_MODIFY, _IN_DELETE_SELF, _IN_MOVE_SELF, _IN_IGNORED = 0x2, 0x400, 0x800, 0x8000
_EVENT = struct.Struct("iIII")


class Wake:
    """Wakes waiters when the store at a path has changed; usable by threads and loops."""

    def __init__(self, path: Path | None) -> None:
        self._log_path = os.fsencode(f"{path}-wal")
        self._changed = threading.Condition()
        self._futures: set[asyncio.Future[None]] = set()
        self._thread: threading.Thread | None = None
        self._stop: int | None = None
        self._topics: dict[str, Topic] = {}
        self.number = 0
        """Another one after every change that was noticed."""

    def topic(self, name: str) -> Topic:
        """A wake for one kind of change (`locks.TOPICS`) only.

        A file does not distinguish them: there a waiter sleeps until its time-out.

        """
        with self._changed:
            return self._topics.setdefault(name, Topic(self))

    def ring(self) -> None:
        """Wake all waiters: something was committed here, or has changed that they must see."""
        with self._changed:
            self.number += 1
            self._changed.notify_all()
            futures, self._futures = self._futures, set()
        for future in futures:
            with contextlib.suppress(RuntimeError):  # its loop was closed: nobody waits any more
                future.get_loop().call_soon_threadsafe(_set, future)

    def wait(self, seen: int, timeout: float, pace: float = PACE_SECONDS) -> int:
        """Wait until the number is not `seen` any more, for so long at most; returns the number."""
        began = time.monotonic()
        self._listen()
        with self._changed:
            if self._changed.wait_for(lambda: self.number != seen, timeout):
                self._changed.wait_for(lambda: False, began + pace - time.monotonic())
            return self.number

    async def wait_async(self, seen: int, timeout: float, pace: float = PACE_SECONDS) -> int:
        """The same for coroutines."""
        began = time.monotonic()
        self._listen()
        future = asyncio.get_running_loop().create_future()
        with self._changed:
            if self.number == seen:
                self._futures.add(future)
            else:
                future.set_result(None)
        try:
            async with asyncio.timeout(timeout):
                await future
                await asyncio.sleep(max(0.0, began + pace - time.monotonic()))
        except TimeoutError:
            pass  # nothing has changed, and the caller looks all the same
        finally:
            with self._changed:
                self._futures.discard(future)
        return self.number

    def close(self) -> None:
        """Stop listening; waiters are woken."""
        with self._changed:
            thread, self._thread = self._thread, None
            stop, self._stop = self._stop, None
        if stop is not None:
            os.close(stop)
        self.ring()
        for topic in list(self._topics.values()):
            topic.ring()
        if thread is not None and thread is not threading.current_thread():
            thread.join(5)

    # Noticing what others write

    def _listen(self) -> None:
        """Begin to notice; what was written before is for the caller to look at once more."""
        thread = self._thread
        if thread is not None and thread.is_alive():  # not after a fork
            return
        with self._changed:
            if self._thread is not None and self._thread.is_alive():
                return
            ended, self._stop = os.pipe()
            self._thread = threading.Thread(
                target=self._notice, args=(ended,), name="hermes-wake", daemon=True
            )
            self._thread.start()

    def _notice(self, ended: int) -> None:
        reports = _open_inotify()
        try:
            if reports is not None and self._follow_log(reports, ended):
                return
            log.info("Polling for writes of other processes: the kernel does not report them")
            self._look_often(ended)
        finally:
            os.close(ended)
            if reports is not None:
                os.close(reports)

    def _look_often(self, ended: int) -> None:
        while not wait_readable([ended], POLL_SECONDS):
            self.ring()

    def _follow_log(self, reports: int, ended: int) -> bool:
        """Ring with what the kernel reports, until the end; False if it cannot report it."""
        poll = select.poll()
        poll.register(reports, select.POLLIN)
        poll.register(ended, select.POLLIN | select.POLLHUP)
        end_only = select.poll()
        end_only.register(ended, select.POLLIN | select.POLLHUP)
        is_watched = False
        due: list[float] = []
        deaf_until: float | None = None
        while True:
            if not is_watched:
                try:
                    is_watched = _watch(reports, self._log_path)
                except OSError:
                    return False  # too many files are watched on this machine, say
                self.ring()  # what was written before it was watched
            wait = POLL_SECONDS if not is_watched else None
            if due or deaf_until is not None:
                until = min([*due[:1], *([] if deaf_until is None else [deaf_until])])
                wait = max(0.0, until - time.monotonic())
            milliseconds = None if wait is None else wait * 1000
            listening = poll if deaf_until is None else end_only
            ready = {descriptor for descriptor, _ in listening.poll(milliseconds)}
            if ended in ready:
                return True
            now = time.monotonic()
            if deaf_until is not None and deaf_until <= now:
                deaf_until = None
            if reports in ready:
                deaf_until = now + DEAF_SECONDS
                is_watched = not _is_lost(os.read(reports, 4096))
                if not due or due[-1] - now < AFTER_WRITE[-1] / 2:
                    due = [now + seconds for seconds in AFTER_WRITE]
            if due and due[0] <= now:
                due = [moment for moment in due if moment > now]
                self.ring()


class Topic(Wake):
    """One kind of change, noticed by the wake it belongs to."""

    def __init__(self, of: Wake) -> None:
        super().__init__(None)
        self._of = of

    def _listen(self) -> None:
        self._of._listen()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _open_inotify() -> int | None:
    """Where the kernel reports writes to; None if it does not."""
    if not sys.platform.startswith("linux"):
        return None
    descriptor = int(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
    return None if descriptor < 0 else descriptor


def _watch(reports: int, path: bytes) -> bool:
    """Have writes to a file reported; False if there is none yet. OSError if it cannot be done."""
    mask = _IN_MODIFY | _IN_DELETE_SELF | _IN_MOVE_SELF
    if _libc().inotify_add_watch(reports, path, mask) >= 0:
        return True
    number = ctypes.get_errno()
    if number != errno.ENOENT:
        raise OSError(number, os.strerror(number))
    return False


def _is_lost(reported: bytes) -> bool:
    """Whether the file that was watched is gone or another one has its name."""
    offset = 0
    while offset + _EVENT.size <= len(reported):
        _, mask, _, length = _EVENT.unpack_from(reported, offset)
        if mask & (_IN_DELETE_SELF | _IN_MOVE_SELF | _IN_IGNORED):
            return True
        offset += _EVENT.size + length
    return False


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
