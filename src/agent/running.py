"""One turn of an agent, from its request to its outcome.

A turn is begun with a question or with notes, or taken over from a process that is gone. However it
ends, its lease is released, the history is valid, and its watchers are notified.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from hermes_base import session_context
from hermes_state import INBOX_ID, UNDER, ConversationBusyError, StoreError, at_hand
from hermes_state.history import unanswered_calls
from tools.base import TurnFacts
from tools.modes import PLAN_NOTE

from .events import Noticed, TurnFinished, TurnStarted, Watcher
from .hooks import TurnHooks
from .learning.shown import shown_memory
from .loop import Turn, close, note, run_turn
from .model import Message
from .outcome import NotStarted, TurnOutcome, outcome_of
from .request import Content, Question, TakenOver, TurnRequest, WaitingNotes

if TYPE_CHECKING:
    from .agent import AIAgent

log = logging.getLogger(__name__)

WAITING_SECONDS = 1.0
"""How often to check that another turn's process still lives; its end, a write, wakes us."""
WAITING = "Another turn runs in this conversation; yours comes next."


class StoppedWaitingError(Exception):
    """The user stopped waiting for another turn to end; nothing was stored."""


class NoNotesError(Exception):
    """No note waits for the conversation."""


async def run(agent: AIAgent, request: TurnRequest, watch: Watcher | None) -> TurnOutcome:
    """Run a turn to its end; what goes wrong is part of the outcome, never raised."""
    if isinstance(request, WaitingNotes):
        try:
            db = agent.db
            if db is None or not await at_hand(db, db.has_notes, agent.session_id):
                return NotStarted(session_id=agent.session_id, reason="no notes")
        except StoreError as error:
            return NotStarted(session_id=agent.session_id, reason="refused", error=str(error))
    agent._busy.claim("A turn is running in this conversation already.")
    turn = agent._new_turn(watch, request.deliver_to)
    facts = agent.turn_facts = TurnFacts(os.urandom(6).hex())
    prompt = request.content if isinstance(request, Question) else ""
    hooks = turn.hooks = TurnHooks(agent, facts, prompt)
    broken: Exception | None = None
    try:
        await agent.follow_permissions()
        await begin(agent, turn, request)
        agent._busy.name_turn(agent._journal.fence)
        session_context.set_current_session_id(agent.session_id)
        await at_hand(agent.db, agent.follow_wall)
        turn.emit(TurnStarted(agent.session_id, facts.id, agent._journal.fence))
        if agent._prompt_is_new:
            agent._prompt_is_new = False
            await hooks.session_starts()
        await run_interruptibly(agent, turn, request)
    except StoppedWaitingError:
        turn.interrupted = True
    except NoNotesError:  # another process was first
        return NotStarted(session_id=agent.session_id, reason="no notes")
    except StoreError as error:
        log.error("The turn in %s could not be stored: %s", agent.session_id, error)
        broken = error
    except Exception as error:
        # A bug must not leave the user without an answer, or the history open.
        log.exception("The turn in %s failed", agent.session_id)
        broken = error
        await close_after_fault(turn, error)
    finally:
        await give_back(turn)
        agent._busy.release()
    # The turn was a task with a context of its own; a compression may have moved it on.
    session_context.set_current_session_id(agent.session_id)
    late = agent._busy.take_steering()
    unread = tuple(message["content"] for message in late if INBOX_ID not in message)
    outcome = outcome_of(turn, broken, unread)
    changed = await hooks.transform(outcome.text)
    if changed != outcome.text:
        outcome = dataclasses.replace(outcome, text=changed)
    turn.emit(TurnFinished(agent.session_id, outcome.status, outcome.text))
    await hooks.turn_ends(outcome)
    agent.learner.turn_ended(hooks.user_message, outcome)
    target = request.deliver_to
    await agent.goals.turn_ended(outcome, None if target is None else target.to)
    return outcome


async def begin(agent: AIAgent, turn: Turn, request: TurnRequest) -> None:
    """Store what the turn begins with and take its lease, or continue a turn taken over."""
    if isinstance(request, TakenOver):
        turn.has_begun = True
        await at_hand(agent.db, agent.settle_background)
        await agent._journal.take_up(request.taken)
    else:
        await agent._prepare(request.history if isinstance(request, Question) else None)
    await agent.find_limits()
    turn.limiter = agent.limiter
    await agent._session_begins()
    instructions = request.instructions if isinstance(request, Question) else ""
    turn.system = await agent._system_prompt(instructions)
    if not isinstance(request, TakenOver):
        if isinstance(request, Question) and request.mode in agent.permissions.modes:
            await at_hand(agent.db, agent.set_mode, request.mode)
        await take_turn(agent, turn, request)
        turn.has_begun = True
    messages = agent._journal.messages
    turn.asked = next(
        (message for message in reversed(messages) if message["role"] == "user"), None
    )
    if turn.hooks and turn.asked and not isinstance(request, Question):
        turn.hooks.user_message = turn.asked["content"]
    if isinstance(request, TakenOver) and request.taken.unknown:
        turn.emit(Noticed(unknown_outcome(request.taken.unknown)))


async def take_turn(agent: AIAgent, turn: Turn, request: Question | WaitingNotes) -> None:
    """Store the question or the notes and take the lease, once no other turn runs.

    Raises NoNotesError if no note waits, StoppedWaitingError.
    """
    target = request.deliver_to
    deliver_to: dict[str, Any] | None = None
    if target is not None:
        deliver_to = {"id": target.id, "to": dict(target.to)}
        if target.under is not None:
            deliver_to[UNDER] = target.under
    waiting = False
    while True:
        seen = agent.db.wake.number if agent.db is not None else 0
        try:
            if isinstance(request, Question):
                message = inbound(request.content, request.inbox_ids)
                await turn.journal.begin(message, deliver_to)
            elif not await turn.journal.begin_with_notes(deliver_to):
                raise NoNotesError
            return
        except ConversationBusyError:
            if agent._busy.interrupt_wanted:
                raise StoppedWaitingError from None
            if not waiting:
                waiting = True
                turn.emit(Noticed(WAITING))
            assert agent.db is not None  # without a store nobody else has a turn
            await agent.db.wake.wait_async(seen, WAITING_SECONDS)


def note_of(request: TurnRequest, prompt: str) -> str:
    """What is sent with the question: its note, and instructions that the prompt does not hold."""
    if not isinstance(request, Question):
        return ""
    further = "" if request.instructions in prompt else request.instructions
    return "\n\n".join(filter(None, (request.note, further)))


async def run_interruptibly(agent: AIAgent, turn: Turn, request: TurnRequest) -> None:
    """Run the turn as a task that an interruption from any thread can cancel."""
    task = asyncio.create_task(recall_and_run(agent, turn, request))
    agent._busy.attach(task)
    try:
        await task
    except asyncio.CancelledError:
        # Cancelled before its first step, or while its end was being stored: its state stands.
        turn.interrupted = not turn.has_ended
        await close(turn)


async def recall_and_run(agent: AIAgent, turn: Turn, request: TurnRequest) -> None:
    """Add what memory, plugins and the request have to say; then let the model work."""
    messages, open_calls = turn.journal.messages, []
    if isinstance(request, TakenOver):
        if has_answer(messages):  # taken over after its last word
            turn.final_response = messages[-1]["content"]
            return
        open_calls = unanswered_calls(messages)
    recalled = await agent.learner.recall(turn.asked["content"] if turn.asked else "", messages)
    shown = await shown_memory(agent)
    context = await turn.hooks.context(messages) if turn.hooks else ""
    plan = PLAN_NOTE if agent.workspace.mode == "plan" else ""
    turn.overlay = "\n\n".join(
        filter(None, (shown, recalled, context, note_of(request, turn.system), plan))
    )
    await run_turn(turn, open_calls)


async def close_after_fault(turn: Turn, fault: Exception) -> None:
    """Say in the history that the turn has failed."""
    try:
        await note(turn, f"[No answer: {type(fault).__name__}: {fault}]", "error")
    except StoreError as error:
        # The next turn closes the history.
        log.error("The end of a turn could not be stored: %s", error)


async def give_back(turn: Turn) -> None:
    """Release the lease, so that others may take turns in the conversation."""
    try:
        await turn.journal.end()
    except StoreError as error:
        # Its lease expires without a heartbeat: the next process takes it over or closes it.
        log.error("The turn in %s could not be ended: %s", turn.journal.session_id, error)


def inbound(content: Content, inbox_ids: Sequence[str] = ()) -> Message:
    """A user's message, with the rows of the inbox it comes from."""
    message: Message = {"role": "user", "content": content}
    return {**message, INBOX_ID: tuple(inbox_ids)} if inbox_ids else message


def unknown_outcome(tools: Iterable[str]) -> str:
    """What a person is told of tools that may or may not have taken effect."""
    names = ", ".join(dict.fromkeys(tools))
    return (
        f"⚠️ I was stopped while this ran: {names}. It may or may not have taken effect, and is not"
        " run again by itself."
    )


def has_answer(messages: list[Message]) -> bool:
    """Whether a conversation ends with an answer, and not with something to do."""
    last = messages[-1] if messages else {"role": "user"}
    return last["role"] == "assistant" and not last.get("tool_calls")
