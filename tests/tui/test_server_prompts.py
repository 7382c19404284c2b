"""Prompts sent while a turn runs, over restarts too, and what a turn asks back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cut_off import until
from method_calls import Gateway
from scripted_provider import ScriptedProvider, call, say, script
from serving import (
    Child,
    configure,
    event,
    require_valid,
    said_by_user,
    stdio_client,
    store,
    turn_ends,
    ws_server,
)

from agent.config import ConfigError
from tui_gateway.client import Client


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


def busy(tmp_path: Path, provider: ScriptedProvider, mode: str) -> Path:
    return configure(tmp_path / "home", provider, display={"busy_input_mode": mode})


async def test_queued_prompts_are_run_in_their_order(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "queue")
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, script("0", say("slow answer", pieces=2, gate="half")))
        await provider.reached("half")
        for number in range(1, 5):
            assert await client.submit(sid, script(str(number))) == "queued"
        provider.open_gate("half")
        answers = [(await turn_ends(client, sid)).payload["text"] for _ in range(5)]
        assert answers == ["slow answer", "answer 1", "answer 2", "answer 3", "answer 4"]
    with store(home) as db:
        assert said_by_user(db, opened["session_key"]) == list("01234")


async def test_a_prompt_interrupts_and_is_then_answered(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "interrupt")
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, script("0", say("never ends", pieces=2, gate="half")))
        await provider.reached("half")
        await event(client, "message.delta", sid)
        assert await client.submit(sid, script("1")) == "interrupting"
        first, second = await turn_ends(client, sid), await turn_ends(client, sid)
        assert first.payload["status"] == "interrupted"
        assert second.payload["text"] == "answer 1"
    with store(home) as db:
        messages = db.get_messages(opened["session_key"])
        assert said_by_user(db, opened["session_key"]) == ["0", "1"]
        assert "never ends".startswith(messages[1]["content"])
        require_valid(messages)


async def test_an_interruption_never_hits_its_own_prompt(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    """Prompts that come just as the turn before ends are answered, whoever is first."""
    home = busy(tmp_path, provider, "interrupt")
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        key, count = opened["session_key"], 30
        await client.submit(sid, script("0"))
        for number in range(1, count):
            await until(lambda: is_answered(home, key), "the pair before is answered")
            # Two at once: the second one joins the first, interrupts it, or finds it ended.
            await asyncio.gather(
                client.submit(sid, script(f"{number}a")), client.submit(sid, script(f"{number}b"))
            )
        await until(lambda: is_answered(home, key), "the last pair is answered")
    with store(home) as db:
        wanted = ["0", *(f"{number}{letter}" for number in range(1, count) for letter in "ab")]
        assert said_by_user(db, key) == wanted


def is_answered(home: Path, key: str) -> bool:
    """Whether nothing waits or runs, and the last word is an answer."""
    with store(home) as db:
        waiting = db.list_waiting()  # first: what waits no more has begun when the turn is read
        turn, said = db.get_turn(key), db.get_messages(key)
        is_over = turn is not None and turn["state"] != "running"
        last = said[-1] if said else {"role": "user", "content": ""}
        answered = last["role"] == "assistant" and str(last["content"]).startswith(
            ("answer", "You said")
        )
        return is_over and answered and not waiting


async def test_a_steered_prompt_is_read_by_the_running_turn(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "steer")
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, script("0", call("todo", gate="call")))
        await provider.reached("call")
        assert await client.submit(sid, "Rather this.") == "steered"
        assert await client.steer(sid, "And that.") == "steered"
        provider.open_gate("call")
        assert (await event(client, "message.steered", sid)).payload["text"] == "Rather this."
        answer = (await turn_ends(client, sid)).payload["text"]
        assert answer == "You said: Rather this.\n\nAnd that."
        assert await client.steer(sid, "Nothing runs.") == "queued"
        assert (await turn_ends(client, sid)).payload["text"] == "You said: Nothing runs."
    with store(home) as db:
        assert said_by_user(db, opened["session_key"]) == [
            *("0", "Rather this.", "And that.", "Nothing runs.")
        ]
        assert db.list_waiting() == []


async def test_what_was_steered_too_late_is_run_next(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "steer")
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(sid, script("0", say("never ends", pieces=2, gate="half")))
        await provider.reached("half")
        await event(client, "message.delta", sid)
        assert await client.submit(sid, script("1")) == "steered"
        assert await client.interrupt(sid)
        assert (await turn_ends(client, sid)).payload["status"] == "interrupted"
        assert (await turn_ends(client, sid)).payload["text"] == "answer 1"
    with store(home) as db:
        assert said_by_user(db, opened["session_key"]) == ["0", "1"]


async def test_an_interruption_reaches_a_turn_that_is_being_prepared(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "queue")
    async with stdio_client(home) as client:
        sid = (await client.create())["session_id"]
        # The agent is not built yet when the second request is read.
        prompt = script("0", say("never ends", pieces=2, gate="half"))
        _, interrupted = await asyncio.gather(client.submit(sid, prompt), client.interrupt(sid))
        assert interrupted
        assert (await turn_ends(client, sid)).payload["status"] == "interrupted"
        assert not await client.interrupt(sid)
        await client.submit(sid, script("1"))
        assert (await turn_ends(client, sid)).payload["text"] == "answer 1"


async def test_waiting_prompts_outlive_the_server(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "queue")
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        sid, key = opened["session_id"], opened["session_key"]
        await client.submit(sid, script("0", say("never ends", pieces=2, gate="half")))
        await provider.reached("half")
        for number in range(1, 4):
            await client.submit(sid, script(str(number)))
        child.send_signal(signal.SIGKILL)
        await event(client, "connection.lost")
    with store(home) as db:
        assert said_by_user(db, key) == ["0"]
        assert len(db.list_waiting(key)) == 3
    provider.open_gate("half")
    async with stdio_client(home) as client:
        again = await client.resume(key)
        sid = again["session_id"]
        answers = [(await turn_ends(client, sid)).payload["text"] for _ in range(4)]
        assert answers == ["never ends", "answer 1", "answer 2", "answer 3"]
        assert (await client.resume(key))["session_id"] == sid
    with store(home) as db:
        assert said_by_user(db, key) == list("0123")
        assert db.list_waiting() == []
        require_valid(db.get_messages(key))


async def test_a_prompt_that_was_accepted_first_thing_is_found_after_a_kill(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = busy(tmp_path, provider, "queue")
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create(title="Mine", cwd=str(tmp_path))
        await client.submit(opened["session_id"], script("0"))
        child.send_signal(signal.SIGKILL)  # most likely before the agent is built
    async with stdio_client(home) as client:
        [listed] = await client.sessions()
        assert listed["id"] == opened["session_key"]
        again = await client.resume(listed["id"])
        assert again["info"]["cwd"] == str(tmp_path)
        if again["running"]:
            assert (await turn_ends(client, again["session_id"])).payload["text"] == "answer 0"
    with store(home) as db:
        assert said_by_user(db, opened["session_key"]) == ["0"]
        assert db.session_count() == 1


def test_prompts_wait_in_their_order_while_no_agent_can_be_built(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(config: object, name: str | None = None) -> None:
        raise ConfigError("Mend me.")

    with monkeypatch.context() as patched:
        patched.setattr("agent.build.build_models", broken)
        sid = gateway.open()
        for text in ("one", "two"):
            gateway.call("prompt.submit", session_id=sid, text=text)
            gateway.settle(sid)
        told = [one["payload"] for one in gateway.events(sid, "message.complete")]
        assert [one["text"] for one in told] == ["[No answer: Mend me.]"] * 2
        assert gateway.db.session_count() == 0
    status = gateway.call("prompt.submit", session_id=sid, text="three")["status"]
    assert status == "queued"
    gateway.settle(sid)
    assert said_by_user(gateway.db, gateway.key(sid)) == ["one", "two", "three"]
    assert gateway.db.list_waiting() == []


@pytest.mark.parametrize("choice", ["once", "deny"])
async def test_a_dangerous_command_is_asked_for(
    choice: str, tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, approvals={"mode": "manual"})
    doomed = home / "doomed"
    doomed.mkdir()
    async with ws_server(home) as server, server.client() as client, server.client() as other:
        sid = (await client.create(cwd=str(home)))["session_id"]
        await client.submit(sid, script("a", call("terminal", command="rm -rf doomed")))
        asked = await event(client, "approval.request", sid)
        assert "rm -rf doomed" in asked.payload["command"]
        seen = await other.activate(sid)  # whoever comes later is asked too
        assert [one["payload"] for one in seen["pending"]] == [asked.payload]
        assert await other.approve(sid, choice, request_id=asked.payload["request_id"]) == 1
        assert await client.approve(sid, "always") == 0
        closed = await event(client, "request.closed", sid)
        assert closed.payload["request_id"] == asked.payload["request_id"]
        assert (await turn_ends(client, sid)).payload["text"] == "answer a"
        assert doomed.exists() == (choice == "deny")


async def test_an_interruption_takes_the_question_back(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, approvals={"mode": "manual"})
    async with stdio_client(home) as client:
        sid = (await client.create(cwd=str(home)))["session_id"]
        await client.submit(sid, script("a", call("terminal", command="rm -rf doomed")))
        await event(client, "approval.request", sid)
        assert await client.interrupt(sid)
        assert (await turn_ends(client, sid)).payload["status"] == "interrupted"
        assert (await client.activate(sid))["pending"] == []
        assert await client.approve(sid, "once") == 0


async def test_the_model_asks_and_gets_an_answer(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider)
    async with stdio_client(home) as client:
        opened = await client.create()
        sid = opened["session_id"]
        await client.submit(
            sid, script("a", call("clarify", question="Which one?", choices=["red", "blue"]))
        )
        asked = await event(client, "clarify.request", sid)
        assert asked.payload["question"] == "Which one?"
        assert asked.payload["choices"] == ["red", "blue"]
        assert await client.clarify(asked.payload["request_id"], "blue")
        assert not await client.clarify(asked.payload["request_id"], "red")
        assert (await turn_ends(client, sid)).payload["text"] == "answer a"
        result = (await client.activate(sid))["messages"][2]
        assert "blue" in result["content"]
