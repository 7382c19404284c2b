"""A plugin's context engine, where `context.engine` names one: told what happens, asked first.

What it returns is checked like everything else that comes from outside: if it is no conversation,
lost the newest request, or took too long, the built-in way is used instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from agent.learning.provider_calls import (
    ToolCall,
    answers,
    answers_soon,
    ask_each,
    join_line,
    leave_line,
    tool_answer,
    tool_of,
)
from agent.model import Message, Model, Usage
from agent.rotation import Rotation
from hermes_state import ROW_ID
from hermes_state.history import repair_message_sequence
from tools.base import Tool, ToolContext

from .compress import Compressed
from .plan import Count

log = logging.getLogger(__name__)

_ROLES = ("user", "assistant", "tool")

SECONDS = 3.0
"""How long a turn waits for what an engine says, other than a compression."""
TOOL_SECONDS = 60.0
_LONGEST_STATUS = 2_000

_begun: dict[int, Any] = {}
"""The engines that know a session, by their identity, for as long as the process runs."""


class Engine:
    """A plugin's context engine, as one agent uses it.

    All calls of an engine run one after the other on a thread of its own, whoever makes them, and
    nobody waits for one that hangs. Its life: `on_session_start` when an agent begins to work in a
    session, again with `boundary_reason="compression"` when that was compressed, and
    `on_session_end` when the agent leaves it; `on_session_reset` before a new conversation.
    """

    def __init__(self, engine: Any, platform: str) -> None:
        self.engine = engine
        self._line = join_line(engine, "context engine")
        self._platform = platform
        self._session_id: str | None = None

    # Its life

    def use_model(self, model: Model) -> None:
        """The conversation has switched to this model."""
        self._tell(
            "update_model",
            model.name,
            model.context_length,
            base_url=model.base_url,
            provider=model.provider,
        )

    def session_begins(self, session_id: str, conversation_id: str, *, is_new: bool) -> None:
        """A turn is about to begin in this session, which may be another one than before."""
        before = self._session_id
        if session_id == before:
            return
        if before is not None:  # not followed when the conversation was compressed elsewhere
            self._continue(session_id, before, conversation_id)
            return
        if is_new and id(self.engine) in _begun:
            self._tell("on_session_reset")
        _begun[id(self.engine)] = self.engine
        self._session_id = session_id
        self._tell(
            "on_session_start", session_id, platform=self._platform, conversation_id=conversation_id
        )

    def rotated(self, rotation: Rotation) -> None:
        """The conversation was compressed, in place or into another session; it is stored."""
        if rotation.elsewhere and self._session_id is None:
            return  # it knew of no session yet, and begins in the new one
        self._continue(rotation.new_session_id, rotation.old_session_id, rotation.conversation_id)

    def _continue(self, session_id: str, old_id: str, conversation_id: str) -> None:
        self._session_id = session_id
        self._tell(
            "on_session_start",
            session_id,
            boundary_reason="compression",
            old_session_id=old_id,
            platform=self._platform,
            conversation_id=conversation_id,
        )

    def session_ends(self, messages: list[Message]) -> None:
        """The agent leaves its session; waits a moment for what the engine does about it."""
        session_id, self._session_id = self._session_id, None
        if session_id is not None:
            asked = ask_each([self._line], "on_session_end", session_id, list(messages))
            answers(asked, "on_session_end", SECONDS)

    def close(self) -> None:
        """Stop using it."""
        leave_line(self._line)

    # Around a model call

    def answered(self, usage: Usage) -> None:
        """A request was answered and had so many tokens."""
        self._tell(
            "update_from_response",
            {
                **usage.as_dict(),
                "prompt_tokens": usage.input_tokens,
                "completion_tokens": usage.output_tokens,
                "total_tokens": usage.input_tokens + usage.output_tokens,
            },
        )

    async def wants_compression(
        self, messages: list[Message], tokens: int, *, is_first: bool
    ) -> bool | None:
        """Whether the next request is to be made smaller; None if the engine does not say.

        Before a turn's `is_first` request the size is an estimate, which the engine may want to
        leave aside until the provider has counted.
        """
        if not is_first:
            return await self._judge("should_compress", tokens)
        if not await self._judge("should_compress_preflight", messages):
            return False
        return not await self._judge("should_defer_preflight_to_real_usage", tokens)

    async def has_content(self, messages: list[Message]) -> bool:
        """Whether there is anything that could be made smaller; yes if the engine does not say."""
        return await self._judge("has_content_to_compress", messages) is not False

    async def _judge(self, method: str, *args: Any) -> bool | None:
        asked = ask_each([self._line], method, *args)
        for _, value in await answers_soon(asked, method, SECONDS):
            return None if value is None else bool(value)
        return None

    async def compress(
        self,
        messages: list[Message],
        *,
        count: Count,
        focus: str | None,
        force: bool,
        memory_context: str,
        seconds: float,
    ) -> Compressed | None:
        """What the engine makes of `messages`; None if that cannot be used."""
        before = count(messages)
        asked = ask_each(
            [self._line],
            "compress",
            [dict(message) for message in messages],
            current_tokens=before,
            focus_topic=focus,
            force=force,
            memory_context=memory_context,
        )
        made = await answers_soon(asked, "compress", seconds)
        if not made:  # it failed or took too long, which was logged
            return None
        try:
            smaller = _checked(made[0][1], messages)
        except (TypeError, ValueError) as error:
            # A plugin's engine is not ours: what it does wrong must not cost the conversation.
            log.warning("The context engine is passed over: %s", error)
            return None
        rows = [row for message in messages if (row := message.get(ROW_ID)) is not None]
        newest = max(rows, default=None)
        return Compressed(smaller, None, "engine", before, count(smaller), newest, None)

    # What the agent and people get from it

    def tools(self, messages: Callable[[], list[Message]]) -> list[Tool]:
        """The tools that come with the engine; `messages` is the conversation when one is run."""
        asked = ask_each([self._line], "get_tool_schemas")
        tools = []
        for _, schemas in answers(asked, "get_tool_schemas", SECONDS):
            for schema in schemas if isinstance(schemas, list | tuple) else ():
                tool = tool_of(schema, self._runner(messages), "context")
                if tool is None:
                    log.warning("A tool of the context engine is left out: %.200r", schema)
                else:
                    tools.append(tool)
        return tools

    def _runner(self, messages: Callable[[], list[Message]]) -> ToolCall:
        def run(name: str, arguments: dict[str, Any], context: ToolContext) -> str:
            asked = ask_each(
                [self._line],
                "handle_tool_call",
                name,
                arguments,
                messages=[dict(message) for message in messages()],
                session_id=context.session_id,
            )
            return tool_answer(asked, name, TOOL_SECONDS)

        return run

    def status(self) -> str:
        """Figures for people, in one line; empty if there are none."""
        asked = ask_each([self._line], "get_status")
        for _, figures in answers(asked, "get_status", SECONDS):
            if isinstance(figures, dict) and figures:
                shown = ", ".join(f"{name} {value}" for name, value in figures.items())
                return f"{self._line.name}: {shown}"[:_LONGEST_STATUS]
        return ""

    def _tell(self, method: str, *args: Any, **kwargs: Any) -> None:
        ask_each([self._line], method, *args, **kwargs)


def _checked(made: Any, messages: list[Message]) -> list[Message]:
    if not isinstance(made, list) or not all(isinstance(message, dict) for message in made):
        raise TypeError("a context engine must return a list of messages")
    kept = [message for message in made if message.get("role") != "system"]
    if not kept or any(message.get("role") not in _ROLES for message in kept):
        raise ValueError("a context engine returned something that is no message")
    request = next((message for message in reversed(messages) if message["role"] == "user"), None)
    if request is not None and not any(_same(message, request) for message in kept):
        raise ValueError("a context engine left the newest request out")
    plain = [{key: value for key, value in message.items() if key != ROW_ID} for message in kept]
    return repair_message_sequence(plain)


def _same(message: Message, other: Message) -> bool:
    return bool(message.get("role") == other["role"] and message.get("content") == other["content"])
