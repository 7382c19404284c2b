"""The list of conversations, and the clients that are told when it changes.

A client that watches it is told of rows that are new or different, whichever process wrote them.
The thread that follows the store (`other_processes`) compares, at most every quarter of a second
and only while something is written.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from . import inbox, shapes
from .clients import principal_of
from .hub import Hub

if TYPE_CHECKING:
    from hermes_state import PersonView, SessionDB

    from .peers import Peer

_lock = threading.Lock()
_watching: WeakKeyDictionary[Peer, dict[str, Any]] = WeakKeyDictionary()


def read(
    mine: PersonView, db: SessionDB, limit: int, query: str | None = None
) -> list[shapes.WireSession]:
    """The newest conversations that may be shown, those with a waiting message included."""
    rows = mine.list_sessions(limit=limit, order_by_last_active=True, search_query=query)
    known = {row["id"] for row in rows}
    running = db.list_running()
    waiting = [
        shapes.waiting_session(row)
        for row in mine.waiting(source=inbox.SOURCE)
        if row["session_id"] not in known and db.get_session(row["session_id"]) is None
    ]
    listed = [shapes.session(row, running=row["conversation_id"] in running) for row in rows]
    return [*waiting, *listed][:limit]


def watch(hub: Hub, peer: Peer, limit: int) -> list[shapes.WireSession]:
    """Tell a client from now on what changes; returns the list as it is."""
    principal = principal_of(hub, peer)
    assert principal is not None  # who is not known is refused before
    sessions = read(hub.get_db().view(principal.owner), hub.get_db(), limit)
    with _lock:
        _watching[peer] = {"limit": limit, "seen": {row["id"]: row for row in sessions}}
    from . import other_processes

    other_processes.look_soon()  # a thread that sleeps because there was no store yet
    return sessions


def tell(hub: Hub) -> None:
    """Tell whoever watches the list which of its rows have changed."""
    with _lock:
        watching = [(peer, facts) for peer, facts in _watching.items() if not peer.gone]
    lists: dict[Any, list[shapes.WireSession]] = {}
    for peer, facts in watching:
        principal = principal_of(hub, peer)
        if principal is None:
            peer.drop()
            continue
        db = hub.get_db()
        if principal.owner not in lists:
            lists[principal.owner] = read(db.view(principal.owner), db, facts["limit"])
        seen = facts["seen"]
        changed = [row for row in lists[principal.owner] if seen.get(row["id"]) != row]
        if changed:
            facts["seen"] = {row["id"]: row for row in lists[principal.owner]}
            _send(peer, changed)


def _send(peer: Peer, sessions: list[shapes.WireSession]) -> None:
    peer.send(
        {
            "jsonrpc": "2.0",
            "method": "event",
            "params": {
                "type": "sessions.changed",
                "session_id": "",
                "payload": {"sessions": sessions},
            },
        }
    )
