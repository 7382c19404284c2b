"""A message to a conversation in which another machine runs a turn: read there, or answered
after it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.elsewhere import make_way_elsewhere

from ..conversation.far import SECONDS, Far
from ..state.raw import tamper
from .chats import Chats, gateway
from .serving import Served, serving

pytestmark = pytest.mark.postgres


@pytest.fixture
def far_turns() -> Iterator[Callable[..., Far]]:
    """Starts turns on another machine, which is switched off at the end."""
    started: list[Far] = []

    def start(folder: Path, session_id: str) -> Far:
        started.append(Far(folder, doing="echo", session_id=session_id))
        return started[-1]

    yield start
    for far in started:
        far.close()


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(SECONDS):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.02)


async def is_given(far: Far, *texts: str) -> None:
    """Wait until the turn was given messages to read."""
    async with asyncio.timeout(SECONDS):
        for text in texts:
            assert await asyncio.to_thread(far.printed) == f"given {text}"


def told(chats: Chats | Served, session_id: str) -> list[str]:
    return [message["content"] or "" for message in chats.db.get_messages(session_id)]


async def test_messages_of_a_chat_are_read_by_the_turn_in_their_order(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with gateway(tmp_path, busy_input_mode="steer") as chats:
        assert await chats.ask("hello") == "re: hello"
        session_id = chats.session_id()
        far = far_turns(tmp_path, session_id)
        await chats.say("Look left")
        await chats.say("Look right")
        await is_given(far, "Look left", "Look right")
        far.go_on()
        await until(lambda: not far.db.list_waiting())
        assert far.turn()["state"] == "running"
        far.go_on()
        # The chat is not linked to whoever asked there: it is told the answer all the same, once.
        assert (await chats.local.wait_for(2))[1:] == ["re: Look left\n\nLook right"]
        assert await chats.ask("and now?") == "re: and now?"
        assert told(chats, session_id)[2:] == [
            "Tell me", "", "waited", "Look left", "Look right", "re: Look left\n\nLook right",
            "and now?", "re: and now?",
        ]  # fmt: skip


async def test_a_message_that_the_turn_did_not_read_is_answered_by_itself(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with gateway(tmp_path, busy_input_mode="steer") as chats:
        await chats.ask("hello")
        far = far_turns(tmp_path, chats.session_id())
        far.go_on()
        await until(lambda: "waited" in told(chats, chats.session_id()))
        await chats.say("Look left")
        await is_given(far, "Look left")
        far.close()  # it is gone before it has read anything
        # Its turn is gone on with here, and then the message has its own.
        assert (await chats.local.wait_for(3))[1:] == ["re: Tell me", "re: Look left"]
        assert told(chats, chats.session_id()).count("Look left") == 1


async def test_the_command_steers_whatever_other_messages_do(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await chats.ask("hello")
        far = far_turns(tmp_path, chats.session_id())
        assert "next step" in await chats.ask("/steer Look left")
        await is_given(far, "Look left")
        far.go_on()
        await until(lambda: not far.db.list_waiting())
        await chats.say("Wait your turn")
        far.go_on()
        shown = (await chats.local.wait_for(4))[2:]
        assert shown == ["re: Look left", "re: Wait your turn"]


async def test_without_a_turn_the_command_sends_a_message(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        assert await chats.ask("/steer Look left") == "re: Look left"


async def test_a_client_of_the_api_gets_the_answer_of_the_turn_that_read_its_message(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with serving(tmp_path) as served:
        assert (await served.chat("hello", "s")).status_code == 200
        far = far_turns(tmp_path, "s")

        async def steer(text: str) -> httpx.Response:
            return await served.chat(text, "s", **{"X-Hermes-Busy": "steer"})

        first = asyncio.ensure_future(steer("Look left"))
        await until(lambda: len(far.db.list_waiting()) == 1)
        second = asyncio.ensure_future(steer("Look right"))
        await is_given(far, "Look left", "Look right")
        far.go_on()
        await until(lambda: not far.db.list_waiting())
        far.go_on()
        for answer in await asyncio.gather(first, second):
            assert (
                answer.json()["choices"][0]["message"]["content"] == "re: Look left\n\nLook right"
            )
        answer = await served.chat("and now?", "s")
        assert answer.json()["choices"][0]["message"]["content"] == "re: and now?"
        assert served.model.requests[-1].messages[-1]["content"] == "and now?"
        assert len(served.model.requests) == 2


async def test_a_client_of_the_api_whose_message_was_not_read_is_answered_after_the_turn(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with serving(tmp_path) as served:
        await served.chat("hello", "s")
        far = far_turns(tmp_path, "s")
        asking = asyncio.ensure_future(served.chat("Look left", "s", **{"X-Hermes-Busy": "steer"}))
        await is_given(far, "Look left")
        far.close()
        answer = await asking
        assert answer.json()["choices"][0]["message"]["content"] == "re: Look left"


async def test_the_turn_makes_way_for_a_message_that_is_to_interrupt(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with gateway(tmp_path, busy_input_mode="interrupt") as chats:
        await chats.ask("hello")
        session_id = chats.session_id()
        far = far_turns(tmp_path, session_id)
        assert await chats.ask("Stop that") == "re: Stop that"
        assert (await asyncio.to_thread(far.printed)).startswith("interrupted")
        said = [
            row["content"] for row in chats.db.get_messages(session_id) if row["role"] == "user"
        ]
        assert said == ["hello", "Tell me", "Stop that"]
        assert far.rows("signals") == 0


async def test_a_turn_does_not_make_way_for_what_came_before_it_had_begun(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with gateway(tmp_path, busy_input_mode="interrupt") as chats:
        await chats.ask("hello")
        session_id = chats.session_id()
        far = far_turns(tmp_path, session_id)
        far.db.accept_message("m", session_id, "Before", source="tui")
        tamper(far.db, "UPDATE inbox SET received_at = received_at - 3600 WHERE id = 'm'")
        started_at = far.turn()["started_at"]
        assert not await asyncio.to_thread(make_way_elsewhere, far.db, session_id, "m", started_at)
        far.db.accept_message("n", session_id, "After", source="tui")
        assert not await asyncio.to_thread(
            make_way_elsewhere, far.db, session_id, "n", started_at - 1.0
        ), "that turn has ended"
        assert await asyncio.to_thread(make_way_elsewhere, far.db, session_id, "n", started_at)
        assert (await asyncio.to_thread(far.printed)).startswith("interrupted")
        for inbox_id in "mn":
            far.db.drop_message(inbox_id)


async def test_a_client_of_the_api_interrupts_the_turn_of_another_machine(
    tmp_path: Path, far_turns: Callable[..., Far]
) -> None:
    async with serving(tmp_path) as served:
        await served.chat("hello", "s")
        far = far_turns(tmp_path, "s")
        answer = await served.chat("Stop that", "s", **{"X-Hermes-Busy": "interrupt"})
        assert answer.json()["choices"][0]["message"]["content"] == "re: Stop that"
        assert (await asyncio.to_thread(far.printed)).startswith("interrupted")
