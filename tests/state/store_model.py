"""What the store should do, in plain lists and dicts: the model the state machine compares with.

Written from the documentation, not from the SQL: a row knows what it tells (`telling`), and a
display shows each telling once, at its first visible place in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
ACCIDENTS = ("agent_close", "ws_orphan_reap")


class Refused(Exception):
    """The model says: the store must refuse this, and nothing changes."""


@dataclass
class Row:
    id: int
    """Its id in the stores; filled in when they have given it one."""
    message: Message
    telling: int
    """The same for all rows that repeat one message."""
    active: bool = True
    compacted: bool = False

    @property
    def visible(self) -> bool:
        return self.active or self.compacted


@dataclass
class Session:
    id: str
    source: str
    number: int
    """Its place in the order in which sessions were made."""
    conversation: str
    parent: str | None = None
    continues: str | None = None
    branched_from: str | None = None
    delegated_by: str | None = None
    title: str | None = None
    end_reason: str | None = None
    archived: bool = False
    rows: list[Row] = field(default_factory=list)

    @property
    def live(self) -> list[Row]:
        return [row for row in self.rows if row.active]


class StoreModel:
    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}
        self._made = 0
        self._tellings = 0

    # Making things

    def new_row(self, message: Message, like: Row | None = None) -> Row:
        self._tellings += 1
        return Row(0, message, like.telling if like else self._tellings)

    def create(self, session_id: str, source: str, **facts: Any) -> Session:
        parent = facts.pop("parent", None)
        self._made += 1
        conversation, number = session_id, 1
        while any(one.conversation == conversation for one in self.sessions.values()):
            number += 1
            conversation = f"{session_id}~{number}"
        session = Session(session_id, source, self._made, conversation, **facts)
        self.sessions[session_id] = session
        if parent is not None:
            session.parent = parent
            if self.sessions[parent].end_reason == "compression":
                self._adopt(parent)
        return session

    def continuation(self, session_id: str) -> Session | None:
        return next((one for one in self.sessions.values() if one.continues == session_id), None)

    def _adopt(self, parent_id: str) -> None:
        parent = self.sessions[parent_id]
        if self.continuation(parent_id) is not None:
            return
        candidates = [
            (one.end_reason in (None, "compression"), one.number, one)
            for one in self.sessions.values()
            if one.parent == parent_id
            and one.source != "tool"
            and one.branched_from in (None, parent.branched_from)
            and one.delegated_by in (None, parent.delegated_by)
        ]
        if candidates:
            child = max(candidates, key=lambda found: found[:2])[2]
            child.continues = parent_id
            joining = child.conversation
            for one in self.sessions.values():
                if one.conversation == joining:
                    one.conversation = parent.conversation

    def end(self, session_id: str, reason: str) -> None:
        session = self.sessions[session_id]
        if session.end_reason is None:
            session.end_reason = reason
            if reason == "compression":
                self._adopt(session_id)

    def reopen(self, session_id: str) -> None:
        if self.continuation(session_id) is None:
            self.sessions[session_id].end_reason = None

    def promote(self, session_id: str) -> bool:
        session = self.sessions[session_id]
        promoted = session.end_reason in (None, *ACCIDENTS)
        if promoted:
            session.end_reason = "session_reset"
        return promoted

    def archive(self, session_id: str, archived: bool) -> None:
        for one in self.conversation_of(session_id):
            one.archived = archived

    def set_title(self, session_id: str, title: str | None) -> None:
        if title and any(
            one.title == title for one in self.sessions.values() if one.id != session_id
        ):
            raise Refused
        self.sessions[session_id].title = title

    def next_title(self, title: str) -> str:
        match = re.fullmatch(r"(.*) #(\d+)", title)
        base = match[1] if match else title
        taken = {one.title for one in self.sessions.values()}
        numbers = [
            int(found[1])
            for other in taken
            if other and (found := re.fullmatch(re.escape(base) + r" #(\d+)", other))
        ]
        if base not in taken and not numbers:
            return base
        return f"{base} #{max(numbers, default=1) + 1}"

    # Going on elsewhere

    def rotate(self, session_id: str, new_id: str, rows: list[Row]) -> str:
        parent = self.sessions[session_id]
        existing = self.continuation(session_id)
        if existing is not None:
            return existing.id
        if parent.end_reason not in (None, "compression"):
            raise Refused
        parent.end_reason = "compression"
        child = self.create(
            new_id,
            parent.source,
            branched_from=parent.branched_from,
            delegated_by=parent.delegated_by,
            archived=parent.archived,
        )
        child.parent = child.continues = session_id
        child.conversation = parent.conversation
        child.rows = rows
        if parent.title:
            child.title = self.next_title(parent.title)
        return new_id

    def compact(self, session_id: str, rows: list[Row]) -> None:
        session = self.sessions[session_id]
        for row in session.live:
            row.active, row.compacted = False, True
        session.rows += rows

    def branch(self, session_id: str, new_id: str, until: int, end_parent: bool) -> None:
        parent = self.sessions[session_id]
        copies = [self.new_row(row.message, row) for row in parent.live if row.id <= until]
        branch = self.create(
            new_id,
            parent.source,
            parent=session_id,
            branched_from=session_id,
            delegated_by=parent.delegated_by,
        )
        branch.rows = copies
        if parent.title:
            branch.title = self.next_title(parent.title)
        if end_parent and parent.end_reason is None:
            parent.end_reason = "branched"

    # Taking away

    def rewind(self, session_id: str, target: Row) -> int:
        if target.message["role"] != "user" or target.compacted:
            raise Refused
        taken = [row for row in self.sessions[session_id].live if row.id >= target.id]
        for row in taken:
            row.active = False
        return len(taken)

    def restore(self, session_id: str, since: int) -> int:
        back = [
            row for row in self.sessions[session_id].rows if row.id >= since and not row.visible
        ]
        for row in back:
            row.active = True
        return len(back)

    def replace(self, session_id: str, rows: list[Row], active_only: bool) -> None:
        session = self.sessions[session_id]
        kept = [row for row in session.rows if active_only and not row.active]
        session.rows = [*kept, *rows]

    def delete(self, session_id: str) -> set[str]:
        session = self.sessions.get(session_id)
        if session is None:
            return set()
        deleted = {session_id}
        for child in [one for one in self.sessions.values() if one.parent == session_id]:
            if child.delegated_by is not None:
                deleted |= self.delete(child.id)
        following = self.continuation(session_id)
        del self.sessions[session_id]
        for one in self.sessions.values():
            if one.parent == session_id:
                one.parent = None
        if following is not None:
            following.continues = session.continues
            if session.continues is not None:
                following.parent = session.parent
        return deleted

    # Reading

    def conversation_of(self, session_id: str) -> list[Session]:
        return [
            one
            for one in self.sessions.values()
            if one.conversation == self.sessions[session_id].conversation
        ]

    def lineage(self, session_id: str) -> list[str]:
        first = self.sessions[session_id]
        while first.continues is not None:
            first = self.sessions[first.continues]
        chain = [first.id]
        while (following := self.continuation(chain[-1])) is not None:
            chain.append(following.id)
        return chain

    def display(self, session_id: str) -> list[Message]:
        lineage = self.lineage(session_id)
        shown: dict[int, Message] = {}
        for segment in lineage[: lineage.index(session_id) + 1]:
            for row in self.sessions[segment].rows:
                if row.visible:
                    shown.setdefault(row.telling, row.message)
        return list(shown.values())

    def listed(self) -> list[str]:
        """What a person sees: the tips of the visible conversations, newest conversation first."""
        heads = [
            one
            for one in self.sessions.values()
            if one.continues is None
            and (
                one.parent is None
                or one.branched_from is not None
                or (
                    one.delegated_by is None
                    and one.source != "tool"
                    and self.sessions[one.parent].end_reason == "compression"
                )
            )
        ]
        heads.sort(key=lambda one: one.number, reverse=True)
        tips = (self.lineage(head.id)[-1] for head in heads)
        return [tip for tip in tips if not self.sessions[tip].archived]

    def visible_rows(self) -> Iterable[Row]:
        return (row for one in self.sessions.values() for row in one.rows if row.visible)
