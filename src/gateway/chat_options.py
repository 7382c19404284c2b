"""What a person set for a chat's conversation (`/reasoning`, `/busy`), for as long as the
chat is in that conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import GatewayRunner

_CONVERSATION = "conversation"


def chat_options(runner: GatewayRunner, key: str) -> dict[str, Any]:
    """The options of the conversation that a chat is in now; those of an earlier one are dropped.

    What is written into the dictionary is kept.
    """
    options = runner.chat_options.setdefault(key, {})
    session_id = runner.session_store.peek_session_id(key)
    if session_id is None:
        return options  # they are for the conversation that begins with the next message
    conversation = runner.turns.conversations.name(session_id)
    if options.get(_CONVERSATION, conversation) != conversation:
        options.clear()
    options[_CONVERSATION] = conversation
    return options


def apply_chat_options(runner: GatewayRunner, key: str, agent: Any) -> None:
    """Make a chat's agent follow the options, and what is configured where none is set."""
    from agent.slash.options import apply_options

    defaults = {"reasoning": runner.settings.model.reasoning_effort}
    if hasattr(agent, "workspace"):
        apply_options(agent, {**defaults, **chat_options(runner, key)})
