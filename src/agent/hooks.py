"""The hooks through which plugins follow a turn and add to it.

Hooks run off the event loop, in the turn's context, and never break it: a hook that fails, hangs or
answers with nonsense is as if it were not there. A hook without listeners costs one dict lookup.
The names and arguments are in docs/plugins.md.
"""

from __future__ import annotations

import contextvars
import logging
from typing import TYPE_CHECKING, Any

from hermes_base import plugins

from .threads import in_thread

if TYPE_CHECKING:
    from tools.base import TurnFacts

    from .agent import AIAgent
    from .loop import Turn
    from .outcome import TurnOutcome
    from .request import Content

log = logging.getLogger(__name__)

_ON_MODEL_CALLS = ("pre_api_request", "post_api_request", "api_request_error")
_AROUND_MODEL_CALLS = ("llm_request", "llm_execution")

MOST_CONTEXT = 20_000
"""Characters that plugins together may add to a question."""


async def fire(name: str, /, **kwargs: Any) -> list[Any]:
    """Call the listeners of a hook; returns their answers, nothing if anything went wrong."""
    try:
        if not plugins.has_hook(name):
            answers = plugins.invoke_hook(name, **kwargs)
        else:
            run = contextvars.copy_context().run
            answers = await in_thread(lambda: run(plugins.invoke_hook, name, **kwargs))
    except Exception:
        # Whatever a hook does, it must not cost the turn.
        log.exception("The hook %s failed", name)
        return []
    return answers if isinstance(answers, list) else []


def watch_model_calls() -> bool:
    """Whether any plugin hooks into model calls: then `hooks_model` makes them."""
    return any(map(plugins.has_hook, _ON_MODEL_CALLS)) or any(
        map(plugins.has_middleware, _AROUND_MODEL_CALLS)
    )


class TurnHooks:
    """The hooks of one turn."""

    def __init__(self, agent: AIAgent, facts: TurnFacts, prompt: Content) -> None:
        self._agent = agent
        self._facts = facts
        self.task_id = agent.session_id
        self.user_message = prompt
        self._verified = False

    @property
    def turn_id(self) -> str:
        """The turn's id."""
        return self._facts.id

    @property
    def session_id(self) -> str:
        """The session the turn is in now."""
        return self._agent.session_id

    @property
    def platform(self) -> str:
        """Where the conversation is held."""
        return self._agent.platform

    def set_request_id(self, request_id: str) -> None:
        """Let the tools that a request asks for know which one it was."""
        self._facts.request_id = request_id

    async def session_starts(self) -> None:
        """A session's first turn begins."""
        await fire(
            "on_session_start",
            session_id=self.session_id,
            model=self._agent.model,
            platform=self.platform,
        )

    async def context(self, history: list[Any]) -> str:
        """What plugins add to the user's message, for the model alone."""
        if not plugins.has_hook("pre_llm_call"):
            return ""
        answers = await fire(
            "pre_llm_call",
            **self._ids(),
            user_message=self.user_message,
            conversation_history=history[:-1],
            is_first_turn=len(history) <= 1,
            model=self._agent.model,
            platform=self.platform,
            sender_id=self._agent.user_id or "",
        )
        texts = [
            answer.get("context") if isinstance(answer, dict) else answer for answer in answers
        ]
        text = "\n\n".join(text for text in texts if isinstance(text, str) and text.strip())
        if len(text) > MOST_CONTEXT:
            log.warning("Plugins added %d characters to a question; cut", len(text))
            text = text[:MOST_CONTEXT]
        return text

    def will_verify(self) -> bool:
        """Whether plugins look at the turn's work before it ends."""
        return (
            bool(self._facts.changed_paths)
            and not self._verified
            and plugins.has_hook("pre_verify")
        )

    async def wants_more(self, turn: Turn) -> str:
        """What plugins still want done before a turn that changed files ends; asked once."""
        if not self.will_verify():
            return ""
        self._verified = True
        answers = await fire(
            "pre_verify",
            session_id=self.session_id,
            platform=self.platform,
            model=self._agent.model,
            coding=True,
            attempt=0,
            final_response=turn.reply.text,
            changed_paths=sorted(self._facts.changed_paths),
        )
        for answer in answers:
            if not isinstance(answer, dict):
                continue
            wants = answer.get("action") == "continue" or answer.get("decision") == "block"
            text = answer.get("message") or answer.get("reason")
            if wants and isinstance(text, str) and text.strip():
                return text[:MOST_CONTEXT]
        return ""

    async def transform(self, text: str) -> str:
        """The text to be returned, as plugins change it; what is stored stays as it was said."""
        if not text or not plugins.has_hook("transform_llm_output"):
            return text
        answers = await fire(
            "transform_llm_output",
            response_text=text,
            session_id=self.session_id,
            model=self._agent.model,
            platform=self.platform,
        )
        return next(
            (answer for answer in answers if isinstance(answer, str) and answer.strip()), text
        )

    async def turn_ends(self, outcome: TurnOutcome) -> None:
        """The turn is over and stored."""
        if outcome.text and not outcome.interrupted and plugins.has_hook("post_llm_call"):
            await fire(
                "post_llm_call",
                **self._ids(),
                user_message=self.user_message,
                assistant_response=outcome.text,
                conversation_history=list(outcome.messages),
                model=self._agent.model,
                platform=self.platform,
            )
        await fire(
            "on_session_end",
            **self._ids(),
            completed=outcome.completed,
            interrupted=outcome.interrupted,
            model=self._agent.model,
            platform=self.platform,
        )

    def _ids(self) -> dict[str, str]:
        return {"session_id": self.session_id, "task_id": self.task_id, "turn_id": self.turn_id}
