"""Thousands of frames that make no sense, to one server process that goes on serving."""

from __future__ import annotations

import itertools
import json
import os
import queue
import random
import subprocess
import sys
import threading
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tui_gateway import methods, rpc
from tui_gateway.transport import MAX_LINE

from .. import seeds

BATCHES, LINES = seeds.times(20, 100), 1_000
VALID_PER_BATCH = 10
NO_SUCH_SESSION = "deadbeef"


class Server:
    """A server on pipes; what it says is read all the time, so that it never waits for us."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tui_gateway.entry"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "HERMES_HOME": str(home)},
            cwd=home,
        )
        self.answers: dict[Any, list[dict[str, Any]]] = {}
        self.complaints = 0
        self._marks: queue.Queue[Any] = queue.Queue()
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            # Standard output carries frames and nothing else.
            frame = json.loads(line, parse_constant=pytest.fail)
            if "method" in frame:
                continue
            assert set(frame) == {"jsonrpc", "id"} | set(frame) & {"result", "error"}
            if frame["id"] is None:
                self.complaints += 1
            elif isinstance(frame["id"], str) and frame["id"].startswith("mark"):
                self._marks.put(frame["id"])
            else:
                with self._changed:
                    self.answers.setdefault(frame["id"], []).append(frame)
                    self._changed.notify_all()
        self._marks.put(None)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def reach(self, mark: str) -> None:
        """Have everything before answered: a request at the end of it gets its answer."""
        self.write(request(mark, "session.active_list"))
        assert self._marks.get(timeout=60) == mark, "the server has stopped"

    def take(self, ids: Collection[Any]) -> dict[Any, dict[str, Any]]:
        """The answers to some requests, one each; slow methods give theirs later than others."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.answers.keys() >= set(ids), 60)
            taken = {one: self.answers.pop(one) for one in ids}
        assert all(len(given) == 1 for given in taken.values())
        return {one: given[0] for one, given in taken.items()}


def request(request_id: Any, method: Any, params: Any = None) -> bytes:
    frame = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
    return json.dumps(frame).encode() + b"\n"


methods.load_rest()
NAMES = sorted(rpc.METHODS)
WRONG: tuple[Any, ...] = ([], {}, 1.5, -1, 10**30, True, "x" * 300, [None], {"a": {}}, "\ud800")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
frames = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | values,
        "id": values,
        "method": st.sampled_from(["session.list", "session.close", "clarify.respond"]) | values,
        "params": values,
    },
)


def misfit(chance: random.Random) -> tuple[bytes, int, int]:
    """A call of some method with a parameter of a wrong type: the line, its id, the error due."""
    found = rpc.METHODS[chance.choice(NAMES)]
    number = chance.randrange(10**6, 10**12)
    wrong = [
        (name, value)
        for name, (kind, _) in rpc.parameters(found.run).items()
        for value in WRONG
        if not rpc._fits(value, kind)
    ]
    if not wrong:
        return request(number, found.name, chance.choice([[1], "x", 7])), number, -32602
    name, value = chance.choice(wrong)
    return request(number, found.name, {name: value}), number, -32602


def stray(chance: random.Random) -> tuple[bytes, int, int]:
    """A call of some method for a session that does not exist."""
    number = chance.randrange(10**6, 10**12)
    name = chance.choice(SESSION_METHODS)
    params = {"session_id": NO_SUCH_SESSION}
    for parameter, (kind, required) in rpc.parameters(rpc.METHODS[name].run).items():
        if required and parameter != "session_id":
            params[parameter] = chance.choice([v for v in (*WRONG, "x") if rpc._fits(v, kind)])
    return request(number, name, params), number, rpc.SESSION_NOT_FOUND


SESSION_METHODS = ["prompt.submit", "session.steer", "session.interrupt", "session.activate"]


def noise(chance: random.Random, drawn: list[bytes]) -> bytes:
    """A line, or several, that is no request."""
    kind = chance.randrange(6)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 200)) + b"\n"
    if kind == 1:
        return b"[" * chance.choice((10, 100_000 if chance.random() < 0.01 else 50)) + b"\n"
    if kind == 2:
        return chance.choice((b"", b"   ", b"\r", b"null", b"[]", b"1e999", b"NaN", b"{}")) + b"\n"
    line = bytearray(chance.choice(drawn))
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(line))
        if chance.random() < 0.5:
            line[place : place + chance.randrange(5)] = chance.randbytes(chance.randrange(3))
        else:
            line = line[:place] + line[place // 2 :]
        line = line or bytearray(b"{")
    return bytes(line) + b"\n"


@pytest.mark.fuzz
def test_thousands_of_senseless_frames(tmp_path: Path) -> None:
    server = Server(tmp_path)
    marks = (f"mark{number}" for number in itertools.count())
    ids = itertools.count()
    sent = 0
    server.write(request("mine", "session.create", {"title": "Mine"}))
    mine = server.take(["mine"])["mine"]["result"]

    @settings(
        max_examples=BATCHES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.lists(frames, min_size=5, max_size=20), st.integers(0, 2**32))
    def batch(drawn: list[dict[str, Any]], seed: int) -> None:
        nonlocal sent
        chance = random.Random(seed)
        lines = [json.dumps(one).encode() for one in drawn]
        due: dict[int, int] = {}
        valid = []
        data = []
        for number in range(LINES):
            if number % (LINES // VALID_PER_BATCH) == 0:
                valid.append(f"valid{next(ids)}")
                data.append(
                    request(valid[-1], "session.activate", {"session_id": mine["session_id"]})
                )
            elif number % 3 == 0:
                line, request_id, code = chance.choice((misfit, stray))(chance)
                due[request_id] = code
                data.append(line)
            else:
                data.append(noise(chance, lines))
        whole = b"".join(data)
        half = chance.randrange(len(whole))  # nearly always in the middle of a line
        server.write(whole[:half])
        server.write(whole[half:])
        server.reach(next(marks))
        sent += LINES
        for answer in server.take(valid).values():
            assert answer["result"]["session_key"] == mine["session_key"]
            assert answer["result"]["info"]["title"] == "Mine"
        for number, answer in server.take(due).items():
            assert answer["error"]["code"] == due[number], answer
            assert answer["error"]["message"]

    batch()
    assert sent >= BATCHES * LINES
    assert server.complaints > sent // 10
    for size in (1_000_000, MAX_LINE + 1, MAX_LINE - 100):
        complaints = server.complaints
        server.write(b'{"id": 1, "method": "' + b"x" * size)
        server.write(b"\n")
        server.reach(next(marks))
        assert server.complaints == complaints + 1
    server.write(b'{"jsonrpc":"2.0","id":"half')
    assert server.process.stdin is not None
    server.process.stdin.close()
    assert server.process.wait(30) == 0
