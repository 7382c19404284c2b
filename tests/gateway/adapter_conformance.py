"""`gateway.conformance`, with gateways that are forked where everything is imported already."""

from __future__ import annotations

import os
import zlib
from typing import Any

import pytest

from gateway import conformance
from gateway.conformance import Clock, Place, running, serving, until
from gateway.conformance.kill_checks import CHILD, POINTS

from .. import forked

__all__ = ["AdapterConformance", "Clock", "Place", "running", "serving", "until"]


FULL = os.environ.get("HERMES_TEST_CONFORMANCE") == "full"


class AdapterConformance(conformance.AdapterConformance):
    """The checks: in `make test` with fewer chats, and each platform killed at two of the points,
    so that together they die at all; `HERMES_TEST_CONFORMANCE=full` has all of both."""

    most_chats = 100 if FULL else 30

    @pytest.fixture(autouse=True)
    def choose_points(self, place: Place) -> None:
        """The same two in each run."""
        first = zlib.crc32(place.adapter.platform.value.encode()) % 3
        self.points = POINTS if FULL else POINTS[first::3]

    async def start_gateway(self, *arguments: str) -> Any:
        """Start a gateway that can be killed."""
        return await forked.start(CHILD, *arguments, environ={**os.environ})
