"""A model for plugins: `ctx.llm.complete([...])` asks the configured model beside the conversation.

Another model than the configured one needs `plugins.entries.<plugin>.llm.allow_model_override`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from agent.call_costs import CallOutcome, ended_call
from agent.model import ModelRequest
from agent.reply import Reply
from agent.threads import run_to_end
from hermes_base.session_context import get_session_env

if TYPE_CHECKING:
    from agent.side_calls import SideCalls
    from hermes_base.plugins.host import Host


class Completion(NamedTuple):
    """An answer."""

    text: str
    model: str
    finish_reason: str
    usage: dict[str, int]


class PluginLlm:
    """The configured model, for one plugin."""

    def __init__(self, host: Host, plugin: str) -> None:
        self._host = host
        self._plugin = plugin

    def complete(
        self,
        messages: list[dict[str, Any]] | str,
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        timeout: float = 60.0,
    ) -> Completion:
        """Ask and wait for the answer; call it from an ordinary function, not from a coroutine."""
        return run_to_end(
            self.acomplete(
                messages,
                model=model,
                max_tokens=max_tokens,
                temperature=temperature,
                timeout=timeout,
            )
        )

    async def acomplete(
        self,
        messages: list[dict[str, Any]] | str,
        *,
        model: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        timeout: float = 60.0,
    ) -> Completion:
        """The same for coroutines. A `system` message among `messages` becomes the prompt."""
        if self._host.new_model is None:
            raise RuntimeError("No model is configured in this program.")
        if model is not None and not self._may_choose():
            raise PermissionError(
                f"The plugin {self._plugin} may not choose its model. Set"
                f" plugins.entries.{self._plugin}.llm.allow_model_override to true to allow it."
            )
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        system = "\n\n".join(
            str(message["content"]) for message in messages if message["role"] == "system"
        )
        request = ModelRequest(
            messages=[message for message in messages if message["role"] != "system"],
            system=system,
            max_tokens=max_tokens,
            temperature=temperature,
        )
        # A model of its own: connections belong to the event loop that opened them.
        asked = self._host.new_model(model)
        reply = Reply()
        task, calls, reservation = f"plugin:{self._plugin}", self._calls(), None
        try:
            async with asyncio.timeout(timeout):
                if calls is not None:
                    reservation = await calls.reserve(task, asked, request, timeout)
                reply.note_sent()
                async for chunk in asked.stream(request):
                    reply.add(chunk, lambda event: None)
        finally:
            await asked.aclose()
            if calls is not None and (reservation is not None or reply.finish_reason):
                outcome: CallOutcome = "complete" if reply.finish_reason else "interrupted"
                await calls.store(ended_call(task, asked, reply, outcome, reservation))
        reply.require_finished()
        usage = {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        }
        return Completion(reply.text, reply.model or asked.name, reply.finish_reason or "", usage)

    def _calls(self) -> SideCalls | None:
        """Where calls are counted: with the agent in whose session the calling code runs."""
        agent = self._host.agent()
        session_id = get_session_env("HERMES_SESSION_ID")
        if agent is None or getattr(agent, "session_id", None) != session_id:
            return None  # nobody's: it is not known for whom the plugin works
        calls: SideCalls | None = getattr(agent, "side_calls", None)
        return calls

    def _may_choose(self) -> bool:
        return self._host.allows(self._plugin, "llm", "allow_model_override")
