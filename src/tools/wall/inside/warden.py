"""The warden: the first process inside a wall, which starts commands when it is told to.

It is told over a socket that only the agent's process holds. When that closes, because the
conversation or the agent has ended, however it ended, the warden ends with all that it started.

    agent → warden   "run", with descriptors: a socket for this run, the request (JSON in a file
                     without a name), standard input, output and error, and any others
    warden → run     "started", with a descriptor of the process, and of its terminal if it has one;
                     later "exit CODE"; or "error TEXT"
    agent → run      one byte, once it has looked at the process
    agent → warden   "count", with a socket, on which it says how many processes it has inside
"""

from __future__ import annotations

import array
import ctypes
import errno
import json
import os
import select
import signal
import socket
import struct
import sys
from typing import Any

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_SUBREAPER, _DROP_BOUND, _DUMPABLE = 36, 24, 4
_CONTROLLING_TERMINAL, _SET_SIZE = 0x540E, 0x5414
_GET_FLAGS, _SET_FLAGS, _INTERFACE_UP = 0x8913, 0x8914, 1
_KEPT_CAPABILITIES = (0, 1, 3, 4, 6, 7)
"""For root: chown, dac_override, fowner, fsetid, setgid, setuid. What only concerns files."""
_MOST_FDS = 32

_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Build what is left to build of the wall, say that it stands, and start commands."""
    for descriptor in map(int, sys.argv[1:3]):
        os.set_inheritable(descriptor, False)  # commands have no business with them
    control = socket.socket(fileno=int(sys.argv[1]))
    with open(int(sys.argv[2]), encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        config = json.load(file)
    try:
        if config["supervise"]:
            _supervise(control)
        listener = confine(config)
    except OSError as error:
        control.sendall(f"error {error}".encode())
        raise SystemExit(1) from None
    send(control, b"ready", [] if listener is None else [listener.fileno()])
    if listener is not None:
        listener.close()
    # Whom it starts are of the same account: they shall not look into it, nor interrupt it.
    _libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Warden(control, is_supervised=config["supervise"]).serve()


def confine(config: dict[str, Any]) -> socket.socket | None:
    """Take away what this process may not have; returns the way to the proxy, if there is one."""
    from . import landlock, seccomp  # before the first restriction, which may hide them

    if config["own_network"]:
        _leave_network()
    listener = None
    if config["listen"]:
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    if config["landlock"]:
        # Root has rights over files that no rule of Landlock covers; the rest it does not need.
        landlock.restrict(config["readable"], config["writable"])
    if config["scoped"]:
        landlock.leave_abstract_sockets()
    _drop_capabilities()
    if config["filter"]:
        seccomp.install(config["families"])
    return listener


def _leave_network() -> None:
    """Move into a network of its own, with nothing but loopback."""
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_CLONE_NEWNET) != 0:
        if _libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "no network of its own: namespaces are switched off")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123 - no pathlib in here
                file.write(text)
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(handle, _GET_FLAGS, request))[1]
        fcntl.ioctl(handle, _SET_FLAGS, struct.pack("16sH14x", b"lo", flags | _INTERFACE_UP))


def _drop_capabilities() -> None:
    """Keep those that root needs for files, if it has them; for everybody else there are none."""
    for number in range(64):
        if number not in _KEPT_CAPABILITIES and _libc.prctl(_DROP_BOUND, number, 0, 0, 0) != 0:
            break  # past the last one, or not root: then there is nothing to drop from
    kept = sum(1 << number for number in _KEPT_CAPABILITIES) if os.geteuid() == 0 else 0
    head = struct.pack("Ii", 0x20080522, 0)
    held = ctypes.create_string_buffer(24)
    if _libc.capget(head, held) != 0:
        raise OSError(ctypes.get_errno(), "capabilities cannot be read")
    permitted = struct.unpack("6I", held.raw)[1] & kept
    data = struct.pack("6I", permitted, permitted, 0, 0, 0, 0)
    if _libc.capset(head, data) != 0:
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


class Warden:
    """Starts commands, and says how each ended."""

    def __init__(self, control: socket.socket, *, is_supervised: bool) -> None:
        self._control = control
        self._is_supervised = is_supervised
        self._runs: dict[int, socket.socket] = {}

    def serve(self) -> None:
        """Until the agent's end of the socket is closed."""
        woken, wake = os.pipe()
        for end in (woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(woken, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if woken in ready:
                os.read(woken, 4096)
                self._reap()
            if self._control.fileno() in ready:
                word, fds = receive(self._control)
                if not word:
                    return
                if word == b"count":
                    with socket.socket(fileno=fds[0]) as asked:
                        _tell(asked, str(self._count()).encode())
                    continue
                self._run(fds)
                self._reap()  # it may have ended before it was written down

    def _count(self) -> int:
        """How many processes there are inside besides those that belong to the wall."""
        self._reap()
        if not self._is_supervised:
            return sum(name.isdecimal() for name in os.listdir("/proc")) - 1  # noqa: PTH208
        return len(_children(os.getppid())) - 1 + len(_children(os.getpid()))

    def _run(self, fds: list[int]) -> None:
        status = socket.socket(fileno=fds[0])
        handles: list[int] = []
        try:
            with open(fds[1], "rb") as file:  # noqa: PTH123 - a descriptor
                request = json.load(file)
            if request["pty"] and len(fds) == 2:
                # In here, so that the terminal has a name in here, and no other can be opened.
                master, slave = os.openpty()
                _set_size(slave, *request["size"])
                handles.append(master)
                fds += [slave, slave, slave]
            pid = _start(request, fds[2:])
            handles.insert(0, os.pidfd_open(pid))
        except (OSError, ValueError) as error:
            _tell(status, f"error {error}".encode("utf-8", "replace")[:4000])
            status.close()
        else:
            self._runs[pid] = status
            _tell(status, b"started", handles)
            # The agent looks up which process this is; until then it must not be reaped.
            status.recv(1)
        finally:
            for descriptor in {*fds[2:], *handles}:
                os.close(descriptor)

    def _reap(self) -> None:
        while True:
            try:
                pid, ended = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            status = self._runs.pop(pid, None)
            if status is not None:
                _tell(status, f"exit {os.waitstatus_to_exitcode(ended)}".encode())
                status.close()


def _start(request: dict[str, Any], fds: list[int]) -> int:
    """Fork and execute; OSError if the program cannot be executed."""
    failure, report = os.pipe()  # closed by exec, so that the end of it is good news
    try:
        pid = os.fork()
    except OSError:  # no more processes for this account
        os.close(failure)
        os.close(report)
        raise
    if pid == 0:
        try:
            os.close(failure)
            _become(request, fds)
        except OSError as error:
            os.write(report, json.dumps([error.errno, str(error)]).encode()[:1000])
        finally:
            os._exit(127)
    os.close(report)
    with open(failure, "rb") as file:  # noqa: PTH123 - a descriptor
        failed = file.read()
    if failed:
        os.waitpid(pid, 0)
        number, text = json.loads(failed)
        raise OSError(number, text)
    return pid


def _become(request: dict[str, Any], fds: list[int]) -> None:
    """Turn this process into the command."""
    os.setsid()
    # Out of the way of the numbers that they are to have.
    safe = [_above(descriptor) for descriptor in fds]
    for number, descriptor in enumerate(safe):
        os.dup2(descriptor, number, inheritable=True)
    if request["pty"]:
        import fcntl

        fcntl.ioctl(0, _CONTROLLING_TERMINAL, 0)
    for number in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    environ = {os.fsencode(name): os.fsencode(value) for name, value in request["env"].items()}
    os.execvpe(request["argv"][0], request["argv"], environ)


def _set_size(terminal: int, rows: int, columns: int) -> None:
    import fcntl

    fcntl.ioctl(terminal, _SET_SIZE, struct.pack("HHHH", rows, columns, 0, 0))


def _above(descriptor: int) -> int:
    import fcntl

    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 100)


def _supervise(control: socket.socket) -> None:
    """Where there is no namespace that ends with its first process: watch over the warden.

    The parent stays outside the wall, where no signal from inside reaches it, and ends everything
    when the agent is gone or the warden is; the child goes on and becomes the warden.
    """
    _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    warden = os.fork()
    if warden == 0:
        return
    watched = os.pidfd_open(warden)
    poll = select.poll()
    poll.register(control, 0)  # only its end
    poll.register(watched, select.POLLIN)
    while not poll.poll(500):
        _reap_orphans(warden)
    while True:
        for pid in _children(os.getpid()):
            _kill_tree(pid)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            os._exit(0)


def _reap_orphans(warden: int) -> None:
    for pid in _children(os.getpid()):
        if pid != warden:
            os.waitpid(pid, os.WNOHANG)


def _kill_tree(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing more
        for child in _children(pid):
            _kill_tree(child)
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it ended by itself


def _children(pid: int) -> list[int]:
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123 - no pathlib in here
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


def send(connection: socket.socket, word: bytes, fds: list[int]) -> None:
    """A message with descriptors."""
    extra = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    connection.sendmsg([word], extra)


def _tell(status: socket.socket, word: bytes, fds: list[int] | None = None) -> None:
    try:
        send(status, word, fds or [])
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ECONNRESET):
            raise
        # Nobody waits for this run any more.


def receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptors; nothing at the end."""
    room = socket.CMSG_LEN(_MOST_FDS * array.array("i").itemsize)
    word, extra, _, _ = connection.recvmsg(4096, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in extra:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return word, list(fds)


if __name__ == "__main__":
    main()
