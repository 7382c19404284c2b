"""Doors of one person, joined from a chat: a code is given in one place and taken in another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent import people_actions as people
from hermes_state import PersonError

if TYPE_CHECKING:
    from hermes_state import SessionDB

    from .session import SessionSource


def link_person(db: SessionDB, source: SessionSource, code: str) -> str:
    """A code for the chat's person, or with one: be the person whose it is. Raises PersonError."""
    person_id = _require(source)
    if code:
        return people.join(db, person_id, code)
    if source.chat_type != "dm":
        raise PersonError("Everybody here would read the code. Write /link person to me directly.")
    return people.code_for(db, person_id)


def unlink_person(db: SessionDB, source: SessionSource) -> str:
    """Undo how the chat's account came to its person. Raises PersonError."""
    _require(source)
    assert source.door is not None
    return people.leave(db, source.door)


def _require(source: SessionSource) -> str:
    if source.person is None:
        raise PersonError("It is not known who you are here.")
    return source.person.id
