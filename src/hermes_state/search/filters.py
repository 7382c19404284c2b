"""Which messages a search is about, as facets of the index and as conditions on the store.

The facets keep the search from going through what is not wanted; the conditions decide. Facets are
hashes of values that may have changed since; a condition compares the value itself, as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ..dialect import tuples
from ..opening import FileConnection
from ..owners import asked_owner, owned, stored_owner
from .index import facet

_ANY_SESSION = ((), (), (), None, None, None)
MOST_SESSIONS = 400
"""A conversation of more sessions is not narrowed down by facets, only by its condition."""


class Filters(NamedTuple):
    """Which messages are wanted; what is empty or None does not matter."""

    sources: Sequence[str] = ()
    without_sources: Sequence[str] = ()
    roles: Sequence[str] = ()
    user_id: str | None = None
    session_id: str | None = None
    conversation_id: str | None = None
    since: float | None = None
    until: float | None = None
    include_inactive: bool = False

    @property
    def allow_titles(self) -> bool:
        """Whether a title may be a hit: not when the wanted role or conversation is known."""
        return not self.roles and self.session_id is None and self.conversation_id is None

    def required(self, conn: FileConnection) -> list[list[str]]:
        """Lists of facets, of each of which a document must have one."""
        if self[:6] == _ANY_SESSION:
            return []
        lists = [
            [facet("o", source) for source in self.sources],
            [facet("r", role) for role in self.roles],
        ]
        if stored_owner(self.user_id) is not None:  # what is the operator's has no such facet
            assert self.user_id is not None
            lists.append([facet("u", self.user_id)])
        if self.session_id is not None:
            lists.append([facet("s", self.session_id)])
        if self.conversation_id is not None:
            sessions = tuples(
                conn,
                "SELECT id FROM state.sessions WHERE conversation_id = ? LIMIT ?",
                (self.conversation_id, MOST_SESSIONS + 1),
            )
            if len(sessions) <= MOST_SESSIONS:
                ids = dict.fromkeys([self.conversation_id, *(row[0] for row in sessions)])
                lists.append([facet("s", session_id) for session_id in ids])
        return [some for some in lists if some]

    def forbidden(self) -> list[str]:
        """Facets that a document must not have."""
        if not self.without_sources:
            return []
        return [facet("o", source) for source in self.without_sources]

    def session_conditions(self) -> tuple[str, list[Any]]:
        """SQL on `s`, a row of sessions, and its values."""
        if self[:6] == _ANY_SESSION:
            return "1", []
        parts = ["1"]
        values: list[Any] = []
        for condition, some in (("IN", self.sources), ("NOT IN", self.without_sources)):
            if some:
                parts.append(f"s.source {condition} ({', '.join('?' * len(some))})")
                values += some
        condition, owner_values = owned("s.user_id", asked_owner(self.user_id))
        if condition:
            parts.append(condition.removeprefix(" AND "))
            values += owner_values
        for column, value in (
            ("s.id", self.session_id),
            ("coalesce(s.conversation_id, s.id)", self.conversation_id),
        ):
            if value is not None:
                parts.append(f"{column} = ?")
                values.append(value)
        return " AND ".join(parts), values

    def message_conditions(self) -> tuple[str, list[Any]]:
        """SQL on `m` and `s`, a message and its session, and its values."""
        if self == _EVERYTHING:
            return "(m.active = 1 OR m.compacted = 1)", []
        condition, values = self.session_conditions()
        parts = [condition]
        if self.roles:
            parts.append(f"m.role IN ({', '.join('?' * len(self.roles))})")
            values += self.roles
        if not self.include_inactive:
            parts.append("(m.active = 1 OR m.compacted = 1)")
        for operator, value in ((">=", self.since), ("<=", self.until)):
            if value is not None:
                parts.append(f"m.timestamp {operator} ?")
                values.append(value)
        return " AND ".join(parts), values


_EVERYTHING = Filters()
