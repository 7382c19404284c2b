"""A message's way through the gateway: answered once, whatever comes in between."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from agent.errors import RequestRefusedError
from agent.model import ModelRequest
from agent.scripted import Step, call, fail, say
from gateway.config import Platform
from gateway.platforms.base import SendError

from .. import seeds
from .chats import asked, echo, gateway


async def test_a_question_is_answered_and_everything_is_stored(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        assert await chats.ask("hello", message_id="77") == "re: hello"
        row = chats.db.get_session(chats.session_id())
        assert row is not None
        assert (row["source"], row["user_id"], row["chat_id"]) == ("local", "local:u1", "1")
        assert row["session_key"] == chats.key()
        told = [(one["role"], one["content"]) for one in chats.db.get_messages(row["id"])]
        assert told == [("user", "hello"), ("assistant", "re: hello")]
        assert chats.db.has_platform_message_id(row["id"], "77")


async def test_nothing_is_stored_before_the_first_message(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        assert chats.db.session_count() == 0
        await chats.ask("/status")
        assert chats.db.session_count() == 0


async def test_a_message_that_is_delivered_again_does_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await asyncio.gather(*(chats.say("once", message_id="7") for _ in range(5)))
        await chats.local.wait_for(1)
        assert await chats.ask("next") == "re: next"
        assert chats.local.texts() == ["re: once", "re: next"]


async def test_chats_do_not_wait_for_each_other(tmp_path: Path) -> None:
    release = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        return say(release, "late") if asked(request) == "slow" else echo(request)

    async with gateway(tmp_path, itertools.repeat(answer)) as chats:
        await chats.say("slow", chat_id="a")
        assert await chats.ask("quick", chat_id="b") == "re: quick"
        assert chats.local.texts("a") == []
        release.set()
        assert await chats.local.wait_for(1, "a") == ["late"]


async def test_messages_that_wait_are_answered_in_order(tmp_path: Path) -> None:
    release = asyncio.Event()
    first = iter([say(release, "first")])
    steps = itertools.chain(first, itertools.repeat(echo))
    async with gateway(tmp_path, steps, busy_input_mode="queue") as chats:
        for number in range(4):
            await chats.say(f"m{number}")
        release.set()
        assert await chats.local.wait_for(4) == ["first", "re: m1", "re: m2", "re: m3"]


async def test_a_further_message_interrupts(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps = itertools.chain(
        iter([say("I was saying", begun.set, asyncio.Event(), "never")]), itertools.repeat(echo)
    )
    async with gateway(tmp_path, steps, busy_input_mode="interrupt") as chats:
        await chats.say("first")
        await begun.wait()
        await chats.say("rather this")
        assert (await chats.local.wait_for(1))[-1] == "re: rather this"
        history = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert history[:2] == ["first", "I was saying"], "what was said before is kept"


async def test_a_further_message_steers(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps: list[Any] = [say(begun.set, release, "thinking"), echo]
    async with gateway(tmp_path, steps, busy_input_mode="steer") as chats:
        await chats.say("first")
        await begun.wait()
        await chats.say("more")
        while not chats.runner._running_agents[chats.key()]._busy._steering:
            await asyncio.sleep(0)
        release.set()
        assert await chats.local.wait_for(2) == ["thinking", "re: more"]
        assert chats.db.list_waiting() == []


@pytest.mark.fuzz
@pytest.mark.parametrize("mode", ["queue", "steer"])
async def test_a_flood_from_one_chat_is_answered_message_by_message(
    tmp_path: Path, mode: str
) -> None:
    count = seeds.times(70, 200)
    async with gateway(tmp_path, busy_input_mode=mode) as chats:
        for number in range(count):
            await chats.say(f"m{number}", message_id=str(number))
            await chats.say(f"m{number}", message_id=str(number))
        answered: set[str] = set()
        while len(answered) < count:
            await asyncio.sleep(0.01)
            answered = {
                one["content"]
                for one in chats.db.get_messages(chats.session_id())
                if one["role"] == "user"
            }
        said = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        mine = [text for text in said if not text.startswith("re: ")]
        assert mine == [f"m{number}" for number in range(count)], "each once, in order"


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (fail(RequestRefusedError("no such model")), "no such model"),
        (fail(RequestRefusedError("no such model")), "/reset"),
        (say(""), "empty"),
    ],
)
async def test_no_turn_is_silent(tmp_path: Path, step: Step, told: str) -> None:
    async with gateway(tmp_path, itertools.repeat(step)) as chats:
        assert told in await chats.ask("hello")


async def test_a_fault_in_the_engine_is_told_and_the_chat_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway(tmp_path) as chats:
        monkeypatch.setattr("gateway.agent_source.AgentSource.agent_for", _broken)
        assert "wires crossed" in await chats.ask("hello")
        monkeypatch.undo()
        assert await chats.ask("again") == "re: again"


async def _broken(*_: Any) -> Any:
    raise RuntimeError("wires crossed")


async def test_a_turn_is_stopped_by_command(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps = itertools.chain(iter([say(begun.set, asyncio.Event())]), itertools.repeat(echo))
    async with gateway(tmp_path, steps) as chats:
        await chats.say("first")
        await begun.wait()
        assert "top" in await chats.ask("/stop")
        assert await chats.ask("next") == "re: next"


async def test_the_prompt_prefix_stays_the_same_from_turn_to_turn(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        for number in range(4):
            await chats.ask(f"m{number}")
        requests = chats.model.requests
        assert len({request.system for request in requests}) == 1
        assert len({repr(request.tools) for request in requests}) == 1
        for earlier, later in itertools.pairwise(requests):
            assert later.messages[: len(earlier.messages)] == earlier.messages
        assert len(chats.runner._agent_cache) == 1


async def test_an_agent_is_kept_until_somebody_else_writes(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        first = chats.runner._agent_cache[chats.key()][0]
        await chats.ask("two")
        assert chats.runner._agent_cache[chats.key()][0] is first
        chats.db.append_message(chats.session_id(), "user", "from elsewhere")
        assert await chats.ask("three") == "re: three"
        assert chats.runner._agent_cache[chats.key()][0] is not first
        assert "from elsewhere" in [one["content"] for one in chats.model.requests[-1].messages]


async def test_an_answer_that_a_platform_does_not_take_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.delivery.FIRST_PAUSE", 0.01)
    async with gateway(tmp_path) as chats:
        chats.local.failures = [SendError("busy"), SendError("busy", retry_after=0.01)]
        assert await chats.ask("hello") == "re: hello"
        assert chats.local.texts() == ["re: hello"]


async def test_an_answer_nobody_can_take_is_reported_and_the_next_goes_out(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        chats.local.failures = [SendError("blocked", permanent=True)]
        await chats.say("hello")
        while not chats.db.list_deliveries(("failed",)):
            await asyncio.sleep(0.01)
        assert await chats.ask("again") == "re: again"
        assert [one["content"] for one in chats.db.list_deliveries(("failed",))] == ["re: hello"]
        assert chats.runner.delivery.failed == 1


async def test_answers_wait_for_a_platform_that_is_away(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        local = chats.local
        release = asyncio.Event()
        chats.model._steps = iter([say(release, "late answer")])
        await chats.say("hello")
        while not chats.model.requests:  # its turn has begun
            await asyncio.sleep(0.01)
        del chats.runner.adapters[Platform.LOCAL]
        release.set()
        while not chats.db.list_deliveries():
            await asyncio.sleep(0.01)
        assert local.texts() == []
        chats.runner.adapters[Platform.LOCAL] = local
        await chats.runner.delivery.resume_platform(Platform.LOCAL)
        assert await local.wait_for(1) == ["late answer"]


async def test_a_long_answer_comes_in_parts(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {number} " + "word " * 100 for number in range(30))
    async with gateway(tmp_path, itertools.repeat(say(text))) as chats:
        await chats.say("tell me")
        await chats.local.wait_for(4)
        while chats.db.list_deliveries(("pending", "sending")):
            await asyncio.sleep(0.01)
        assert all(len(one) <= 4000 for one in chats.local.texts())
        assert " ".join(chats.local.texts()).split() == text.split()


async def test_an_answer_grows_while_it_is_made(tmp_path: Path) -> None:
    release = asyncio.Event()
    steps = [say("The beginning of a long answer, ", release, "and its end.")]
    streaming = {"enabled": True, "edit_interval": 0.01}
    async with gateway(tmp_path, steps, streaming=streaming) as chats:
        await chats.say("tell me")
        (preview,) = await chats.local.wait_for(1)
        assert preview.startswith("The beginning")
        release.set()
        while chats.local.texts() != ["The beginning of a long answer, and its end."]:
            await asyncio.sleep(0.01)
        assert chats.local.typed


async def test_a_dangerous_command_is_asked_for_in_the_chat(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("Done.")]
    async with gateway(tmp_path / "home", steps) as chats:
        question = await chats.ask("clean up")
        assert "rm -rf" in question
        assert next(one.label for one in chats.local.shown[-1].buttons) == "Allow once"
        assert victim.exists()
        await chats.say("", button=chats.local.shown[-1].buttons[0].data)
        while "Done." not in chats.local.texts():
            await asyncio.sleep(0.01)
        assert not victim.exists()


async def test_a_denied_command_is_not_run(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    steps = [call("terminal", command=f"rm -rf {victim}"), say("Then not.")]
    async with gateway(tmp_path / "home", steps) as chats:
        await chats.ask("clean up")
        await chats.say("/deny")
        while "Then not." not in chats.local.texts():
            await asyncio.sleep(0.01)
        assert victim.exists()


async def test_a_question_of_the_model_is_answered_by_the_next_message(tmp_path: Path) -> None:
    steps = [call("clarify", question="Which one?", choices=["red", "blue"]), say("As you wish.")]
    async with gateway(tmp_path, steps) as chats:
        assert "2. blue" in await chats.ask("paint it")
        await chats.say("2")
        while "As you wish." not in chats.local.texts():
            await asyncio.sleep(0.01)
        results = [m for m in chats.db.get_messages(chats.session_id()) if m["role"] == "tool"]
        assert "blue" in results[0]["content"]
