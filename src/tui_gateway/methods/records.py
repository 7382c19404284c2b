"""Finding and keeping conversations, and where a session works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent.home import private_folder
from hermes_base.files import write_private
from hermes_base.redaction import redact_value
from hermes_state import plain_text

from .. import live, prompts
from .. import shapes_conversation as wire
from ..clients import READ, TALK
from ..paths import existing_folder
from ..rpc import Call, RpcError, method

if TYPE_CHECKING:
    from hermes_state import PersonView

EMPTY_QUERY = 4004
NOT_A_FOLDER = 4016
BAD_WIDTH = 4017
NOTHING_SAID = 4008
NOT_SAVED = 5011
_WIDTHS = range(20, 1001)
AROUND = 7
"""Messages that are read to know what was said around a hit: tools may be between."""
NEAR = 200
"""Characters of what was said before and after a hit."""


@method("session.search", scope=READ, slow=True)
def search(
    call: Call,
    query: str,
    session_id: str | None = None,
    limit: int = 20,
    offset: int = 0,
    sort: Literal["best", "newest", "oldest"] = "best",
    within: bool = False,
    conversation: str | None = None,
    role: Literal["user", "assistant", "tool"] | None = None,
    source: str | None = None,
    days: int | None = None,
    context: bool = False,
) -> wire.Hits:
    """Search all that was said: a question, words, "phrases", begin*, this OR that, -without.

    With a session, only what its owner said and was told; with `within`, only in its conversation.
    `conversation` is the id of a stored one to search alone; `days` goes back so far. With
    `context` each hit has what was said before and after it.
    """
    if not query.strip():
        raise RpcError(EMPTY_QUERY, "What is to be found? The query is empty.")
    session = call.session(session_id) if session_id else None
    conversation_id = call.mine.root(conversation) if conversation else None
    if within:
        if session is None:
            raise RpcError(EMPTY_QUERY, "To search within a conversation, name its session_id.")
        conversation_id = call.here(session).root(live.current_key(session))
    mine = call.view_in(session)
    hits = mine.search(
        query,
        limit=max(1, min(limit, 100)),
        offset=max(0, offset),
        sort=None if sort == "best" else sort,
        conversation_id=conversation_id,
        role_filter=[role] if role else None,
        source_filter=[source] if source else None,
        since=None if days is None else call.db.clock - max(1, min(days, 36500)) * 86_400,
    )
    return {"query": query, "results": [_hit(mine, hit, context) for hit in hits]}


def _hit(mine: PersonView, hit: dict[str, Any], context: bool) -> wire.Hit:
    shown: wire.Hit = {
        "session_id": hit["session_id"],
        "message_id": hit.get("id"),
        "title": hit.get("title"),
        "role": hit.get("role"),
        "snippet": hit["snippet"],
        "timestamp": hit.get("timestamp"),
        "source": hit.get("source"),
    }
    if context and hit.get("id") is not None:
        page = mine.page(hit["session_id"], around=hit["id"], limit=AROUND)["messages"]
        said = [row for row in page if row["id"] == hit["id"] or _text(row)]
        at = next((at for at, row in enumerate(said) if row["id"] == hit["id"]), None)
        if at is not None:
            shown["before"] = _near(said[at - 1]) if at else None
            shown["after"] = _near(said[at + 1]) if at + 1 < len(said) else None
    return shown


def _text(row: dict[str, Any]) -> str:
    """What a person or the model said in a message; nothing for a tool's result."""
    is_said = row["role"] in ("user", "assistant") and row["content"]
    return plain_text(row["content"]).strip() if is_said else ""


def _near(row: dict[str, Any]) -> wire.Near:
    return {"role": row["role"], "text": " ".join(_text(row)[:NEAR].split())}


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
