"""Undoing what turns did to files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tools import checkpoints
from tools.base import ToolError, Workspace
from tools.checkpoints import enabled, list_checkpoints

from .. import live, prompts
from .. import shapes_work as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

NO_CHECKPOINT = 4014
NOT_RESTORED = 5021
NOT_COMPARED = 5022


def _place(call: Call, session: dict[str, Any]) -> tuple[Workspace, str]:
    """Where a session works, and the id of its conversation."""
    agent = session.get("agent")
    conversation = call.here(session).root(live.current_key(session))
    if agent is not None:
        return agent.workspace, conversation
    from agent.build import tool_settings

    config = call.config
    return Workspace(
        config.home, Path(session["cwd"]), settings=tool_settings(config)
    ), conversation


@method("rollback.list", scope=READ, slow=True)
def list_all(call: Call, session_id: str) -> wire.Checkpoints:
    """What turns of the conversation did to files, newest first."""
    session = call.session(session_id)
    workspace, conversation = _place(call, session)
    return {
        "enabled": enabled(workspace),
        "checkpoints": [
            {
                "hash": checkpoint.id,
                "at": checkpoint.at,
                "tools": list(checkpoint.tools),
                "files": [
                    {"path": str(file.path), "change": file.change} for file in checkpoint.files
                ],
            }
            for checkpoint in list_checkpoints(workspace, conversation)
        ],
    }


@method("rollback.diff", scope=READ, slow=True)
def diff(call: Call, session_id: str, hash: str) -> wire.CheckpointDiff:
    """What differs between the files before a turn and now."""
    session = call.session(session_id)
    _require(hash)
    workspace, conversation = _place(call, session)
    try:
        return {"hash": hash, "diff": checkpoints.diff(workspace, conversation, hash)}
    except ToolError as error:
        raise RpcError(NOT_COMPARED, str(error)) from error


@method("rollback.restore", scope=TALK, slow=True)
def restore(
    call: Call, session_id: str, hash: str, file_path: str | None = None, force: bool = False
) -> wire.RolledBack:
    """Put back what a turn changed, or one file of it; refused if it was changed since.

    With `force` it is put back all the same. The result names what undoes it.
    """
    session = call.session(session_id)
    _require(hash)
    with prompts.occupied(call.hub, session_id, session, "roll back"):
        workspace, conversation = _place(call, session)
        file = str(workspace.cwd / Path(file_path).expanduser()) if file_path else None
        try:
            done = checkpoints.restore(workspace, conversation, hash, file, force=force)
        except ToolError as error:
            raise RpcError(NOT_RESTORED, str(error)) from error
    return {
        "restored": [str(path) for path in done.files],
        "not_kept": [str(path) for path in done.not_kept],
        "undo": done.checkpoint,
    }


def _require(checkpoint: str) -> None:
    if not checkpoint.strip():
        raise RpcError(NO_CHECKPOINT, "Which one? rollback.list has their hashes.")
