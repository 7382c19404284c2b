"""What the implementations here share: they all keep their conversation in one store."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hermes_state import SessionDB
from hermes_state.history import OUTCOME_UNKNOWN
from hermes_state.turn_log import CUT_OFF as STORED_CUT_OFF
from hermes_state.turn_log import NOT_STARTED

from ..adapter import ATTEMPTS
from ..script import CUT_OFF, NOT_RUN, UNKNOWN, Message, answer, name_of

_MARKS = {OUTCOME_UNKNOWN: UNKNOWN, STORED_CUT_OFF: CUT_OFF, NOT_STARTED: NOT_RUN}
INBOX_ID = "conformance:1"
LONG_TALK = 40
RACE = "race"
"""The prompt whose turn or message several processes want."""


@contextlib.contextmanager
def store(home: Path) -> Iterator[SessionDB]:
    """The store of a home; that it opens undamaged is part of every look."""
    with SessionDB(home / "state.db") as db:
        assert db.salvage_report is None, "the store had to be salvaged"
        yield db


def conversation(home: Path) -> str | None:
    """The session that the conversation began with, once that is known."""
    file = home / "conversation"
    return file.read_text() if file.exists() else None


def remember_conversation(home: Path, session_id: str) -> None:
    """Write it down beside the store."""
    (home / "conversation").write_text(session_id)


def normal(row: dict[str, Any]) -> Message:
    """A stored message as the suite compares it."""
    text = str(row["content"] or "")
    calls = []
    for one in row.get("tool_calls") or ():
        function = one["function"]
        calls.append(f"{function['name']}:{json.loads(function['arguments'])['mark']}")
    if row["role"] == "user":
        text = name_of(text)
    return Message(row["role"], _MARKS.get(text, text), tuple(calls))


class StoreLook:
    """Looks at what a process left behind."""

    def conversation(self, home: Path) -> str | None:
        """The session the conversation began with."""
        return conversation(home)

    def writes(self, home: Path) -> int:
        """How many writes the last process in this home began."""
        file = home / "writes"
        return file.stat().st_size if file.exists() else 0

    def reached(self, home: Path) -> bool:
        """Whether the last process in this home that was given a named point died there."""
        return (home / "reached").exists()

    def history(self, home: Path) -> list[Message]:
        """The conversation as it is stored."""
        key = self.conversation(home)
        with store(home) as db:
            if key is None or db.get_session(key) is None:
                return []
            return [normal(one) for one in db.get_messages(db.get_compression_tip(key))]

    def waiting(self, home: Path) -> list[str]:
        """The prompts that were accepted and not begun with."""
        with store(home) as db:
            return [name_of(str(one["content"])) for one in db.list_waiting()]

    def faults(self, home: Path) -> list[str]:
        """What the store's own check finds, and more than one conversation."""
        with store(home) as db:
            found = [f"{one.rule}: {one.problem}" for one in db.check_store()]
            loose = self._select(db, "SELECT id FROM sessions WHERE parent_session_id IS NULL")
        return found + ([f"conversations: {loose}"] if len(loose) > 1 else [])

    def forks(self, home: Path) -> list[list[Message]]:
        """The histories of all branches, oldest first."""
        with store(home) as db:
            ids = self._select(
                db,
                "SELECT id FROM sessions WHERE parent_session_id IS NOT NULL"
                " AND continuation_of IS NULL ORDER BY started_at, id",
            )
            return [[normal(one) for one in db.get_messages(session_id)] for session_id in ids]

    def fill(self, home: Path) -> None:
        """Make the conversation long enough to be worth compressing."""
        key = conversation(home)
        assert key is not None
        with store(home) as db:
            for number in range(LONG_TALK):
                db.append_message(key, "user", f"w{number} " + "apple pear " * 60)
                db.append_message(key, "assistant", f"a{number} " + "plum cherry " * 60)

    def count_taken(self, home: Path, subject: str) -> int:
        """How often the store says that something was taken."""
        key = self.conversation(home)
        with store(home) as db:
            if subject == "turn":
                told = [one["content"] for one in db.get_messages(str(key))]
                turn = db.get_turn(str(key)) or {"attempts": 0}
                # The last racers are killed too, and one of them may have begun to go on with it.
                closed = told[-1] == STORED_CUT_OFF and turn["attempts"] > ATTEMPTS
                return told.count(answer(RACE)) + closed + 100 * len(db.list_abandoned_turns())
            if subject == "inbox":
                history = [normal(one) for one in db.get_messages(str(key))]
                return history.count(Message("user", RACE)) + 100 * len(db.list_waiting())
            if subject == "approval":
                return len(self._select(db, "SELECT id FROM approvals WHERE state <> 'pending'"))
            sessions = "SELECT continuation_of FROM sessions WHERE continuation_of IS NOT NULL"
            return self._select(db, sessions).count(key)

    def ask_leave(self, home: Path) -> tuple[str, str]:
        """A pending approval: its id and its token."""
        with store(home) as db:
            asked = db.create_approval(
                session_id=str(conversation(home)),
                command="rm -r x",
                description="deletes",
                pattern_keys=["rm"],
            )
            return asked.id, asked.token

    @staticmethod
    def _select(db: SessionDB, sql: str) -> list[Any]:
        return db._execute_write(lambda conn: [one for (one,) in conn.execute(sql)])
