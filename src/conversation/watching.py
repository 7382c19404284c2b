"""Publishing the events of turns to whoever watches their conversation, in any process."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import ConversationLog, Logs
from .relay import Relay

if TYPE_CHECKING:
    from agent.events import Watcher

LOGS = Logs()
"""Of this process."""

_relays: dict[Path, Relay] = {}
_lock = threading.Lock()


def publish_turn(agent: Any) -> Watcher | None:
    """A watcher that publishes a turn's events; None if nobody could find its conversation.

    `agent` may be a stand-in for one, which nobody can watch.
    """
    from agent.agent import AIAgent

    if not isinstance(agent, AIAgent) or agent.db is None:
        return None
    return open_log(agent.workspace.home, agent.conversation_id).publish


def open_log(home: Path, conversation_id: str) -> ConversationLog:
    """The log of a conversation that turns run in here, offered to the processes of a home."""
    relay_of(home).listen()
    return LOGS.log(conversation_id)


def relay_of(home: Path) -> Relay:
    """The one that offers this process's events in a home."""
    with _lock:
        if home not in _relays:
            _relays[home] = Relay(home, LOGS)
        return _relays[home]
