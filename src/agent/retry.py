"""Retries, and fall-back models.

`RetryingModel` is a model made of models. A transient failure is retried after a growing wait;
after any other the next model is asked at once. Every retry is announced with `Restarted` before
its wait, so that whatever was streamed is taken back and the person sees why nothing comes. A
request that is too long is never sent to another model: the caller has to shorten it.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from agent.errors import BrokenReplyError, ContextTooLongError, ModelError, TransientError
from agent.model import Chunk, Finished, Model, ModelRequest, Restarted

log = logging.getLogger(__name__)


class RetryingModel:
    """The first of `models` that answers. It goes by the name of the first."""

    def __init__(
        self,
        models: Sequence[Model],
        *,
        attempts: int = 4,
        first_wait: float = 1.0,
        longest_wait: float = 60.0,
        rest: float = 60.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask each model up to `attempts` times, waiting `first_wait` seconds, then twice that...

        A provider's own wish is honoured up to `longest_wait`; if it wants more, the next model is
        asked. A model that failed for good is asked last for `rest` seconds, so that a turn of many
        calls does not wait for it each time.
        """
        if not models:
            raise ValueError("RetryingModel needs at least one model")
        self._models = list(models)
        self._attempts = attempts
        self._first_wait = first_wait
        self._longest_wait = longest_wait
        self._rest = rest
        self._sleep = sleep
        self._jitter = jitter
        self._clock = clock
        self._resting_until: dict[int, float] = {}

    @property
    def models(self) -> tuple[Model, ...]:
        """The models that are asked, in their order."""
        return tuple(self._models)

    @property
    def name(self) -> str:
        """The first model's name."""
        return self._models[0].name

    @property
    def provider(self) -> str:
        """The first model's provider."""
        return self._models[0].provider

    @property
    def base_url(self) -> str:
        """The first model's address."""
        return self._models[0].base_url

    @property
    def context_length(self) -> int:
        """The first model's window."""
        return self._models[0].context_length

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask until a model answers; raises the last model's error when none did."""
        attempt = 1
        order = self._order()
        for position, index in enumerate(order):
            following = self._models[order[position + 1]] if position + 1 < len(order) else None
            for tried in range(1, self._attempts + 1):
                try:
                    async with aclosing(_whole(self._models[index], request)) as chunks:
                        async for chunk in chunks:
                            yield chunk
                    self._resting_until.pop(index, None)
                    return
                except ContextTooLongError:
                    raise
                except ModelError as error:
                    failure = error
                attempt += 1
                wait = self._wait(failure, tried)
                if wait is not None:
                    log.warning("Trying again in %.1f s: %s", wait, failure)
                    yield Restarted(str(failure), wait, attempt)
                    await self._sleep(wait)
                    continue
                break
            if isinstance(failure, TransientError):
                self._resting_until[index] = self._clock() + self._rest
            if following is None:
                raise failure
            log.warning("Asking %s instead: %s", following.name, failure)
            yield Restarted(f"{failure} Asking {following.name} instead.", 0.0, attempt)

    async def aclose(self) -> None:
        """Close all models."""
        for model in self._models:
            await model.aclose()

    def _order(self) -> list[int]:
        now = self._clock()
        indexes = range(len(self._models))
        return sorted(indexes, key=lambda index: self._resting_until.get(index, 0.0) > now)

    def _wait(self, failure: ModelError, tried: int) -> float | None:
        """Seconds until this model is asked again; None if it is not."""
        if not isinstance(failure, TransientError) or tried >= self._attempts:
            return None
        wanted = failure.retry_after or 0.0
        if wanted > self._longest_wait:
            return None
        backoff = min(self._first_wait * 2 ** (tried - 1), self._longest_wait)
        # Between half and all of it, so that many sessions do not come back in the same moment.
        return max(wanted, backoff * (0.5 + self._jitter() / 2))


async def _whole(model: Model, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
    """The model's chunks; a stream without its `Finished` is an error like any other."""
    finished = False
    # Closed here, not when it is collected: that is what breaks off the request.
    async with aclosing(model.stream(request)) as stream:
        async for chunk in stream:
            finished = finished or isinstance(chunk, Finished)
            yield chunk
    if not finished:
        raise BrokenReplyError(
            f"The reply of {model.name} ended without its finish reason. Try again.",
            provider=model.provider,
        )
