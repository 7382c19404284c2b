"""Model calls with plugins' hooks around them, and changed or wrapped by middleware.

Used only while a plugin has registered for it; otherwise the model is asked directly.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import dataclasses
import json
import logging
import time
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from hermes_base import plugins

from .errors import ModelError, TransientError
from .hooks import TurnHooks, fire
from .model import Chunk, Finished, ModelRequest, Restarted, TextDelta, Usage
from .reply import Reply
from .threads import CallsFromThread, in_thread

if TYPE_CHECKING:
    from .loop import Turn

log = logging.getLogger(__name__)

_KINDS = {
    "messages": list, "system": str, "tools": list, "max_tokens": int, "temperature": float,
    "reasoning_effort": str,
}  # fmt: skip
"""What middleware may change of a request."""


async def watched(
    turn: Turn, hooks: TurnHooks, request: ModelRequest
) -> AsyncGenerator[Chunk, None]:
    """Ask the model, with the plugins' hooks around the call; yields what the model says."""
    facts = _facts(turn, hooks)
    hooks.set_request_id(facts["api_request_id"])
    request, trace = await _changed(request, turn, facts)
    began = time.time()
    shown = as_dict(request, turn)
    if plugins.has_hook("pre_api_request"):
        size = len(json.dumps(shown, default=str))
        await fire(
            "pre_api_request",
            **facts,
            user_message=hooks.user_message,
            conversation_history=turn.journal.messages,
            request_messages=request.messages,
            message_count=len(request.messages),
            tool_count=len(request.tools),
            approx_input_tokens=size // 4,
            request_char_count=size,
            max_tokens=request.max_tokens,
            started_at=began,
            middleware_trace=trace,
            request=shown,
        )
    failures = 0
    try:
        async with contextlib.aclosing(_stream(turn, request, facts)) as stream:
            async for chunk in stream:
                if isinstance(chunk, Restarted):
                    failures += 1
                    kind, text = "TransientError", chunk.reason
                    await _failed(facts, shown, began, failures, kind, text, None, retryable=True)
                yield chunk
    except ModelError as error:
        kind, again = type(error).__name__, isinstance(error, TransientError)
        await _failed(
            facts, shown, began, failures, kind, str(error), error.status, retryable=again
        )
        raise
    if plugins.has_hook("post_api_request"):
        await _answered(turn, facts, began, len(request.messages))


def _facts(turn: Turn, hooks: TurnHooks) -> dict[str, Any]:
    model = turn.model
    return {
        "task_id": hooks.task_id,
        "turn_id": hooks.turn_id,
        "api_request_id": f"{hooks.turn_id}:{turn.api_calls}",
        "session_id": hooks.session_id,
        "platform": hooks.platform,
        "model": model.name,
        "provider": model.provider,
        "base_url": model.base_url,
        "api_mode": str(getattr(model, "api_mode", "")),
        "api_call_count": turn.api_calls,
    }


async def _failed(
    facts: dict[str, Any],
    shown: dict[str, Any],
    began: float,
    count: int,
    kind: str,
    text: str,
    status: int | None,
    *,
    retryable: bool,
) -> None:
    if not plugins.has_hook("api_request_error"):
        return
    now = time.time()
    await fire(
        "api_request_error",
        **facts,
        api_duration=now - began,
        started_at=began,
        ended_at=now,
        status_code=status,
        retry_count=count,
        max_retries=None,
        retryable=retryable,
        reason=text,
        error={"type": kind, "message": text},
        request=shown,
    )


async def _answered(turn: Turn, facts: dict[str, Any], began: float, messages: int) -> None:
    reply, now = turn.reply, time.time()
    calls = reply.tool_calls()
    message = reply.message(calls)
    await fire(
        "post_api_request",
        **facts,
        api_duration=now - began,
        started_at=began,
        ended_at=now,
        finish_reason=reply.finish_reason,
        message_count=messages,
        response_model=reply.model,
        response=_as_response(reply),
        usage=dataclasses.asdict(reply.usage),
        assistant_message=message,
        assistant_content_chars=len(reply.text),
        assistant_tool_call_count=len(calls),
    )


# Middleware


def as_dict(request: ModelRequest, turn: Turn) -> dict[str, Any]:
    """A request as plugins see it."""
    return {
        "model": turn.model.name,
        **{name: getattr(request, name) for name in _KINDS},
    }


def applied(request: ModelRequest, wanted: dict[str, Any]) -> ModelRequest:
    """The request with what middleware changed, as far as it makes sense."""
    changes = {}
    for name, kind in _KINDS.items():
        value = wanted.get(name)
        if value is None or value == getattr(request, name):
            continue
        fits = isinstance(value, (int, float) if kind is float else kind)
        if name in ("messages", "tools"):
            fits = fits and all(isinstance(item, dict) for item in value)
        if name == "messages":
            fits = fits and bool(value) and all(isinstance(item.get("role"), str) for item in value)
        if fits:
            changes[name] = value
        else:
            log.warning("A plugin wants %s to be %.100r; that is ignored", name, value)
    return dataclasses.replace(request, **changes) if changes else request


async def _changed(
    request: ModelRequest, turn: Turn, facts: dict[str, Any]
) -> tuple[ModelRequest, list[Any]]:
    if not plugins.has_middleware("llm_request"):
        return request, []
    run, shown = contextvars.copy_context().run, as_dict(request, turn)
    change = plugins.get_middleware().change
    wanted, trace = await in_thread(lambda: run(change, "llm_request", "request", shown, facts))
    return applied(request, wanted), trace


def _stream(
    turn: Turn, request: ModelRequest, facts: dict[str, Any]
) -> AsyncGenerator[Chunk, None]:
    if plugins.has_middleware("llm_execution"):
        return _wrapped(turn, request, facts)
    return turn.model.stream(request)


async def _wrapped(
    turn: Turn, request: ModelRequest, facts: dict[str, Any]
) -> AsyncGenerator[Chunk, None]:
    """The stream of a call that middleware makes; it may replace the answer's text."""
    chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
    reply = Reply()
    below = CallsFromThread()

    async def ask(changed: ModelRequest) -> dict[str, Any]:
        async with contextlib.aclosing(turn.model.stream(changed)) as stream:
            async for chunk in stream:
                reply.add(chunk, lambda event: None)
                chunks.put_nowait(chunk)
        return _as_response(reply)

    def call(payload: dict[str, Any]) -> Any:
        changed = applied(request, payload)
        return below.call(lambda: ask(changed))

    run, shown = contextvars.copy_context().run, as_dict(request, turn)
    execute = plugins.get_middleware().execute
    work = asyncio.ensure_future(
        in_thread(lambda: run(execute, "llm_execution", "request", shown, facts, call))
    )
    work.add_done_callback(lambda done: chunks.put_nowait(None))
    try:
        while (chunk := await chunks.get()) is not None:
            yield chunk
        answer = await work
    finally:
        work.cancel()
        await below.end()
    text = answer.get("content") if isinstance(answer, dict) else answer
    if isinstance(text, str) and text and text != reply.text and not reply.tool_calls():
        if below.were_made:
            yield Restarted("A plugin changed the answer.", 0.0, 1)
        yield TextDelta(text)
        yield Finished(
            "stop", reply.usage if below.were_made else Usage(), reply.model or turn.model.name
        )
    elif not below.were_made:
        async with contextlib.aclosing(turn.model.stream(request)) as stream:
            async for chunk in stream:
                yield chunk


def _as_response(reply: Reply) -> dict[str, Any]:
    return {
        "content": reply.text,
        "tool_calls": reply.tool_calls(),
        "finish_reason": reply.finish_reason,
        "model": reply.model,
        "usage": dataclasses.asdict(reply.usage),
    }
