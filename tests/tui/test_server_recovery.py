"""A server is killed at one moment of a turn; the next one brings the turn to its end, once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from cut_off import answers, kill, kill_during, until
from scripted_provider import ScriptedProvider, Step, call, say, script
from serving import Child, configure, event, stdio_client, store, turn_ends

from conversation.abandoned import GOING_ON
from hermes_state.turn_log import CUT_OFF
from tui_gateway.client import Client


@pytest.fixture
async def provider() -> AsyncIterator[ScriptedProvider]:
    async with ScriptedProvider() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, provider: ScriptedProvider) -> Path:
    return configure(tmp_path / "home", provider)


def line(effects: Path, text: str, *, then: str = "true", gate: str = "") -> Step:
    """A command with an effect that is seen if it happens twice."""
    return call("terminal", gate, command=f"echo {text} >> {effects}; {then}", timeout=601)


Moment = Callable[[ScriptedProvider, Path, Client], Awaitable[Any]]


async def asked(provider: ScriptedProvider, effects: Path, client: Client) -> None:
    await provider.reached("gate")


async def inside(provider: ScriptedProvider, effects: Path, client: Client) -> None:
    await until(lambda: effects.exists() and "b" in effects.read_text(), "the tool runs")


async def answered(provider: ScriptedProvider, effects: Path, client: Client) -> None:
    await turn_ends(client)


MOMENTS: dict[str, tuple[Moment, dict[str, str], dict[str, str]]] = {
    # when to kill; of the second tool and the answer: what they wait for
    "before the model answers": (asked, {}, {"gate": "gate"}),
    "between two tools": (asked, {"gate": "gate"}, {}),
    "inside a tool": (inside, {"then": "sleep 600"}, {}),
    "after the answer": (answered, {}, {}),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_kill_costs_no_answer_and_repeats_no_effect(
    home: Path, provider: ScriptedProvider, tmp_path: Path, moment: str
) -> None:
    effects = tmp_path / "effects"
    when, second, last = MOMENTS[moment]
    steps = [line(effects, "a"), line(effects, "b", **second), say("The end.", **last)]
    key = await kill_during(
        home, script("p", *steps), lambda client: when(provider, effects, client)
    )
    provider.open_gate("gate")
    is_over = moment == "after the answer"
    async with stdio_client(home) as client:
        again = await client.resume(key)
        assert again["running"] is not is_over
        if not is_over:
            complete = await turn_ends(client, again["session_id"])
            assert (complete.payload["status"], complete.payload["text"]) == (
                "complete", "The end.",
            )  # fmt: skip
        shown = (await client.activate(again["session_id"]))["messages"]
    assert effects.read_text() == "a\nb\n"
    assert answers(home, key) == ["The end."]
    outcomes = [one.get("outcome") for one in shown if one["role"] == "tool"]
    assert outcomes == [None, "unknown" if moment == "inside a tool" else None]


async def test_a_kill_during_the_recovery(home: Path, provider: ScriptedProvider) -> None:
    text = script("p", say("The end.", gate="gate"))
    key = await kill_during(home, text, lambda _: provider.reached("gate"))
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        await client.resume(key)
        await until(lambda: len(provider.requests) == 2, "it is asked again")
        await kill(child, client)
    provider.open_gate("gate")
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        assert (await turn_ends(client, sid)).payload["text"] == "The end."
    assert answers(home, key) == ["The end."]
    assert len(provider.requests) == 3


async def test_a_turn_that_kills_every_process_is_given_up(
    home: Path, provider: ScriptedProvider
) -> None:
    text = script("p", say("The end.", gate="gate"))
    key = await kill_during(home, text, lambda _: provider.reached("gate"))
    for attempt in (2, 3):
        child = Child(home)
        async with Client(child, reconnect=False) as client:
            assert (await client.resume(key))["running"]
            await until(lambda: len(provider.requests) == attempt, "it is asked again")  # noqa: B023
            await kill(child, client)
    async with stdio_client(home) as client:
        again = await client.resume(key)
        assert not again["running"]
        assert again["messages"][-1]["content"] == CUT_OFF
    assert answers(home, key) == [CUT_OFF]


async def test_what_a_viewer_sees(home: Path, provider: ScriptedProvider, tmp_path: Path) -> None:
    effects = tmp_path / "effects"
    steps = [line(effects, "b", then="sleep 600"), say("The end.", pieces=2, gate="half")]
    key = await kill_during(
        home, script("p", *steps), lambda client: inside(provider, effects, client)
    )
    async with stdio_client(home) as client:
        again = await client.resume(key)
        sid = again["session_id"]
        assert again["running"] and again["status"] == "running" and again["info"]["running"]
        notices = [(await event(client, "status.update", sid)).payload for _ in range(2)]
        assert "terminal. It may or may not have taken effect" in notices[0]["text"]
        assert notices[1] == {"kind": "notice", "text": GOING_ON}
        await provider.reached("half")
        late = await client.activate(sid)
        assert late["inflight"] is not None
        assert late["inflight"]["recovered"]
        assert late["inflight"]["user"] == script("p", *steps)
        users = [one for one in late["messages"] if one["role"] == "user"]
        assert [one["timestamp"] for one in users] == [late["inflight"]["timestamp"]]
        provider.open_gate("half")
        assert (await turn_ends(client, sid)).payload["text"] == "The end."
        assert (await client.activate(sid))["inflight"] is None


async def test_escape_stops_what_is_gone_on_with(home: Path, provider: ScriptedProvider) -> None:
    text = script("p", say("The end.", pieces=2, gate="half"))
    key = await kill_during(home, text, lambda _: provider.reached("half"))
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        await event(client, "message.delta", sid)
        assert await client.interrupt(sid)
        assert (await turn_ends(client, sid)).payload["status"] == "interrupted"
    assert answers(home, key) == ["The "]


@pytest.mark.parametrize("mode", ["interrupt", "queue", "steer"])
async def test_what_waited_comes_after_it_and_does_not_interrupt(
    tmp_path: Path, provider: ScriptedProvider, mode: str
) -> None:
    home = configure(tmp_path / "home", provider, display={"busy_input_mode": mode})
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        opened = await client.create()
        sid, key = opened["session_id"], opened["session_key"]
        await client.submit(sid, script("first", say("The first.", gate="gate")))
        await provider.reached("gate")
        with store(home) as db:  # accepted, and the server is killed before it acts on it
            db.accept_message("tui:second", key, script("second"), source="tui")
        await kill(child, client)
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        await until(lambda: len(provider.requests) == 2, "the first is asked again")
        assert await client.submit(sid, script("second"), message_id="second") == "known"
        provider.open_gate("gate")
        ends = [(await turn_ends(client, sid)).payload for _ in range(2)]
        assert [one["status"] for one in ends] == ["complete", "complete"]
    assert answers(home, key) == ["The first.", "answer second"]


async def test_a_new_message_interrupts_it_as_usual(
    tmp_path: Path, provider: ScriptedProvider
) -> None:
    home = configure(tmp_path / "home", provider, display={"busy_input_mode": "interrupt"})
    text = script("first", say("The first.", pieces=2, gate="half"))
    key = await kill_during(home, text, lambda _: provider.reached("half"))
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        await event(client, "message.delta", sid)
        assert await client.submit(sid, script("second")) == "interrupting"
        ends = [(await turn_ends(client, sid)).payload["status"] for _ in range(2)]
        assert ends == ["interrupted", "complete"]
    assert answers(home, key) == ["The f", "answer second"]


# Nobody is watching


async def test_a_server_goes_on_without_a_viewer_and_closes_the_session(
    home: Path, provider: ScriptedProvider
) -> None:
    text = script("p", say("The end.", gate="gate"))
    key = await kill_during(home, text, lambda _: provider.reached("gate"))
    async with stdio_client(home) as client:
        await until(lambda: len(provider.requests) == 2, "it is asked again")
        [active] = (await client.request("session.active_list"))["sessions"]
        assert active["running"] and active["session_key"] == key
        provider.open_gate("gate")
        await until(lambda: answers(home, key) == ["The end."], "it is answered")
        async with asyncio.timeout(30):
            while (await client.request("session.active_list"))["sessions"]:
                await asyncio.sleep(0.1)
    with store(home) as db:
        assert db.get_session(key)["end_reason"] == "turn_ended"


async def test_a_viewer_joins_a_turn_that_runs_without_one(
    home: Path, provider: ScriptedProvider
) -> None:
    text = script("p", say("The end.", pieces=2, gate="half"))
    key = await kill_during(home, text, lambda _: provider.reached("half"))
    async with stdio_client(home) as client:
        await until(lambda: len(provider.requests) == 2, "it is asked again")
        again = await client.resume(key)
        assert again["running"]
        provider.open_gate("half")
        assert (await turn_ends(client, again["session_id"])).payload["text"] == "The end."
        await client.submit(again["session_id"], script("more"))  # it stays open for its viewer
        assert (await turn_ends(client, again["session_id"])).payload["text"] == "answer more"
    assert answers(home, key) == ["The end.", "answer more"]


@pytest.mark.parametrize("how", ["SIGTERM", "end of input"])
async def test_a_server_that_ends_leaves_such_a_turn_to_the_next(
    home: Path, provider: ScriptedProvider, how: str
) -> None:
    text = script("p", say("The end.", gate="gate"))
    key = await kill_during(home, text, lambda _: provider.reached("gate"))
    child = Child(home)
    async with Client(child, reconnect=False) as client:
        await until(lambda: len(provider.requests) == 2, "it is asked again")
        if how == "SIGTERM":
            child.send_signal(signal.SIGTERM)
            await event(client, "connection.lost")
    assert await child.process.wait() == 0
    provider.open_gate("gate")
    async with stdio_client(home) as client:
        sid = (await client.resume(key))["session_id"]
        assert (await turn_ends(client, sid)).payload["text"] == "The end."
    assert answers(home, key) == ["The end."]
