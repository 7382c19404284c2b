"""What may be shown to a person: the store's reading functions, bound to whose things they read.

    mine = db.view(person_id)      # or db.view(EVERYONE), for the operator
    mine.list_sessions(limit=5)

Commands, tools and front ends read through a view, so that none of them can forget whose history it
is. What is another's is answered as what does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .owners import Everyone, Owner, is_owned
from .titles import ANYONE

if TYPE_CHECKING:
    from .db import SessionDB


class PersonView:
    """One person's things, or everyone's."""

    def __init__(self, db: SessionDB, owner: Owner) -> None:
        self._db = db
        self.owner = owner
        self._user_id = None if isinstance(owner, Everyone) else owner

    # Conversations

    def list_sessions(self, **filters: Any) -> list[dict[str, Any]]:
        """As `SessionDB.list_sessions_rich`."""
        return self._db.list_sessions_rich(**filters, user_id=self._user_id)

    def search(self, query: str, **filters: Any) -> list[dict[str, Any]]:
        """As `SessionDB.search_messages`."""
        return self._db.search_messages(query, **filters, user_id=self._user_id)

    def get_session(self, session_id: str) -> dict[str, Any] | None:
        """A session's row; None if there is none, or it is another's."""
        session = self._db.get_session(session_id)
        return session if is_owned(session, self.owner) else None

    def export(self, session_id: str) -> dict[str, Any] | None:
        """As `SessionDB.export_session_lineage`; None if there is none, or it is another's."""
        if self.get_session(session_id) is None:
            return None
        return self._db.export_session_lineage(session_id)

    # Titles

    def find_title(self, title: str) -> dict[str, Any] | None:
        """The session with exactly this title, or None."""
        return self._db.get_session_by_title(title, self._of_titles)

    def resolve_title(self, title: str) -> str | None:
        """The id for a title; of several that are numbered, the last."""
        return self._db.resolve_session_by_title(title, self._of_titles)

    def next_title(self, base: str) -> str:
        """The next title that is free: "Plan", then "Plan #2"."""
        return self._db.get_next_title_in_lineage(base, self._of_titles)

    @property
    def _of_titles(self) -> Any:
        return ANYONE if self._user_id is None else self._user_id

    # Use and approvals

    def usage(self, since: float, source: str | None = None) -> dict[str, Any]:
        """As `SessionDB.usage_since`."""
        return self._db.usage_since(since, self._user_id, source)

    def pending_approvals(self, session_id: str | None = None) -> list[dict[str, Any]]:
        """What waits for an answer, oldest first."""
        return self._db.list_pending_approvals(session_id, self._user_id)

    def approvals(self, session_id: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Every question and decision, newest first."""
        return self._db.list_approvals(session_id, self._user_id, limit)

    def grants(self) -> list[dict[str, Any]]:
        """What is always allowed, oldest first."""
        return self._db.list_grants(self._user_id)
