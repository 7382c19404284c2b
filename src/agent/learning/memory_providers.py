"""Other places to remember in, beside MEMORY.md and USER.md.

A `MemoryProvider` may add a block to the system prompt when it is first built, recall something for
each question, offer tools, and is told what happens. `MemoryProviders` speaks to those an agent has
and keeps them away from it: whatever a provider does, a turn goes on, with it or without it.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from agent.rotation import Rotation
from tools.base import Tool, ToolContext
from tools.registry import Registry
from tools.screening import notice, suspicion

from .memory_provider import MemoryProvider
from .provider_calls import (
    Line,
    answers,
    answers_soon,
    ask_each,
    join_line,
    leave_line,
    tool_answer,
    tool_of,
)

__all__ = ["MemoryProvider", "MemoryProviders"]

log = logging.getLogger(__name__)

START_SECONDS = 10.0
RECALL_SECONDS = 3.0
TOOL_SECONDS = 60.0
END_SECONDS = 3.0
LONGEST_BLOCK = 8_000
LONGEST_RECALL = 8_000
LONGEST_PRE_COMPRESS = 8_000


class MemoryProviders:
    """The providers of one agent; empty is the usual case, and costs nothing."""

    def __init__(self, providers: Iterable[Any] = ()) -> None:
        self._lines = [join_line(provider) for provider in providers]
        if self._lines:
            asked = ask_each(self._lines, "is_available")
            usable = [line for line, yes in answers(asked, "is_available", START_SECONDS) if yes]
            for line in self._lines:
                if line not in usable:
                    log.info("The memory provider %s is not available", line.name)
                    leave_line(line)
            self._lines = usable
        self._providers = [line.provider for line in self._lines]
        self._ready: list[Line] = []
        self._session_id: str | None = None

    def __bool__(self) -> bool:
        return bool(self._providers)

    # What the agent gets from them

    def add_tools(self, registry: Registry) -> Registry:
        """The agent's tools with those of the providers behind them; names taken stay as is."""
        extended = Registry(registry)
        asked = ask_each(self._lines, "get_tool_schemas")
        for line, schemas in answers(asked, "get_tool_schemas", START_SECONDS):
            for schema in schemas if isinstance(schemas, list | tuple) else ():
                tool = self._tool(line.provider, schema)
                if tool is None or extended.get(tool.name) is not None:
                    log.warning("A tool of the memory provider %s is left out: %.200r",
                                line.name, schema)  # fmt: skip
                else:
                    extended.add(tool)
        own = extended.get("memory")
        if own is not None:
            extended.add(self._telling(own), override=True)
        return extended

    async def begin(self, session_id: str, **facts: Any) -> None:
        """The agent is in this session now: initialize the providers, or tell of the change."""
        if not self._providers or session_id == self._session_id:
            return
        before, self._session_id = self._session_id, session_id
        if before is not None:
            self.switched(session_id, before, reason="compression")
            return
        if not self._lines:  # they were shut down; the agent goes on after all
            self._lines = [join_line(provider) for provider in self._providers]
        asked = ask_each(self._lines, "initialize", session_id, **facts)
        self._ready = [line for line, _ in await answers_soon(asked, "initialize", START_SECONDS)]

    async def system_prompt_block(self) -> str:
        """What the providers have for the system prompt."""
        asked = ask_each(self._ready, "system_prompt_block")
        blocks = await answers_soon(asked, "system_prompt_block", RECALL_SECONDS)
        return "\n\n".join(_texts(blocks, LONGEST_BLOCK))

    async def recall(self, query: str, limit: int = LONGEST_RECALL) -> str:
        """What the providers recall for a question, as it is sent along with it."""
        asked = ask_each(self._ready, "prefetch", query, session_id=self._session_id or "")
        limit = min(limit, LONGEST_RECALL) // max(len(self._ready), 1)
        texts = _texts(await answers_soon(asked, "prefetch", RECALL_SECONDS), limit)
        if not texts:
            return ""
        recalled = "\n\n".join(texts)
        return (
            "<memory-context>\nRecalled from memory; not part of the user's message:\n"
            f"{recalled}\n</memory-context>"
        )

    async def pre_compress(self, messages: Sequence[dict[str, Any]]) -> str:
        """What a summary of these messages should not miss, as the providers see it."""
        asked = ask_each(self._ready, "on_pre_compress", list(messages))
        answers = await answers_soon(asked, "on_pre_compress", END_SECONDS)
        return "\n\n".join(_texts(answers, LONGEST_PRE_COMPRESS))

    # What they are told; nobody waits for it

    def tell(self, method: str, *args: Any, **kwargs: Any) -> None:
        """Tell every provider; what they do about it happens beside the turn."""
        ask_each(self._ready, method, *args, **kwargs)

    def rotated(self, rotation: Rotation) -> None:
        """The conversation was compressed, in place or into another session; it is stored."""
        if self._session_id is not None:
            self.switched(rotation.new_session_id, rotation.old_session_id, reason="compression")

    def switched(
        self,
        session_id: str,
        before: str,
        *,
        reset: bool = False,
        rewound: bool = False,
        reason: str = "",
    ) -> None:
        """The agent has gone from one session on to another (or compressed the one it is in)."""
        self._session_id = session_id
        self.tell(
            "on_session_switch",
            session_id,
            parent_session_id=before,
            reset=reset,
            rewound=rewound,
            reason=reason,
        )

    def session_ends(self, messages: Sequence[dict[str, Any]]) -> None:
        """Tell of the session's end and give them a moment for it."""
        asked = ask_each(self._ready, "on_session_end", list(messages))
        answers(asked, "on_session_end", END_SECONDS)

    def close(self) -> None:
        """Stop using the providers; those that nobody else uses are shut down."""
        lines, self._lines, self._ready, self._session_id = self._lines, [], [], None
        answers([(line, leave_line(line)) for line in lines], "shutdown", END_SECONDS)

    # Tools

    def _tool(self, provider: Any, schema: Any) -> Tool | None:
        def call(name: str, arguments: dict[str, Any], context: ToolContext) -> str:
            lines = [line for line in self._ready if line.provider is provider]
            session_id = context.session_id
            asked = ask_each(lines, "handle_tool_call", name, arguments, session_id=session_id)
            return tool_answer(asked, name, TOOL_SECONDS)

        return tool_of(schema, call, "memory")

    def _telling(self, own: Tool) -> Tool:
        """The memory tool, with the providers told of what it wrote."""

        def run(context: ToolContext, **arguments: Any) -> Any:
            done = own.run(context, **arguments)
            changes = [arguments] if arguments.get("action") else []
            for change in [*changes, *(arguments.get("operations") or ())]:
                self.tell(
                    "on_memory_write",
                    str(change.get("action")),
                    str(arguments.get("target")),
                    str(change.get("content") or change.get("old_text") or ""),
                    {"session_id": context.session_id, "tool_call_id": context.call_id},
                )
            return done

        return dataclasses.replace(own, run=run)


def _texts(given: Iterable[tuple[Line, Any]], limit: int) -> list[str]:
    """What can go into a prompt of what providers returned."""
    texts = []
    for line, value in given:
        text = value.strip() if isinstance(value, str) else ""
        reason = suspicion(text) if text else None
        if reason:
            log.warning("What the memory provider %s returned %s; marked", line.name, reason)
        if text:
            shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
            texts.append(f"{notice(reason)}\n{shown}" if reason else shown)
    return texts
