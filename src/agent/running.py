"""One turn of an agent, from taking it to its outcome.

A turn is begun with a question, or taken over from a process that is gone. However it ends, its
lease is given back, the history is valid, and whoever watches is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from hermes_base import session_context
from hermes_state import INBOX_ID, ConversationBusyError, StoreError, TakenTurn
from hermes_state.history import unanswered_calls
from tools.modes import PLAN_NOTE

from .events import Noticed, TurnFinished, TurnStarted
from .hooks import TurnHooks
from .ids import new_turn_id
from .loop import Turn, close, note, run_turn
from .model import Message
from .outcome import outcome
from .recovery import again, has_answer, unknown_outcome

if TYPE_CHECKING:
    from .agent import AIAgent, StreamCallback

log = logging.getLogger(__name__)

WAITING_SECONDS = 1.0
"""After which it is looked whether the process of another turn is gone; its end is a write."""
WAITING = "Another turn runs in this conversation; yours comes next."


class StoppedWaitingError(Exception):
    """The user did not want to wait for another turn's end; nothing was stored."""


async def answer(
    agent: AIAgent,
    prompt: str | list[dict[str, Any]],
    conversation_history: list[Message] | None,
    stream_callback: StreamCallback | None,
) -> dict[str, Any]:
    """A turn that begins with a question."""

    async def begin(turn: Turn) -> None:
        agent._prepare(conversation_history)
        await agent._session_begins()
        turn.system = await agent._system_prompt()
        await take_turn(agent, turn, inbound(prompt, session_context.take_inbox_id()))
        turn.asked = agent._journal.messages[-1]

    return await run(agent, prompt, begin, stream_callback)


class NothingToTellError(Exception):
    """No note waits for the conversation."""


async def answer_notes(
    agent: AIAgent, stream_callback: StreamCallback | None
) -> dict[str, Any] | None:
    """A turn that begins with what the conversation is to be told; None if there is nothing."""
    if agent.db is None or not agent.db.has_notes(agent.session_id):
        return None

    async def begin(turn: Turn) -> None:
        agent._prepare(None)
        await agent._session_begins()
        turn.system = await agent._system_prompt()
        if not await take_turn(agent, turn, None):
            raise NothingToTellError
        turn.asked = agent._journal.messages[-1]
        if turn.hooks:
            turn.hooks.user_message = turn.asked["content"]

    try:
        return await run(agent, "", begin, stream_callback)
    except NothingToTellError:
        return None  # another process was first


async def go_on(
    agent: AIAgent, taken: TakenTurn, stream_callback: StreamCallback | None
) -> dict[str, Any]:
    """A turn that another process began."""

    async def begin(turn: Turn) -> None:
        agent.delegation.settle()
        agent._journal.take_up(taken)
        await agent._session_begins()
        turn.system = await agent._system_prompt()
        turn.deliver_to = again(taken)
        questions = [one for one in agent._journal.messages if one["role"] == "user"]
        turn.asked = questions[-1] if questions else None
        if turn.hooks and turn.asked:
            turn.hooks.user_message = turn.asked["content"]
        if taken.unknown:
            turn.emit(Noticed(unknown_outcome(taken.unknown)))

    return await run(agent, "", begin, stream_callback)


async def run(
    agent: AIAgent,
    prompt: str | list[dict[str, Any]],
    begin: Callable[[Turn], Awaitable[None]],
    stream_callback: StreamCallback | None,
) -> dict[str, Any]:
    """Run a turn to its end; the outcome is told, never raised."""
    agent._occupation.claim("A turn is running in this conversation already.")
    turn = agent._new_turn(stream_callback)
    turn_id = new_turn_id()
    hooks = turn.hooks = TurnHooks(agent, turn_id, prompt)
    broken: Exception | None = None
    try:
        await begin(turn)
        session_context.set_current_session_id(agent.session_id)
        agent.workspace.state["turn_id"] = turn_id
        agent.follow_wall()
        turn.emit(TurnStarted(agent.session_id, turn_id))
        if agent._prompt_is_new:
            agent._prompt_is_new = False
            await hooks.session_starts()
        await run_interruptibly(agent, turn)
    except StoppedWaitingError:
        turn.interrupted = True
    except StoreError as error:
        log.error("The turn in %s could not be stored: %s", agent.session_id, error)
        broken = error
    except NothingToTellError:
        raise
    except Exception as error:
        # A fault of ours must not leave the user without a word, or the history open.
        log.exception("The turn in %s failed", agent.session_id)
        broken = error
        await close_after_fault(turn, error)
    finally:
        await give_back(turn)
        agent._occupation.release()
    # The turn was a task with a context of its own; a compression may have moved it on.
    session_context.set_current_session_id(agent.session_id)
    result = outcome(turn, broken)
    late = agent._occupation.take_steering()
    result["pending_steering"] = [one["content"] for one in late if INBOX_ID not in one]
    await hooks.transform(result)
    status = "interrupted" if turn.interrupted else "error" if result["failed"] else "complete"
    turn.emit(TurnFinished(agent.session_id, status, result["final_response"] or ""))
    await hooks.turn_ends(result)
    agent.learner.turn_ended(hooks.user_message, result)
    return result


async def take_turn(agent: AIAgent, turn: Turn, message: Message | None) -> bool:
    """Store the question and take the turn, when whoever has it elsewhere has ended.

    Without a message the conversation's notes are the question; False if there are none.
    """
    waiting = False
    while True:
        seen = agent.db.wake.number if agent.db is not None else 0
        try:
            if message is None:
                return await turn.journal.begin_with_notes(agent.deliver_to)
            await turn.journal.begin(message, agent.deliver_to)
            return True
        except ConversationBusyError:
            if agent._occupation.interrupt_wanted:
                raise StoppedWaitingError from None
            if not waiting:
                waiting = True
                turn.emit(Noticed(WAITING))
            assert agent.db is not None  # without a store nobody else has a turn
            await agent.db.wake.wait_async(seen, WAITING_SECONDS)


async def run_interruptibly(agent: AIAgent, turn: Turn) -> None:
    """Run the turn as a task that an interruption from any thread can cancel."""
    task = asyncio.create_task(recall_and_run(agent, turn))
    agent._occupation.attach(task)
    try:
        await task
    except asyncio.CancelledError:
        # Before its first step, or while its end was being stored: then it is what it was.
        turn.interrupted = not turn.has_ended
        await close(turn)


async def recall_and_run(agent: AIAgent, turn: Turn) -> None:
    """Add what memory and plugins know to the question; then let the model work."""
    messages = turn.journal.messages
    if has_answer(messages):  # taken over after its last word
        turn.final_response = messages[-1]["content"]
        return
    turn.overlay = await agent.learner.recall(turn.asked["content"] if turn.asked else "", messages)
    added = await turn.hooks.context(messages) if turn.hooks else ""
    plan = PLAN_NOTE if agent.workspace.mode == "plan" else ""
    turn.overlay = "\n\n".join(filter(None, (turn.overlay, added, agent.turn_note, plan)))
    await run_turn(turn, unanswered_calls(messages))


async def close_after_fault(turn: Turn, fault: Exception) -> None:
    """Say in the history that the turn has failed."""
    try:
        await note(turn, f"[No answer: {type(fault).__name__}: {fault}]", "error")
    except StoreError as error:
        # The next turn finds the open end and closes it.
        log.error("The end of a turn could not be stored: %s", error)


async def give_back(turn: Turn) -> None:
    """Let others take turns in the conversation."""
    try:
        await turn.journal.end()
    except StoreError as error:
        # Nobody beats for it any more: whoever comes next takes it over or closes it.
        log.error("The turn in %s could not be ended: %s", turn.journal.session_id, error)


def inbound(content: str | list[dict[str, Any]], inbox_id: str | Sequence[str] | None) -> Message:
    """A user's message, with the row or rows of the inbox it comes from."""
    message: Message = {"role": "user", "content": content}
    return message if inbox_id is None else {**message, INBOX_ID: inbox_id}
