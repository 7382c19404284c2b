"""What a turn on another machine asks leave for, shown and answered in the chats of its
conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ..conversation.far import SECONDS, Far
from .chats import Chats, gateway
from .test_links import link

pytestmark = pytest.mark.postgres


@pytest.fixture(params=["hearing", "deaf"])
def far_turn(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[str], Far]]:
    """Starts a turn on another machine that wants to delete `doomed`."""
    started: list[Far] = []
    (tmp_path / "doomed").mkdir()

    def start(session_id: str) -> Far:
        started.append(Far(tmp_path, request.param, str(tmp_path / "doomed"), session_id))
        return started[-1]

    yield start
    for far in started:
        far.close()


async def shown_in(chats: Chats, chat_id: str, begins: str) -> str:
    """What a chat is shown that begins so."""
    count = 0
    async with asyncio.timeout(SECONDS):
        while True:
            count += 1
            text = (await chats.local.wait_for(count, chat_id))[count - 1]
            if text.startswith(begins):
                return text


async def test_an_approval_is_shown_in_linked_chats_and_the_first_answer_counts(
    tmp_path: Path, far_turn: Callable[[str], Far]
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        await link(chats, second="2", user_id="bob")
        far = far_turn(chats.session_id())
        for chat_id in ("1", "2"):
            text = await shown_in(chats, chat_id, "🔐")
            assert f"rm -rf {tmp_path / 'doomed'}" in text and "/approve" in text
        refused = await chats.ask("/approve always", chat_id="2", user_id="bob")
        assert refused == "Only whose question it is can allow it for good."
        refused = await chats.ask("/approve", chat_id="2", user_id="bob")
        assert refused.startswith("An operator's turn asks that; only an operator can allow it.")
        chats.db.set_person_role("local:bob", "operator")
        assert await chats.ask("/approve", chat_id="2", user_id="bob") == "Allowed (once)."
        assert await asyncio.to_thread(far.printed) == "complete Done."
        assert not (tmp_path / "doomed").exists()
        (decided,) = chats.db.list_approvals(chats.session_id())
        assert (decided["choice"], decided["decided_by"]) == ("once", "local:bob")
        await chats.say("/deny")
        await shown_in(chats, "1", "Nothing waits for an answer.")


async def test_what_is_denied_elsewhere_is_not_done(
    tmp_path: Path, far_turn: Callable[[str], Far]
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        far = far_turn(chats.session_id())
        async with asyncio.timeout(SECONDS):
            while not chats.db.list_asked_approvals(chats.session_id()):
                await asyncio.sleep(0.02)
        assert await chats.ask("/approve", chat_id="3") == "Nothing waits for an answer."  # its own
        assert await chats.ask("/deny") == "Refused."
        assert await asyncio.to_thread(far.printed) == "complete Done."
        assert (tmp_path / "doomed").exists()
