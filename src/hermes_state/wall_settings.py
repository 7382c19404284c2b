"""What a person decided about a conversation's wall: its mode, and folders that were added.

It stands beside the sessions, under the conversation, so that it holds in every process, through
compressions, and after a restart.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from .dialect import Connection, value
from .lineage import FIRST_SESSION
from .sessions import set_meta

WALL_MODES: tuple[Literal["plan", "guarded", "full"], ...] = ("plan", "guarded", "full")


_PREFIX = "wall:"


def wall_key(conversation_id: str) -> str:
    """Where it is kept what was decided about a conversation's wall."""
    return f"{_PREFIX}{conversation_id}"


def get_wall_settings(conn: Connection, session_id: str) -> dict[str, Any]:
    """The `mode` ("" if none was chosen) and the added `folders` of a session's conversation."""
    kept = value(
        conn,
        f"SELECT value FROM state_meta WHERE key = '{_PREFIX}' || COALESCE(({FIRST_SESSION}), ?1)",
        (session_id,),
    )
    return {"mode": "", "folders": [], **(json.loads(kept) if kept else {})}


def set_wall_mode(conn: Connection, session_id: str, mode: str) -> None:
    """Choose the mode of a conversation; "" goes back to the configured one."""
    if mode not in ("", *WALL_MODES):
        raise ValueError(f"{mode!r} is no mode; there are {', '.join(WALL_MODES)}.")
    _change(conn, session_id, mode=mode)


def set_wall_folders(conn: Connection, session_id: str, folders: list[str]) -> None:
    """Say which folders a conversation may write to besides its root."""
    _change(conn, session_id, folders=list(dict.fromkeys(folders)))


def carry_wall(conn: Connection, session_id: str, branch_id: str, *, to_another: bool) -> None:
    """Let a branch be as confined as what it branches from; another person's gets no more."""
    kept = get_wall_settings(conn, session_id)
    if to_another:
        kept = {"mode": "plan" if kept["mode"] == "plan" else "", "folders": []}
    if kept["mode"] or kept["folders"]:
        set_meta(conn, _key(conn, branch_id), json.dumps(kept))


def _change(conn: Connection, session_id: str, **changes: Any) -> None:
    settings = {**get_wall_settings(conn, session_id), **changes}
    set_meta(conn, _key(conn, session_id), json.dumps(settings))


def _key(conn: Connection, session_id: str) -> str:
    first: str | None = value(conn, FIRST_SESSION, (session_id,))
    return wall_key(session_id if first is None else first)
