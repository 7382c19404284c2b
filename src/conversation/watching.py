"""Publishing what happens with agents to whoever watches their conversation, in any process."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import ConversationLog, Logs
from .relay import Relay

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.events import Watcher

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


def relay_of(home: Path) -> Relay:
    """The one that offers this process's events in a home."""
    with _lock:
        if home not in _relays:
            _relays[home] = Relay(home, LOGS)
        return _relays[home]
