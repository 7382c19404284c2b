"""Coroutines that ordinary code runs to their end, and what they leave behind."""

from __future__ import annotations

import asyncio
import gc
import socket

import pytest

from agent.threads import run_to_end


def left_over() -> list[asyncio.Task[object]]:
    return [task for task in gc.get_objects() if isinstance(task, asyncio.Task) and not task.done()]


def test_a_task_that_was_cancelled_and_not_awaited_ends() -> None:
    steps: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            steps.append("ended")

    async def leave() -> str:
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        task.cancel()
        return "done"

    assert run_to_end(leave()) == "done"
    assert steps == ["ended"]


def test_a_connection_that_is_given_up_leaves_no_task() -> None:
    """asyncio cancels its tries to reach a host and does not wait for them."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, socket.socket() as first:
        address = server.getsockname()
        first.connect(address)  # nobody takes it, so that the next one waits

        async def give_up() -> None:
            connecting = asyncio.create_task(
                asyncio.get_running_loop().create_connection(
                    asyncio.Protocol, *address, happy_eyeballs_delay=60
                )
            )
            for _ in range(10):
                await asyncio.sleep(0)
            assert not connecting.done()
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting

        before = left_over()
        run_to_end(give_up())
        assert [task for task in left_over() if task not in before] == []


def test_a_task_that_goes_on_is_left_for_the_next_time() -> None:
    seen: list[str] = []

    async def later() -> None:
        await asyncio.sleep(0.01)
        seen.append("went on")

    async def begin() -> asyncio.Task[None]:
        return asyncio.create_task(later())

    async def wait(task: asyncio.Task[None]) -> None:
        await task

    task = run_to_end(begin())
    assert seen == []
    run_to_end(wait(task))
    assert seen == ["went on"]
