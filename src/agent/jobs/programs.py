"""What a job does without a model, in the place of one.

A message that is said as it is, a script whose output is the answer, a monitor that asks the model
only if something has changed: each is a small model whose replies follow from the conversation
alone. So their turns are turns like any other: what they run is noted before it begins, results
are stored, a process that takes one over goes on where it was, and nothing is run twice.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from agent.errors import RequestRefusedError
from agent.model import Chunk, Finished, Model, ModelRequest, TextDelta, ToolCallDelta, Usage
from tools.screening import without_marks

from .job import SILENT, Job, JobSettings

RESULT = "job-result"
"""How the ids of tool calls begin that a program makes."""


_FAILED_LOOK = re.compile(r"Error: |URL: [^\n]*\nStatus: 5")
"""How the result begins of a page that could not be fetched, or whose server failed."""


class Program:
    """A model that is none: it has a name, costs nothing, and holds no connection."""

    provider = "local"
    base_url = ""
    context_length = 1_000_000

    def __init__(self, name: str) -> None:
        self.name = name

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """What comes next in the conversation."""
        raise NotImplementedError
        yield TextDelta("")

    async def aclose(self) -> None:
        """Nothing is held."""


class Said(Program):
    """Says a text."""

    def __init__(self, text: str) -> None:
        super().__init__("job-message")
        self._text = text

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The text."""
        yield TextDelta(self._text)
        yield Finished("stop", Usage(), self.name)


class Script(Program):
    """Runs a command, and says what it has printed."""

    def __init__(self, settings: JobSettings) -> None:
        super().__init__("job-script")
        self._settings = settings

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The command, then its output."""
        result = result_in(request.messages)
        if result is None:
            for chunk in call_of(self._settings, len(request.messages)):
                yield chunk
            return
        yield TextDelta(printed(result) or SILENT)
        yield Finished("stop", Usage(), self.name)


class Monitor(Program):
    """Looks at something, and asks a model: only if it is not as it was, unless a prompt's command
    fetches what is asked about."""

    def __init__(self, job: Job, model: Model) -> None:
        super().__init__(model.name)
        self.provider = model.provider
        self.base_url = model.base_url
        self.context_length = model.context_length
        self._job, self._model = job, model
        self.seen: str | None = None
        """The digest of what was seen in this run."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """The look, then the model's answer if something has changed."""
        result = result_in(request.messages)
        if result is None:
            for chunk in call_of(self._job.settings, len(request.messages)):
                yield chunk
            return
        if not self._job.settings.script and _FAILED_LOOK.match(result):
            # What it was like before stays what the next look is compared with.
            raise RequestRefusedError(f"{self._job.settings.url} cannot be read: {result[:300]}")
        self.seen = digest(printed(result))
        if self.seen == self._job.last_result and self._job.settings.kind != "prompt":
            yield TextDelta(f"{SILENT} Nothing has changed.")
            yield Finished("stop", Usage(), self.name)
            return
        async with aclosing(self._model.stream(request)) as stream:
            async for chunk in stream:
                yield chunk

    async def aclose(self) -> None:
        """Free the model's connections."""
        await self._model.aclose()


def program_of(job: Job, model: Model) -> Model:
    """What answers in a job's turns: the model, or a program in its place."""
    settings = job.settings
    if settings.kind == "message":
        return Said(f"⏰ {settings.prompt}")
    if settings.kind == "script":
        return Script(settings)
    looks = settings.kind in ("monitor", "check") or settings.script or settings.url
    return Monitor(job, model) if looks else model


def needs_model(settings: JobSettings) -> bool:
    """Whether a job asks a model at all."""
    return settings.kind in ("prompt", "monitor", "check")


def call_of(settings: JobSettings, number: int) -> list[Chunk]:
    """The tool call by which a job looks or works."""
    name, arguments = "terminal", {"command": settings.script}
    if settings.kind == "check":
        name, arguments = "cronjob", {"action": "due"}
    elif not settings.script:
        name, arguments = "web_fetch", {"url": settings.url}
    call_id = f"{RESULT}-{number}"
    return [
        ToolCallDelta(0, call_id, name, json.dumps(arguments)),
        Finished("tool_calls", Usage(), "job"),
    ]


def result_in(messages: list[dict[str, Any]]) -> str | None:
    """The result of a program's call in the turn that runs; None if it made none yet."""
    for message in reversed(messages):
        if message["role"] == "tool" and str(message.get("tool_call_id")).startswith(RESULT):
            return str(message["content"])
        if message["role"] == "user":
            return None
    return None


def printed(result: str) -> str:
    """What a command has printed, of the terminal's result."""
    try:
        found = json.loads(result)
    except ValueError:
        return result.strip()
    return str(found.get("output", result)).strip() if isinstance(found, dict) else result.strip()


def digest(text: str) -> str:
    """What of a result is compared with the next."""
    return hashlib.sha256(without_marks(text).encode("utf-8", "replace")).hexdigest()
