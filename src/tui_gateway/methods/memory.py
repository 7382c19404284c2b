"""What is remembered: shown, changed and undone as /memory does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.base import ToolError
from tools.memory_scope import SHARED

from .. import shapes_settings as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

if TYPE_CHECKING:
    from agent.memory_actions import Desk

NOT_DONE = 4035


@method("memory.list", scope=READ, slow=True)
def list_entries(call: Call, session_id: str, shared: bool = False) -> wire.MemoryEntries:
    """What is remembered for the session's person, or with `shared` what everybody gets."""
    from agent import memory_actions as actions

    desk = _desk(call, session_id, shared)
    entries: list[wire.MemoryEntry] = []
    for entry in actions.list_entries(desk):
        origin = entry.origin
        is_known = origin is not None and bool(actions.conversation_of(desk, origin))
        entries.append(
            {
                "id": entry.id,
                "target": entry.target,
                "text": entry.text,
                "shared": entry.space == SHARED,
                "how": "hand" if origin is None else origin.how,
                "at": 0.0 if origin is None else origin.at,
                "session_id": origin.session_id if origin is not None and is_known else "",
            }
        )
    return {"entries": entries}


@method("memory.add", scope=TALK, slow=True)
def add(
    call: Call, session_id: str, text: str, target: str = "memory", shared: bool = False
) -> wire.MemoryTold:
    """Remember something; `target` user is about the person."""
    from agent import memory_actions as actions

    if target not in ("memory", "user"):
        raise RpcError(NOT_DONE, "target must be memory or user.")
    desk = _desk(call, session_id, shared)
    return _told(lambda: actions.add(desk, text, target))


@method("memory.edit", scope=TALK, slow=True)
def edit(
    call: Call, session_id: str, entry: str, text: str, shared: bool = False
) -> wire.MemoryTold:
    """Say an entry, named by its id or a part of it, in other words."""
    from agent import memory_actions as actions

    desk = _desk(call, session_id, shared)
    return _told(lambda: actions.edit(desk, entry, text))


@method("memory.forget", scope=TALK, slow=True)
def forget(
    call: Call, session_id: str, entry: str, for_good: bool = False, shared: bool = False
) -> wire.MemoryTold:
    """Forget an entry; `for_good` also that it ever was."""
    from agent import memory_actions as actions

    desk = _desk(call, session_id, shared)
    return _told(lambda: actions.forget(desk, entry, for_good=for_good))


@method("memory.history", scope=READ, slow=True)
def history(
    call: Call, session_id: str, limit: int = 30, shared: bool = False
) -> wire.MemoryChanges:
    """What was learnt and changed."""
    from agent import memory_actions as actions

    desk = _desk(call, session_id, shared)
    changes = actions.list_changes(desk, max(1, min(limit, 300)))
    undone = {change.undoes for change in changes}
    return {
        "changes": [
            {
                "id": change.id,
                "kind": change.kind,
                "action": change.action,
                "before": change.before,
                "after": change.after,
                "how": change.how,
                "at": change.at,
                "session_id": change.session_id if actions.conversation_of(desk, change) else "",
                "undoes": change.undoes,
                "undone": change.id in undone,
            }
            for change in changes
        ]
    }


@method("memory.undo", scope=TALK, slow=True)
def undo(call: Call, session_id: str, change: str = "", shared: bool = False) -> wire.MemoryTold:
    """Undo the change with this id, or the newest."""
    from agent import memory_actions as actions

    desk = _desk(call, session_id, shared)
    return _told(lambda: actions.undo(desk, change))


def _desk(call: Call, session_id: str, shared: bool) -> Desk:
    from agent import memory_actions as actions

    from ..surface import LiveSurface

    surface = LiveSurface(call.hub, session_id, call.session(session_id), call.principal)
    try:
        return actions.desk_for(
            call.config.home, call.db, surface.memory, surface.session_id, shared=shared
        )
    except ToolError as error:
        raise RpcError(NOT_DONE, str(error)) from error


def _told(act: Callable[[], str]) -> wire.MemoryTold:
    try:
        return {"output": act()}
    except ToolError as error:
        raise RpcError(NOT_DONE, str(error)) from error
