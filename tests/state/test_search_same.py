"""The same store in a file and on a server: every search finds the same, in the same order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import hermes_state.db
from hermes_state import SessionDB
from hermes_state.open_store import open_store

pytestmark = pytest.mark.parametrize("database", ["postgres"], indirect=True)

WORDS = [
    "the", "of", "and", "deploy", "deployed", "redeploy", "error", "err", "garden", "tulip",
    "naïve", "Größe", "foo_bar.py", "漢字", "数据库", "한국어", "3f9ab12c", "kitchen", "plan",
]  # fmt: skip
SOURCES = ("cli", "telegram", "cron")
PEOPLE = (None, "ann", "bob")
ROLES = ("user", "assistant", "tool")


@pytest.fixture
def stores(
    db: SessionDB, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SessionDB, SessionDB]]:
    """One in a file and one on a server."""
    with monkeypatch.context() as patch:
        patch.setattr(hermes_state.db, "open_store", open_store)
        file = SessionDB(tmp_path / "file" / "state.db")
    assert db.is_on_server and not file.is_on_server
    yield file, db
    file.close()


class Drawn:
    """Draws what is done to both stores, and what is asked of them."""

    def __init__(self, stores: tuple[SessionDB, SessionDB], seed: int) -> None:
        self._stores = stores
        self._random = Random(seed)
        self._clock = 1_700_000_000.0
        self._sessions: list[str] = []
        self._count = 0

    def both(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of both, which must return the same."""
        one, other = (getattr(store, name)(*args, **kwargs) for store in self._stores)
        assert one == other, name
        return one

    def text(self) -> str:
        return " ".join(self._random.choices(WORDS, k=self._random.randrange(1, 14)))

    def session(self) -> str:
        return self._random.choice(self._sessions)

    def begin(self) -> None:
        self._clock += 100
        self._count += 1
        session_id = f"s{self._count}"
        self.both(
            "create_session", session_id, self._random.choice(SOURCES), started_at=self._clock,
            user_id=self._random.choice(PEOPLE), model="m",
        )  # fmt: skip
        self._sessions.append(session_id)

    def append(self) -> None:
        self._clock += self._random.choice((1, 60, -500))
        role = self._random.choice(ROLES)
        text: Any = self.text()
        options: dict[str, Any] = {}
        if role == "assistant" and self._random.random() < 0.3:
            arguments = f'{{"path": "{self.text()}"}}'
            options["tool_calls"] = [
                {"id": "1", "function": {"name": "write_file", "arguments": arguments}}
            ]
        elif role == "tool":
            options["tool_name"] = "terminal"
        elif self._random.random() < 0.2:
            text = [{"type": "text", "text": text}, {"type": "text", "text": "\0 \ue000 end"}]
        self.both("append_message", self.session(), role, text, timestamp=self._clock, **options)

    def rename(self) -> None:
        self._count += 1
        self.both("set_session_title", self.session(), f"{self.text()[:60]} {self._count}")

    def compact(self) -> None:
        self._clock += 1
        summary = {"role": "user", "content": self.text(), "timestamp": self._clock}
        self.both("archive_and_compact", self.session(), [summary])

    def rewind(self) -> None:
        session_id = self.session()
        asked = [
            row["id"] for row in self._stores[0].get_messages(session_id) if row["role"] == "user"
        ]
        if asked:
            target = self._random.choice(asked)
            for store in self._stores:
                store.rewind_to_message(session_id, target)

    def branch(self) -> None:
        self._count += 1
        parent, new = self.session(), f"b{self._count}"
        for store in self._stores:
            store.branch_session(parent, new)
        self._sessions.append(new)

    def replace(self) -> None:
        self._clock += 1
        message = {"role": "user", "content": self.text(), "timestamp": self._clock}
        self.both("replace_messages", self.session(), [message])

    def delete(self) -> None:
        if len(self._sessions) > 6:
            gone = self._sessions.pop(self._random.randrange(1, len(self._sessions)))
            self.both("delete_session", gone)
            left = {row["id"] for row in self._stores[0].search_sessions(limit=1000)}
            self._sessions = [one for one in self._sessions if one in left]

    def change(self) -> None:
        """Do one thing to both."""
        rare = (self.begin, self.rename, self.compact, self.rewind, self.branch, self.replace,
                self.delete)  # fmt: skip
        self._random.choices((self.append, *rare), (60, 3, 6, 2, 3, 1, 1, 2))[0]()

    def query(self) -> str:
        one, other = self._random.choices(WORDS, k=2)
        return self._random.choice(
            (one, f"{one} {other}", f'"{one} {other}"', f"{one} OR {other}", f"{one} -{other}",
             f"{one[:3]}*", one[1:-1] or one, "write_file", "terminal", self.text(), "end",
             f"what did we say about {one} and {other}?", f"when was the {one} {other}")
        )  # fmt: skip

    def options(self) -> dict[str, Any]:
        random = self._random
        since = 1_700_000_000.0 + random.randrange(3000)
        drawn = {
            "source_filter": [random.choice(SOURCES)],
            "exclude_sources": [random.choice(SOURCES)],
            "role_filter": [random.choice(ROLES)],
            "user_id": random.choice(("ann", "bob", "eve")),
            "session_id": self.session(),
            "conversation_id": self.session(),
            "since": since,
            "until": since + 2000,
            "sort": random.choice(("newest", "oldest")),
            "include_inactive": True,
            "one_per_conversation": True,
            "limit": random.choice((1, 3, 50, 500)),
            "offset": random.choice((1, 5)),
        }
        return {
            name: drawn[name] for name in random.sample(sorted(drawn), random.choice((0, 1, 2)))
        }

    def compare(self) -> int:
        """Ask both the same; returns how many hits there were."""
        query, options = self.query(), self.options()
        one, other = (_hits(store, query, options) for store in self._stores)
        assert one == other, (query, options)
        return len(one)


def _hits(store: SessionDB, query: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    hits = store.search_messages(query, **options)
    for hit in hits:
        if hit["session_id"].startswith("b"):  # a branch begins when it is made
            del hit["session_started"]
            if hit["match"] == "title":
                del hit["timestamp"]
    return hits


@pytest.mark.parametrize("seed", [1, 2])
def test_both_find_the_same(stores: tuple[SessionDB, SessionDB], seed: int) -> None:
    drawn = Drawn(stores, seed)
    for _ in range(5):
        drawn.begin()
    hits = 0
    for number in range(400):
        drawn.change()
        if number % 3 == 0:
            hits += drawn.compare()
    for store in stores:
        store.rebuild_fts()
    for _ in range(80):
        hits += drawn.compare()
    assert hits > 500
