"""A turn on another machine, which shares only the database: stopped, told, watched from here."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import elsewhere
from agent.elsewhere import NotHeardError, steer_elsewhere, stop_elsewhere
from agent.events import TextStreamed, TurnFinished
from conversation.events import Numbered
from conversation.watching import follow_turn

from .. import postgres
from .distant_child import SESSION
from .far import SECONDS, Far


@pytest.fixture(params=["hearing", "deaf"])
def far(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Far]:
    there = Far(tmp_path, request.param)
    yield there
    there.close()
    postgres.forget_database(tmp_path / "state.db")


def test_a_stop_reaches_the_turn_and_whoever_asked_is_told(far: Far) -> None:
    assert stop_elsewhere(far.db, SESSION)
    assert far.printed().startswith("interrupted")
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


@pytest.mark.parametrize("hearing", ["hearing", "deaf"])
def test_a_message_is_read_between_two_steps_of_the_turn(tmp_path: Path, hearing: str) -> None:
    far = Far(tmp_path, hearing, "echo")
    try:
        far.db.accept_message("m", SESSION, "Be brief", source="tui")
        assert steer_elsewhere(far.db, SESSION, "Be brief", "m", far.turn()["started_at"])
        assert far.printed() == "given Be brief"
        far.go_on()  # the tool ends
        far.until(lambda: not far.db.list_waiting(SESSION))  # it was read, and the turn goes on
        assert far.turn()["state"] == "running"
        far.go_on()
        assert far.printed() == "complete re: Be brief"
        # For a turn that has ended it is too late: the message waits for the next.
        far.db.accept_message("late", SESSION, "And now?", source="tui")
        assert not steer_elsewhere(far.db, SESSION, "And now?", "late", far.turn()["started_at"])
        assert [row["id"] for row in far.db.list_waiting(SESSION)] == ["late"]
        assert not stop_elsewhere(far.db, SESSION, far.turn()["started_at"])
    finally:
        far.close()
        postgres.forget_database(tmp_path / "state.db")


def test_what_streams_there_is_seen_here_and_stored_only_while_it_is(
    far: Far, tmp_path: Path
) -> None:
    far.go_on()
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
    far.go_on()
    while "piece 1. " not in text:
        event = shown.get(timeout=SECONDS).event
        text += event.text if isinstance(event, TextStreamed) else ""
    far.go_on()
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
