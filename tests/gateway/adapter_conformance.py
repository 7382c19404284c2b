"""`gateway.conformance`, with gateways that are forked where everything is imported already."""

from __future__ import annotations

import os
from typing import Any

from gateway import conformance
from gateway.conformance import Clock, Place, running, serving, until
from gateway.conformance.kill_checks import CHILD

from .. import forked

__all__ = ["AdapterConformance", "Clock", "Place", "running", "serving", "until"]


class AdapterConformance(conformance.AdapterConformance):
    """The checks."""

    async def start_gateway(self, *arguments: str) -> Any:
        """Start a gateway that can be killed."""
        return await forked.start(CHILD, *arguments, environ={**os.environ})
