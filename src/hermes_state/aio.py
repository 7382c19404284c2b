"""AsyncSessionDB: the same store for coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
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
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> Coroutine[Any, Any, None]:
        """Close the wrapped store and the threads."""
        return self._close()

    async def _close(self) -> None:
        await self._run(self._db.close)
        self._threads.shutdown(wait=False)
