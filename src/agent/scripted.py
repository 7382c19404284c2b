"""A model that says what it is told to, for tests, examples and benchmarks.

    model = ScriptedModel([call("terminal", command="ls"), say("Two files.")])

Each step is one model call. It behaves like a real provider in everything a caller can see: it ends
with `Finished` or raises a `ModelError`, a cut stream raises `BrokenReplyError`, and it can be
stopped in the middle. It keeps the requests it got, as they were at that moment.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import itertools
import json
import marshal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.errors import BrokenReplyError, ModelError
from agent.model import (
    Chunk,
    Finished,
    Message,
    ModelRequest,
    ReasoningDelta,
    ReasoningDetails,
    Restarted,
    TextDelta,
    ToolCallDelta,
    Usage,
)

Gate = asyncio.Event | Callable[[], Any] | float
"""Something to wait for in the middle: an event, a function (awaited if it returns an awaitable),
or seconds."""
Delta = TextDelta | ReasoningDelta | ToolCallDelta | ReasoningDetails | Restarted
Move = str | Delta | Gate | BaseException
"""What happens next in a step; a plain string is a piece of text."""


class Call(NamedTuple):
    """A tool call in a step; `arguments` is a dict, or raw text that need not be JSON."""

    tool: str
    arguments: dict[str, Any] | str = ""
    id: str = ""


@dataclass(slots=True, frozen=True)
class Step:
    """One model call, move by move."""

    moves: tuple[Move | Call, ...]
    usage: Usage | None = None
    finish: str | None = None
    """The finish reason; worked out if None, missing (a cut) if empty."""


StepLike = Step | Callable[[ModelRequest], Step]


def say(
    *moves: Move,
    reasoning: str = "",
    usage: Usage | None = None,
    finish: str | None = None,
) -> Step:
    """A text answer in these pieces; events, functions and seconds among them are waited for."""
    thought: tuple[Move, ...] = (ReasoningDelta(reasoning),) if reasoning else ()
    return Step((*thought, *moves), usage, finish)


def call(tool: str, /, **arguments: Any) -> Step:
    """One tool call with these arguments."""
    return Step((Call(tool, arguments),))


def calls(
    wanted: Iterable[Call | tuple[str, dict[str, Any] | str]],
    *,
    text: str = "",
    reasoning: str = "",
    usage: Usage | None = None,
) -> Step:
    """Several tool calls at once, after some text."""
    first: list[Move | Call] = [ReasoningDelta(reasoning)] if reasoning else []
    if text:
        first.append(text)
    return Step((*first, *(Call(*item) for item in wanted)), usage)


def fail(error: BaseException | type[ModelError], *, after: Sequence[Move] = ()) -> Step:
    """A failure, after these moves; a class is raised with a message of its own."""
    if isinstance(error, type):
        error = error(f"scripted {error.__name__}")
    return Step((*after, error))


def cut(*moves: Move | Call) -> Step:
    """A stream that ends after these moves without its finish reason."""
    return Step(moves, finish="")


class ScriptedModel:
    """Plays `steps`, one per call. A function among them is asked for its step with the request.

    `steps` may be endless (`itertools.repeat(say("ok"))`). With `record=False` requests are not
    kept, which matters when a benchmark makes thousands of them.
    """

    def __init__(
        self,
        steps: Iterable[StepLike],
        *,
        name: str = "scripted",
        provider: str = "scripted",
        base_url: str = "",
        context_length: int = 128_000,
        record: bool = True,
    ) -> None:
        self.name = name
        self.provider = provider
        self.base_url = base_url
        self.context_length = context_length
        self.calls = 0
        """How often it was asked."""
        self.closed = 0
        """How often it was closed."""
        self._steps: Iterator[StepLike] = iter(steps)
        self._unexpected = ""
        self._record = record
        self._recorded: list[_Recorded] = []
        self._call_ids = itertools.count(1)

    @property
    def requests(self) -> list[ModelRequest]:
        """The requests so far, each as it was when it came; changing them changes nothing."""
        return [recorded.request() for recorded in self._recorded]

    @property
    def prompts(self) -> list[bytes]:
        """The requests' prompts as bytes (system, tools, messages), to compare prefixes."""
        return [prompt_bytes(request) for request in self.requests]

    def assert_done(self) -> None:
        """Raise AssertionError if steps are left that nobody asked for, or a call had no step."""
        if self._unexpected:
            raise AssertionError(self._unexpected)
        left = list(itertools.islice(self._steps, 4))
        if left:
            shown = ", ".join(_describe(step) for step in left[:3])
            more = "..." if len(left) > 3 else ""
            raise AssertionError(f"{self.calls} calls were made; not asked for: {shown}{more}")

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Play the next step."""
        self.calls += 1
        if self._record:
            self._recorded.append(_Recorded(request))
        step = self._next(request)
        tool_calls = 0
        for move in step.moves:
            if isinstance(move, str):
                yield TextDelta(move)
            elif isinstance(move, Call):
                yield self._tool_call(tool_calls, move)
                tool_calls += 1
            elif isinstance(move, _CHUNKS):
                tool_calls += isinstance(move, ToolCallDelta)
                yield move
            elif isinstance(move, BaseException):
                raise move.with_traceback(None)
            else:
                await _pass(move)
        if step.finish == "":
            raise BrokenReplyError("The scripted stream was cut.", provider=self.provider)
        reason = step.finish or ("tool_calls" if tool_calls else "stop")
        yield Finished(reason, step.usage or Usage(), self.name)

    async def aclose(self) -> None:
        """Count it; there is nothing to free."""
        self.closed += 1

    def _next(self, request: ModelRequest) -> Step:
        step = next(self._steps, None)
        if step is None:
            last = request.messages[-1] if request.messages else {}
            self._unexpected = (
                f"call {self.calls} was not expected: the script has {self.calls - 1} steps. It"
                f" came after a {last.get('role')} message: {str(last.get('content'))[:200]!r}"
            )
            raise AssertionError(self._unexpected)
        return step if isinstance(step, Step) else step(request)

    def _tool_call(self, index: int, wanted: Call) -> ToolCallDelta:
        arguments = wanted.arguments
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments)
        call_id = wanted.id or f"call_{next(self._call_ids)}"
        return ToolCallDelta(index, call_id, wanted.tool, arguments)


def prompt_bytes(request: ModelRequest) -> bytes:
    """A request's prompt, such that a longer conversation's begins with a shorter one's."""
    parts = [request.system, request.tools, *request.messages]
    return b"\n".join(
        json.dumps(part, ensure_ascii=False).encode("utf-8", "replace") for part in parts
    )


_CHUNKS = (TextDelta, ReasoningDelta, ToolCallDelta, ReasoningDetails, Restarted)


class _Recorded:
    """A request as it was: copied at once, cheaply, and unpacked when somebody looks."""

    __slots__ = ("_packed", "_request", "_unpacked")

    def __init__(self, request: ModelRequest) -> None:
        self._request = copy.copy(request)
        content = (request.messages, request.tools)
        self._unpacked: tuple[list[Message], list[dict[str, Any]]] = ([], [])
        try:
            self._packed: bytes | None = marshal.dumps(content)
        except ValueError:
            # Something that is not plain data, such as a test's own object.
            self._packed = None
            self._unpacked = copy.deepcopy(content)

    def request(self) -> ModelRequest:
        """A copy of the request."""
        packed = self._packed
        content = marshal.loads(packed) if packed is not None else copy.deepcopy(self._unpacked)
        messages, tools = content
        return dataclasses.replace(self._request, messages=messages, tools=tools)


async def _pass(gate: Gate) -> None:
    if isinstance(gate, asyncio.Event):
        await gate.wait()
    elif isinstance(gate, int | float):
        await asyncio.sleep(gate)
    else:
        result = gate()
        if inspect.isawaitable(result):
            await result


def _describe(step: StepLike) -> str:
    if not isinstance(step, Step):
        return getattr(step, "__name__", "a function")
    moves = (move.tool if isinstance(move, Call) else repr(move) for move in step.moves)
    return f"[{', '.join(moves)}]"
