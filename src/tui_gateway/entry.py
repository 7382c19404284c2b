"""`python -m tui_gateway.entry`: the session server, on standard input and output.

With `--ws PORT` it serves any number of clients over WebSocket on loopback instead. The main thread
only waits for the end, so that a signal is answered whatever the others are busy with.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable

from . import other_processes, server
from .peers import Peer
from .transport import Refused, keep_stdout_for_frames, read_frames, write_all

REAP_SECONDS = 0.5
"""After so long, abandoned processes of an earlier run are ended, and its turns taken over."""
SHUTDOWN_SECONDS = 8.0
DRAIN_SECONDS = 2.0

USAGE = "usage: python -m tui_gateway.entry [--ws PORT]   (0 takes a free port)"


def main(arguments: list[str] | None = None) -> int:
    """Serve until the input ends or a signal comes, then end every session."""
    arguments = sys.argv[1:] if arguments is None else arguments
    ending = _Ending()
    if not arguments:
        stop = _serve_stdio(ending)
    elif len(arguments) == 2 and arguments[0] == "--ws" and arguments[1].isdecimal():
        from . import ws

        start_logging()
        try:
            stop = ws.serve(int(arguments[1]))
        except ws.CannotServeError as error:
            print(error, file=sys.stderr)
            return 1
    else:
        print(USAGE, file=sys.stderr)
        return 2
    atexit.register(server.shut_down, "exit", SHUTDOWN_SECONDS)
    watcher = other_processes.Watcher(server.hub())
    reaping = threading.Timer(REAP_SECONDS, _settle_earlier_runs, (watcher,))
    reaping.daemon = True
    reaping.start()
    reason = ending.wait()
    server.serve_no_more()
    watcher.stop()
    _exit_in_any_case()
    server.shut_down(reason, SHUTDOWN_SECONDS)
    stop()
    return 0


def _settle_earlier_runs(watcher: other_processes.Watcher) -> None:
    server.reap_orphans()
    watcher.run()


class _Ending:
    """Why the server is to end, through a pipe.

    The interpreter itself writes a signal's number into it, in whatever thread it comes and even if
    the main thread is just about to wait.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for name in ("SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda number, frame: None)
        # Ctrl-C belongs to the front end, which shares our terminal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def input_ended(self) -> None:
        """There is nothing more to read."""
        os.write(self._writer, b"\0")

    def wait(self) -> str:
        """Wait for the first reason."""
        number = os.read(self._reader, 1)[0]
        return signal.Signals(number).name.lower() if number else "tui_close"


def _serve_stdio(ending: _Ending) -> Callable[[], object]:
    frames = keep_stdout_for_frames()
    peer = Peer(lambda line: write_all(frames, line), "stdio")
    server.connect(peer)

    def work() -> None:
        try:
            start_logging()
            for frame in read_frames(0):
                if isinstance(frame, Refused):
                    peer.send(frame.response)
                else:
                    server.dispatch(frame, peer)
        finally:
            server.drain(DRAIN_SECONDS)
            ending.input_ended()

    threading.Thread(target=work, name="hermes-input", daemon=True).start()
    return lambda: peer.drain(DRAIN_SECONDS)


def _exit_in_any_case() -> None:
    """Let nothing that hangs keep the process for longer than the end may take."""
    timer = threading.Timer(SHUTDOWN_SECONDS + 2 * DRAIN_SECONDS, os._exit, (1,))
    timer.daemon = True
    timer.start()


class _LogLater(logging.Handler):
    """Opens the log files with the first record: until then a start need not wait for them."""

    def emit(self, record: logging.LogRecord) -> None:
        from agent.home import hermes_home
        from agent.logs import setup_logging

        root = logging.getLogger()
        root.removeHandler(self)
        setup_logging(hermes_home())
        root.handle(record)


def start_logging() -> None:
    """Log into the home; the files are opened with the first record."""
    root = logging.getLogger()
    root.addHandler(_LogLater())
    root.setLevel(logging.INFO)


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # Threads that hang in a tool must not keep the process: everything is stored.
    os._exit(code)
