"""Deliveries: an answer that was being sent when the gateway was killed is shown, or told about.

The gateway is killed right before, while and after its platform is told, and so is the next one,
among its first writes. The one after that leaves a chat that shows the answer once, or reads that
it may be missing.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from .adapter import Death
from .implementations.gateway import Gateway


def test_an_answer_on_its_way_is_not_lost_silently(tmp_path: Path) -> None:
    gateway = Gateway()
    homes = (tmp_path / f"sending-{number}" for number in itertools.count())

    def new_home() -> Path:
        home = next(homes)
        home.mkdir()
        gateway.begin(home)
        return home

    home = new_home()
    gateway.talk(home, ["p1"])
    last = gateway.writes(home)
    assert gateway.faults(home) == []
    # The last two writes of a turn: its platform is about to be told; it was told.
    for first in (Death("before", last - 1), Death("after", last - 1), Death("before", last)):
        for second in range(1, 4):
            home = new_home()
            gateway.talk(home, ["p1"], first)
            gateway.recover(home, Death("after", second))
            gateway.recover(home)
            assert gateway.faults(home) == [], f"{first}, then after:{second}"
