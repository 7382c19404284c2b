"""AsyncSessionDB: the same store for coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

_THREADS = 8


class AsyncSessionDB:
    """Every method of the wrapped SessionDB (`_db`) as a coroutine, run off the event loop.

    Writes queue up behind each other in the order in which they reach the store; reads run beside
    them. Attributes that are not callable are passed through.
    """

    def __init__(self, db: Any) -> None:
        self._db = db
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hermes-store")
        self._closed = False

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._db, name)
        if not callable(member):
            return member

        @functools.wraps(member)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return await self._run(member, *args, **kwargs)

        return call

    async def _run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        work = functools.partial(function, *args, **kwargs)
        if self._closed:
            return work()  # the threads are gone; a closed store refuses at once, by name
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def close(self) -> None:
        """Close the wrapped store and the threads; closing twice is fine."""
        await self._run(self._db.close)
        self._closed = True
        self._threads.shutdown(wait=False)
