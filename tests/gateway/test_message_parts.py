"""An album or a split text is one message, in whatever order and however far apart it arrives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.scripted import say
from gateway.config import Platform
from gateway.message_parts import PartsExpected, merge_parts, select_parts
from gateway.pipeline import Inbound, event_of, facts_of
from gateway.platforms.base import MessageEvent
from gateway.session import SessionSource

from .chats import Chats, gateway
from .test_quick_messages import questions, quiet, until

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def part(number: int, text: str = "", user: str = "u1", **more: Any) -> Inbound:
    """A message with this number."""
    source = SessionSource(Platform.LOCAL, "1", user_id=user)
    fields = {"order": number, "timestamp": NOW, **more}
    event = MessageEvent(text or f"<{number}>", source, f"{user}-{number}", **fields)
    return Inbound(event, "key", f"local:1:{user}-{number}")


@given(st.integers(1, 10), st.randoms())
def test_an_album_is_one_message_in_any_order(count: int, random: random.Random) -> None:
    album = [part(n, album="a", media=[f"{n}.jpg"]) for n in range(count)]
    others = [part(3, user="u2", album="a"), part(50, album="b"), part(60)]
    arrived = [*album, *others]
    random.shuffle(arrived)
    for first in album:
        merged = merge_parts(select_parts(first, arrived, 1.0))
        assert merged.event.media == [f"{n}.jpg" for n in range(count)]
        assert merged.event.text == "\n".join(f"<{n}>" for n in range(count))
        assert merged.inbox_ids == tuple(one.inbox_id for one in album)


@given(st.lists(st.sampled_from(["", "\n"]), max_size=6), st.randoms())
def test_a_split_text_is_one_message_in_any_order(
    between: list[str], random: random.Random
) -> None:
    parts = [part(n, split_with=cut) for n, cut in enumerate([*between, None])]
    later = part(90, timestamp=NOW + timedelta(minutes=1))
    arrived = [*parts, later, part(91, user="u2")]
    random.shuffle(arrived)
    whole = "".join(f"<{n}>{cut or ''}" for n, cut in enumerate([*between, None]))
    for first in parts:
        merged = merge_parts(select_parts(first, arrived, 1.0))
        assert merged.event.text == whole
        assert merged.inbox_ids == tuple(one.inbox_id for one in parts)
    assert select_parts(later, arrived, 1.0) == [later]
    again = part(90, timestamp=NOW + timedelta(minutes=1))
    again.waited = True
    assert select_parts(later, [*arrived, again], 1.0) == [later], "one that was taken up twice"


def test_a_text_that_was_followed_later_is_whole() -> None:
    long = part(1, split_with="")
    assert select_parts(long, [part(2, timestamp=NOW + timedelta(seconds=5))], 1.0) == [long]
    assert select_parts(long, [part(2, is_edit=True)], 1.0) == [long]


def test_what_a_part_is_outlives_a_restart() -> None:
    event = part(7, album="a", media=["x.jpg"], split_with="").event
    row = {"content": event.text, "platform_message_id": "u1-7", "facts": facts_of(event)}
    assert event_of(row) == event


def test_remembered_chats_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.message_parts.REMEMBERED_CHATS", 10)
    parts = PartsExpected(1.0)
    for number in range(100):
        parts.note(part(1, user=f"u{number}", split_with="").event)
        parts.arrived(f"key{number}")
    assert len(parts._latest) == len(parts._arrived) == 10
    assert parts.expects(part(2, user="u99").event)
    assert not parts.expects(part(2, user="u1").event)


def end_wait(chats: Chats) -> None:
    """All parts are there; a slow machine has not ended the wait between two of them."""
    parts = chats.runner.turns.parts
    parts._seconds = 0.01
    parts._changed.set()


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2], [1, 3, 2, 0]])
@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_an_album_is_answered_once(tmp_path: Path, order: Sequence[int], mode: str) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(4)]
    for file in files:
        file.write_text(file.name)
    steps = [say("Four files.")]
    settings = {"busy_input_mode": mode, "message_parts_wait": 30.0}
    async with gateway(tmp_path / "home", steps, **settings) as chats:
        for number in [*order, *order]:  # each is delivered twice
            await chats.say(
                "look" if number == 0 else "", album="a", order=number,
                message_id=str(number), media=[str(files[number])],
            )  # fmt: skip
        await until(lambda: chats.runner.turns.waiting == 4)
        end_wait(chats)
        assert await chats.local.wait_for(1) == ["Four files."]
        await quiet(chats)
        assert chats.local.texts() == ["Four files."]
        (question,) = questions(chats)
        places = [str(question).index(file.name) for file in files]
        assert places == sorted(places) and "look" in str(question)
        assert chats.model.calls == 1


async def test_a_split_text_is_answered_once_and_at_once(tmp_path: Path) -> None:
    # The wait is long; the last part ends it.
    async with gateway(tmp_path, message_parts_wait=30.0) as chats:
        await chats.say("a" * 50, split_with="", order=1)
        await chats.say("b" * 50, split_with="\n", order=2)
        await chats.say("c", order=3)
        assert await chats.local.wait_for(1) == [f"re: {'a' * 50}{'b' * 50}\nc"]
        assert len(questions(chats)) == 1


async def test_nothing_is_waited_for_where_that_is_switched_off(tmp_path: Path) -> None:
    async with gateway(tmp_path, message_parts_wait=0, busy_input_mode="queue") as chats:
        for number in range(2):
            await chats.say(f"m{number}", album="a", order=number)
        assert await chats.local.wait_for(2) == ["re: m0", "re: m1"]


async def test_a_part_whose_file_is_being_fetched_is_waited_for(tmp_path: Path) -> None:
    async with gateway(tmp_path, message_parts_wait=0.05) as chats:
        source = SessionSource(Platform.LOCAL, "1", user_id="u1")
        with chats.runner.host_for(source.platform).expecting(source):
            await chats.say("one", album="a", order=1)
            await until(lambda: chats.runner.turns.waiting == 1)
            await asyncio.sleep(0.2)  # longer than the wait
            assert chats.model.calls == 0
            await chats.say("two", album="a", order=2)
        assert await chats.local.wait_for(1) == ["re: one\ntwo"]


async def test_a_restart_between_the_parts_gives_one_turn(tmp_path: Path) -> None:
    settings = {"message_parts_wait": 30.0, "drain_timeout": 0.0}
    async with gateway(tmp_path, [], **settings) as chats:
        await chats.say("one", album="a", order=1, message_id="1")
        await until(lambda: chats.runner.turns.waiting == 1)
    async with gateway(tmp_path, **settings) as chats:
        await chats.say("two", album="a", order=2, message_id="2")
        await chats.say("one", album="a", order=1, message_id="1")
        await until(lambda: chats.runner.turns.waiting == 2)
        end_wait(chats)
        assert await chats.local.wait_for(1) == ["re: one\ntwo"]
        await quiet(chats)
        assert chats.local.texts() == ["re: one\ntwo"]
