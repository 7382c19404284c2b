"""What a message is besides a message: a slash command, a pressed button, an answer.

Commands come from the table that every front end shares; here is only what belongs to chats.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from typing import TYPE_CHECKING

from agent.slash.dispatch import is_command
from hermes_state import plain_text

from .asking import Questions
from .platforms.registry import capabilities_of
from .restart import Restart
from .session import SessionSource

if TYPE_CHECKING:
    from agent.access import Access
    from agent.slash.results import Prefill
    from hermes_state import AsyncSessionDB

    from .pipeline import Inbound
    from .session_store import SessionStore
    from .surface import CommandParts

log = logging.getLogger(__name__)


def is_answer(questions: Questions, inbound: Inbound, access: Callable[[], Access]) -> bool:
    """Hand a pressed button or an answer to the open question; False if there is none. Approval
    is for those who may use /approve, as their `access` says."""
    event = inbound.event
    if event.button is not None:
        return _pressed(questions, inbound, event.button, access())
    text = event.text.strip()
    if questions.waiting(inbound.session_key, "clarify") and not text.startswith("/"):
        return questions.answer(inbound.session_key, "clarify", text) > 0
    return _numbered(questions, inbound, text, access)


def _numbered(
    questions: Questions, inbound: Inbound, text: str, access: Callable[[], Access]
) -> bool:
    """A number, where an open request for approval had to be shown without buttons."""
    if not (text.isascii() and text.isdecimal() and len(text) < 3):
        return False
    if capabilities_of(inbound.event.source.platform.value).buttons:
        return False
    asked = questions.waiting(inbound.session_key, "approval")
    if asked is None or not 1 <= int(text) <= len(asked.choices):
        return False
    choice = asked.choices[int(text) - 1]
    return _pressed(questions, inbound, f"approval:{asked.id}:{choice}", access())


def command_line(reset_triggers: Container[str], inbound: Inbound) -> str | None:
    """The slash command that a message is; None if it is one for the model."""
    text = inbound.event.text.strip()
    if inbound.event.button is not None:
        return None
    if text in reset_triggers:
        return "/new"
    return text if text.startswith("/") and is_command(text) else None


class Commands:
    """The slash commands of chats."""

    def __init__(
        self,
        parts: CommandParts,
        restart: Restart,
        emit: Callable[[str, SessionSource, str], Awaitable[None]],
    ) -> None:
        """`emit` tells event hooks: the event, where it happened, and the chat's key."""
        self._parts = parts
        self._restart = restart
        self._emit = emit

    async def run(self, inbound: Inbound, line: str) -> None:
        """Carry a slash command out, and tell the chat what came of it."""
        from agent.slash.dispatch import run
        from agent.slash.results import Prefill
        from agent.slash.table import lookup, parse

        from .surface import ChatSurface

        parts, source, key = self._parts, inbound.event.source, inbound.session_key
        delivery = parts.delivery
        name = parse(line)[0]
        command = lookup(name, "gateway")
        name = command.name if command else name  # an alias is no way around what it stands for
        access = parts.authorization.access(source, key)
        if refusal := access.why_no_command(name):
            await delivery.say(source, key, refusal)
            return
        if name == "last":
            await delivery.say(source, key, await _last_answer(parts.store, parts.db, key))
            return
        if not await parts.db.begin_command(inbound.inbox_id):
            return
        if name == "new":
            answer = await parts.reset(inbound.event)
            if title := parse(line)[1].strip():
                await parts.db.at_hand(parts.store.set_wished_title, key, title)
            await delivery.say(source, key, answer)
            return
        await self._emit(f"command:{name}", source, key)
        if name == "restart":
            await self._restart.ask(inbound, parts.delivery, parts.db)
            return
        options = await parts.db.at_hand(parts.options.of, inbound.session_key)
        before = dict(options)
        result = await asyncio.to_thread(run, ChatSurface(parts, inbound, options), line)
        if options != before:
            await parts.db.at_hand(parts.options.keep, source, options)
        if isinstance(result, Prefill):
            await delivery.say(source, key, _offered(result))
            return
        message = getattr(result, "message", None)
        if message is not None:
            notice = getattr(result, "notice", "")
            if notice:
                await delivery.say(source, key, notice)
            await parts.turns.send(inbound, message)
            return
        await delivery.say(source, key, getattr(result, "output", "") or "Done.")


def _offered(result: Prefill) -> str:
    """A message that was taken back; a chat has no line to put it on, so it is shown."""
    return f"{result.notice}\n\nYou had written:\n{plain_text(result.message)}".rstrip()


async def _last_answer(store: SessionStore, db: AsyncSessionDB, session_key: str) -> str:
    """The last answer, for a person who did not get it."""
    session_id = store.peek_session_id(session_key)
    messages = await db.get_messages(session_id) if session_id else []
    for message in reversed(messages):
        if message["role"] == "assistant" and message["content"]:
            return str(message["content"])
    return "There is no answer in this conversation yet."


def _pressed(questions: Questions, inbound: Inbound, data: str, access: Access) -> bool:
    """A button under a question: "approval:<id>:<choice>" or "clarify:<id>:<number>"."""
    session_key = inbound.session_key
    kind, _, rest = data.partition(":")
    question_id, _, answer = rest.rpartition(":")
    if kind not in ("approval", "clarify"):
        return False
    if kind == "clarify":
        answer = str(int(answer) + 1) if answer.isdigit() else answer
    if kind == "approval" and answer != "deny" and access.why_no_command("approve"):
        log.info("Somebody who may not approve pressed a button in %s", session_key)
        return True
    question = questions.find(session_key, question_id)
    is_operator = access.role == "operator"
    if question is not None and question.why_not(
        answer, inbound.event.source, is_operator=is_operator
    ):
        log.info("Somebody who may not allow this pressed a button in %s", session_key)
        return True
    if not questions.answer(session_key, kind, answer, id=question_id):
        log.info("A button of an answered question was pressed in %s", session_key)
    return True
