"""A terminal that goes away ends the interface, also where no signal is sent.

Without its terminal the interface can neither show nor read anything, and what it writes may block
it for good: it is asked to leave, and ended if it does not. The server sees its pipe end, and ends
the session as it does for every front end that is gone.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable

HUNG_UP = 129
PATIENCE_SECONDS = 3.0
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


def watch(leave: Callable[[], object], file: int = 0) -> None:
    """Call `leave` when the terminal at `file` is gone; end the process if that does not help."""

    def wait() -> None:
        poll = select.poll()
        poll.register(file, 0)  # nothing but the end of it
        while not any(events & GONE for _, events in poll.poll()):
            pass
        leave()
        threading.Event().wait(PATIENCE_SECONDS)
        os._exit(HUNG_UP)

    threading.Thread(target=wait, name="hermes-hangup", daemon=True).start()
