"""Four stores that must agree: a file kept open, one reopened after every step, a database of a
server, and a plain model."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hermes_state import SessionDB, SessionEndedError

from .. import postgres, seeds
from .memory import MEMORY
from .store_model import Message, Refused, Row, Session, StoreModel

MOST_SESSIONS = 9
SERVER = 2
"""Which of the stores is a server's."""
OFTEN = 3
"""After how many steps that is compared."""
SEARCHES = hasattr(SessionDB, "search_messages")
REFUSALS = (ValueError, SessionEndedError)

a_session = st.runner().flatmap(
    # Mostly the newest: that is where things happen.
    lambda run: st.sampled_from([*run.model.sessions, *[list(run.model.sessions)[-1]] * 3])
)
any_session = st.runner().flatmap(lambda run: st.sampled_from(list(run.model.sessions)))
a_place = st.integers(0, 40)
titles = st.sampled_from(["Plan", "Plan #2", "Plan #7", "Trip", " Pl\u200ban ", "", "#7"])
reasons = st.sampled_from(
    ["compression", "compression", "cli_close", "agent_close", "session_reset", "idle"]
)


def may_grow(run: StoreMachine) -> bool:
    return len(run.model.sessions) < MOST_SESSIONS


class StoreMachine(RuleBasedStateMachine):
    @initialize(delegates=st.integers(0, 1), rotations=st.integers(0, 3))
    def start(self, delegates: int, rotations: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="hermes-machine-", dir=MEMORY))
        self.model = StoreModel()
        self.paths = [self.folder / "open" / "state.db", self.folder / "reopened" / "state.db"]
        self.paths.append(self.folder / "server" / "state.db")
        self.databases = postgres.Stores()
        self.stores = [self.opened(number) for number in range(3)]
        self.steps = 0
        self.made = 0
        self.words: dict[str, int] = {}  # word → telling
        self.looked_for = 0
        self.gone: list[str] = []
        self.create("cli", "", "none")
        self.append_several("s001", 3)
        for _ in range(delegates):
            self.create("cli", "s001", "delegate")
        for _ in range(rotations):
            self.rotate(self.model.lineage("s001")[-1], keep=1, late=0)

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            for word in self.words:
                self.look_for(word)
            assert as_the_store_says(self.stores[SERVER]) == self.as_the_model_says()
        finally:
            for store in self.stores:
                store.close()
            self.databases.forget()
            shutil.rmtree(self.folder)

    def opened(self, number: int) -> SessionDB:
        """One of the stores, opened anew."""
        path = self.paths[number]
        return SessionDB(path, server=self.databases.address(path) if number == SERVER else None)

    # What every rule does

    def fresh(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made:03}"

    def everywhere(
        self,
        change: Callable[[SessionDB], Any],
        expected: Callable[[], Any],
        touched: str | None = None,
    ) -> None:
        """Make a change in every store and in the model; all must agree on the outcome."""
        try:
            wanted = expected()
            refused = False
        except Refused:
            wanted, refused = None, True
        for store in self.stores:
            try:
                outcome = change(store)
            except REFUSALS:
                assert refused, "the store refused what the model allows"
            else:
                assert not refused, "the store allows what the model refuses"
                assert outcome == wanted
        if touched in self.model.sessions:
            self.learn_ids(self.model.sessions[touched])

    def learn_ids(self, session: Session) -> None:
        ids = [row["id"] for row in self.stores[0].get_messages(session.id, include_inactive=True)]
        for row, message_id in zip(session.rows, ids, strict=True):
            row.id = message_id

    def message(self, role: str, kind: str = "text") -> Row:
        """A message that nobody wrote before, with a word planted in it."""
        self.made += 1
        word = f"w{self.made:05}x"
        message: Message = {"role": role, "content": f"say {word}", "timestamp": float(self.made)}
        if kind == "parts":
            message["content"] = [{"type": "text", "text": f"see {word}"}, {"type": "image_url"}]
        elif kind == "calls":
            message["content"] = ""
            call = {"name": "find", "arguments": json.dumps({"what": word})}
            message["tool_calls"] = [{"id": f"c{self.made}", "function": call}]
        row = self.model.new_row(message)
        self.words[word] = row.telling
        return row

    def summarised(
        self, session_id: str, keep: int, late: int
    ) -> tuple[list[Row], int, int | None]:
        """Rows for the new live view, how many a compressor gives of them, and what it had read.

        The last `late` messages came while it was at work.
        """
        live = self.model.sessions[session_id].live
        read = live[: max(0, len(live) - late)]
        missed = live[len(read) :]
        tail = read[max(0, len(read) - keep) :]
        given = [self.message("user"), *(self.model.new_row(row.message, row) for row in tail)]
        copies = [self.model.new_row(row.message, row) for row in missed]
        covers = (read[-1].id if read else 0) if missed else None
        return [*given, *copies], len(given), covers

    # Sessions

    @precondition(may_grow)
    @rule(
        source=st.sampled_from(["cli", "cli", "tool"]),
        parent=st.just("") | a_session,
        mark=st.sampled_from(["none", "branch", "delegate"]),
        again=st.booleans(),
    )
    def create(self, source: str, parent: str, mark: str, again: bool = False) -> None:
        # Somebody may still hold the id of a session that was deleted.
        new_id = self.gone.pop() if again and self.gone else self.fresh("s")
        facts: dict[str, Any] = {"parent_session_id": parent or None}
        marks = {}
        if parent and mark != "none":
            name = {"branch": "_branched_from", "delegate": "_delegate_from"}[mark]
            facts["model_config"] = {name: parent}
            marks = {{"branch": "branched_from", "delegate": "delegated_by"}[mark]: parent}
        self.everywhere(
            lambda db: db.create_session(new_id, source, **facts),
            lambda: self.model.create(new_id, source, parent=parent or None, **marks).id,
        )

    @rule(session_id=a_session, reason=reasons)
    def end(self, session_id: str, reason: str) -> None:
        self.everywhere(
            lambda db: db.end_session(session_id, reason),
            lambda: self.model.end(session_id, reason),
        )

    @rule(session_id=a_session, how=st.sampled_from(["reopen", "promote", "archive", "show"]))
    def change_state(self, session_id: str, how: str) -> None:
        if how == "reopen":
            self.everywhere(
                lambda db: db.reopen_session(session_id), lambda: self.model.reopen(session_id)
            )
        elif how == "promote":
            self.everywhere(
                lambda db: db.promote_to_session_reset(session_id),
                lambda: self.model.promote(session_id),
            )
        else:
            self.everywhere(
                lambda db: db.set_session_archived(session_id, how == "archive"),
                lambda: self.model.archive(session_id, how == "archive") or True,
            )

    @rule(session_id=a_session, title=titles)
    def set_title(self, session_id: str, title: str) -> None:
        cleaned = " ".join(title.replace("\u200b", "").split()) or None
        self.everywhere(
            lambda db: db.set_session_title(session_id, title),
            lambda: self.model.set_title(session_id, cleaned) or True,
        )

    # Messages

    @rule(
        session_id=a_session,
        role=st.sampled_from(["user", "user", "assistant", "tool"]),
        kind=st.sampled_from(["text", "text", "parts", "calls"]),
    )
    def append(self, session_id: str, role: str, kind: str) -> None:
        row = self.message(role, kind)
        rows = self.model.sessions[session_id].rows
        self.everywhere(
            lambda db: bool(db.append_message(session_id, **row.message)),
            lambda: rows.append(row) or True,
            session_id,
        )

    @rule(session_id=a_session, count=st.integers(1, 4))
    def append_several(self, session_id: str, count: int) -> None:
        rows = [self.message(("user", "assistant")[number % 2]) for number in range(count)]
        self.everywhere(
            lambda db: len(db.append_messages(session_id, [row.message for row in rows])),
            lambda: self.model.sessions[session_id].rows.extend(rows) or count,
            session_id,
        )

    @rule(session_id=a_session, place=a_place)
    def rewind(self, session_id: str, place: int) -> None:
        rows = self.model.sessions[session_id].rows
        if rows:
            target = rows[place % len(rows)]
            self.everywhere(
                lambda db: db.rewind_to_message(session_id, target.id)["rewound_count"],
                lambda: self.model.rewind(session_id, target),
            )

    @rule(session_id=a_session, place=a_place)
    def restore(self, session_id: str, place: int) -> None:
        rows = self.model.sessions[session_id].rows
        since = rows[place % len(rows)].id if rows else 0
        self.everywhere(
            lambda db: db.restore_rewound(session_id, since),
            lambda: self.model.restore(session_id, since),
        )

    @rule(session_id=a_session, count=st.integers(0, 2), active_only=st.booleans())
    def replace(self, session_id: str, count: int, active_only: bool) -> None:
        rows = [self.message("user") for _ in range(count)]
        messages = [row.message for row in rows]
        self.everywhere(
            lambda db: db.replace_messages(session_id, messages, active_only=active_only),
            lambda: self.model.replace(session_id, rows, active_only),
            session_id,
        )

    # Going on

    @precondition(may_grow)
    @rule(session_id=a_session, keep=st.integers(0, 3), late=st.integers(0, 2))
    def rotate(self, session_id: str, keep: int, late: int) -> None:
        new_id = self.fresh("r")
        rows, given, covers = self.summarised(session_id, keep, late)
        messages = [row.message for row in rows[:given]]
        self.everywhere(
            lambda db: (
                db.rotate_session(session_id, new_id, messages, covers_until=covers).session_id
            ),
            lambda: self.model.rotate(session_id, new_id, rows),
            new_id,
        )

    @rule(session_id=a_session, keep=st.integers(0, 3), late=st.integers(0, 2))
    def compact(self, session_id: str, keep: int, late: int) -> None:
        rows, given, covers = self.summarised(session_id, keep, late)
        messages = [row.message for row in rows[:given]]
        self.everywhere(
            lambda db: db.archive_and_compact(session_id, messages, covers_until=covers),
            lambda: self.model.compact(session_id, rows) or given,
            session_id,
        )

    @precondition(may_grow)
    @rule(session_id=a_session, place=a_place, end_parent=st.booleans())
    def branch(self, session_id: str, place: int, end_parent: bool) -> None:
        new_id = self.fresh("b")
        rows = self.model.sessions[session_id].rows
        until = rows[place % len(rows)].id if rows else 0
        self.everywhere(
            lambda db: db.branch_session(
                session_id, new_id, until_message_id=until, end_parent=end_parent
            ),
            lambda: self.model.branch(session_id, new_id, until, end_parent) or new_id,
            new_id,
        )

    # Going away

    @precondition(lambda self: len(self.model.sessions) > 1)
    @rule(session_id=any_session)
    def delete(self, session_id: str) -> None:
        self.everywhere(
            lambda db: db.delete_session(session_id), lambda: bool(self.forget(session_id))
        )
        self.never_empty()

    def forget(self, session_id: str) -> set[str]:
        deleted = self.model.delete(session_id)
        self.gone += sorted(deleted)
        return deleted

    @precondition(lambda self: len(self.model.sessions) > 3)
    @rule(session_id=any_session)
    def delete_conversation(self, session_id: str) -> None:
        def expected() -> int:
            deleted: set[str] = set()
            for one in self.model.lineage(session_id):
                deleted |= self.forget(one)
            return len(deleted)

        self.everywhere(lambda db: db.delete_conversation(session_id), expected)
        self.never_empty()

    def never_empty(self) -> None:
        if not self.model.sessions:
            self.create("cli", "", "none")

    @rule()
    def move_to_another_file(self) -> None:
        """Export everything, import it into an empty store, and go on there."""
        self.made += 1
        for number, store in enumerate(self.stores):
            payload = json.loads(json.dumps(store.export_all(redact=False)))
            store.close()
            self.paths[number] = self.paths[number].with_name(f"state{self.made}.db")
            for left_over in self.paths[number].parent.glob("search.db*"):
                left_over.unlink()
            self.stores[number] = self.opened(number)
            report = self.stores[number].import_sessions(payload)
            assert (report["ok"], report["imported"]) == (True, len(self.model.sessions))
        # The first session names the conversation; one that was deleted does not travel.
        for session in self.model.sessions.values():
            session.conversation = self.model.lineage(session.id)[0]
            self.learn_ids(session)

    # What must hold after every step

    @invariant()
    def all_agree(self) -> None:
        self.stores[1].close()
        self.stores[1] = self.opened(1)
        self.steps += 1
        wanted = self.as_the_model_says()
        # Each look at a server is a round trip; its store is compared in the end as well.
        for store in self.stores if self.steps % OFTEN == 0 else self.stores[:SERVER]:
            found = as_the_store_says(store)
            assert found == wanted
        if self.words:
            self.looked_for += 1
            self.look_for(list(self.words)[-self.looked_for % len(self.words)])

    def as_the_model_says(self) -> dict[str, Any]:
        model = self.model
        return {
            "listed": model.listed(),
            "sessions": {
                one.id: {
                    "facts": (one.source, one.parent, one.continues, one.conversation),
                    "state": (one.title, one.end_reason, one.end_reason is None, one.archived),
                    "counts": (
                        len(one.live),
                        sum(len(row.message.get("tool_calls", ())) for row in one.live),
                    ),
                    "lineage": model.lineage(one.id),
                    "live": [row.message for row in one.live],
                    "rows": [(row.id, row.active, row.compacted) for row in one.rows],
                    "display": model.display(one.id),
                }
                for one in model.sessions.values()
            },
        }

    def look_for(self, word: str) -> None:
        if not SEARCHES:
            return
        telling = self.words[word]
        shown = {row.id for row in self.model.visible_rows() if row.telling == telling}
        for store in self.stores:
            found = {hit["id"] for hit in store.search_messages(word)}
            assert bool(found) == bool(shown), f"{word}: found {found}, visible {shown}"
            assert found <= shown


def as_the_store_says(db: SessionDB) -> dict[str, Any]:
    sessions = {}
    for row in db.search_sessions(limit=1000):
        one = row["id"]
        assert db.get_session(one) == {**row, "last_active": db.get_session(one)["last_active"]}  # type: ignore[index]
        lineage = db.get_compression_lineage(one)
        assert db.get_compression_tip(one) == lineage[-1]
        assert (row["end_reason"] is None) == (row["ended_at"] is None)
        sessions[one] = {
            "facts": tuple(
                row[name]
                for name in ("source", "parent_session_id", "continuation_of", "conversation_id")
            ),
            "state": (
                row["title"],
                row["end_reason"],
                row["ended_at"] is None,
                bool(row["archived"]),
            ),
            "counts": (row["message_count"], row["tool_call_count"]),
            "lineage": lineage,
            "live": db.get_messages_as_conversation(one),
            "rows": [
                (message["id"], bool(message["active"]), bool(message["compacted"]))
                for message in db.get_messages(one, include_inactive=True)
            ],
            "display": db.get_messages_as_conversation(one, include_ancestors=True),
        }
    listed = [row["id"] for row in db.list_sessions_rich(limit=1000)]
    assert db.session_count(exclude_children=True) == len(listed)
    return {"listed": listed, "sessions": sessions}


@pytest.mark.both_databases
@pytest.mark.fuzz
def test_the_store_agrees_with_itself_reopened_and_with_a_model() -> None:
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=seeds.times(6, 40),
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
