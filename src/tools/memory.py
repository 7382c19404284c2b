"""What the agent remembers from one conversation to the next: MEMORY.md and USER.md.

Entries are separated by a line with `§`. What is written here is read by the next session; the
running one keeps the prompt it began with. Both files have a limit, so that they stay short enough
to be read every time, and what would instruct rather than inform is refused.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict

from hermes_base import files
from hermes_base.files import write_private

from . import shared_files
from .base import Tool, ToolContext, ToolError, tool
from .screening import suspicion

if TYPE_CHECKING:
    from hermes_state import SessionDB

SEPARATOR = "\n§\n"
FILES = {"memory": ("MEMORY.md", 4000), "user": ("USER.md", 2000)}
"""Target → file name and longest content in characters."""

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
) -> str:
    """Keep a fact for later conversations. Save what will still matter: preferences, decisions,
    facts about the project or the person. Not: progress of the task at hand.

    target: "memory" for notes of yours, "user" for what you know about the person
    action: add an entry, replace the one that contains old_text, or remove it
    content: the entry, one fact in a sentence or two
    old_text: a part of the entry to replace or remove that only it contains
    operations: several changes at once, each with action, content and old_text
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
    entries = change_entries(home, target, wanted, context.db)
    name, limit = FILES[target]
    used = f"{len(SEPARATOR.join(entries))} of {limit} characters"
    return f"Saved; {name} has {len(entries)} entries ({used}). The next session reads it."


def change_entries(
    home: Path, target: str, operations: list[Operation], db: SessionDB | None
) -> list[str]:
    """Change a memory file, on every machine if the store `db` is a server; returns its entries.

    Raises ToolError if an entry is unfit, not there, or one too many.
    """
    path = memory_path(home, target)

    def write() -> list[str]:
        with locked(path):
            before = entries = read_entries(path)
            for operation in operations:
                entries = changed(entries, operation)
            text = SEPARATOR.join(entries)
            if len(text) > (limit := FILES[target][1]):
                raise ToolError(
                    f"That makes {len(text)} characters; at most {limit} are kept in {path.name}. "
                    "Replace or remove entries first, or say it more briefly. Current entries:\n"
                    + "\n".join(f"- {entry}" for entry in before)
                )
            write_private(path, text + "\n" if text else "")
            return entries

    return shared_files.change(db, home, write)


def memory_path(home: Path, target: str) -> Path:
    """Where a target is kept."""
    return home / "memories" / FILES[target][0]


def read_entries(path: Path) -> list[str]:
    """The entries in a memory file; none if there is no file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [entry.strip() for entry in text.split(SEPARATOR) if entry.strip()]


def changed(entries: list[str], operation: Operation) -> list[str]:
    """The entries after one operation."""
    action = operation.get("action")
    content = (operation.get("content") or "").strip()
    if action in ("add", "replace"):
        refuse_unfit(content)
    if action == "add":
        return entries if content in entries else [*entries, content]
    if action not in ("replace", "remove"):
        raise ToolError(f"action must be add, replace or remove, not {action!r}.")
    index = find_entry(entries, (operation.get("old_text") or "").strip())
    return [*entries[:index], *([content] if action == "replace" else []), *entries[index + 1 :]]


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
    matching = [index for index, entry in enumerate(entries) if old_text in entry]
    if len(matching) == 1:
        return matching[0]
    listed = "\n".join(f"- {entry}" for entry in entries) or "(none)"
    problem = "No entry contains" if not matching else f"{len(matching)} entries contain"
    raise ToolError(f"{problem} {old_text!r}. The entries are:\n{listed}")


def locked(path: Path) -> AbstractContextManager[None]:
    """Keep other processes from changing the file at the same time."""
    return files.locked(path.with_suffix(".lock"))


TOOLS: list[Tool] = [memory]
