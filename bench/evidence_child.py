"""hermes-agent's search in a process of its own: `python -m bench.evidence_child SEED`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.lines import answer_lines


class Worker:
    """What the measuring side may ask for."""

    def __init__(self) -> None:
        from hermes_state import SessionDB

        self._folder = tempfile.TemporaryDirectory()
        self._db: Any = SessionDB(db_path=Path(self._folder.name) / "state.db")

    def fill(self, sessions: dict[str, list[list[str]]]) -> dict[str, Any]:
        """Store conversations (role and text of each turn); returns the ids of their messages."""
        ids = {}
        for name, turns in sessions.items():
            self._db.create_session(name, "bench")
            ids[name] = [
                self._db.append_message(name, role=role, content=text) for role, text in turns
            ]
        return {"ids": ids}

    def find(self, text: str, limit: int) -> dict[str, Any]:
        """The ids of what is found."""
        hits = self._db.search_messages(text, limit=limit)
        return {"ids": [hit["id"] for hit in hits]}


if __name__ == "__main__":
    answer_lines(Worker())
