"""Finding and keeping conversations, and where a session works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from agent.home import private_folder
from hermes_base.files import write_private
from hermes_base.redaction import redact_value

from .. import live, prompts
from .. import shapes_conversation as wire
from ..clients import READ, TALK
from ..paths import existing_folder
from ..rpc import Call, RpcError, method

EMPTY_QUERY = 4004
NOT_A_FOLDER = 4016
BAD_WIDTH = 4017
NOTHING_SAID = 4008
NOT_SAVED = 5011
_WIDTHS = range(20, 1001)


@method("session.search", scope=READ, slow=True)
def search(
    call: Call,
    query: str,
    session_id: str | None = None,
    limit: int = 20,
    offset: int = 0,
    sort: Literal["best", "newest", "oldest"] = "best",
    within: bool = False,
) -> wire.Hits:
    """Search all that was said: a question, words, "phrases", begin*, this OR that, -without.

    With a session, only what its owner said and was told; with `within`, only in its conversation.
    """
    if not query.strip():
        raise RpcError(EMPTY_QUERY, "What is to be found? The query is empty.")
    session = call.session(session_id) if session_id else None
    conversation = None
    if within:
        if session is None:
            raise RpcError(EMPTY_QUERY, "To search within a conversation, name its session_id.")
        conversation = call.here(session).root(live.current_key(session))
    hits = call.view_in(session).search(
        query,
        limit=max(1, min(limit, 100)),
        offset=max(0, offset),
        sort=None if sort == "best" else sort,
        conversation_id=conversation,
    )
    return {
        "query": query,
        "results": [
            {
                "session_id": hit["session_id"],
                "message_id": hit.get("id"),
                "title": hit.get("title"),
                "role": hit.get("role"),
                "snippet": hit["snippet"],
                "timestamp": hit.get("timestamp"),
                "source": hit.get("source"),
            }
            for hit in hits
        ],
    }


@method("session.save", scope=TALK, slow=True)
def save(call: Call, session_id: str) -> wire.Saved:
    """Write the whole conversation into a private file of the home, without secrets."""
    session = call.session(session_id)
    key = live.current_key(session)
    exported = call.here(session).export(key)
    if exported is None:
        raise RpcError(NOTHING_SAID, "Nothing was said yet, so there is nothing to save.")
    try:
        folder = private_folder(call.config.home / "sessions" / "saved")
        path = folder / f"{key}.json"
        write_private(path, json.dumps(redact_value(exported), ensure_ascii=False, indent=1))
    except OSError as error:
        raise RpcError(NOT_SAVED, f"It cannot be written: {error.strerror}.") from error
    return {"file": str(path)}


@method("session.cwd.set")
def set_cwd(call: Call, session_id: str, cwd: str) -> wire.Place:
    """Let the session work in another folder from its next turn on."""
    hub = call.hub
    session = call.session(session_id)
    wanted = existing_folder(Path(session["cwd"]), cwd)
    if wanted is None:
        raise RpcError(NOT_A_FOLDER, f"{cwd[:200]!r} is not a folder.")
    with prompts.occupied(hub, session_id, session, "work in another folder"):
        session["cwd"] = str(wanted)
        agent = session.get("agent")
        if agent is not None:
            with agent.workspace.lock:
                agent.workspace.cwd = agent.workspace.root = wanted
        branch = live.git_branch(wanted)
        key = live.current_key(session)
        call.here(session).move_to_folder(key, str(wanted), branch or None)
        hub.emit("session.info", session_id, live.info(hub, session_id, session))
    return {"cwd": session["cwd"], "branch": branch}


@method("terminal.resize", scope=READ)
def resize(call: Call, session_id: str, cols: int) -> wire.Width:
    """Say how wide the client's screen is."""
    session = call.session(session_id)
    if cols not in _WIDTHS:
        raise RpcError(BAD_WIDTH, f"cols must be from {_WIDTHS[0]} to {_WIDTHS[-1]}, not {cols}.")
    session["cols"] = cols
    return {"cols": cols}
