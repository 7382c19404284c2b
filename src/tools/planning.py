"""The to-do list, and questions to the person."""

from __future__ import annotations

from typing import Literal, TypedDict

from .base import Tool, ToolContext, ToolError, tool

MOST_TODOS = 100
_SIGNS = {"pending": "☐", "in_progress": "▶", "completed": "☑", "cancelled": "✗"}


class Todo(TypedDict, total=False):
    """One thing to do."""

    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"]


@tool(toolset="todo", effect="idempotent")
def todo(context: ToolContext, todos: list[Todo] | None = None, merge: bool = False) -> str:
    """Plan and track work of several steps. Without arguments it shows the list. Use it for tasks
    with three or more steps; keep exactly one item in progress.

    todos: items with id, content and status (pending, in_progress, completed, cancelled)
    merge: change or add only the given items; otherwise they become the whole list
    """
    with context.workspace.lock:
        current: dict[str, Todo] = context.workspace.state.setdefault("todos", {})
        if todos is not None:
            changed = dict(current) if merge else {}
            for item in todos:
                checked = check_todo(item, changed.get(str(item.get("id", ""))))
                changed[checked["id"]] = checked
            if len(changed) > MOST_TODOS:
                raise ToolError(f"At most {MOST_TODOS} items. Drop those that are done.")
            context.workspace.state["todos"] = current = changed
    if not current:
        return "The list is empty."
    lines = [f"{_SIGNS[t['status']]} {t['id']}. {t['content']}" for t in current.values()]
    done = sum(t["status"] == "completed" for t in current.values())
    return "\n".join([*lines, f"({done} of {len(current)} done)"])


def check_todo(item: Todo, before: Todo | None) -> Todo:
    """A complete item, from what was given and what it was before."""
    merged: Todo = {**(before or {}), **item}
    if not isinstance(item, dict) or not str(merged.get("id", "")).strip():
        raise ToolError('Each item needs an id, for instance {"id": "1", "content": "…"}.')
    content = str(merged.get("content", "")).strip()
    if not content:
        raise ToolError(f"Item {merged['id']} needs content: what is to be done.")
    status = merged.get("status", "pending")
    if status not in _SIGNS:
        raise ToolError(f"status must be one of {', '.join(_SIGNS)}, not {status!r}.")
    return {"id": str(merged["id"]), "content": content[:1000], "status": status}


@tool(toolset="clarify", effect="none")
def clarify(context: ToolContext, question: str, choices: list[str] | None = None) -> str:
    """Ask the person when something important is unclear and cannot be found out otherwise.

    question: one clear question
    choices: up to four short answers to pick from; the person may also answer freely
    """
    if not question.strip():
        raise ToolError("The question is empty.")
    offered = [choice.strip() for choice in choices or [] if choice.strip()]
    if len(offered) > 4:
        raise ToolError("At most four choices. Ask for the most important ones.")
    answer = context.asker.clarify(question.strip(), offered)
    return f"The person answered: {answer}" if answer.strip() else "The person gave no answer."


TOOLS: list[Tool] = [todo, clarify]
