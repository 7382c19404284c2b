"""Publishes the events of agents to viewers of their conversation, in any process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import ConversationLog, Logs
from .relay import Relay

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.events import Watcher
    from hermes_state import SessionDB

    from .distant_view import DistantView
    from .events import Numbered
    from .relay import View

PUBLISHED = "published"
"""The name of an agent's watcher that publishes."""

LOGS = Logs()
"""Of this process."""

_relays: dict[Path, Relay] = {}
_lock = threading.Lock()


def publish_agent(agent: Any) -> None:
    """Publish what happens with an agent, in turns and beside them, from now on.

    `agent` may be a stand-in for one, or have no store: nobody could find its conversation.
    """
    from agent.agent import AIAgent

    if isinstance(agent, AIAgent) and agent.db is not None:
        conversation_id = agent.conversation_id
        open_log(agent.workspace.home, conversation_id)
        agent.add_watcher(PUBLISHED, functools.partial(LOGS.publish, conversation_id))


def follow_agent(agent: AIAgent, watch: Watcher) -> Callable[[], None]:
    """Hear what is published of an agent's conversation here, from now on; returns how to stop."""
    publish_agent(agent)
    log = LOGS.log(agent.conversation_id)
    return log.subscribe(log.number, lambda numbered: watch(numbered.event))


def open_log(home: Path, conversation_id: str) -> ConversationLog:
    """The log of a conversation that turns run in here, offered to the processes of a home."""
    relay_of(home).listen()
    return LOGS.log(conversation_id)


def follow_turn(
    db: SessionDB,
    home: Path,
    turn: Mapping[str, Any],
    show: Callable[[Numbered], None],
    since: int = 0,
) -> View | DistantView | None:
    """Watch a turn of another process in a thread; None if that is not possible.

    One of this machine is watched directly; any other through the store, if that is a server.
    `since` is the number of the last event that was seen, as for `ConversationLog.subscribe`.
    """
    from .distant_view import follow_distant
    from .relay import follow

    conversation_id = str(turn["conversation_id"])
    view = follow(home, str(turn["owner"]), conversation_id, show, since)
    if view is not None or not db.is_on_server:
        return view
    return follow_distant(db, conversation_id, show, since)


def relay_of(home: Path) -> Relay:
    """The one that offers this process's events in a home."""
    with _lock:
        if home not in _relays:
            _relays[home] = Relay(home, LOGS)
        return _relays[home]
