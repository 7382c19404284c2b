"""What a person set for a chat's conversation (`/reasoning`, `/busy`), for as long as the
chat is in that conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation.places import TurnPlaces

    from .session_store import SessionStore

_CONVERSATION = "conversation"


class ChatOptions:
    """The options of every chat, in memory."""

    def __init__(
        self, store: SessionStore, conversations: TurnPlaces, defaults: dict[str, Any]
    ) -> None:
        """`defaults` is what is configured where a person set nothing."""
        self._store = store
        self._conversations = conversations
        self._defaults = defaults
        self._options: dict[str, dict[str, Any]] = {}

    def of(self, key: str) -> dict[str, Any]:
        """The options of the conversation that a chat is in now; those of an earlier one are
        dropped. What is written into the dictionary is kept."""
        session_id = self._store.peek_session_id(key)
        if session_id is None:  # they are for the conversation that begins with the next message
            return self._options.setdefault(key, {})
        return self._in(self._conversations.name(session_id), key)

    def _in(self, conversation: str, key: str) -> dict[str, Any]:
        options = self._options.setdefault(key, {})
        if options.get(_CONVERSATION, conversation) != conversation:
            options.clear()
        options[_CONVERSATION] = conversation
        return options

    def apply(self, key: str, conversation: str, agent: Any) -> None:
        """Make a chat's agent follow its options in the conversation it is in."""
        from agent.slash.options import apply_options

        if hasattr(agent, "workspace"):
            apply_options(agent, {**self._defaults, **self._in(conversation, key)})
