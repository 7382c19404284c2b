"""Messages in quick succession: a turn that has not said anything takes them in; none is lost."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.busy_state import MOST_RESTARTS
from agent.loop import INTERRUPTED, STILL_OPEN
from agent.model import ModelRequest, ReasoningDelta
from agent.scripted import Call, Step, say
from gateway.chat_options import ChatOptions
from gateway.chat_turns import ChatTurns
from gateway.pipeline import Inbound

from ..state.memory import MEMORY
from .chats import Chats, asked, echo, gateway

KEY = "agent:main:local:dm:1"


async def until(holds: Callable[[], bool]) -> None:
    """Wait for a state."""
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.002)


async def quiet(chats: Chats) -> None:
    """Wait until nothing waits, runs or is owed."""
    turns = chats.runner.conversations
    await until(lambda: not (turns._workers or chats.db.list_waiting() or turns.in_flight))
    await until(lambda: not chats.db.list_deliveries(("pending", "sending")))


def questions(chats: Chats) -> list[str]:
    """What was asked, as it is stored."""
    stored = chats.db.get_messages(chats.session_id())
    return [one["content"] for one in stored if one["role"] == "user"]


async def test_both_are_answered_while_the_model_has_not_said_anything(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps = [say(ReasoningDelta("hm"), begun.set, asyncio.Event(), "never"), echo, echo]
    async with gateway(tmp_path, steps) as chats:
        await chats.say("what is the time?", message_id="1")
        await begun.wait()
        await chats.say("and the day?", message_id="2")
        (answer,) = await chats.local.wait_for(1)
        assert answer == "re: what is the time?\n\nand the day?"
        await quiet(chats)
        assert chats.local.texts() == [answer], "one answer to both"
        stored = chats.db.get_messages(chats.session_id())
        assert [one["content"] for one in stored] == ["what is the time?", "and the day?", answer]
        for message_id in ("1", "2"):
            assert chats.db.has_platform_message_id(chats.session_id(), message_id)
        await chats.say("and the day?", message_id="2")
        assert await chats.ask("next") == "re: next", "a redelivery does nothing"


async def test_both_are_answered_while_the_agent_is_being_made(tmp_path: Path) -> None:
    gate = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        return say(gate, f"re: {asked(request)}")

    async with gateway(tmp_path, itertools.repeat(answer)) as chats:
        await asyncio.gather(*(chats.say(f"m{number}") for number in range(3)))
        gate.set()  # one that comes while the model speaks would interrupt it
        await quiet(chats)
        assert questions(chats) == ["m0", "m1", "m2"]
        told = "\n".join(chats.local.texts())
        assert all(f"m{number}" in told for number in range(3))


async def test_a_picture_joins_too(tmp_path: Path) -> None:
    begun = asyncio.Event()
    picture = tmp_path / "picture.txt"
    picture.write_text("a cat")
    steps = [say(begun.set, asyncio.Event()), say("A cat.")]
    async with gateway(tmp_path / "home", steps) as chats:
        await chats.say("what is this?")
        await begun.wait()
        await chats.say("", media=[str(picture)])
        assert await chats.local.wait_for(1) == ["A cat."]
        assert "picture.txt" in str(chats.model.requests[-1].messages)


async def test_a_turn_that_runs_a_tool_is_interrupted_and_its_question_stays_open(
    tmp_path: Path,
) -> None:
    begun = asyncio.Event()
    steps = [Step((Call("todo", {"todos": []}),)), say(begun.set, asyncio.Event()), echo]
    async with gateway(tmp_path, steps) as chats:
        await chats.say("what is the time?")
        await begun.wait()
        await chats.say("and the day?")
        assert await chats.local.wait_for(1) == ["re: and the day?"]
        sent = [str(one["content"]) for one in chats.model.requests[-1].messages]
        assert sent[0] == "what is the time?"
        assert sent[-2:] == [STILL_OPEN, "and the day?"], "the model is told"


async def test_a_stop_leaves_no_question_open(tmp_path: Path) -> None:
    begun = asyncio.Event()
    async with gateway(tmp_path, [say(begun.set, asyncio.Event()), echo]) as chats:
        await chats.say("what is the time?")
        await begun.wait()
        await chats.ask("/stop")
        assert await chats.ask("next") == "re: next"
        stored = chats.db.get_messages(chats.session_id())
        assert stored[1]["content"] == INTERRUPTED


async def test_what_somebody_else_says_in_a_group_interrupts_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    begun = asyncio.Event()
    steps = [say(begun.set, asyncio.Event()), echo]
    async with gateway(tmp_path, steps, group_sessions_per_user=False) as chats:
        await chats.say("mine", chat_type="group", user_id="u1")
        await begun.wait()
        await chats.say("theirs", chat_type="group", user_id="u2")
        assert await chats.local.wait_for(1) == ["re: theirs"]
        assert STILL_OPEN in [one["content"] for one in chats.model.requests[-1].messages]


async def test_a_flood_restarts_a_request_only_a_few_times(tmp_path: Path) -> None:
    count = 5 * MOST_RESTARTS
    hold = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        return echo(request) if f"m{count - 1}" in asked(request) else say(hold)

    async with gateway(tmp_path, itertools.repeat(answer)) as chats:
        for number in range(count):
            asked_before = chats.model.calls
            await chats.say(f"m{number}")
            await until(lambda: chats.model.calls > asked_before)  # noqa: B023 - awaited here
        await quiet(chats)
        assert questions(chats) == [f"m{number}" for number in range(count)]
        assert any(f"m{count - 1}" in text for text in chats.local.texts())


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["say", "wait", "word", "step"]), st.integers(0, 3)),
        min_size=2,
        max_size=12,
    )
)
def test_no_message_is_without_an_answer(plan: list[tuple[str, int]]) -> None:
    """However messages and model interleave, each is stored once, in order, and the last word of
    the conversation comes after all of them."""

    async def run(home: Path) -> None:
        gate = asyncio.Event()

        def answer(request: ModelRequest) -> Step:
            return say(gate.wait, "re: ", lambda: asyncio.sleep(0), asked(request))

        async with gateway(home, itertools.repeat(answer)) as chats:
            count = 0
            for action, pauses in plan:
                if action == "say":
                    await chats.say(f"<{count}>", message_id=str(count))
                    count += 1
                elif action == "word":
                    gate.set()
                elif action == "wait":
                    gate.clear()
                for _ in range(pauses * 3):
                    await asyncio.sleep(0)
            gate.set()
            if not count:
                return
            await quiet(chats)
            assert questions(chats) == [f"<{number}>" for number in range(count)]
            stored = chats.db.get_messages(chats.session_id())
            for place, message in enumerate(stored):
                if message["role"] == "user":
                    after = (one for one in stored[place:] if one["role"] == "assistant")
                    reply = next(after)["content"]
                    # It is answered, or was being answered when the person said something else,
                    # or the model knows that it is still to be answered.
                    begun = reply.strip() == "re:"
                    assert message["content"] in reply or begun or reply == STILL_OPEN
            assert f"<{count - 1}>" in chats.local.texts()[-1]

    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        asyncio.run(run(Path(folder)))


@pytest.mark.postgres
async def test_a_message_does_not_interrupt_the_turn_that_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between looking at what runs and acting on it, a server's store is asked: others go on."""
    spoken, first, second, begun = (asyncio.Event() for _ in range(4))
    looking, may_look = threading.Event(), threading.Event()
    mode_of = ChatTurns._busy_mode

    def look_slowly(turns: ChatTurns, key: str) -> str:
        if not looking.is_set():
            looking.set()
            may_look.wait(60)
        return mode_of(turns, key)

    taken: list[str] = []
    take = ChatTurns.take

    async def take_and_say(turns: ChatTurns, inbound: Inbound, mode: str | None = None) -> None:
        await take(turns, inbound, mode)
        taken.append(inbound.event.text)

    monkeypatch.setattr(ChatOptions, "are_set", lambda options, key: True)
    monkeypatch.setattr(ChatTurns, "_busy_mode", look_slowly)
    monkeypatch.setattr(ChatTurns, "take", take_and_say)
    steps = [say("one", spoken.set, first, "."), say("two", begun.set, second, ".")]
    async with gateway(tmp_path, steps) as chats:
        await chats.say("m1")
        await spoken.wait()
        await chats.say("m2")
        await until(looking.is_set)
        first.set()
        await begun.wait()
        may_look.set()
        await until(lambda: taken == ["m1", "m2"])
        assert not chats.runner.conversations.agents[KEY]._busy.interrupt_wanted
        second.set()
        await quiet(chats)
        assert chats.local.texts() == ["one.", "two."]
