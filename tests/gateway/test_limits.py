"""Limits as chats and API clients meet them."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

from agent.model import ModelRequest, Usage
from agent.scripted import Step, say

from .chats import asked, echo, gateway
from .serving import serving

LIMITS = """\
limits:
  default: {usd_per_day: 10}
  prices: {scripted: {input: 0, output: 1000000}}
model: {max_tokens: 1}
"""


def dollars(number: int, text: str) -> Step:
    return say(text, usage=Usage(5, number))


REACHED = "Your limit of $10.00 a day is reached; it goes on at 00:00 UTC."


async def test_a_chat_is_warned_once_then_refused_and_sees_it_in_usage(tmp_path: Path) -> None:
    steps = [dollars(8, "one"), dollars(1, "two"), dollars(1, "three")]
    async with gateway(tmp_path, steps, yaml=LIMITS) as chats:
        assert await chats.ask("a") == "one"
        await chats.say("b")
        warned, answered = sorted((await chats.local.wait_for(3))[1:], key=len, reverse=True)
        assert "is used to 80% ($8.00)" in warned and answered == "two"
        assert await chats.ask("c") == "three"
        assert await chats.ask("d") == f"⛔ {REACHED}"
        used = await chats.ask("/usage")
        assert "Limit: $10.00 of $10.00 today (anew at 00:00 UTC)" in used
        assert "You, today: 3 model calls" in used
        assert chats.model.calls == 3
        other = await chats.ask("/usage", chat_id="2", user_id="u2")
        assert other == "Nothing was used yet."


async def test_an_admin_is_asked_in_the_chat(tmp_path: Path) -> None:
    steps = [dollars(12, "one"), dollars(1, "two")]
    admins = "platforms: {local: {admins: [u1]}}\n"
    async with gateway(tmp_path, steps, yaml=LIMITS + admins) as chats:
        assert await chats.ask("a") == "one"
        question = await chats.ask("b")
        assert REACHED in question and "Go on until then all the same?" in question
        assert await chats.ask("1") == "two"


async def test_further_turns_of_a_person_take_nobody_elses_room(tmp_path: Path) -> None:
    release = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        return say(release, "late") if asked(request) == "slow" else echo(request)

    limits = "limits: {default: {turns_at_once: 1}}\n"
    async with gateway(
        tmp_path, itertools.repeat(answer), yaml=limits, max_concurrent_sessions=2
    ) as chats:
        await chats.say("slow", chat_id="a", user_id="ada")
        while chats.model.calls < 1:
            await asyncio.sleep(0.005)
        for chat_id in ("b", "c", "d"):
            await chats.say(f"in {chat_id}", chat_id=chat_id, user_id="ada")
        assert await chats.ask("quick", chat_id="x", user_id="bob") == "re: quick"
        assert chats.model.calls == 2
        release.set()
        for chat_id in ("b", "c", "d"):
            assert await chats.local.wait_for(1, chat_id) == [f"re: in {chat_id}"]


async def test_an_api_client_gets_429(tmp_path: Path) -> None:
    async with serving(tmp_path, [dollars(12, "one")], yaml=LIMITS) as served:
        asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        assert (await served.http.post("/v1/chat/completions", json=asked)).status_code == 200
        refused = await served.http.post("/v1/chat/completions", json=asked)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert (error["message"], error["code"]) == (REACHED, "insufficient_quota")
        other = await served.other.post("/v1/chat/completions", json=asked)
        assert other.status_code == 502  # another person: the script has nothing more to say
