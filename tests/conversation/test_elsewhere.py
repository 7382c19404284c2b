"""A turn on another machine, which shares only the database: stopped, told, watched from here."""

from __future__ import annotations

import queue
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent import elsewhere
from agent.elsewhere import NotHeardError, steer_elsewhere, stop_elsewhere
from agent.events import TextStreamed, TurnFinished
from conversation.events import Numbered
from conversation.watching import follow_turn
from hermes_state import SessionDB

from .. import postgres
from ..state.raw import query
from .distant_child import SESSION

SECONDS = 60.0


class Far:
    """Another machine, with a turn that waits for lines."""

    def __init__(self, folder: Path, hearing: str, pieces: int) -> None:
        self.address = postgres.database_for(folder / "state.db")
        self.db = SessionDB(folder / "near" / "state.db", server=self.address)
        home = folder / "far"
        home.mkdir()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.conversation.distant_child", str(home), self.address,
             str(pieces), hearing],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.until(lambda: (self.db.get_turn(SESSION) or {}).get("state") == "running")

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something."""
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stream(self) -> None:
        """Have the next piece streamed."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def ended(self) -> str:
        """How the turn has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rows(self, table: str) -> int:
        return int(query(self.db, f"SELECT COUNT(*) FROM {table}")[0][0])


@pytest.fixture(params=["hearing", "deaf"])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    there = Far(tmp_path, request.param, 3)
    yield there
    there.process.kill()
    there.process.communicate()
    there.db.close()
    postgres.forget_database(tmp_path / "state.db")


def test_a_stop_reaches_the_turn_and_whoever_asked_is_told(far: Far) -> None:
    assert stop_elsewhere(far.db, SESSION)
    assert far.ended() == "interrupted"
    assert not stop_elsewhere(far.db, SESSION)
    assert far.rows("signals") == 0


def test_a_turn_that_does_not_hear_is_said_not_to(
    far: Far, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(elsewhere, "STOP", "of another time")
    monkeypatch.setattr(elsewhere, "ANSWER_SECONDS", 0.0)
    with pytest.raises(NotHeardError):
        stop_elsewhere(far.db, SESSION)
    assert far.rows("signals") == 0


def test_a_message_for_the_turn_is_taken_and_waits_until_it_is_read(far: Far) -> None:
    far.db.accept_message("m", SESSION, "Be brief", source="tui")
    assert steer_elsewhere(far.db, SESSION, "Be brief", "m")
    far.until(lambda: not far.rows("signals"))
    assert [row["id"] for row in far.db.list_waiting(SESSION)] == ["m"]  # until it is read


def test_what_streams_there_is_seen_here_and_stored_only_while_it_is(
    far: Far, tmp_path: Path
) -> None:
    far.stream()
    turn = far.db.get_turn(SESSION)
    assert turn is not None
    assert far.rows("watched_events") == far.rows("watches") == 0  # nobody watches
    shown: queue.Queue[Numbered] = queue.Queue()
    view = follow_turn(far.db, tmp_path / "near", turn, shown.put)
    assert view is not None
    text = ""
    while "piece 0. " not in text:
        event = shown.get(timeout=SECONDS).event
        text += event.text if isinstance(event, TextStreamed) else ""
    far.stream()
    while "piece 1. " not in text:
        event = shown.get(timeout=SECONDS).event
        text += event.text if isinstance(event, TextStreamed) else ""
    far.stream()
    while True:
        numbered = shown.get(timeout=SECONDS)
        if isinstance(numbered.event, TurnFinished):
            break
        text += numbered.event.text if isinstance(numbered.event, TextStreamed) else ""
    assert text == "piece 0. piece 1. piece 2. "
    assert numbered.event.text.strip() == text.strip()
    view.close()
    far.until(lambda: not far.rows("watches"))
    far.until(lambda: not far.rows("watched_events"))  # they go with the turn
