"""A gateway on a machine of its own: a home, and a store that it shares.

Arguments: the home, and "deaf" if it is to hear no notification.
"""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

from gateway.process import run_gateway

from ..conversation.distant_child import swallow_notifications

_DIE_WITH_PARENT = 1


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if sys.argv[2] == "deaf":
        swallow_notifications()
    run_gateway(Path(sys.argv[1]))
