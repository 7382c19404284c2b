"""What an adapter promises by itself, without a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermes_state import StoreBusyError

from ..platforms import lanes
from ..platforms.base import Button, MessageEvent, PlatformAdapter, SendError
from ..splitting import split_message
from .place import Place, until

ODD_TEXTS = (
    "**bold** _it_ ~~gone~~ `code`",
    "a < b && c > d; <script>alert('x')</script>",
    "unclosed **bold `code [link](",
    "```python\nprint('<&>')\n```",
    "| a | b |\n|---|---|\n| 1 | 2 |",
    "> quote\n\n- one\n  1. two\n\n# title",
    "snake_case_name *args **kwargs \\*escaped\\*",
    "😀👩‍👩‍👧‍👦 العربية 中文 \u200b\u202e",
    "&amp; &lt; &#39; &unknown;",
    "```\n```",
    "[x](javascript:alert(1)) ![](file:///etc/passwd)",
)


class AdapterChecks:
    """In and out, one adapter and its platform."""

    @pytest.fixture(autouse=True)
    def quick_lanes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What could not be stored is handed in again a hundred times as soon."""
        monkeypatch.setattr(lanes, "FIRST_PAUSE", 0.01)

    @pytest.fixture
    def events(self, place: Place) -> list[MessageEvent]:
        """What the adapter handed in."""
        found: list[MessageEvent] = []

        async def take(event: MessageEvent) -> None:
            found.append(event)

        place.adapter.on_message = take
        return found

    async def test_it_connects_runs_and_ends(self, place: Place) -> None:
        async with running(place.adapter):
            pass
        async with running(place.adapter):
            pass

    async def test_a_message_is_handed_in(self, place: Place, events: list[MessageEvent]) -> None:
        async with running(place.adapter):
            await place.person_says("hello")
            await until(lambda: bool(events))
        event = events[0]
        assert event.text == "hello" and not event.is_edit and event.button is None
        assert event.message_id
        assert event.source.platform is place.adapter.platform
        assert event.source.chat_id == place.chat_id
        assert event.source.user_id == place.user_id

    async def test_messages_of_a_chat_keep_their_order(
        self, place: Place, events: list[MessageEvent]
    ) -> None:
        async with running(place.adapter):
            for number in range(20):
                await place.person_says(str(number))
            await until(lambda: len(events) == 20)
        assert [event.text for event in events] == [str(number) for number in range(20)]
        assert len({event.message_id for event in events}) == 20

    async def test_a_message_that_comes_again_has_the_same_id(
        self, place: Place, events: list[MessageEvent]
    ) -> None:
        async with running(place.adapter):
            said = await place.person_says("hello")
            await until(lambda: bool(events))
            await place.delivered_again(said)
            await place.person_says("end")
            await until(lambda: events[-1].text == "end")
        assert len({event.message_id for event in events if event.text == "hello"}) == 1

    async def test_an_edit_says_what_it_changes(
        self, place: Place, events: list[MessageEvent]
    ) -> None:
        if not place.plays("person_edits"):
            return
        async with running(place.adapter):
            said = await place.person_says("helo")
            await until(lambda: bool(events))
            await place.person_edits(said, "hello")
            await until(lambda: len(events) > 1)
        assert [event.text for event in events] == ["helo", "hello"]
        assert [event.is_edit for event in events] == [False, True]
        assert events[0].message_id == events[1].message_id

    async def test_a_file_comes_in_under_a_safe_name(
        self, place: Place, events: list[MessageEvent]
    ) -> None:
        if not place.plays("person_sends"):
            return
        place.adapter.config.allow_all = True  # nobody else's files are fetched
        async with running(place.adapter):
            await place.person_sends("../../.ssh/notes\u202e.txt", b"some notes")
            await until(lambda: bool(events))
        (file,) = (Path(path) for path in events[0].media)
        assert file.read_bytes() == b"some notes"
        assert file.resolve().is_relative_to(place.adapter.host.home.resolve() / "media")
        assert file.name.isprintable() and not file.name.startswith(".")
        assert file.stat().st_mode & 0o077 == 0, "it is private"

    async def test_it_acknowledges_only_what_was_taken(self, place: Place) -> None:
        begun, stored = asyncio.Event(), asyncio.Event()

        async def slow(event: MessageEvent) -> None:
            begun.set()
            await stored.wait()

        place.adapter.on_message = slow
        async with running(place.adapter):
            said = await place.person_says("hello")
            await begun.wait()
            for _ in range(20):
                await asyncio.sleep(0.002)
                assert not place.acknowledged(said)
            stored.set()
            await until(lambda: place.acknowledged(said))

    async def test_what_could_not_be_taken_comes_again(self, place: Place) -> None:
        if not place.redelivers:
            return  # it tells its caller, who sends it again
        attempts = 0

        async def failing(event: MessageEvent) -> None:
            nonlocal attempts
            attempts += 1
            if attempts < 3:
                raise StoreBusyError("locked")

        place.adapter.on_message = failing
        async with running(place.adapter):
            said = await place.person_says("hello")
            await until(lambda: place.acknowledged(said))
        assert attempts == 3

    async def test_texts_are_shown(self, place: Place) -> None:
        async with running(place.adapter) as adapter:
            one = await adapter.send(place.chat_id, adapter.format("one"))
            two = await adapter.send(place.chat_id, adapter.format("two"))
        assert place.texts() == ["one", "two"]
        assert one and two and one != two

    async def test_any_markdown_is_taken(self, place: Place) -> None:
        async with running(place.adapter) as adapter:
            for number, text in enumerate(ODD_TEXTS, 1):
                await adapter.send(place.chat_id, adapter.format(text))
                shown = place.texts()
                assert len(shown) == number and shown[-1].strip(), text

    async def test_every_part_of_a_long_answer_is_taken(self, place: Place) -> None:
        text = "".join(f"**{number}** < & 😀 word. " for number in range(4000)) + "\n```\n"
        text += "\n".join(f"if a < {number}:" for number in range(3000)) + "\n```\n"
        async with running(place.adapter) as adapter:
            parts = split_message(text, adapter.capabilities.max_length, adapter.measure)
            for part in parts:
                await adapter.send(place.chat_id, adapter.format(part))
        assert len(place.texts()) == len(parts)
        shown = "".join(place.texts())
        assert all(str(number) in shown for number in range(0, 4000, 97))

    async def test_a_text_is_never_shorter_than_its_characters(self, place: Place) -> None:
        for text in ("", "a", "é", "😀", *ODD_TEXTS):
            assert place.adapter.measure(text) >= len(text)

    async def test_a_message_can_be_replaced(self, place: Place) -> None:
        if not place.adapter.capabilities.edits:
            return  # nothing to hold here
        async with running(place.adapter) as adapter:
            message_id = await adapter.send(place.chat_id, adapter.format("one"))
            assert message_id is not None
            for _ in range(2):  # the same text twice is no error
                await adapter.edit(place.chat_id, message_id, adapter.format("**two**"))
        assert len(place.texts()) == 1 and "two" in place.texts()[0]

    async def test_signs_are_given(self, place: Place, events: list[MessageEvent]) -> None:
        async with running(place.adapter) as adapter:
            await place.person_says("hello")
            await until(lambda: bool(events))
            await adapter.typing(place.chat_id)
            await adapter.react(place.chat_id, str(events[0].message_id), "👀")

    async def test_a_button_says_what_it_was_given(
        self, place: Place, events: list[MessageEvent]
    ) -> None:
        if not place.adapter.capabilities.buttons:
            return  # nothing to hold here
        data = f"approval:{'i' * 70}:once"
        async with running(place.adapter) as adapter:
            text = adapter.format("May I?")
            buttons = [Button("Yes", data), Button("No", "approval:1:deny")]
            await adapter.send(place.chat_id, text, buttons=buttons)
            await place.person_presses("Yes")
            await until(lambda: bool(events))
        assert events[0].button == data
        assert events[0].source.chat_id == place.chat_id
        assert events[0].source.user_id == place.user_id

    async def test_a_file_is_sent_or_named(self, place: Place, tmp_path: Path) -> None:
        file = tmp_path / "notes.txt"
        file.write_text("some notes")
        async with running(place.adapter) as adapter:
            await adapter.send_media(place.chat_id, str(file))
        assert len(place.texts()) == 1

    async def test_trouble_is_told_apart(self, place: Place) -> None:
        async with running(place.adapter) as adapter:
            place.fail_next(retry_after=7)
            with pytest.raises(SendError) as slow:
                await adapter.send(place.chat_id, adapter.format("one"))
            assert slow.value.retry_after == 7 and not slow.value.permanent
            place.fail_next(permanent=True)
            with pytest.raises(SendError) as refused:
                await adapter.send(place.chat_id, adapter.format("two"))
            assert refused.value.permanent
            await adapter.send(place.chat_id, adapter.format("three"))
        assert place.texts() == ["three"]

    async def test_nothing_is_sent_when_disconnected(self, place: Place) -> None:
        if not place.knows_when_disconnected:
            return  # it needs no connection
        async with running(place.adapter) as adapter:
            pass
        with pytest.raises(SendError) as refused:
            await adapter.send(place.chat_id, adapter.format("one"))
        assert not refused.value.permanent and not refused.value.unsure


@asynccontextmanager
async def running(adapter: PlatformAdapter) -> AsyncIterator[PlatformAdapter]:
    """The adapter, connected and receiving; ended as the gateway ends it."""
    await adapter.connect()
    task = asyncio.create_task(adapter.run())
    try:
        yield adapter
        assert not task.done(), "run() has ended by itself"
    finally:
        task.cancel()
        await asyncio.wait([task], timeout=5)
        await adapter.disconnect()
    assert task.cancelled()
