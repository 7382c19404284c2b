"""Side tasks on a model of their own: summaries, titles, reviews, judgements.

`auxiliary: {<task>: {provider, model, base_url, api_key, timeout}}` names the model of a task;
without it, the conversation's own model is asked. A side task sends a short prompt of its own and
never the live conversation's prefix, so the conversation's prompt cache stays as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from .call_costs import EndedCall, ended_call
from .errors import ModelError
from .model import Model, ModelRequest
from .providers import build_model
from .reply import Reply
from .retry import RetryingModel
from .threads import run_to_end

if TYPE_CHECKING:
    from .config import Config
    from .limits import Reservation

log = logging.getLogger(__name__)

DEFAULT_TIMEOUT = 120.0
_NAMES = ("provider", "model", "base_url")

CallSink = Callable[[EndedCall], Awaitable[None]]
"""Called with every model call that a side task made."""

Reserve = Callable[[str, Model, ModelRequest, float], "Awaitable[Reservation | None]"]
"""Reserves a call of a task that takes at most so many seconds."""


class AuxiliaryError(Exception):
    """A side task got no usable answer: the model failed, said nothing, or took too long."""


class Auxiliary:
    """Asks the model that is meant for a task."""

    def __init__(
        self,
        main: Callable[[], Model],
        *,
        build: Callable[[Mapping[str, Any]], Model] | None = None,
        tasks: Mapping[str, Mapping[str, Any]] | None = None,
        on_call: CallSink | None = None,
        reserve: Reserve | None = None,
    ) -> None:
        """`main` gives the conversation's model now; `tasks` are the settings of each task, from
        which `build` makes its model when it is first asked."""
        self._main = main
        self._build = build
        self._tasks = dict(tasks or {})
        self._models: dict[str, Model] = {}
        self.on_call = on_call
        self.reserve = reserve
        """Asked before each call, where something is limited; raises LimitReachedError."""

    async def ask(
        self,
        task: str,
        system: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """The model's answer as text; raises AuxiliaryError when there is none in time."""
        limit = timeout or float(self._tasks.get(task, {}).get("timeout") or DEFAULT_TIMEOUT)
        request = ModelRequest(
            messages=[{"role": "user", "content": prompt}], system=system, max_tokens=max_tokens
        )
        reply = Reply()
        reservation = model = None
        try:
            model = self.model_for(task)
            async with asyncio.timeout(limit):
                if self.reserve is not None:
                    reservation = await self.reserve(task, model, request, limit)
                await _receive(model, request, reply)
        except TimeoutError as error:
            raise AuxiliaryError(f"no answer for {task} within {limit:g} s") from error
        except (ModelError, ValueError) as error:
            raise AuxiliaryError(f"{task}: {error}") from error
        finally:
            if model is not None and self.on_call is not None:
                if reply.finish_reason is not None:
                    await self.on_call(ended_call(task, model, reply, reservation=reservation))
                elif reservation is not None:
                    broken = ended_call(task, model, reply, "interrupted", reservation)
                    await self.on_call(broken)
        if not reply.text.strip():
            raise AuxiliaryError(f"the answer for {task} was empty")
        return reply.text

    def ask_blocking(
        self,
        task: str,
        system: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """The same as `ask`, for ordinary code in a thread of its own."""
        return run_to_end(self.ask(task, system, prompt, max_tokens=max_tokens, timeout=timeout))

    def is_able(self, task: str) -> bool:
        """Whether the task's model is worth asking: one too small for tools writes nonsense."""
        try:
            return not getattr(self.model_for(task), "small", False)
        except (ModelError, ValueError):
            return True  # asking it says what is wrong

    def model_for(self, task: str) -> Model:
        """The model that answers for a task."""
        return self.own_model(task) or self._main()

    def own_model(self, task: str) -> Model | None:
        """The model that is configured for a task alone, if there is one."""
        settings = self._tasks.get(task, {})
        if self._build is None or not _names_a_model(settings):
            return None
        if task not in self._models:
            self._models[task] = self._build(settings)
        return self._models[task]

    async def aclose(self) -> None:
        """Free the connections of the tasks' own models."""
        models, self._models = self._models, {}
        for model in models.values():
            await model.aclose()


def _names_a_model(settings: Mapping[str, Any]) -> bool:
    named = [str(settings.get(name) or "") for name in _NAMES]
    return any(value and value != "auto" for value in named)


async def _receive(model: Model, request: ModelRequest, reply: Reply) -> None:
    reply.note_sent()
    async with contextlib.aclosing(model.stream(request)) as stream:
        async for chunk in stream:
            reply.add(chunk, _nobody_watches)
    reply.require_finished()


def _nobody_watches(event: object) -> None:
    """A side task shows nothing while it runs."""


def build_auxiliary(config: Config, main: Callable[[], Model]) -> Auxiliary:
    """The side tasks' models as configured under `auxiliary`, and that of sub-agents."""

    def build(settings: Mapping[str, Any]) -> Model:
        from .config.model import resolve_model
        from .config.values import Findings

        wanted = {name: settings[name] for name in (*_NAMES[1:], "api_key") if settings.get(name)}
        if wanted.pop("model", None):
            wanted["default"] = settings["model"]
        if settings.get("provider") not in (None, "", "auto"):
            wanted["provider"] = settings["provider"]
        findings = Findings(str(config.home / "config.yaml"), config.environ)
        chosen = resolve_model(wanted, findings, "auxiliary")
        if findings.problems:
            raise ValueError(" ".join(findings.problems))
        return RetryingModel([build_model(chosen, config.environ)])

    section = config.section("auxiliary")
    tasks = {str(name): value for name, value in section.items() if isinstance(value, Mapping)}
    tasks["delegation"] = dataclasses.asdict(config.delegation)
    return Auxiliary(main, build=build, tasks=tasks)
