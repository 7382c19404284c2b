"""The model that needs nothing: SmolLM2-135M inside the process, offline, without a key.

It makes a first conversation possible on a bare machine. It is far too small for tools or a long
prompt, and says so through `supports_tools`, `small` and `notice`. Weights and library are fetched
on first use; loading and generating happen in a thread, so the event loop never waits.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

from agent.config.schema import LOCAL_MODEL
from agent.errors import (
    BrokenReplyError,
    ContextTooLongError,
    ModelError,
    RequestRefusedError,
    ServerFailedError,
)
from agent.home import home_path, short_path
from agent.model import Chunk, Finished, Message, ModelRequest, TextDelta, Usage
from agent.providers import embedded_engine
from agent.providers.embedded_engine import CONTEXT_LENGTH, Engine, Worker
from agent.providers.embedded_fetch import (
    FetchCancelled,
    FetchError,
    ensure_runtime,
    ensure_weights,
)
from agent.providers.embedded_progress import Progress, terminal_progress
from agent.providers.stored_messages import calls_of, text_of

__all__ = ["EmbeddedModel", "FetchError", "ensure_weights"]

_LONGEST_ANSWER = 1024
_SAMPLING = {"temperature": 0.2, "top_p": 0.9, "repeat_penalty": 1.03, "seed": 7}
"""Its likeliest words are its best by far. With a fixed seed, a question has one answer."""

_Item = dict[str, Any] | ModelError | None


class EmbeddedModel:
    """SmolLM2-135M-Instruct. Any number may exist; they share one copy of the weights."""

    supports_tools = False
    """Tool schemas are not sent: the model cannot use them."""
    small = True
    """It needs the short system prompt."""
    provider = "local"
    base_url = ""

    def __init__(
        self,
        name: str = LOCAL_MODEL,
        *,
        context_length: int = CONTEXT_LENGTH,
        home: Path | None = None,
        progress: Callable[[str], Progress] = terminal_progress,
    ) -> None:
        """`home` is where the weights are kept: the Hermes home."""
        self.name = name
        self.context_length = min(context_length, CONTEXT_LENGTH)
        self._home = home
        self.progress = progress
        """Makes what shows a download, from a label; a front end may put its own here."""
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._workers: set[Worker] = set()

    @property
    def notice(self) -> str:
        """One line to show on first use."""
        home = self._home or home_path(os.environ)
        return (
            f"This is {LOCAL_MODEL}, a tiny model that runs offline inside Hermes. Connect a better"
            " one with OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY in"
            f" {short_path(home / '.env')}, or with model: in {short_path(home / 'config.yaml')}."
        )

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Answer; cancelling the task that reads stops the generation."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[_Item] = asyncio.Queue()
        body = _body(request)

        def deliver(item: _Item) -> None:
            loop.call_soon_threadsafe(inbox.put_nowait, item)

        worker = Worker(lambda stop: self._answer(body, deliver, stop))
        worker.start()
        self._workers = {other for other in self._workers if other.is_alive()} | {worker}
        reply = _Reply(self.name)
        try:
            while (item := await inbox.get()) is not None:
                if isinstance(item, ModelError):
                    raise item
                for chunk in reply.read(item):
                    yield chunk
        finally:
            worker.stop.set()
        yield reply.finished()

    async def aclose(self) -> None:
        """Stop what is running here and, with the last model, free the weights' memory."""
        await asyncio.to_thread(self._close)

    def _answer(
        self, body: dict[str, Any], deliver: Callable[[_Item], None], stop: threading.Event
    ) -> None:
        """Load if need be and generate; the last item delivered is None or an error."""
        last: _Item = None
        try:
            self._loaded(stop).generate(body, deliver, stop)
        except FetchCancelled:
            pass
        except ModelError as error:
            last = error
        except (RuntimeError, ValueError) as error:
            # How the library refuses a request it cannot make sense of.
            last = RequestRefusedError(
                f"The offline model refused the request: {error}.", provider=self.provider
            )
        except Exception as error:  # noqa: BLE001  # the reader must hear of anything, or wait forever
            last = ServerFailedError(
                f"The offline model failed: {error!r}. Try again.", provider=self.provider
            )
        try:
            deliver(last)
        except RuntimeError:
            stop.set()  # the reader's event loop is closed: nobody is waiting

    def _loaded(self, stop: threading.Event) -> Engine:
        with self._lock:
            if self._engine is None:
                label = f"First use: fetching {LOCAL_MODEL}"
                weights = ensure_weights(self._home, self.progress(label), stop)
                label = "First use: installing llama.cpp"
                runtime = ensure_runtime(self._home, self.progress(label), stop)
                self._engine = embedded_engine.acquire(runtime, weights)
            return self._engine

    def _close(self) -> None:
        for worker in list(self._workers):
            worker.stop.set()
            worker.join()
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            embedded_engine.release(engine)


class _Reply:
    """Reads the chunks of one answer."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._reason = ""
        self._usage = Usage()

    def read(self, chunk: dict[str, Any]) -> Iterator[Chunk]:
        """The text in a chunk of the server's; raises what the chunk reports."""
        if "error" in chunk:
            raise _failure(chunk["error"])
        for choice in chunk.get("choices") or ():
            text = (choice.get("delta") or {}).get("content")
            if text:
                yield TextDelta(text)
            self._reason = choice.get("finish_reason") or self._reason
        usage = chunk.get("usage")
        if usage:
            details = usage.get("prompt_tokens_details") or {}
            self._usage = Usage(
                input_tokens=usage.get("prompt_tokens") or 0,
                output_tokens=usage.get("completion_tokens") or 0,
                cache_read_tokens=details.get("cached_tokens") or 0,
            )

    def finished(self) -> Finished:
        """The end of the answer; raises BrokenReplyError if it was cut."""
        if not self._reason:
            raise BrokenReplyError(
                "The offline model was stopped before its answer was complete. Try again.",
                provider="local",
            )
        return Finished(self._reason, self._usage, self._model)


def _failure(error: dict[str, Any]) -> ModelError:
    message = str(error.get("message") or error)
    if error.get("type") == "exceed_context_size_error":
        return ContextTooLongError(
            f"The conversation is too long for the offline model: {error.get('n_prompt_tokens')}"
            f" tokens, and it can take {error.get('n_ctx', CONTEXT_LENGTH)}. Start a new one with"
            " /new or connect a larger model.",
            status=400,
            provider="local",
        )
    status = error.get("code") if isinstance(error.get("code"), int) else None
    kind = RequestRefusedError if status is not None and status < 500 else ServerFailedError
    return kind(f"The offline model failed: {message}", status=status, provider="local")


def _body(request: ModelRequest) -> dict[str, Any]:
    """The request in the server's words, without tools."""
    messages = [{"role": "system", "content": _plain(request.system)}] if request.system else []
    messages += (_message(message) for message in request.messages)
    sampling = dict(_SAMPLING)
    if request.temperature is not None:
        sampling["temperature"] = request.temperature
    return {
        "messages": messages,
        "max_tokens": min(request.max_tokens or _LONGEST_ANSWER, CONTEXT_LENGTH),
        **sampling,
    }


def _message(message: Message) -> dict[str, str]:
    """A stored message as the model's template knows it: tools become words."""
    role, text = message["role"], text_of(message.get("content"))
    if role == "tool":
        return {"role": "user", "content": _plain(f"[{message.get('tool_name') or 'tool'}] {text}")}
    used = [f"[used {call.name}]" for call in calls_of(message)]
    return {"role": role, "content": _plain("\n".join([text, *used] if text else used))}


def _plain(text: str) -> str:
    """Text that is valid UTF-8 and cannot imitate the markup between messages."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("<|", "< |")
