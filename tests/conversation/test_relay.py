"""A turn of one process, watched from another."""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.events import Noticed, TextStreamed, TurnFinished, TurnStarted
from conversation import relay as module
from conversation.events import Logs, Numbered
from conversation.relay import FOLDER, Relay, View, follow, socket_name
from hermes_base.process import this_process

PATIENCE = 60


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """As long a path as people have, and longer than a socket's address may be."""
    return tmp_path / ("a long name for a home " * 5) / ".hermes"


@pytest.fixture
def logs() -> Logs:
    return Logs()


@pytest.fixture
def relay(home: Path, logs: Logs) -> Iterator[Relay]:
    offered = Relay(home, logs)
    offered.listen()
    yield offered
    offered.close()


def test_what_happens_is_seen(home: Path, logs: Logs, relay: Relay) -> None:
    log = logs.log("c")
    log.publish(TurnStarted("s", "t", 1))
    log.publish(TextStreamed("so far"))
    view = View(home, this_process(), "c")
    log.publish(TextStreamed(" and on"))
    log.publish(TurnFinished("s", "complete", "so far and on"))
    seen = iter(view)
    assert [next(seen).event for _ in range(4)] == [
        TurnStarted("s", "t", 1),
        TextStreamed("so far"),
        TextStreamed(" and on"),
        TurnFinished("s", "complete", "so far and on"),
    ]
    view.close()


def test_only_the_conversation_that_is_watched(home: Path, logs: Logs, relay: Relay) -> None:
    view = View(home, this_process(), "mine")
    logs.log("another's").publish(Noticed("secret"))
    logs.log("mine").publish(Noticed("mine"))
    assert next(iter(view)).event == Noticed("mine")
    view.close()


def test_a_viewer_that_goes_away_is_forgotten(home: Path, logs: Logs, relay: Relay) -> None:
    log = logs.log("c")
    view = View(home, this_process(), "c")
    assert len(log._subscribers) == 1
    view.close()
    deadline = time.monotonic() + 30
    while log._subscribers:
        assert time.monotonic() < deadline, "it is still being written to"
        log.publish(Noticed("x" * 10_000))
        time.sleep(0.001)  # the thread that writes to it must come to its turn


def test_a_viewer_that_does_not_read_holds_up_nobody(
    home: Path, logs: Logs, relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 50)
    log = logs.log("c")
    slow = View(home, this_process(), "c")
    for number in range(5_000):
        log.publish(Noticed(f"{number} " + "x" * 1_000))
    slow.close()
    quick = View(home, this_process(), "c", log.number)
    log.publish(Noticed("now"))
    assert next(iter(quick)).event == Noticed("now")
    quick.close()


@pytest.mark.parametrize(
    "request_line", [b"", b"{}\n", b"not json\n", b"[" * 4000 + b"\n", b"x" * 9_000]
)
def test_nonsense_ends_its_own_connection_only(
    home: Path, logs: Logs, relay: Relay, request_line: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        with module._reachable(home / FOLDER) as folder:
            stranger.connect(f"{folder}/{socket_name(this_process())}")
        stranger.settimeout(PATIENCE)
        stranger.sendall(request_line)
        stranger.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionResetError):
            assert stranger.recv(100) == b""
    view = View(home, this_process(), "c")
    logs.log("c").publish(Noticed("well"))
    assert next(iter(view)).event == Noticed("well")
    view.close()


def test_the_socket_is_private(home: Path, relay: Relay) -> None:
    folder = home / FOLDER
    for made in (folder, folder.parent, home):
        assert made.stat().st_mode & 0o777 == 0o700
    assert (folder / socket_name(this_process())).stat().st_mode & 0o777 == 0o600


def test_nobody_listens_there(home: Path) -> None:
    (home / FOLDER).mkdir(parents=True)
    assert follow(home, "a process that is gone", "c", lambda numbered: None) is None
    assert follow(home / "elsewhere", this_process(), "c", lambda numbered: None) is None


def test_sockets_of_dead_processes_are_removed(home: Path, logs: Logs) -> None:
    folder = home / FOLDER
    folder.mkdir(parents=True)
    dead = socket.socket(socket.AF_UNIX)
    with module._reachable(folder) as short:
        dead.bind(f"{short}/dead")
    dead.close()
    relay = Relay(home, logs)
    relay.listen()
    assert [path.name for path in folder.iterdir()] == [socket_name(this_process())]
    relay.close()
    assert not list(folder.iterdir())


CHILD = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from agent.events import TextStreamed, TurnFinished, TurnStarted
    from conversation.watching import open_log
    from hermes_base.process import this_process

    watch = open_log(Path(sys.argv[1]), "c").publish
    watch(TurnStarted("s", "t", 4))
    watch(TextStreamed("Once "))
    print(this_process(), flush=True)
    for line in sys.stdin:
        watch(TextStreamed(line))
    watch(TurnFinished("s", "complete", ""))
    """
)


def test_another_process_is_seen_as_it_streams(home: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(home)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
    )  # fmt: skip
    assert child.stdin and child.stdout
    owner = child.stdout.readline().strip()
    seen: queue.Queue[Numbered] = queue.Queue()
    ended = threading.Event()
    view = follow(home, owner, "c", seen.put)
    assert view is not None
    assert seen.get(timeout=PATIENCE).event == TurnStarted("s", "t", 4)
    assert seen.get(timeout=PATIENCE).event == TextStreamed("Once ")
    for piece in ("upon\n", "a time\n"):
        child.stdin.write(piece)
        assert seen.get(timeout=PATIENCE).event == TextStreamed(piece)
    child.kill()
    child.wait(PATIENCE)
    # Its end is the end of what is seen, not an error.
    threading.Thread(target=lambda: (list(view), ended.set())).start()
    assert ended.wait(PATIENCE)
    child.stdin.close()
    child.stdout.close()


def test_after_a_fork_the_child_listens_for_itself(home: Path) -> None:
    code = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from agent.events import Noticed
        from conversation.relay import View
        from conversation.watching import open_log
        from hermes_base.process import this_process

        open_log(Path(sys.argv[1]), "c")
        if os.fork() == 0:
            watch = open_log(Path(sys.argv[1]), "c").publish
            view = View(Path(sys.argv[1]), this_process(), "c")
            watch(Noticed("from the child"))
            os._exit(0 if next(iter(view)).event == Noticed("from the child") else 1)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
        """
    )
    assert subprocess.run([sys.executable, "-c", code, str(home)], timeout=PATIENCE).returncode == 0


def test_a_home_that_cannot_be_written_costs_no_turn(home: Path, logs: Logs) -> None:
    home.parent.mkdir(parents=True)
    home.write_text("not a folder")
    relay = Relay(home, logs)
    relay.listen()
    relay.listen()
    assert relay._listener is None


def test_a_process_that_ends_takes_its_socket_along(home: Path) -> None:
    code = textwrap.dedent(
        """
        import os, sys
        from pathlib import Path
        from conversation.watching import open_log

        open_log(Path(sys.argv[1]), "c")
        if os.fork() == 0:
            sys.exit(0)  # it has a copy of the listening socket, and leaves it alone
        os.wait()
        print(len(list(Path(sys.argv[1], "run", "events").iterdir())))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(home)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert not list((home / FOLDER).iterdir())
