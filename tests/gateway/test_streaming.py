"""An answer while it is being made: one message that grows, and ends as the whole answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.errors import RequestRefusedError
from agent.scripted import fail, say
from gateway import delivery, streaming
from gateway.platforms.base import SendError

from .chats import Chats, gateway

STREAMING = {"enabled": True, "edit_interval": 0.01}
BEGINNING = "The beginning of a long answer, "


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "FIRST_PAUSE", 0.01)


async def until(fits: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not fits():
            await asyncio.sleep(0.005)


async def settled(chats: Chats) -> None:
    """Nothing runs, and nothing is owed."""
    await until(
        lambda: (
            not chats.runner._running_agents
            and not chats.db.list_waiting()
            and not chats.db.list_deliveries(("pending", "sending"))
        )
    )


async def test_the_preview_becomes_the_answer(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say(BEGINNING, release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: chats.local.texts() == [f"{BEGINNING} ▉"])
        release.set()
        await settled(chats)
        assert chats.local.texts() == [f"{BEGINNING}and its end."]


async def test_without_streaming_there_is_no_preview(tmp_path: Path) -> None:
    steps = [say(BEGINNING, "and its end.")]
    async with gateway(tmp_path / "home", steps) as chats:
        await chats.say("tell me")
        await settled(chats)
        assert [one.versions for one in chats.local.shown] == [[]]


async def test_a_preview_on_its_way_when_the_turn_ends_is_not_forgotten(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [say(BEGINNING, begun, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        send = chats.local.send

        async def slow(*args: Any, **more: Any) -> str | None:
            shown = await send(*args, **more)
            begun.set()
            await release.wait()
            return shown

        chats.local.send = slow  # type: ignore[method-assign]
        await chats.say("tell me")
        await begun.wait()
        await until(lambda: bool(chats.db.list_deliveries(("pending", "sending"))))
        await asyncio.sleep(0.02)
        release.set()
        await settled(chats)
        assert chats.local.texts() == [f"{BEGINNING}and its end."]


async def test_a_command_meanwhile_does_not_take_the_place_of_the_preview(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say(BEGINNING, release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)
        await chats.say("/version")
        await until(lambda: len(chats.local.texts()) == 2)
        release.set()
        await settled(chats)
        assert chats.local.texts()[0] == f"{BEGINNING}and its end."
        assert len(chats.local.texts()) == 2
        assert not chats.runner.delivery._streams


async def test_a_rate_limit_slows_the_preview_down(tmp_path: Path) -> None:
    more, release = asyncio.Event(), asyncio.Event()
    steps = [say(BEGINNING, more, "its middle ", release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)
        chats.local.failures += [SendError("slow down", retry_after=0.05)]
        more.set()
        await until(lambda: "its middle" in chats.local.texts()[0])
        assert not chats.local.failures
        release.set()
        await settled(chats)
        assert chats.local.texts() == [f"{BEGINNING}its middle and its end."]


async def test_a_preview_that_fails_costs_nothing(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say(BEGINNING, release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        chats.local.failures.append(SendError("broken"))
        await chats.say("tell me")
        await until(lambda: not chats.local.failures)
        release.set()
        await settled(chats)
        assert chats.local.texts() == [f"{BEGINNING}and its end."]


async def test_the_end_is_tried_again_in_the_same_message(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say(BEGINNING, release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)
        edit = chats.local.edit
        failures = [SendError("a moment", unsure=True), SendError("a moment", retry_after=0.01)]

        async def failing(chat_id: str, message_id: str, text: str) -> None:
            if "end" in text and failures:
                raise failures.pop()
            await edit(chat_id, message_id, text)

        chats.local.edit = failing  # type: ignore[method-assign]
        release.set()
        await settled(chats)
        assert not failures
        assert chats.local.texts() == [f"{BEGINNING}and its end."]


async def test_a_preview_that_somebody_deleted(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say(BEGINNING, release, "and its end.")]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)

        async def gone(chat_id: str, message_id: str, text: str) -> None:
            raise SendError("there is no such message", permanent=True)

        chats.local.shown.clear()
        chats.local.edit = gone  # type: ignore[method-assign]
        release.set()
        await settled(chats)
        assert chats.local.texts() == [f"{BEGINNING}and its end."]


async def test_a_failure_takes_the_place_of_the_preview(tmp_path: Path) -> None:
    seen = asyncio.Event()
    steps = [fail(RequestRefusedError("no"), after=[BEGINNING, seen])]
    async with gateway(tmp_path / "home", steps, streaming=STREAMING) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)
        seen.set()
        await until(lambda: "▉" not in chats.local.texts()[0])
        await settled(chats)
        assert len(chats.local.texts()) == 1


async def test_a_long_answer_is_previewed_within_the_limit(tmp_path: Path) -> None:
    release = asyncio.Event()
    text = "A sentence of some words. " * 400
    async with gateway(tmp_path / "home", [say(text, release)], streaming=STREAMING) as chats:
        limit = chats.local.capabilities.max_length
        await chats.say("tell me")
        await until(lambda: len(chats.local.texts()) == 1)
        release.set()
        await settled(chats)
        shown = chats.local.shown
        assert len(shown) == 3
        assert all(len(one) <= limit for sent in shown for one in (sent.text, *sent.versions))
        assert " ".join(chats.local.texts()) == text.strip()


async def test_typing_is_shown_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "TYPING_SECONDS", 0.01)
    release = asyncio.Event()
    async with gateway(tmp_path / "home", [say("Well, ", release, "yes.")]) as chats:
        await chats.say("tell me")
        await until(lambda: len(chats.local.typed) > 3)
        release.set()
        await settled(chats)
        before = len(chats.local.typed)
        await asyncio.sleep(0.05)
        assert len(chats.local.typed) == before
