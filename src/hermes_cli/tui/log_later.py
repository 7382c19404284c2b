"""The log of the interface: its file is opened with the first record."""

from __future__ import annotations

import logging
from pathlib import Path


class LogLater(logging.Handler):
    """Stands in until then, so that a start need not wait and no line reaches the screen."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home

    @classmethod
    def install(cls, home: Path) -> None:
        """Take every record of this process."""
        root = logging.getLogger()
        root.addHandler(cls(home))
        root.setLevel(logging.INFO)

    def emit(self, record: logging.LogRecord) -> None:
        """Open the log."""
        from agent.logs import setup_logging

        root = logging.getLogger()
        root.removeHandler(self)
        setup_logging(self._home)
        root.handle(record)
