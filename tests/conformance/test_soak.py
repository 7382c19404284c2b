"""The soak in short: see `soak.py`, and `make soak` for the long one."""

from __future__ import annotations

from .soak import soak


def test_a_gateway_that_is_killed_all_the_time_answers_everything_once() -> None:
    found = soak(chats=5, seconds=9.0, every=3.0, seed=1, pause=0.1, limit=20, least=5)
    assert found["violations"] == []
    assert found["kills"] >= 1  # three, where a gateway starts quickly
    assert found["accepted"] >= 5
    assert found["compressions"] >= 1, "compressions are part of it"
