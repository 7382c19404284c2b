"""POST /v1/chat/completions: the last user message is answered by a whole turn, tools included.

The earlier messages of the request seed a new conversation; with X-Hermes-Session-Id the stored
conversation is what was said before. Tools run here, so a client sees no tool calls; when it
streams, remarks (SSE comments) tell what the turn does.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.events import (
    Event,
    ReasoningStreamed,
    ReplyFinished,
    StreamRestarted,
    TextStreamed,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnStarted,
)
from agent.outcome import TurnOutcome
from gateway.requests import Request

from .context import Api, Place
from .errors import ApiError, json_response
from .outcomes import HttpOutcome, http_outcome, usage_of
from .reading import chat_messages, flag, mode_in
from .sse import DONE, Outlet, SseResponse, comment, data

START_SECONDS = 1.0
"""How long a stream's headers wait for the turn to begin, so that a refusal has its status."""


async def chat_completions(api: Api, owner: str, http: HttpRequest) -> Any:
    """Answer."""
    body = await api.body(http)
    if body.get("n") not in (None, 1):
        raise ApiError(400, "n must be 1: a conversation has one answer.", param="n")
    said = chat_messages(body.get("messages"))
    mode = mode_in(body)
    place = await api.at_hand(api.place, http, owner)
    request = api.request(http, place, said.content, said.history, said.instructions, mode)
    model = str(body.get("model") or api.model)
    if flag(body.get("stream", False)):
        options = body.get("stream_options")
        wants_usage = isinstance(options, dict) and flag(options.get("include_usage", False))
        chunks = Chunks(model, wants_usage)
        return await streamed(api, http, place, request, chunks.of, chunks.end, chunks.fail)
    result = await api.ask(http, request)
    return completion(http_outcome(result, place), model, result)


def completion(outcome: HttpOutcome, model: str, result: TurnOutcome) -> Response:
    """A whole answer."""
    if outcome.error is not None:
        raise outcome.error
    content: dict[str, Any] = {
        "id": f"chatcmpl-{os.urandom(12).hex()}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": outcome.text, "refusal": None},
                "logprobs": None,
                "finish_reason": outcome.finish_reason,
            }
        ],
        "usage": usage_of(result),
    }
    if not outcome.facts["completed"] or outcome.facts["partial"]:
        content["hermes"] = outcome.facts
    return json_response(content, headers=outcome.headers)


async def streamed(
    api: Api,
    http: HttpRequest,
    place: Place,
    request: Request,
    of: Callable[[Event], tuple[bytes, bool]],
    end: Callable[[TurnOutcome, HttpOutcome], bytes],
    fail: Callable[[ApiError], bytes],
) -> SseResponse:
    """Run a turn whose events are sent as they come: `of` gives what one adds, and whether that is
    a mere remark. What `end` raises is told by `fail`, and so is a turn that broke off.

    Raises ApiError for a turn that was refused before anything was sent.
    """
    outlet, begun = Outlet(), asyncio.Event()

    def watch(event: Event) -> None:
        piece, remark = of(event)
        if piece:
            outlet.put(piece, remark=remark)
            begun.set()

    async def run() -> None:
        try:
            result = await api.ask(http, request, watch)
            outlet.put(end(result, http_outcome(result, place)))
        except ApiError as error:
            if not begun.is_set():
                raise
            outlet.put(fail(error))
        finally:
            outlet.close()
            begun.set()

    await _begin(asyncio.ensure_future(run()), begun)
    return SseResponse(outlet, place.headers)


async def _begin(turn: asyncio.Task[None], begun: asyncio.Event) -> None:
    """Wait until a turn has begun, or for a moment; raises what kept it from beginning."""
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait((turn, waiting), timeout=START_SECONDS, return_when="FIRST_COMPLETED")
    waiting.cancel()
    begun.set()
    if turn.done():
        turn.result()
        return
    # From here on the stream tells what goes wrong; nobody else would look at the task.
    turn.add_done_callback(lambda done: done.cancelled() or done.exception())


class Chunks:
    """A turn as the chunks of one completion."""

    def __init__(self, model: str, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        self._base = {
            "id": f"chatcmpl-{os.urandom(12).hex()}",
            "object": "chat.completion.chunk",
            "created": int(time.time()),
            "model": model,
        }
        # A stream is mostly this, with a text in the middle.
        head = json.dumps(self._base, separators=(",", ":"))[:-1]
        self._text_head = f'data: {head},"choices":[{{"index":0,"delta":{{"content":'
        self._text_tail = '},"finish_reason":null}]}\n\n'
        self._said = False
        self._break = False

    def of(self, event: Event) -> tuple[bytes, bool]:
        """What an event adds, and whether that is a mere remark."""
        kind = type(event)
        if kind is TextStreamed:
            text = event.text  # type: ignore[union-attr]
            if self._break:
                text, self._break = "\n\n" + text, False
            self._said = True
            return f"{self._text_head}{json.dumps(text)}{self._text_tail}".encode(), False
        if kind is TurnStarted:
            return self._chunk({"role": "assistant", "content": ""}), False
        if isinstance(event, ReasoningStreamed):
            return self._chunk({"reasoning_content": event.text}), False
        if isinstance(event, ReplyFinished | StreamRestarted):
            self._break = self._said  # what comes now is another reply
            if isinstance(event, StreamRestarted):
                return comment("hermes.restarted", {"reason": event.reason}), True
        return tool_remark(event), True

    def end(self, result: TurnOutcome, outcome: HttpOutcome) -> bytes:
        """The end of the answer, or of the attempt."""
        if outcome.error is not None:
            return self.fail(outcome.error)
        pieces = [] if self._said else [self._chunk({"content": outcome.text})]
        pieces.append(comment("hermes.finished", {**outcome.facts, **outcome.headers}))
        pieces.append(self._chunk({}, outcome.finish_reason))
        if self._wants_usage:
            pieces.append(data({**self._base, "choices": [], "usage": usage_of(result)}))
        return b"".join([*pieces, DONE])

    def fail(self, error: ApiError) -> bytes:
        """There is no answer."""
        return data(error.body()) + DONE

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return data({**self._base, "choices": [choice]})


def tool_remark(event: Event) -> bytes:
    """What a tool does, as a remark; nothing for other events."""
    if isinstance(event, ToolStarted):
        return comment("hermes.tool.started", {"id": event.call_id, "tool": event.name})
    if isinstance(event, ToolProgressed):
        return comment("hermes.tool.progress", {"id": event.call_id, "text": event.text[-2000:]})
    if isinstance(event, ToolFinished):
        facts = {
            "id": event.call_id,
            "tool": event.name,
            "seconds": round(event.seconds, 3),
            "error": event.is_error,
        }
        return comment("hermes.tool.completed", facts)
    return b""
