"""Ports for servers that must know theirs before they listen."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """A port that nobody listens on, and that no outgoing connection is given meanwhile.

    The system takes those from 32768 on (from 49152 elsewhere).
    """
    while True:
        port = random.SystemRandom().randrange(20_000, 32_768)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
