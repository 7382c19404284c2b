"""What the agent may do in a session: its mode, and the folders it may write to."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agent.wall_choices import (
    WallChoiceError,
    added_folders,
    configured_folders,
    folder_named,
    real_folder,
)
from tools.modes import MEANINGS

from .. import live, walls
from .. import shapes_settings as wire
from ..clients import READ, TALK
from ..hub import Session
from ..rpc import NOT_ALLOWED, Call, RpcError, method

BAD_FOLDER = 4016


@method("session.mode", scope=READ)
def get_mode(call: Call, session_id: str) -> wire.SessionMode:
    """What the agent may do in a session."""
    return _mode(call, call.session(session_id))


@method("session.mode.set", scope=TALK)
def set_mode(
    call: Call, session_id: str, mode: Literal["plan", "guarded", "full"]
) -> wire.SessionMode:
    """Choose what the agent may do, at once, also in a running turn.

    It is kept with the conversation; every client of the session gets session.info.
    """
    session = call.session(session_id)
    if refusal := call.access.why_no_mode(mode):
        raise RpcError(NOT_ALLOWED, refusal)
    walls.set_mode(call.hub, session_id, session, mode)
    return _mode(call, session)


def _mode(call: Call, session: Session) -> wire.SessionMode:
    mode = live.mode_of(session, call.config)
    return {"mode": mode, "meaning": MEANINGS[mode]}


@method("session.folders", scope=READ)
def get_folders(call: Call, session_id: str) -> wire.SessionFolders:
    """Where the agent may write in a session: its own folder, configured ones, added ones."""
    return _folders(call, call.session(session_id))


@method("session.folders.add")
def add_folder(call: Call, session_id: str, path: str) -> wire.SessionFolders:
    """Let the agent write to a further folder; every client of the session gets session.info."""
    session = call.session(session_id)
    try:
        folder = folder_named(path, Path(session["cwd"]), call.config.home)
    except WallChoiceError as error:
        raise RpcError(BAD_FOLDER, str(error)) from error
    walls.add_folders(call.hub, session_id, session, [folder])
    return _folders(call, session)


@method("session.folders.remove")
def remove_folder(call: Call, session_id: str, path: str) -> wire.SessionFolders:
    """Take a folder back that was added."""
    session = call.session(session_id)
    try:
        folder = real_folder(path, Path(session["cwd"]))
        walls.remove_folder(call.hub, session_id, session, folder)
    except WallChoiceError as error:
        raise RpcError(BAD_FOLDER, str(error)) from error
    return _folders(call, session)


def _folders(call: Call, session: Session) -> wire.SessionFolders:
    agent = session.get("agent")
    root = agent.workspace.root if agent is not None else session["cwd"]
    added = added_folders(call.db, live.current_key(session))
    return {
        "root": str(root),
        "configured": [str(folder) for folder in configured_folders(call.config)],
        "added": [str(folder) for folder in added],
    }
