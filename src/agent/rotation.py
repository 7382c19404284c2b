"""Who holds the id of a conversation's session, and how each learns of a new one.

A compression moves a conversation to another session in one transaction, which moves the chats'
bindings, the title, the goal and the hand-off too (`hermes_state.rotation`). Right after it has
committed, and before anything else is done, the journal tells everybody in this process who holds
the old id: those in `HOLDERS`, in that order, each added once (`agent.holders.add`). It does so in
a turn and at /compress alike, and as soon as it notices that another process, or another agent of
this one, has compressed the conversation (`Rotation.elsewhere`).

What is not in the list needs no telling:

- whatever keeps the conversation's id, which stays: leases, event logs and viewers, the places in
  which chats wait for their turn, options of a chat, folders and checkpoints of tools, background
  work;
- whatever asks the agent for its session when it needs it: tools and their processes, plugins'
  hooks, reviews, the plain chat, slash commands;
- whatever keeps an id and asks the store for the tip when it uses it: responses and sessions of the
  API, hand-offs, notes, accepted messages, titles, `SessionStore` when a chat writes;
- rows about what was: which session a tool ran in, who started a sub-agent, what was approved;
- viewers, who only show the id: they hear the event `Compressed` (clients of the session server
  `session.info`), in other processes too.

A process that has no agent of the conversation at work follows through the store: a chat's entry
through the version of the routing table (`gateway.bindings`), an agent through the version of its
session when it begins its next turn (`Journal.refresh`), a live session that nobody prompts with
its next look at the store (`tui_gateway.history.follow_writes`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

log = logging.getLogger(__name__)

HOLDERS = {
    "session context": "HERMES_SESSION_ID of what runs in the turn, and of its child processes",
    "context engine": "a plugin's engine, which keeps what it knows by session",
    "memory providers": "plugins' memories, which keep what they know by session",
    "chat bindings": "the gateway's entries of the chats that are in the conversation",
    "agent cache": "the gateway's entry of the agent that it keeps for a chat",
    "event hooks": "handlers of session:compress, in the gateway and in the plain chat",
    "live session": "the session server's live session, its clients and its slash worker",
}
"""Everybody who must follow a rotation, in order, with what they hold."""


class Rotation(NamedTuple):
    """A conversation was compressed, and that is stored."""

    old_session_id: str
    new_session_id: str
    """The same as the old one if it was compressed in place."""
    conversation_id: str
    """The conversation's one id for life."""
    in_place: bool = False
    in_turn: bool = False
    """Whether a turn of this agent is in the middle of its work."""
    elsewhere: bool = False
    """Whether another process or another agent did it, and this one has noticed."""


Holder: TypeAlias = Callable[[Rotation], object]
"""Follows a rotation; called on the thread that compresses, so it must return soon."""


class RotationHolders:
    """Those who hold the session id of one agent's conversation."""

    def __init__(self) -> None:
        self._holders: dict[str, Holder] = {}

    def add(self, name: str, follow: Holder) -> None:
        """Tell `follow` of every rotation from now on. `name` is one of `HOLDERS`, used once."""
        if name not in HOLDERS:
            raise ValueError(
                f"{name!r} is not among those who hold a session id; list it in agent/rotation.py."
            )
        if name in self._holders:
            raise ValueError(f"{name!r} follows this agent already.")
        self._holders[name] = follow

    @property
    def names(self) -> list[str]:
        """Who is told, in order."""
        return [name for name in HOLDERS if name in self._holders]

    def tell(self, rotation: Rotation) -> None:
        """Call every holder. One that fails is logged and does not affect the others."""
        for name in self.names:
            try:
                self._holders[name](rotation)
            except Exception:
                # It is stored: whatever a holder does wrong must not cost the turn.
                log.exception(
                    "The %s did not follow from %s to %s",
                    name, rotation.old_session_id, rotation.new_session_id,
                )  # fmt: skip
