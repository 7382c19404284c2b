"""A question in a chat, seen by whoever watches the chat's conversation from another process."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agent.events import Event, QuestionAsked, QuestionClosed, TurnFinished
from agent.scripted import call, say
from conversation.relay import View
from hermes_base.process import this_process

from .chats import gateway


async def read_until(view: View, kind: type) -> list[Event]:
    def read() -> list[Event]:
        seen: list[Event] = []
        for _, event in view:
            seen.append(event)
            if isinstance(event, kind):
                break
        return seen

    async with asyncio.timeout(60):
        return await asyncio.to_thread(read)


async def test_a_question_in_a_chat_is_open_until_it_is_answered(tmp_path: Path) -> None:
    steps = [call("clarify", question="Which one?", choices=["red", "blue"]), say("As you wish.")]
    async with gateway(tmp_path, steps) as chats:
        assert "2. blue" in await chats.ask("paint it")
        conversation = chats.db.get_conversation_root(chats.session_id())
        view = View(tmp_path, this_process(), conversation)  # it comes when it was asked already
        try:
            asked = (await read_until(view, QuestionAsked))[-1]
            assert isinstance(asked, QuestionAsked)
            assert asked[1:] == ("clarify", "Which one?", ["red", "blue"], 0.0, "local", "", True)
            await chats.say("2")
            rest = await read_until(view, TurnFinished)
        finally:
            view.close()
        assert QuestionClosed(asked.request_id) in rest
