"""`hermes chat` in a pseudo-terminal, and what it has shown."""

from __future__ import annotations

import codecs
import os
import pty
import select
import time

from .. import forked
from .conftest import Hermes

CTRL_C, CTRL_D = "\x03", "\x04"


class Terminal:
    """The program in a pseudo-terminal."""

    def __init__(self, hermes: Hermes, *arguments: str) -> None:
        self.master, slave = pty.openpty()
        self.process = forked.open_process(
            [*hermes.command, "chat", "--plain", *arguments],
            [slave] * 3,
            environ=hermes.environment,
            cwd=hermes.home,
            session=True,
            terminal=True,
        )
        os.close(slave)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self.seen = ""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.master, text.encode())

    def wait_for(self, text: str, times: int = 1) -> None:
        """Read until the screen has shown `text` so often."""
        deadline = time.monotonic() + 60
        while self.seen.count(text) < times:
            ready, _, _ = select.select([self.master], [], [], deadline - time.monotonic())
            assert ready, f"{text!r} did not appear; the screen shows:\n{self.seen}"
            try:
                piece = os.read(self.master, 65536)
            except OSError:  # Linux's end of file on a terminal
                piece = b""
            assert piece, f"the program ended before {text!r}:\n{self.seen}"
            self.seen += self._decoder.decode(piece)

    def kill(self) -> None:
        """End the program with no chance to say goodbye."""
        self.process.kill()
        self.process.wait(60)

    def exit_code(self) -> int:
        """Wait for the program to end."""
        return int(self.process.wait(60))

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
