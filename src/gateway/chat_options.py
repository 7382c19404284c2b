"""What a person set for a chat's conversation (`/reasoning`, `/busy`), for as long as the
chat is in that conversation. It is kept in the chat's routing entry: a restart, or another gateway
that takes the chat over, finds it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from conversation.places import TurnPlaces

    from .session import SessionEntry, SessionSource
    from .session_store import SessionStore

_CONVERSATION = "conversation"


class ChatOptions:
    """The options of every chat."""

    def __init__(
        self, store: SessionStore, conversations: TurnPlaces, defaults: dict[str, Any]
    ) -> None:
        """`defaults` is what is configured where a person set nothing."""
        self._store = store
        self._conversations = conversations
        self._defaults = defaults

    def of(self, key: str) -> dict[str, Any]:
        """A copy of the options of the conversation that a chat is in now."""
        entry = self._store.entry(key)
        if entry is None or entry.options is None:
            return {}
        return _options_in(self._conversations.name(entry.session_id), entry)

    def are_set(self, key: str) -> bool:
        """Whether a person may have set something for a chat, in whichever conversation."""
        entry = self._store.entry(key)
        return entry is not None and entry.options is not None

    def keep(self, source: SessionSource, options: dict[str, Any]) -> None:
        """Set the options of the conversation that a chat is in now, or begins with this."""
        session_id = self._store.get_or_create_session(source).session_id
        conversation = self._conversations.name(session_id)
        self._store.set_options(source, {**options, _CONVERSATION: conversation})

    def apply(self, entry: SessionEntry, conversation: str, agent: Any) -> None:
        """Make a chat's agent follow its options in the conversation it is in."""
        from agent.slash.options import apply_options

        if hasattr(agent, "workspace"):
            apply_options(agent, {**self._defaults, **_options_in(conversation, entry)})


def _options_in(conversation: str, entry: SessionEntry) -> dict[str, Any]:
    options = dict(entry.options or {})
    # Those of an earlier conversation hold no more.
    return options if options.pop(_CONVERSATION, None) == conversation else {}
