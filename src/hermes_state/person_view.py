"""What a person may see and change: the store's functions, bound to whose things they are about.

    mine = db.view(person_id)      # or db.view(EVERYONE), for the operator
    mine.list_sessions(limit=5)
    mine.messages(session_id)

Commands, tools and front ends reach conversations through a view, so that none of them can forget
whose they are; `tests/test_owner_asked.py` sees to it. What is another's is answered exactly as
what does not exist, after the same statements. A view may also hold one conversation that its
person was let into (`within`): the one that a linked chat or a live session is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import UnknownSessionError
from .owners import Everyone, Owner, is_owned
from .titles import ANYONE

if TYPE_CHECKING:
    from .db import SessionDB
    from .devices import Device
    from .goals import Subgoal


class PersonView:
    """One person's things, or everyone's."""

    def __init__(self, db: SessionDB, owner: Owner, within: str | None = None) -> None:
        self._db = db
        self.owner = owner
        self._within = within
        self._user_id = None if isinstance(owner, Everyone) else owner

    def has(self, session_id: str) -> bool:
        """Whether a session is theirs, or of the conversation that they were let into.

        For everyone it need not be stored yet, and so it need not for the one they are in.
        """
        if isinstance(self.owner, Everyone):
            return True
        return self.session(session_id) is not None or session_id == self._within

    # Conversations

    def list_sessions(self, **filters: Any) -> list[dict[str, Any]]:
        """As `SessionDB.list_sessions_rich`."""
        return self._db.list_sessions_rich(**filters, user_id=self._user_id)

    def search(self, query: str, **filters: Any) -> list[dict[str, Any]]:
        """As `SessionDB.search_messages`."""
        return self._db.search_messages(query, **filters, user_id=self._user_id)

    def session(self, session_id: str) -> dict[str, Any] | None:
        """A session's row; None if there is none, or it is another's."""
        row, is_shown = self._look_up(session_id)
        return row if is_shown else None

    def _look_up(self, session_id: str) -> tuple[dict[str, Any] | None, bool]:
        """A session's row, and whether it may be shown; of another's and of one that is not there
        the same is read."""
        row = self._db.get_session(session_id)
        if is_owned(row, self.owner) or session_id == self._within:
            return row, True
        here = None if self._within is None else self._db.get_session(self._within)
        if row is None or here is None:
            return row, False
        return row, bool(here["conversation_id"] == row["conversation_id"])

    def resolve_id(self, id_or_prefix: str) -> str | None:
        """The full id for an id or the beginning of one; None for none, several, or another's."""
        return self._db.resolve_owned_id(id_or_prefix, self.owner)

    def tip(self, session_id: str) -> str:
        """The session its conversation is in now; an unknown id is returned."""
        return self._db.get_compression_tip(session_id) if self.has(session_id) else session_id

    def tip_to_resume(self, session_id: str) -> str:
        """As `SessionDB.resolve_resume_session_id`; an unknown id is returned."""
        is_there = self.has(session_id)
        return self._db.resolve_resume_session_id(session_id) if is_there else session_id

    def root(self, session_id: str) -> str:
        """The id of its conversation; an unknown id is returned."""
        return self._db.get_conversation_root(session_id) if self.has(session_id) else session_id

    def lineage(self, session_id: str) -> list[str]:
        """Every session of its conversation, from the first to the tip; empty for an unknown id."""
        return self._db.get_compression_lineage(session_id) if self.has(session_id) else []

    def waiting(
        self, session_id: str | None = None, source: str | None = None, *, with_held: bool = False
    ) -> list[dict[str, Any]]:
        """The messages that wait to be answered, of a conversation or all, oldest first."""
        wanted = session_id
        if session_id is not None:
            row, is_shown = self._look_up(session_id)
            wanted = session_id if row is None or is_shown else ""
        waiting = self._db.list_waiting(wanted, source, with_held=with_held)
        is_here = session_id is not None and session_id == self._within
        return [message for message in waiting if is_here or is_owned(message, self.owner)]

    def branch(self, session_id: str, new_session_id: str, **how: Any) -> str:
        """As `SessionDB.branch_session`; UnknownSessionError for another's."""
        self._require(session_id)
        return self._db.branch_session(session_id, new_session_id, **how)

    def delete(self, session_id: str) -> int:
        """Delete its whole conversation; returns how many sessions that were."""
        return self._db.delete_conversation(session_id) if self.has(session_id) else 0

    def archive(self, session_id: str, archived: bool) -> bool:
        """Put a conversation away, or bring it back; False if there is none."""
        return self.has(session_id) and self._db.set_session_archived(session_id, archived)

    def export(self, session_id: str) -> dict[str, Any] | None:
        """As `SessionDB.export_session_lineage`; None if there is none, or it is another's."""
        return self._db.export_session_lineage(session_id) if self.has(session_id) else None

    def move_to_folder(self, session_id: str, cwd: str, git_branch: str | None) -> None:
        """Remember where a conversation works."""
        if self.has(session_id):
            self._db.update_session_cwd(session_id, cwd, git_branch)

    # Messages

    def messages(self, session_id: str, **which: Any) -> list[dict[str, Any]]:
        """As `SessionDB.get_messages`; none if it is another's."""
        return self._db.get_messages(session_id, **which) if self.has(session_id) else []

    def conversation(self, session_id: str, **which: Any) -> list[dict[str, Any]]:
        """As `SessionDB.get_messages_as_conversation`; none if it is another's."""
        if not self.has(session_id):
            return []
        return self._db.get_messages_as_conversation(session_id, **which)

    def page(self, session_id: str, **which: Any) -> Any:
        """As `SessionDB.get_message_page`, which is empty for a session that is not there."""
        return self._db.get_message_page(session_id if self.has(session_id) else "", **which)

    def family(self, session_id: str) -> list[dict[str, Any]]:
        """As `SessionDB.get_family`, as far as it is theirs."""
        rows = self._db.get_family(session_id) if self.has(session_id) else []
        return [row for row in rows if self.has(row["id"])]

    def turns(self, session_id: str, **which: Any) -> list[Any]:
        """As `SessionDB.list_turns`; none if it is another's."""
        return list(self._db.list_turns(session_id, **which)) if self.has(session_id) else []

    def to_resume(self, session_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """As `SessionDB.get_resume_conversations`; nothing if it is another's."""
        if not self.has(session_id):
            return [], []
        return self._db.get_resume_conversations(session_id)

    def session_of_message(self, message_id: int) -> str | None:
        """The session a message stands in; None if there is none, or it is another's."""
        session_id = self._db.get_session_of_message(message_id)
        is_shown = self.has(session_id or "")
        return session_id if is_shown else None

    def around_message(self, session_id: str, message_id: int, **how: Any) -> dict[str, Any]:
        """As `SessionDB.get_anchored_view`, which is empty for a message that is not there."""
        known = session_id if self.has(session_id) else ""
        return self._db.get_anchored_view(known, message_id, **how)

    def rewind(self, session_id: str, message_id: int) -> dict[str, Any]:
        """As `SessionDB.rewind_to_message`; ValueError for another's as for none."""
        if not self.has(session_id):
            raise ValueError(f"Session {session_id} has no message {message_id}.")
        return self._db.rewind_to_message(session_id, message_id)

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

    def title(self, session_id: str) -> str | None:
        """A session's title."""
        return self._db.get_session_title(session_id) if self.has(session_id) else None

    def set_title(self, session_id: str, title: str) -> bool:
        """As `SessionDB.set_session_title`; False if there is no such session."""
        return self.has(session_id) and self._db.set_session_title(session_id, title)

    @property
    def _of_titles(self) -> Any:
        return ANYONE if self._user_id is None else self._user_id

    # Work and hand-off

    def delegations(self, session_id: str, state: str | None = None) -> list[dict[str, Any]]:
        """As `SessionDB.list_delegations`; none if it is another's."""
        return self._db.list_delegations(session_id, state) if self.has(session_id) else []

    def handoff(self, session_id: str) -> dict[str, Any] | None:
        """How far a conversation's hand-off is; None if there is none."""
        return self._db.get_handoff_state(session_id) if self.has(session_id) else None

    def hand_over(self, session_id: str, platform: str) -> bool:
        """As `SessionDB.request_handoff`; False if there is no such session."""
        return self.has(session_id) and self._db.request_handoff(session_id, platform)

    def give_up_handoff(self, session_id: str, error: str) -> None:
        """Give a hand-off up."""
        if self.has(session_id):
            self._db.fail_handoff(session_id, error)

    def choose_mode(self, session_id: str, mode: str) -> None:
        """Choose what the agent may do in a conversation."""
        if self.has(session_id):
            self._db.set_wall_mode(session_id, mode)

    # Goals

    def goal(self, session_id: str) -> dict[str, Any] | None:
        """The goal of its conversation; None if there is none, or it is another's."""
        return self._db.get_goal(session_id) if self.has(session_id) else None

    def begin_goal(self, session_id: str, text: str, prompt: str, **how: Any) -> dict[str, Any]:
        """As `SessionDB.set_goal`; UnknownSessionError for another's."""
        self._require(session_id)
        return self._db.set_goal(session_id, text, prompt, **how, by=self._user_id)

    def go_on_with_goal(self, session_id: str, prompt: str) -> dict[str, Any] | None:
        """As `SessionDB.resume_goal`; None if it is another's."""
        if not self.has(session_id):
            return None
        return self._db.resume_goal(session_id, prompt, by=self._user_id)

    def divide_goal(self, session_id: str, subgoals: Iterable[Subgoal]) -> bool:
        """As `SessionDB.set_subgoals`; False if it is another's."""
        return self.has(session_id) and self._db.set_subgoals(session_id, subgoals)

    def rest_goal(self, session_id: str, reason: str) -> bool:
        """As `SessionDB.pause_goal`; False if it is another's."""
        return self.has(session_id) and self._db.pause_goal(session_id, reason)

    def drop_goal(self, session_id: str) -> bool:
        """As `SessionDB.clear_goal`; False if it is another's."""
        return self.has(session_id) and self._db.clear_goal(session_id)

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

    def approval(self, approval_id: str) -> dict[str, Any] | None:
        """One of them; None if there is none, or it is another's."""
        approval = self._db.get_approval(approval_id)
        return approval if is_owned(approval, self.owner) else None

    def asked(self, session_id: str) -> list[dict[str, Any]]:
        """What a conversation's turns ask leave for now, oldest first."""
        return self._db.list_asked_approvals(session_id) if self.has(session_id) else []

    def answer_asked(
        self, approval_id: str, session_id: str, choice: str, decided_by: str | None
    ) -> bool:
        """Answer what a turn of a conversation asks; False if it asks that no longer."""
        return self.has(session_id) and self._db.decide_asked_approval(
            approval_id, session_id, choice, decided_by
        )

    def grants(self) -> list[dict[str, Any]]:
        """What is always allowed, oldest first."""
        return self._db.list_grants(self._user_id)

    def revoke(self, grant: Mapping[str, Any]) -> bool:
        """Have one of `grants` asked again; False if it is not there, or another's."""
        wanted = (grant["pattern_key"], grant["granted_by"])
        known = {(mine["pattern_key"], mine["granted_by"]) for mine in self.grants()}
        return wanted in known and self._db.revoke_grant(*wanted)

    # Devices

    def devices(self) -> list[Device]:
        """Web devices, the first one first."""
        return self._db.list_devices(self.owner)

    def name_device(self, device_id: str, name: str) -> bool:
        """Call a device by another name; False if there is none, or it is another's."""
        return self._db.rename_device(device_id, name, self.owner)

    def drop_device(self, device_id: str) -> bool:
        """Let a device in no longer; False if there is none, or it is another's."""
        return self._db.revoke_device(device_id, self.owner)

    def _require(self, session_id: str) -> None:
        if not self.has(session_id):
            raise UnknownSessionError(session_id)
