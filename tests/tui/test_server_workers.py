"""Requests that take long run beside each other, and a flood of them is slowed down."""

from __future__ import annotations

import json
import queue
import threading

import pytest

from tui_gateway import rpc, server, workers
from tui_gateway.peers import Peer
from tui_gateway.workers import Lanes, Workers


def test_as_many_run_at_once_as_there_are_threads() -> None:
    pool = Workers(3)
    all_there, done = threading.Barrier(3), threading.Semaphore(0)

    def job() -> None:
        all_there.wait(60)  # passed only if three are here at once
        done.release()

    for _ in range(9):
        pool.run(job)
    assert all(done.acquire(timeout=60) for _ in range(9))


def test_a_flood_waits_instead_of_piling_up() -> None:
    pool = Workers(1)
    go_on, busy = threading.Event(), threading.Event()
    done: list[int] = []

    def first() -> None:
        busy.set()
        go_on.wait(60)

    pool.run(first)
    assert busy.wait(60)
    flooded = threading.Event()

    def flood() -> None:
        for number in range(workers.WAITING + 1):
            pool.run(lambda number=number: done.append(number))  # type: ignore[misc]
        flooded.set()

    flooding = threading.Thread(target=flood, daemon=True)
    flooding.start()
    assert not flooded.wait(0.2), "the last one found no place"
    go_on.set()
    assert flooded.wait(60)
    finished = threading.Event()
    pool.run(finished.set)
    assert finished.wait(60)
    assert done == list(range(workers.WAITING + 1))


def test_jobs_of_a_name_keep_their_order_and_hold_up_no_other() -> None:
    lanes = Lanes()
    go_on, done = threading.Event(), threading.Semaphore(0)
    order: list[int] = []

    def wait() -> None:
        go_on.wait(60)
        order.append(0)

    lanes.run("a", wait)
    for number in (1, 2, 3):
        lanes.run("a", lambda number=number: order.append(number))  # type: ignore[misc]
    lanes.run("b", done.release)
    assert done.acquire(timeout=60), "another name does not wait"
    assert order == [] and not lanes.drain(0.0)
    go_on.set()
    assert lanes.drain(60)
    assert order == [0, 1, 2, 3]
    lanes.run("a", done.release)
    assert done.acquire(timeout=60) and lanes.drain(60), "a name may come again"


def _asked(method: str, number: int, **params: object) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@pytest.mark.parametrize("is_on_server", [True, False])
def test_a_request_that_waits_for_a_server_holds_up_its_own_session_alone(
    monkeypatch: pytest.MonkeyPatch, is_on_server: bool
) -> None:
    go_on = threading.Event()
    answers: queue.Queue[int] = queue.Queue()
    peer = Peer(lambda line: answers.put(json.loads(line)["id"]), "client")

    def wait(call: rpc.Call, session_id: str = "") -> dict[str, object]:
        return {"went_on": go_on.wait(60 if is_on_server else 0)}

    def quick(call: rpc.Call, session_id: str = "") -> dict[str, object]:
        return {}

    server._load_methods()
    monkeypatch.setitem(rpc.METHODS, "test.wait", rpc.Method("test.wait", wait, False))
    monkeypatch.setitem(rpc.METHODS, "test.quick", rpc.Method("test.quick", quick, False))
    monkeypatch.setattr(server, "_is_on_server", lambda: is_on_server)
    frames = [
        _asked("test.wait", 1, session_id="a"),
        _asked("test.quick", 2, session_id="b"),
        _asked("test.quick", 3),
        _asked("test.quick", 4, session_id="a"),
    ]
    for frame in frames:
        server.dispatch(frame, peer)
    if is_on_server:
        assert {answers.get(timeout=60), answers.get(timeout=60)} == {2, 3}
        go_on.set()
        server.drain(60)
        assert [answers.get(timeout=60), answers.get(timeout=60)] == [1, 4]
    else:
        assert [answers.get(timeout=60) for _ in frames] == [1, 2, 3, 4]
    peer.close()


def test_where_the_store_is_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_db", None)
    monkeypatch.delenv("HERMES_STORE", raising=False)
    assert not server._is_on_server()
    monkeypatch.setenv("HERMES_STORE", "postgresql://me@db.example.org/hermes")
    assert server._is_on_server()
    monkeypatch.setattr(server, "_db", object())
    assert not server._is_on_server(), "what stands in for a store"


def test_a_frame_says_its_session() -> None:
    assert rpc.session_of(_asked("x", 1, session_id="a")) == "a"
    for frame in (None, [], {}, {"params": []}, {"params": {"session_id": 1}}):
        assert rpc.session_of(frame) == ""
