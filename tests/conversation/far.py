"""Another machine, which shares only the database with this one, with a turn of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

from .. import postgres
from ..state.raw import query
from .distant_child import SESSION

SECONDS = 60.0


class Far:
    """Another machine, with a turn that waits for lines."""

    def __init__(
        self, folder: Path, hearing: str = "hearing", doing: str = "3", session_id: str = SESSION
    ) -> None:
        """`folder` is that of the store; see `distant_child` for the others."""
        self.address = postgres.database_for(folder / "state.db")
        self.db = SessionDB(folder / "near" / "state.db", server=self.address)
        self._session_id = session_id
        home = folder / "far"
        home.mkdir(exist_ok=True)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.conversation.distant_child", str(home), self.address,
             doing, hearing, session_id],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.until(lambda: self.turn().get("state") == "running")

    def turn(self) -> dict[str, Any]:
        """The conversation's turn."""
        row = self.db.get_session(self._session_id)
        return (row and self.db.get_turn(row["conversation_id"])) or {}

    def close(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.communicate()
        self.db.close()

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something."""
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def go_on(self) -> None:
        """Have it take the next step."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def printed(self) -> str:
        """The next thing that it prints: what the turn was given to read, or how it has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def rows(self, table: str) -> int:
        """How many rows a table has."""
        return int(query(self.db, f"SELECT COUNT(*) FROM {table}")[0][0])
