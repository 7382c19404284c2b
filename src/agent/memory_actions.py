"""What is said and done about memories, the same from the command line, a chat and the protocol.

A *desk* is whose memories are on the table: those of a conversation's spaces that may be read, and
which of them may be changed. What cannot be done raises ToolError, whose message says what to do.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hermes_state import is_owned
from tools import shared_files
from tools.base import ToolError
from tools.memory import FILES, Operation, change_entries, memory_path, read_entries
from tools.memory_history import Author, Change, erase, locked, origin_of, read_changes
from tools.memory_scope import SHARED, MemoryScope, Space
from tools.memory_undo import undo_change

if TYPE_CHECKING:
    from hermes_state import SessionDB

MOST_CHANGES = 30
"""Changes that are listed unless more are asked for."""
WAYS = {
    "agent": "noted in a conversation",
    "review": "learnt from a conversation afterwards",
    "person": "written by command",
    "import": "imported",
    "": "written by hand",
}


@dataclass(frozen=True, slots=True)
class Desk:
    """Whose memories are looked at or changed, and by whom."""

    home: Path
    db: SessionDB | None
    read: tuple[Space, ...]
    change: tuple[Space, ...]
    """Those that may be changed, the one for additions first."""
    author: Author
    person: str | None = None
    """Whose conversations may be named."""

    @property
    def prefixes(self) -> list[str]:
        """As `shared_files` names the spaces."""
        return [space.prefix for space in {*self.read, *self.change}]


def desk_for(
    home: Path, db: SessionDB | None, scope: MemoryScope, session_id: str, *, shared: bool = False
) -> Desk:
    """The desk of a conversation; with `shared`, that of what everybody gets, for the operator."""
    spaces = scope.spaces(db, session_id)
    author = Author("person", session_id, scope.person)
    if not shared:
        return Desk(home, db, spaces.read, spaces.own, author, scope.person)
    if not spaces.may_share:
        raise ToolError("Only the operator, in a chat of their own, changes what everybody gets.")
    return Desk(home, db, (SHARED,), (SHARED,), author, scope.person)


class Remembered(NamedTuple):
    """An entry, with where it came from."""

    id: str
    target: str
    text: str
    space: Space
    origin: Change | None
    """None: it was written by hand."""


def list_entries(desk: Desk) -> list[Remembered]:
    """Everything that is remembered, the desk's own first."""
    shared_files.refresh(desk.db, desk.home, desk.prefixes)
    entries = []
    for space in desk.read:
        folder = space.folder(desk.home)
        changes = read_changes(folder)
        for target in FILES:
            entries += [
                Remembered(
                    entry_id(target, text), target, text, space, origin_of(changes, target, text)
                )
                for text in read_entries(memory_path(folder, target))
            ]
    return entries


def entry_id(target: str, text: str) -> str:
    """What an entry is called by, as long as it stays the same."""
    return hashlib.sha256(f"{target}:{text}".encode(errors="surrogatepass")).hexdigest()[:6]


def list_changes(desk: Desk, limit: int = MOST_CHANGES) -> list[Change]:
    """What was changed in the desk's own spaces, the newest first."""
    shared_files.refresh(desk.db, desk.home, desk.prefixes)
    changes = [c for space in desk.change for c in read_changes(space.folder(desk.home))]
    return sorted(changes, key=lambda change: change.at, reverse=True)[:limit]


def add(desk: Desk, text: str, target: str = "memory") -> str:
    """Remember something."""
    return _change(desk, target, Operation(action="add", content=text))


def edit(desk: Desk, wanted: str, text: str) -> str:
    """Say an entry in other words."""
    entry = _own_entry(desk, wanted)
    operation = Operation(action="replace", old_text=entry.text, content=text)
    return _change(desk, entry.target, operation)


def forget(desk: Desk, wanted: str, *, target: str | None = None, for_good: bool = False) -> str:
    """Forget an entry, of `target` if it is named by a part of it; `for_good`: also that it ever
    was, so that it cannot be undone."""
    entry = _own_entry(desk, wanted, target)
    told = _change(desk, entry.target, Operation(action="remove", old_text=entry.text))
    if not for_good:
        return f"Forgotten: {entry.text}\n{told}"

    def clear() -> None:
        folder = entry.space.folder(desk.home)
        with locked(folder):
            erase(folder, entry.text)

    shared_files.change(desk.db, desk.home, clear, [entry.space.prefix])
    return f"Forgotten for good. {told}"


def undo(desk: Desk, wanted: str = "") -> str:
    """Undo the newest change, or the one with an id."""
    _require_own(desk)
    change = undo_change(desk.home, desk.change, desk.db, wanted, desk.author)
    return f"Undone: {in_words(change)}"


def show_here(db: SessionDB, scope: MemoryScope, word: str) -> str:
    """Let one's own memory be read in a group, or no longer."""
    if scope.chat is None or scope.person is None:
        raise ToolError(
            "That is said in a group: there, your own memory is not read unless you do."
        )
    if word not in ("on", "off"):
        is_on = bool(db.list_shown_spaces(scope.person, scope.chat))
        return (
            f"Your own memory is {'read' if is_on else 'not read'} in this chat. /memory here on"
            " or off changes that."
        )
    db.show_memory(scope.person, scope.chat, word == "on")
    if word == "on":
        return (
            "From your next message on I use here what I remember of you, and others may read what"
            " I say of it. /memory here off ends that."
        )
    return "Your own memory is not read in this chat any more."


def _change(desk: Desk, target: str, operation: Operation) -> str:
    _require_own(desk)
    entries = change_entries(
        desk.home, target, [operation], desk.db, places=desk.change, author=desk.author
    )
    return f"There are {len(entries)} entries now. The next conversation reads them."


def _require_own(desk: Desk) -> None:
    if not desk.change:
        raise ToolError("Nothing is kept here: the conversation is not yours alone.")


def _own_entry(desk: Desk, wanted: str, target: str | None = None) -> Remembered:
    """The entry that is meant by an id, or by a part of it (of those in `target`)."""
    wanted = wanted.strip()
    entries = [entry for entry in list_entries(desk) if entry.space in desk.change]
    matching = [entry for entry in entries if wanted and entry.id == wanted.lower()]
    entries = [entry for entry in entries if target in (None, entry.target)]
    matching = matching or [entry for entry in entries if wanted and wanted in entry.text]
    if len(matching) == 1:
        return matching[0]
    listed = "\n".join(f"[{entry.id}] {entry.text}" for entry in matching or entries) or "(none)"
    problem = "Several entries contain" if matching else "No entry contains"
    raise ToolError(f"{problem} {wanted!r}. There are:\n{listed}")


# In words


def describe(desk: Desk) -> str:
    """What is remembered, for people to read."""
    entries = list_entries(desk)
    parts = []
    for target, (name, limit) in FILES.items():
        own = [e for e in entries if e.target == target and e.space != SHARED]
        used = len("".join(entry.text for entry in own))
        parts.append(f"{name} ({used} of {limit} characters)")
        parts += [_line(desk, entry) for entry in own]
    shared = [entry for entry in entries if entry.space == SHARED]
    if shared:
        parts += ["For everybody", *(_line(desk, entry) for entry in shared)]
    return "\n".join(parts)


def _line(desk: Desk, entry: Remembered) -> str:
    return f"- [{entry.id}] {entry.text} ({origin_in_words(desk, entry)})"


def origin_in_words(desk: Desk, entry: Remembered) -> str:
    """Where an entry came from."""
    if entry.origin is None:
        return WAYS[""]
    return _origin(desk, entry.origin, names=entry.space in desk.change)


def _origin(desk: Desk, change: Change, *, names: bool = True) -> str:
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(change.at))
    where = conversation_of(desk, change) if names else ""
    said = f" “{where}”" if where else ""
    return f"{WAYS.get(change.how, change.how)}{said}, {day}"


def conversation_of(desk: Desk, change: Change) -> str:
    """The conversation in which a change was made, if whoever looks may see it."""
    if not change.session_id or desk.db is None:
        return ""
    session = desk.db.get_session(change.session_id)
    if session is None or (desk.person is not None and not is_owned(session, desk.person)):
        return ""
    return str(session["title"] or session["id"])


def describe_changes(desk: Desk, limit: int = MOST_CHANGES) -> str:
    """What was learnt and changed, for people to read."""
    changes = list_changes(desk, limit)
    undone = {change.undoes for change in changes}
    lines = [
        f"[{change.id}] {in_words(change)} ({_origin(desk, change)})"
        + (", undone" if change.id in undone else "")
        for change in changes
    ]
    return "\n".join(lines) or "Nothing was learnt yet."


def in_words(change: Change) -> str:
    """A change in a line."""
    prefix = "undid: " if change.undoes else ""
    if change.kind == "skill":
        return f"{prefix}{change.action} the skill {change.before}"
    if change.action == "replace":
        return f"{prefix}{change.before} → {change.after}"
    return f"{prefix}{'+' if change.action == 'add' else '−'} {change.after or change.before}"


# As a line

_Act = Callable[[Desk, str], str]


def _add(desk: Desk, rest: str) -> str:
    first, _, text = rest.partition(" ")
    return add(desk, text, "user") if first == "--user" else add(desk, rest)


def _edit(desk: Desk, rest: str) -> str:
    wanted, _, text = rest.partition(" ")
    return edit(desk, wanted, text)


def _forget(desk: Desk, rest: str) -> str:
    first, _, wanted = rest.partition(" ")
    if first == "--for-good":
        return forget(desk, wanted, for_good=True)
    return forget(desk, rest)


def _find(desk: Desk, rest: str) -> str:
    from agent.memory_find import describe as found_in_words

    return found_in_words(desk, rest)


_ACTIONS: dict[str, _Act] = {
    "show": lambda desk, rest: describe(desk),
    "add": _add,
    "edit": _edit,
    "forget": _forget,
    "remove": _forget,
    "find": lambda desk, rest: _find(desk, rest),
    "history": lambda desk, rest: describe_changes(desk),
    "undo": undo,
}
ACTIONS: Sequence[str] = (
    "show", "find", "add", "edit", "forget", "history", "undo", "here", "shared",
)  # fmt: skip


def run(home: Path, db: SessionDB, scope: MemoryScope, session_id: str, line: str) -> str:
    """Carry out what follows /memory; ToolError for what it does not say."""
    word, _, rest = line.strip().partition(" ")
    if word == "here":
        return show_here(db, scope, rest.strip())
    shared = word == "shared"
    if shared:
        word, _, rest = rest.strip().partition(" ")
    action = _ACTIONS.get(word or "show")
    if action is None:
        raise ToolError(f"/memory knows {', '.join(ACTIONS)}; there is no {word!r}.")
    return action(desk_for(home, db, scope, session_id, shared=shared), rest.strip())
