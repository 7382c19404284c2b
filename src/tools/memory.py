"""What the agent remembers from one conversation to the next: MEMORY.md and USER.md.

Entries are separated by a line with `§`. What is written here is read by the next session; the
running one keeps the prompt it began with. Both files have a limit, so that they stay short enough
to be read every time, and what would instruct rather than inform is refused. Whose files they are
says `memory_scope`; who changed what, `memory_history`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from hermes_base.files import write_private

from . import shared_files
from .base import Tool, ToolContext, ToolError, tool
from .memory_history import Author, Change, locked, new_change, note_changes
from .memory_scope import OPERATORS, SHARED, Space, spaces_of
from .screening import suspicion

if TYPE_CHECKING:
    from hermes_state import SessionDB

SEPARATOR = "\n§\n"
FILES = {"memory": ("MEMORY.md", 4000), "user": ("USER.md", 2000)}
"""Target → file name and longest content in characters."""
SHARING = "shared-memory"
"""What is approved before everybody's memory is written."""

Target = Literal["memory", "user"]
Action = Literal["add", "replace", "remove"]


class Operation(TypedDict, total=False):
    """One change of several."""

    action: str
    content: str
    old_text: str


@tool(toolset="memory", effect="idempotent")
def memory(
    context: ToolContext,
    target: Target,
    action: Action | None = None,
    content: str | None = None,
    old_text: str | None = None,
    operations: list[Operation] | None = None,
    shared: bool = False,
) -> str:
    """Keep a fact for later conversations. Save what will still matter: preferences, decisions,
    facts about the project or the person. Not: progress of the task at hand.

    target: "memory" for notes of yours, "user" for what you know about the person
    action: add an entry, replace the one that contains old_text, or remove it
    content: the entry, one fact in a sentence or two
    old_text: a part of the entry to replace or remove that only it contains
    operations: several changes at once, each with action, content and old_text
    shared: keep it for everybody you talk to, if you are asked to; this needs approval
    """
    wanted: list[Operation] = list(operations or [])
    if action is not None:
        single = Operation(action=action)
        if content is not None:
            single["content"] = content
        if old_text is not None:
            single["old_text"] = old_text
        wanted.insert(0, single)
    if not wanted:
        raise ToolError("Nothing to do. Give an action (add, replace, remove) with its content.")
    settings = context.workspace.settings.get("memory") or {}
    if target == "user" and not settings.get("user_profile", True):
        raise ToolError("Nothing is kept about the person here: the settings say so.")
    home = context.workspace.home
    places = writable(context, shared)
    if shared:
        if target == "user":
            raise ToolError('What is kept about one person is not for everybody: use "memory".')
        approve_sharing(context, "; ".join(map(_in_words, wanted)))
    entries = change_entries(
        home, target, wanted, context.db, places=places, author=author_of(context)
    )
    name, limit = FILES[target]
    used = f"{len(SEPARATOR.join(entries))} of {limit} characters"
    return f"Saved; {name} has {len(entries)} entries ({used}). The next session reads it."


def writable(context: ToolContext, shared: bool) -> tuple[Space, ...]:
    """The spaces that a tool may change, the one for additions first; ToolError if there are none.

    A review changes nothing that is shared.
    """
    spaces = spaces_of(context)
    if shared:
        if not spaces.may_share or context.written_by != "agent":
            raise ToolError("Only the operator can change what everybody gets. Keep it for here.")
        return (SHARED,)
    if spaces.write is None:
        raise ToolError("Nothing is kept from this conversation: it is not of this person alone.")
    return spaces.own


def approve_sharing(context: ToolContext, what: str) -> None:
    """Have the operator agree that something is for everybody; ToolError if they do not."""
    from .approval import check_action

    check_action(context, SHARING, "Changes what everybody who talks to me gets", what)


def author_of(context: ToolContext) -> Author:
    """Who makes a change by a tool."""
    return Author(context.written_by, context.session_id, context.user_id)


def change_entries(
    home: Path,
    target: str,
    operations: list[Operation],
    db: SessionDB | None,
    *,
    places: Sequence[Space] = (OPERATORS,),
    author: Author | None = None,
    undoes: str = "",
) -> list[str]:
    """Change memory files, on every machine if the store `db` is a server; returns the entries.

    Entries are added to the first of `places`, and replaced or removed where they are. Raises
    ToolError if an entry is unfit, not there, or one too many.
    """
    author = author or Author()
    folders = [place.folder(home) for place in places]

    def write() -> list[str]:
        with ExitStack() as stack:
            for folder in sorted(folders):
                stack.enter_context(locked(folder))
            before = [read_entries(memory_path(folder, target)) for folder in folders]
            after, changes = before, list[tuple[int, Change]]()
            for operation in operations:
                after, made = changed_in(after, operation, target, author, undoes)
                changes += made
            for number, folder in enumerate(folders):
                if after[number] == before[number]:
                    continue
                text = SEPARATOR.join(after[number])
                refuse_too_long(target, text, before)
                note_changes(folder, [change for at, change in changes if at == number])
                write_private(memory_path(folder, target), text + "\n" if text else "")
            return [entry for entries in after for entry in entries]

    return shared_files.change(db, home, write, [place.prefix for place in places])


def refuse_too_long(target: str, text: str, before: list[list[str]]) -> None:
    """ToolError if a file would be longer than it may be."""
    name, limit = FILES[target]
    if len(text) > limit:
        raise ToolError(
            f"That makes {len(text)} characters; at most {limit} are kept in {name}. "
            "Replace or remove entries first, or say it more briefly. Current entries:\n"
            + "\n".join(f"- {entry}" for entries in before for entry in entries)
        )


def memory_path(folder: Path, target: str) -> Path:
    """Where a target is kept in the folder of a space; the operator's is the home."""
    return folder / "memories" / FILES[target][0]


def entries_in(home: Path, target: str, places: Sequence[Space]) -> list[str]:
    """The entries in several spaces, in their order."""
    files = [memory_path(place.folder(home), target) for place in places]
    return [entry for file in files for entry in read_entries(file)]


def read_entries(path: Path) -> list[str]:
    """The entries in a memory file; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [entry.strip() for entry in text.split(SEPARATOR) if entry.strip()]


def changed_in(
    lists: list[list[str]], operation: Operation, target: str, author: Author, undoes: str
) -> tuple[list[list[str]], list[tuple[int, Change]]]:
    """The entries of several files after one operation, and which file it changed."""
    action = operation.get("action")
    content = (operation.get("content") or "").strip()
    if action in ("add", "replace"):
        refuse_unfit(content)
    everything = [entry for entries in lists for entry in entries]
    if action == "add":
        if content in everything:
            return lists, []
        change = new_change(target, action, author, after=content, undoes=undoes)
        return [[*lists[0], content], *lists[1:]], [(0, change)]
    if action not in ("replace", "remove"):
        raise ToolError(f"action must be add, replace or remove, not {action!r}.")
    index = find_entry(everything, (operation.get("old_text") or "").strip())
    number = 0
    while index >= len(lists[number]):
        index -= len(lists[number])
        number += 1
    entries = lists[number]
    after = content if action == "replace" else ""
    change = new_change(target, action, author, before=entries[index], after=after, undoes=undoes)
    put = [*entries[:index], *([after] if after else []), *entries[index + 1 :]]
    return [*lists[:number], put, *lists[number + 1 :]], [(number, change)]


def refuse_unfit(content: str) -> None:
    """Raise ToolError for an entry that is empty, breaks the format or gives orders."""
    if not content:
        raise ToolError("content is empty. Give the fact to keep.")
    if SEPARATOR.strip() in content.splitlines():
        raise ToolError("An entry cannot contain a line with § alone. Save the parts separately.")
    reason = suspicion(content)
    if reason:
        raise ToolError(f"This cannot be kept: it {reason}. Keep the fact in your own words.")


def find_entry(entries: list[str], old_text: str) -> int:
    """The one entry that contains the text."""
    if not old_text:
        raise ToolError("old_text is needed: a part of the entry that only it contains.")
    matching = [index for index, entry in enumerate(entries) if old_text == entry] or [
        index for index, entry in enumerate(entries) if old_text in entry
    ]
    if len(matching) == 1:
        return matching[0]
    listed = "\n".join(f"- {entry}" for entry in entries) or "(none)"
    problem = "No entry contains" if not matching else f"{len(matching)} entries contain"
    raise ToolError(f"{problem} {old_text!r}. The entries are:\n{listed}")


def _in_words(operation: Operation) -> str:
    action = operation.get("action") or "change"
    return f"{action} {operation.get('content') or operation.get('old_text') or ''!r}"


TOOLS: list[Tool] = [memory]
