"""One turn: ask the model, run what it asks for, until it answers.

Each step is stored before the next one acts on it, and however a turn ends (an answer, an error,
an interruption, the budget) its end is stored too, so that the history is valid and nothing is
silent.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hermes_state import OUTBOX

from .busy_state import BusyState
from .call_costs import CallOutcome, EndedCall, ended_call, turn_task
from .compression.driver import Compressor
from .errors import BrokenReplyError, ContextTooLongError, ModelError
from .events import Event, ReplyFinished, Steered, StreamRestarted
from .hooks import TurnHooks, watch_model_calls
from .hooks_model import watched
from .journal import Journal
from .model import Chunk, Message, Model, ModelRequest, TextDelta, ToolCallDelta, Usage
from .overlay import overlay_last_user
from .reply import Reply
from .request import DeliverTo
from .tool_calls import ToolRunner

if TYPE_CHECKING:
    from .limits import Limiter, Reservation

EMPTY_RETRIES = 2

INTERRUPTED = "[Interrupted before an answer.]"
STILL_OPEN = (
    "[Interrupted by the next message before an answer. What was asked here is still open: it is to"
    " be answered together with the next message.]"
)


@dataclass(slots=True)
class Turn:
    """A turn's collaborators, and how far it has come."""

    model: Model
    journal: Journal
    tools: ToolRunner
    tool_schemas: list[dict[str, Any]]
    system: str
    emit: Callable[[Event], None]
    busy: BusyState = field(default_factory=BusyState)
    """Through which messages join it before its model says anything."""
    max_iterations: int = 90
    request_options: dict[str, Any] = field(default_factory=dict)
    has_news: Callable[[], Awaitable[bool]] | None = None
    """Whether notes wait for the conversation."""

    compressor: Compressor | None = None
    """Keeps the requests within the model's window."""

    overlay: str = ""
    """Sent with the user's message, never stored."""
    hooks: TurnHooks | None = None
    """Tells plugins how the turn goes."""
    asked: Message | None = None
    """The message it belongs to."""
    has_begun: bool = False
    """Whether its question is stored and the turn is this process's."""

    deliver_to: DeliverTo | None = None
    """Where its answers go: into the outbox, with the step that stores them."""

    api_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    last_prompt_tokens: int = 0
    reply: Reply = field(default_factory=Reply)
    call_is_stored: bool = True
    """Whether the last model call is stored, or none was made."""
    limiter: Limiter | None = None
    """Reserves each model call, where something is limited."""
    reservation: Reservation | None = None
    """Of the call that comes next or runs."""
    final_response: str | None = None
    interrupted: bool = False
    error: ModelError | None = None
    exhausted: bool = False

    @property
    def has_ended(self) -> bool:
        """Whether it came to an end of its own: an answer, an error, the budget."""
        return self.final_response is not None or self.error is not None or self.exhausted


async def run_turn(turn: Turn, open_calls: Sequence[dict[str, Any]] = ()) -> None:
    """Run the turn to its end; the outcome is on `turn`. The user's message is stored already.

    `open_calls` are those that a process before this one asked for and did not run.
    """
    try:
        if open_calls:
            await turn.journal.record([], starts=turn.tools.first(list(open_calls)))
            await run_tools(turn, list(open_calls))
        empty = 0
        while turn.api_calls < turn.max_iterations:
            await ask(turn)
            if turn.reply.is_empty and empty < EMPTY_RETRIES:
                empty += 1
                await turn.journal.record([], call=finished_call(turn))
                continue
            calls = turn.reply.tool_calls()
            # Steering that came until now is read in this turn; what comes later, in the next.
            steering = [] if calls else turn.busy.take_steering()
            more = bool(calls or steering) or await has_news(turn)
            verified = turn.hooks is None or not turn.hooks.will_verify()
            steered = await finish_reply(turn, calls, steering, ends=not more and verified)
            if calls:
                await run_tools(turn, calls)
            elif not steered and not (more and await deliver_notes(turn)):
                wanted = "" if verified or not turn.hooks else await turn.hooks.wants_more(turn)
                if not wanted:
                    turn.final_response = turn.reply.text
                    return
                await steer(turn, [{"role": "user", "content": wanted}])
        turn.exhausted = True
    except asyncio.CancelledError:
        turn.interrupted = True
    except ModelError as error:
        turn.error = error
    await close(turn)


async def close(turn: Turn) -> None:
    """Say in the history how a turn without an answer came to its end."""
    if turn.error is not None:
        await note(turn, partial_text(turn) or f"[No answer: {turn.error}]", "error")
    elif turn.exhausted:
        await note(turn, f'[Stopped after {turn.api_calls} model calls. Say "continue" to go on.]')
    else:
        open_end = STILL_OPEN if turn.busy.message_waits else INTERRUPTED
        await note(turn, partial_text(turn) or open_end, "interrupted")


async def run_tools(turn: Turn, calls: list[dict[str, Any]]) -> None:
    """Run what a reply asked for; then come notes, and what the user has said since."""
    await turn.tools.run(calls)
    if await has_news(turn):
        await deliver_notes(turn)
    steering = turn.busy.take_steering()
    if steering:
        await steer(turn, steering)


async def has_news(turn: Turn) -> bool:
    """Whether notes wait for the conversation."""
    return turn.has_news is not None and await turn.has_news()


async def deliver_notes(turn: Turn) -> bool:
    """Add the notes of the conversation to the turn; False if another process took them."""
    notes = await turn.journal.deliver_notes()
    for message in notes:
        turn.emit(Steered(message["content"]))
    return bool(notes)


async def steer(turn: Turn, messages: list[Message]) -> None:
    """Add messages to the turn."""
    for message in await turn.journal.record(messages):
        turn.emit(Steered(message["content"]))


async def ask(turn: Turn) -> None:
    """One model call; a request that is too long is made smaller and sent again."""
    turn.api_calls += 1
    for attempt in itertools.count():
        try:
            await ask_once(turn)
            return
        except ContextTooLongError as error:
            if turn.reply.text:
                turn.emit(StreamRestarted(str(error), 0.0, attempt + 2))
            if not (turn.compressor and await turn.compressor.after_refusal(turn, attempt)):
                raise


async def ask_once(turn: Turn) -> None:
    """Send the request; `turn.reply` holds what has come so far, also if it breaks.

    What the user adds before the model says anything is read too: the request is sent anew.
    """
    while True:
        if joined := turn.busy.take_joined():
            await steer(turn, joined)
        turn.reply = Reply()
        room = turn.compressor
        messages = await room.make_room(turn) if room else turn.journal.history()
        if turn.overlay:
            messages = overlay_last_user(messages, turn.overlay, turn.asked)
        request = ModelRequest(
            messages=messages,
            system=turn.system,
            tools=turn.tool_schemas,
            session_id=turn.journal.session_id,
            **turn.request_options,
        )
        if turn.limiter is not None and turn.reservation is None:
            turn.reservation = await reserve(turn, turn.limiter, request)
        if not turn.busy.is_opening:
            await receive(turn, request)
            break
        if await receive_unless_joined(turn, request):
            break
    turn.reply.require_finished()
    turn.usage += turn.reply.usage
    turn.last_prompt_tokens = turn.reply.usage.input_tokens
    if turn.compressor:
        turn.compressor.note_answer(turn.reply.usage)


async def receive_unless_joined(turn: Turn, request: ModelRequest) -> bool:
    """Receive the reply to the turn's first request; False if a message joined before a word."""
    task = asyncio.create_task(receive(turn, request))
    try:
        if turn.busy.attach_request(task):
            return await task
        task.cancel()
    except asyncio.CancelledError:
        outer = asyncio.current_task()
        if outer is not None and outer.cancelling():
            raise  # the turn is interrupted, not the request alone
    finally:
        turn.busy.attach_request(None)
    turn.busy.restart()
    return False


async def receive(turn: Turn, request: ModelRequest) -> bool:
    """Receive the reply; False if a message joined that is to be read before it is given."""
    model_stream = (
        watched(turn, turn.hooks, request)
        if turn.hooks is not None and watch_model_calls()
        else turn.model.stream(request)
    )
    turn.reply.note_sent()
    turn.call_is_stored = False
    async with contextlib.aclosing(model_stream) as stream:
        async for chunk in stream:
            if says_something(chunk) and not turn.busy.begin_speaking():
                return False
            turn.reply.add(chunk, turn.emit)
    return True


def says_something(chunk: Chunk) -> bool:
    """Whether a chunk is part of what the model says or does, not of what it thinks."""
    return isinstance(chunk, ToolCallDelta) or (
        isinstance(chunk, TextDelta) and bool(chunk.text.strip())
    )


async def finish_reply(
    turn: Turn, calls: list[dict[str, Any]], steering: list[Message], *, ends: bool
) -> bool:
    """Store a complete reply with its cost, before anything acts on it; whether what the user has
    said meanwhile stands behind it now."""
    reply = turn.reply
    if reply.is_empty:
        raise BrokenReplyError("The model returned an empty answer several times in a row.")
    message = reply.message(calls)
    if not calls:
        owe(turn, message)
    _, *steered = await turn.journal.record(
        [message, *steering],
        call=finished_call(turn),
        starts=turn.tools.first(calls),
        ends=ends,
    )
    turn.emit(ReplyFinished(reply.text, len(calls), reply.usage))
    for read in steered:
        turn.emit(Steered(read["content"]))
    return bool(steered)


async def reserve(turn: Turn, limiter: Limiter, request: ModelRequest) -> Reservation:
    """Reserve what the next model call can take; raises LimitReachedError."""
    estimate = turn.compressor.estimated_tokens if turn.compressor else None
    task, is_first = turn_task(turn.journal.source), turn.api_calls == 1
    return await limiter.reserve(
        task, turn.model, request, emit=turn.emit, input_tokens=estimate, is_first=is_first
    )


def finished_call(turn: Turn) -> EndedCall:
    """The call whose reply is complete, to be stored with it."""
    return _ended_call(turn, "complete")


def broken_call(turn: Turn) -> EndedCall | None:
    """The call that an error or an interruption broke off; None if the last one is stored."""
    if turn.call_is_stored and turn.reservation is None:
        return None
    return _ended_call(turn, "error" if turn.error is not None else "interrupted")


def _ended_call(turn: Turn, outcome: CallOutcome) -> EndedCall:
    turn.call_is_stored = True
    reservation, turn.reservation = turn.reservation, None
    task = turn_task(turn.journal.source)
    return ended_call(task, turn.model, turn.reply, outcome, reservation)


def owe(turn: Turn, message: Message) -> None:
    """Enqueue an answer for delivery, in the step that stores it."""
    target = turn.deliver_to
    if target is not None and target.wants(str(message["content"])):
        message[OUTBOX] = {"id": f"{target.id}:{turn.api_calls}", "to": dict(target.to)}


def partial_text(turn: Turn) -> str:
    """What a reply that was not finished had said, if it was not stored already."""
    return "" if turn.reply.finish_reason else turn.reply.text


async def note(turn: Turn, text: str, finish_reason: str | None = None) -> None:
    """Close the turn in the history with an assistant message, where it is still open."""
    last = turn.journal.messages[-1] if turn.journal.messages else None
    if last is not None and last["role"] == "assistant" and not last.get("tool_calls"):
        if turn.reservation is not None:
            await turn.journal.record([], call=broken_call(turn))
        return
    message: Message = {"role": "assistant", "content": text, "finish_reason": finish_reason}
    if finish_reason is None:  # the front end reports errors and interruptions in its own words
        owe(turn, message)
    await turn.journal.record([message], call=broken_call(turn), ends=True)
