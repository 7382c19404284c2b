"""Events from one process to viewers in others, on one machine.

A process that runs turns listens at a socket in the Hermes home, under a name made from its name as
the owner of turns. A viewer finds that owner in the store, connects, says which conversation it
watches and from which number, and gets a line for every event. While nobody watches nothing is
written or encoded. Who may connect is decided by the folder, which is private, and by the user the
other process runs as.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import logging
import os
import queue
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from hermes_base.process import this_process

from .events import Logs, Numbered
from .wire import decode, encode

log = logging.getLogger(__name__)

FOLDER = "run/events"
MAX_WAITING = 10_000
"""Events that wait for a viewer; one that is further behind is let go and connects again."""
MAX_VIEWERS = 64
REQUEST_SECONDS = 5.0
"""For a viewer to say what it watches."""
LONGEST_REQUEST = 4_096
LONGEST_LINE = 64_000_000
_FAULTS = (OSError, ValueError, KeyError, TypeError, RecursionError)


def socket_name(owner: str) -> str:
    """The name of an owner's socket in the folder."""
    return hashlib.sha256(owner.encode()).hexdigest()[:24]


class Relay:
    """Offers the events of this process to viewers; listens from the first turn on."""

    def __init__(self, home: Path, logs: Logs) -> None:
        self._folder = home / FOLDER
        self._logs = logs
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None
        self._pid = 0
        self._viewers = threading.Semaphore(MAX_VIEWERS)

    def listen(self) -> None:
        """Begin to listen, if this process does not yet; a failure is logged, never raised."""
        if self._pid == os.getpid():  # not after a fork
            return
        with self._lock:
            if self._pid == os.getpid():
                return
            self._pid = os.getpid()
            try:
                self._listener = self._bind()
            except OSError as error:
                # The turn runs all the same; others see its answer when it has ended.
                log.warning("Other processes cannot watch the turns of this one: %s", error)
                return
            threading.Thread(target=self._accept, name="hermes-events", daemon=True).start()
            atexit.register(self.close)

    def close(self) -> None:
        """Listen no more; done by itself when the process ends."""
        atexit.unregister(self.close)
        if self._pid != os.getpid():
            return  # what a child has of its parent's
        with self._lock:
            listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError):
                (self._folder / socket_name(this_process())).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _bind(self) -> socket.socket:
        # One after the other: those above would be anybody's to look into.
        for private in (self._folder.parent.parent, self._folder.parent, self._folder):
            private.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        _remove_dead(self._folder)
        name = socket_name(this_process())
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _reachable(self._folder) as folder:
                (self._folder / name).unlink(missing_ok=True)
                listener.bind(f"{folder}/{name}")
            (self._folder / name).chmod(0o600)
            listener.listen(16)
        except BaseException:
            listener.close()
            raise
        return listener

    def _accept(self) -> None:
        listener = self._listener
        while listener is not None:
            try:
                connection, _ = listener.accept()
            except OSError:
                return  # closed
            if not _is_same_user(connection) or not self._viewers.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(
                target=self._serve, args=(connection,), name="hermes-viewer", daemon=True
            ).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(*_FAULTS):
                # A viewer that misbehaves or goes away does not concern the turn.
                connection.settimeout(REQUEST_SECONDS)
                request = json.loads(_line(connection, LONGEST_REQUEST))
                self._send(connection, str(request["conversation"]), int(request["since"]))
        finally:
            self._viewers.release()

    def _send(self, connection: socket.socket, conversation_id: str, since: int) -> None:
        waiting: queue.Queue[Numbered] = queue.Queue(MAX_WAITING)

        def put(numbered: Numbered) -> None:
            try:
                waiting.put_nowait(numbered)
            except queue.Full:
                connection.close()

        stop = self._logs.log(conversation_id).subscribe(since, put)
        try:
            connection.settimeout(REQUEST_SECONDS * 6)
            connection.sendall(b"{}\n")  # it is watched from now on
            while True:
                try:
                    numbered = waiting.get(timeout=REQUEST_SECONDS)
                except queue.Empty:
                    connection.sendall(b"\n")  # so that a viewer that is gone is noticed
                    continue
                connection.sendall(encode(*numbered))
        finally:
            stop()


class View:
    """A conversation that another process of this machine runs a turn in, watched."""

    def __init__(self, home: Path, owner: str, conversation_id: str, since: int = 0) -> None:
        """OSError if that process cannot be watched: it is gone, or of an older version."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(REQUEST_SECONDS)
            with _reachable(home / FOLDER) as folder:
                self._socket.connect(f"{folder}/{socket_name(owner)}")
            request = {"conversation": conversation_id, "since": since}
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            self._file = self._socket.makefile("rb")
            if not self._file.readline(LONGEST_REQUEST):
                raise ConnectionResetError("The process that runs the turn did not answer.")
            self._socket.settimeout(None)
        except BaseException:
            self._socket.close()
            raise

    def __iter__(self) -> Iterator[Numbered]:
        """The events as they happen, until that process ends or `close` is called."""
        with contextlib.suppress(OSError, ValueError):  # closed from here or from there
            while line := self._file.readline(LONGEST_LINE):
                if line == b"\n":
                    continue
                number, event = decode(line)
                if event is not None:
                    yield Numbered(number, event)

    def close(self) -> None:
        """Watch no more; from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def follow(
    home: Path,
    owner: str,
    conversation_id: str,
    show: Callable[[Numbered], None],
    since: int = 0,
) -> View | None:
    """Watch in a thread; None if that process cannot be watched."""
    try:
        view = View(home, owner, conversation_id, since)
    except OSError as error:
        log.info("The turn in %s cannot be watched: %s", conversation_id, error)
        return None

    def run() -> None:
        for numbered in view:
            show(numbered)
        view.close()

    threading.Thread(target=run, name="hermes-watch", daemon=True).start()
    return view


@contextlib.contextmanager
def _reachable(folder: Path) -> Iterator[str]:
    """The folder under a name that is short enough for a socket's address."""
    if not sys.platform.startswith("linux"):
        yield str(folder)
        return
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _remove_dead(folder: Path) -> None:
    """Remove the sockets at which nobody listens any more."""
    for path in folder.iterdir():
        probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        probe.settimeout(1)
        try:
            with _reachable(folder) as short:
                probe.connect(f"{short}/{path.name}")
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
        except OSError:
            continue  # it is somebody's, or gone by now
        finally:
            probe.close()


def _is_same_user(connection: socket.socket) -> bool:
    if not hasattr(socket, "SO_PEERCRED"):
        return True  # the folder is private
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack(
        "3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    )
    return user in (os.getuid(), 0)


def _line(connection: socket.socket, longest: int) -> bytes:
    received = b""
    while not received.endswith(b"\n"):
        piece = connection.recv(longest)
        received += piece
        if not piece or len(received) > longest:
            raise ValueError("no request")
    return received
