"""A goal in a chat: judged after each turn, gone on with by itself, and told when it is reached."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from agent.model import ModelRequest
from agent.scripted import Step, say
from gateway.conformance.place import until

from .chats import asked, gateway


def judging(met_after: int) -> Callable[[ModelRequest], Step]:
    """A model that works, and as a judge finds a goal met after so many looks."""
    looks: list[int] = []

    def answer(request: ModelRequest) -> Step:
        if "You judge whether" not in request.system:
            return say(f"did: {asked(request)}")
        looks.append(1)
        met = "true" if len(looks) >= met_after else "false"
        return say(f'{{"met": {met}, "reason": "look {len(looks)}"}}')

    return answer


async def test_it_goes_on_until_it_is_met_and_says_so(tmp_path: Path) -> None:
    async with gateway(tmp_path, [judging(3)] * 20) as chats:
        begun = await chats.ask("/goal Ship it, done when: it is out")
        assert begun.startswith("🎯 Goal: Ship it")
        texts = await chats.local.wait_for(5)
        assert [text.startswith("did: [Goal] Work towards") for text in texts[1:4]] == [True] * 3
        assert "look 2" in texts[3] and texts[4] == "✅ Goal reached: Ship it (look 3)"
        assert (await chats.ask("/goal status")).startswith("✅ Goal reached: Ship it (look 3)")


async def test_in_a_shared_conversation_it_is_worked_on_as_whoever_wants_it(
    tmp_path: Path,
) -> None:
    """Also if somebody who may do more has the chat that was there first."""
    yaml = 'access: {people: {"local:eve": {tools: [web]}}}\n'
    async with gateway(tmp_path, [judging(3)] * 20, yaml=yaml) as chats:
        await chats.ask("mine", user_id="ada")
        chats.db.set_person_role("local:ada", "operator")
        code = (await chats.ask("/link", user_id="ada")).split("/link ")[1].split()[0]
        await chats.ask(f"/link {code}", chat_id="2", user_id="eve")
        await chats.ask("/goal Look at it", chat_id="2", user_id="eve")
        while (chats.db.get_goal(chats.session_id()) or {})["status"] != "met":
            await asyncio.sleep(0.01)
        works = [
            {tool["function"]["name"].partition("_")[0] for tool in request.tools}
            for request in chats.model.requests
            if "[Goal]" in asked(request) and "You judge whether" not in request.system
        ]
        assert works == [{"web"}] * 3


async def test_a_message_of_the_person_pauses_it(tmp_path: Path) -> None:
    async with gateway(tmp_path, [judging(99)] * 60) as chats:
        await chats.ask("/goal Ship it")
        await chats.local.wait_for(2)
        await chats.say("hold on")
        while (goal := chats.db.get_goal(chats.session_id()) or {})["status"] == "active":
            await asyncio.sleep(0.01)
        assert (goal["status"], goal["reason"]) == ("paused", "you wrote something")
        assert not chats.db.has_notes(chats.session_id())


async def test_its_parts_are_shown_to_the_agent_and_the_judge(tmp_path: Path) -> None:
    prompts: list[str] = []

    def answer(request: ModelRequest) -> Step:
        prompts.append(asked(request))
        if "You judge whether" not in request.system:
            return say("worked")
        met = "true" if "☑ write" in prompts[-1] else "false"
        return say(f'{{"met": {met}, "reason": "r", "reached": [1]}}')

    async with gateway(tmp_path, [answer] * 20) as chats:
        assert (await chats.ask("/subgoal write")).startswith("There is no goal to divide")
        assert await chats.ask("hello") == "worked"
        chats.db.set_goal(chats.session_id(), "Ship it", "begin")
        chats.db.pause_goal(chats.session_id(), "first its parts")
        assert await chats.ask("/subgoal write") == "1. ☐ write"
        assert (await chats.ask("/subgoal test")).endswith("2. ☐ test")
        assert "has no part 3" in await chats.ask("/subgoal remove 3")
        assert "☑ test" in await chats.ask("/subgoal done 2")
        await chats.ask("/goal resume")
        while (goal := chats.db.get_goal(chats.session_id()) or {})["status"] != "met":
            await asyncio.sleep(0.01)
        assert all(part["reached"] for part in goal["subgoals"])
        steps = [prompt for prompt in prompts if prompt.startswith("[Goal]")]
        assert "1. ☐ write\n2. ☑ test" in steps[0]
        await chats.ask("/goal status")  # whose answer may come behind that of the last step
        await until(lambda: any("2 of 2 parts reached" in text for text in chats.local.texts()))
