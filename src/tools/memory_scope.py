"""Whose memories and skills a conversation reads, and into which it writes.

A *space* has a folder with `memories/` and `skills/` in it. The operator's is the home itself;
every other person has one below `people/`, every group chat below `groups/`, and what holds for
everybody is in `shared/`. Which spaces a conversation has is asked of the store each time it
matters, so that two persons who were merged, or parted again, have the right ones at once:

- a person's conversation reads theirs (with those of whom they were merged with) and the shared
  one, and writes theirs; who sits at the machine and opens somebody's conversation writes that
  person's;
- a group's conversation reads and writes the group's, whoever speaks, and reads the shared one; the
  memory of whoever speaks is read only if they said so there;
- whoever was let into another's conversation reads the shared one there, and nothing is written;
  neither is anything where a private conversation was brought into a group.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from hermes_state import OPERATOR, person_of

if TYPE_CHECKING:
    from hermes_state import SessionDB

    from .base import ToolContext

_KINDS = ("person", "chat", "shared")


class Space(NamedTuple):
    """Somebody's memories and skills."""

    kind: Literal["person", "chat", "shared"]
    name: str = ""
    """Of a person their id, of a group chat its platform and id."""

    @property
    def prefix(self) -> str:
        """Its folder below the home, as `shared_files` names it."""
        if self.kind == "shared":
            return "shared/"
        if self == OPERATORS:
            return ""
        top = "people" if self.kind == "person" else "groups"
        return f"{top}/{_folder_name(self.name)}/"

    def folder(self, home: Path) -> Path:
        """Where it is."""
        return home / self.prefix


OPERATORS = Space("person", OPERATOR)
SHARED = Space("shared")


class Spaces(NamedTuple):
    """What a conversation reads and writes."""

    read: tuple[Space, ...]
    """Its own first, the shared one last."""
    write: Space | None
    """None: nothing is kept here."""
    may_share: bool
    """Whether it may write the shared one, if the operator agrees."""
    shown: tuple[Space, ...] = ()
    """In a group: those of whoever speaks, if they said that they may be read there."""

    @property
    def own(self) -> tuple[Space, ...]:
        """Those that it may change, the one for additions first."""
        return () if self.write is None else tuple(s for s in self.read if s != SHARED)

    @property
    def prefixes(self) -> list[str]:
        """As `shared_files` names them."""
        return [space.prefix for space in self.read]


@dataclass(frozen=True, slots=True)
class MemoryScope:
    """Who speaks where; from this and the conversation follows which spaces there are."""

    person: str | None = OPERATOR
    """Who speaks; None if that is not known."""
    chat: str | None = None
    """The group chat it is said in ("telegram:-100"); None where nobody else reads along."""
    is_operator: bool = True
    """Whether they may write what everybody reads."""
    is_local: bool = True
    """Whether they sit at the machine: then the conversation says whose memory it is."""
    conversation: str | None = None
    """A session of the conversation, for work on its behalf that has a session of its own."""

    @property
    def provider_name(self) -> str | None:
        """Whose memory plugins are asked for; None for the operator's."""
        if self.chat is not None:
            return f"chat:{self.chat}"
        return None if self.person == OPERATOR else self.person or "nobody"

    def spaces(self, db: SessionDB | None, session_id: str) -> Spaces:
        """The spaces of a conversation."""
        session = None if db is None else db.get_session(self.conversation or session_id)
        chat = self.chat
        if chat is None and self.is_local:
            chat = chat_of(session)
        if chat is not None:
            space = Space("chat", chat)
            is_from_here = session is None or chat_of(session) == chat
            shown: list[str] = []
            if self.person is not None and db is not None and not self.is_local:
                shown = db.list_shown_spaces(self.person, chat)
            return Spaces(
                (space, SHARED),
                space if is_from_here else None,
                may_share=False,
                shown=tuple(Space("person", name) for name in shown),
            )
        if self.person is None:
            return Spaces((SHARED,), None, may_share=False)
        if db is None:
            own = Space("person", self.person)
            return Spaces((own, SHARED), own, self.is_operator)
        mine = db.list_memory_spaces(self.person)
        if session is not None and (owner := person_of(session["user_id"])) != mine.person_id:
            theirs = db.list_memory_spaces(owner)
            if theirs.person_id != mine.person_id:
                if not self.is_local:
                    return Spaces((SHARED,), None, may_share=False)
                mine = theirs
        spaces = tuple(Space("person", name) for name in mine.spaces)
        return Spaces((*spaces, SHARED), spaces[0], self.is_operator)


def spaces_of(context: ToolContext) -> Spaces:
    """The spaces of the conversation that a tool runs in."""
    return context.memory.spaces(context.db, context.session_id)


def chat_of(session: dict[str, Any] | None) -> str | None:
    """The group chat that a conversation began in; None if it began anywhere else."""
    if session is None or session["chat_type"] in (None, "", "dm") or not session["chat_id"]:
        return None
    return f"{session['source']}:{session['chat_id']}"


def written_down(spaces: Iterable[Space]) -> str:
    """Spaces as the store keeps them with a prompt that tells them."""
    return json.dumps([f"{space.kind}:{space.name}" for space in spaces])


def may_be_told(memory_of: str | None, prompt: str, spaces: Spaces) -> bool:
    """Whether a prompt that tells these memories may be read where there are those `spaces`.

    One of which that is not known was made when there was one memory, which is the operator's now.
    """
    if memory_of is None:
        return OPERATORS in spaces.read or not any(mark in prompt for mark in _REMEMBERED)
    return set(json.loads(memory_of)) <= set(json.loads(written_down(spaces.read)))


_REMEMBERED = ("# Memory\n", "# The user\n", "# Skills\n")
"""What older prompts have where they tell something that was remembered."""


def _folder_name(name: str) -> str:
    """A folder for a name: readable, and never the same for two, whatever their case."""
    shown = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")[:40]
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]
    return f"{shown}-{digest}" if shown else digest
