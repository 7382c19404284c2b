"""Keeps a conversation within its model's window: when to compress, the lock, and the commit.

Before every model call the next request is measured; over the threshold the conversation is
compressed, over the window it must be. A provider's "too long" is answered by compressing harder,
a bounded number of times. What is written is one transaction at the very end: cancelled, killed or
overtaken by another process before it, nothing has changed.
"""

from __future__ import annotations

import asyncio
import contextvars
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Protocol, TypeVar

from agent import events
from agent.config.schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.journal import Journal
from agent.model import Message, Usage
from agent.rotation import Rotation
from agent.threads import in_thread
from hermes_base import plugins
from hermes_state import SessionDB, SessionEndedError, at_hand

from .counting import Counting
from .lock import compression_lock
from .policy import Budget, Gauge, is_saving
from .record import Record
from .result import CompressionResult
from .tokens import estimate_tokens

if TYPE_CHECKING:
    from agent.loop import Turn

    from .compress import Compressed
    from .plugin_engine import Engine

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

MOST_REFUSALS = 5
"""How often one model call is made smaller after a provider's "too long"."""
SMALLEST = 512
"""Tokens of messages below which a provider's "too long" cannot be answered by taking more out."""
_ROUNDS = 4
"""A long conversation is summarised in parts; all together may take this many time-outs."""
_SHORT_PATIENCE = 10.0
TOO_LITTLE = "There is too little to take out."
_OVERTAKEN = "Another process compressed this conversation first."


class Auxiliary(Protocol):
    """Whom side tasks ask."""

    async def ask(
        self,
        task: str,
        system: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> str:
        """The model's answer to one prompt."""
        ...

    def is_able(self, task: str) -> bool:
        """Whether the model for a task is worth asking."""
        ...


class _Wish(NamedTuple):
    """What a compression should come to."""

    target: int
    """Tokens the messages should take."""
    room: int
    """Tokens they may take at most; only looked at if they `must` fit."""
    must: bool = False
    """Whether the conversation cannot go on as it is."""
    use_model: bool = True
    focus: str | None = None
    manual: bool = False
    engine_only: bool = False
    """Only a plugin's engine wants this compression: without its result nothing is changed."""


class Compressor:
    """Compresses one conversation, for its agent."""

    def __init__(
        self,
        journal: Journal,
        db: SessionDB | None,
        settings: CompressionSettings,
        auxiliary: Auxiliary | None = None,
        *,
        timeout: float = 120.0,
        platform: str = "",
    ) -> None:
        """Without `auxiliary` summaries are made without a model. `timeout` is for one call."""
        self._journal = journal
        self._settings = settings
        self._auxiliary = auxiliary
        self.memory_context: Callable[[list[Message]], Awaitable[str]] | None = None
        """Says what other memories have to add to a summary of these messages."""
        self._remembered = ""
        self.engine: Engine | None = None
        """A plugin's context engine that is asked first."""
        journal.holders.add("context engine", self._follow)
        self._timeout = timeout
        self._platform = platform
        self._lock_db = db
        self._record = Record(db)
        self._counting = Counting(settings)
        self._gauge = Gauge()
        self._fresh = False
        """Whether the conversation was made smaller for the very request that comes next."""

    def _follow(self, rotation: Rotation) -> None:
        if self.engine is not None:
            self.engine.rotated(rotation)

    # Around a model call

    async def make_room(self, turn: Turn) -> list[Message]:
        """The messages of the next request; compressed first if they are too many."""
        messages = self._journal.history()
        self._gauge = self._counting.gauge(turn)
        estimate = self._counting.estimate(turn, messages)
        if self._settings.enabled and turn.model.context_length > 0:
            budget = self._counting.budget(turn)
            size = self._gauge.corrected(estimate)
            many = len(messages) > self._settings.hygiene_hard_message_limit
            fresh, self._fresh = self._fresh, False
            must, is_large = size > budget.limit, size > budget.trigger or many
            due = must or (not fresh and await self._is_due(turn, messages, size, is_large, many))
            if due:
                halved = max(1, min(budget.target, (size - budget.fixed) // 2))
                target = budget.target if is_large and not many else halved
                engine_only = not must and not is_large
                await self._compress_if_due(
                    turn, budget, target, must=must, engine_only=engine_only
                )
                messages = self._journal.history()
                estimate = self._counting.estimate(turn, messages)
        self._gauge.note_sent(estimate)
        return messages

    async def _is_due(
        self, turn: Turn, messages: list[Message], size: int, is_large: bool, many: bool
    ) -> bool:
        """Whether to compress what still fits; a plugin's engine decides, if there is one."""
        if self.engine is None or many:
            return is_large
        first = turn.api_calls <= 1
        wanted = await self.engine.wants_compression(messages, size, is_first=first)
        return is_large if wanted is None else wanted

    @property
    def estimated_tokens(self) -> int:
        """The size of the request that `make_room` was asked for."""
        return self._gauge.corrected(self._gauge.sent)

    def note_answer(self, usage: Usage) -> None:
        """The provider answered that request and counted its tokens (0: did not say)."""
        self._gauge.note_real(usage.input_tokens)
        if self.engine is not None:
            self.engine.answered(usage)

    async def after_refusal(self, turn: Turn, attempt: int) -> bool:
        """Make the conversation smaller after a provider's "too long"; False if that failed."""
        if not self._settings.enabled or attempt >= MOST_REFUSALS:
            return False
        self._gauge.note_refused(turn.model.context_length)
        budget = self._counting.budget(turn, refused=True)
        messages = self._journal.history()
        if estimate_tokens(messages) < SMALLEST:
            return False
        now = self._gauge.tokens(messages)
        target = max(1, min(budget.target, now // 2) // 2**attempt)
        wish = _Wish(
            target,
            room=min(budget.room, now * 3 // 4) if attempt == 0 else target,
            must=True,
            use_model=attempt == 0 and may_ask(await self._cooldown()),
        )
        session_id, seen = self._journal.session_id, list(self._journal.messages)
        await self._compress(turn, wish)
        self._fresh = not self._journal.goes_on_from(session_id, seen)
        return self._fresh

    # On request

    async def compress_now(
        self, turn: Turn, focus: str | None = None, *, dry_run: bool = False
    ) -> CompressionResult:
        """Compress whatever there is; with `dry_run` only say what that would do."""
        await self._journal.refresh()
        messages = self._journal.history()
        self._gauge = self._counting.gauge(turn)
        size = self._gauge.tokens(messages)
        session_id = self._journal.session_id
        if not messages:
            return CompressionResult(session_id, session_id, False, "There are no messages yet.")
        target = max(1, min(self._counting.budget(turn).target, size // 2))
        if not dry_run:
            return await self._compress(
                turn, _Wish(target, self._counting.budget(turn).room, focus=focus, manual=True)
            )
        from .compress import preview

        plan = preview(
            messages,
            target,
            focus=focus,
            count=self._gauge.tokens,
            keep_first=self._settings.protect_first_n,
        )
        return CompressionResult(
            session_id,
            session_id,
            False,
            "This is a preview; nothing was changed.",
            in_place=self._settings.in_place,
            before_messages=len(messages),
            after_messages=len(messages),
            before_tokens=size,
            after_tokens=plan.after_tokens,
            preview=plan,
        )

    # How

    async def _compress_if_due(
        self, turn: Turn, budget: Budget, target: int, must: bool, engine_only: bool
    ) -> None:
        cooldown = await self._cooldown()
        if not must and cooldown is not None:
            return
        wish = _Wish(
            target, budget.room, must, use_model=may_ask(cooldown), engine_only=engine_only
        )
        result = await self._compress(turn, wish)
        if must and not result.compressed and result.error and self._aborts():
            raise ContextTooLongError(
                f"The conversation is too long, and there is no summary of it: {result.error}"
                " It is kept as it is (compression.abort_on_summary_failure is on)."
            )

    async def _compress(self, turn: Turn, wish: _Wish) -> CompressionResult:
        old_id, seen = self._journal.session_id, list(self._journal.messages)
        size = self._gauge.tokens(seen)
        turn.emit(events.Compressing(old_id, len(seen), size))
        wait = self._timeout if wish.must or wish.manual else min(_SHORT_PATIENCE, self._timeout)
        async with compression_lock(self._lock_db, old_id, wait) as held:
            await self._journal.refresh()
            if not self._journal.goes_on_from(old_id, seen):
                result = self._not_compressed(old_id, _OVERTAKEN)
            elif held or wish.must:
                # A holder of the lock may hang for this long: compress without a model, at once.
                use_model = wish.use_model and held
                result = await self._compress_alone(turn, wish._replace(use_model=use_model))
            else:
                result = self._not_compressed(
                    old_id, "Another process is compressing this conversation."
                )
        turn.emit(
            events.Compressed(
                result.session_id,
                old_id,
                result.in_place,
                result.method if result.compressed else "",
                result.before_tokens or size,
                result.after_tokens or size,
                result.reason,
            )
        )
        if result.compressed:
            await self._tell_plugins(
                "post_compress",
                turn,
                session_id=result.session_id,
                old_session_id=old_id,
                in_place=result.in_place,
                before_tokens=result.before_tokens,
                after_tokens=result.after_tokens,
                method=result.method,
            )
        return result

    async def _compress_alone(self, turn: Turn, wish: _Wish) -> CompressionResult:
        """Compress under the lock and commit, if it saves enough."""
        journal = self._journal
        session_id, seen, messages = journal.session_id, list(journal.messages), journal.history()
        before = self._gauge.tokens(messages)
        await self._tell_plugins(
            "pre_compress",
            turn,
            session_id=session_id,
            messages=[dict(message) for message in messages],
            focus_topic=wish.focus,
        )
        if self.memory_context is not None:
            self._remembered = await self.memory_context(messages)
        made = await self._smaller(messages, wish)
        failure = made.error if made else None
        fits = made is not None and wish.must and made.after_tokens <= wish.room < before
        if made is None or not (fits or is_saving(before, made.after_tokens)):
            failure = failure or TOO_LITTLE
            if not wish.manual:
                await self._at_hand(self._record.record_failure, session_id, failure)
        elif failure and self._aborts() and not wish.manual:
            await self._at_hand(self._record.record_failure, session_id, failure)
        else:
            return await self._commit(session_id, seen, made, before, wish)
        await journal.refresh()
        return self._not_compressed(session_id, f"It is kept as it is: {failure}", failure)

    async def _commit(
        self, old_id: str, seen: list[Message], made: Compressed, before: int, wish: _Wish
    ) -> CompressionResult:
        journal = self._journal
        standing = await self._at_hand(self._record.standing, old_id)
        try:
            committed = await journal.compact(made.messages, seen, in_place=self._settings.in_place)
        except SessionEndedError as error:
            await journal.refresh()
            return self._not_compressed(old_id, str(error))
        if not committed:
            return self._not_compressed(old_id, _OVERTAKEN)
        asked = self._asks(wish) and made.method != "engine"
        await self._at_hand(
            self._record.record_success, journal.session_id, standing, made, asked=asked
        )
        await journal.refresh()
        log.info(
            "Compressed %s (%s): %d messages to %d, about %d tokens to %d; it goes on in %s",
            old_id, made.method, len(seen), len(made.messages), before, made.after_tokens,
            journal.session_id,
        )  # fmt: skip
        return CompressionResult(
            journal.session_id,
            old_id,
            True,
            in_place=journal.session_id == old_id,
            method=made.method,
            before_messages=len(seen),
            after_messages=len(made.messages),
            before_tokens=before,
            after_tokens=made.after_tokens,
            summary=summary_text(made),
            error=made.error,
        )

    async def _smaller(self, messages: list[Message], wish: _Wish) -> Compressed | None:
        """The compressed conversation, by the first method that works; None if none does."""
        from .aside import set_aside
        from .compress import compress, shorten_to_fit

        has_content = self.engine is None or await self.engine.has_content(messages)
        if not has_content and not wish.must:
            return None
        if self.engine is not None and has_content:
            made = await self.engine.compress(
                messages,
                count=self._gauge.tokens,
                focus=wish.focus,
                force=wish.must or wish.manual,
                memory_context=self._remembered,
                seconds=self._timeout,
            )
            if made is not None and made.after_tokens <= wish.room:
                if is_saving(made.before_tokens, made.after_tokens):
                    return made
                log.warning("The context engine saved nothing; it is passed over")
        if wish.engine_only:
            return None
        asked = self._asks(wish)
        count = self._gauge.tokens
        made = None
        failure = ""
        aside = set_aside(messages, wish.target, wish.room, count)
        target = max(1, wish.target - aside.taken, wish.target // 2)
        room = max(1, wish.room - aside.taken)
        try:
            async with asyncio.timeout(self._timeout * _ROUNDS):
                made = await compress(
                    aside.messages,
                    target_tokens=min(target, room),
                    ask=self._ask if asked else None,
                    focus=wish.focus,
                    count=count,
                    keep_first=self._settings.protect_first_n,
                )
        except TimeoutError:
            failure = "The summary took too long."
        except Exception as error:
            # Whatever goes wrong with a summary, the conversation has to go on.
            log.exception("The summary of %s failed", self._journal.session_id)
            failure = f"{type(error).__name__}: {error}"
        if failure:
            made = shorten_to_fit(aside.messages, target_tokens=min(target, room), count=count)
            made = dataclasses.replace(made, error=failure)
        made = aside.put_back(made, count)
        if wish.must and (made is None or made.after_tokens > wish.room):
            # The last resort: what was set aside is cut like everything else.
            short = shorten_to_fit(messages, target_tokens=wish.room, count=count)
            made = dataclasses.replace(short, error=made.error if made else None)
        return made

    async def _ask(self, system: str, prompt: str) -> str:
        assert self._auxiliary is not None
        if self._remembered:
            prompt = f"From memory, and not to be missed:\n{self._remembered}\n\n{prompt}"
        try:
            async with asyncio.timeout(self._timeout):
                return await self._auxiliary.ask(
                    "compression", system, prompt, timeout=self._timeout
                )
        except TimeoutError as error:
            raise TimeoutError(f"no summary within {self._timeout:g} s") from error

    def _asks(self, wish: _Wish) -> bool:
        """Whether a model is to write the summary."""
        auxiliary = self._auxiliary
        return wish.use_model and auxiliary is not None and auxiliary.is_able("compression")

    async def _cooldown(self) -> dict[str, Any] | None:
        return await self._at_hand(self._record.cooldown, self._journal.session_id)

    async def _at_hand(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await at_hand(self._lock_db, function, *args, **kwargs)

    def _not_compressed(
        self, old_id: str, reason: str, error: str | None = None
    ) -> CompressionResult:
        return CompressionResult(self._journal.session_id, old_id, False, reason, error=error)

    def _aborts(self) -> bool:
        return self._settings.abort_on_summary_failure

    async def _tell_plugins(self, hook: str, turn: Turn, **facts: Any) -> None:
        run = contextvars.copy_context().run
        facts |= {"platform": self._platform, "model": turn.model.name}
        await in_thread(lambda: run(plugins.invoke_hook, hook, **facts))


def may_ask(cooldown: Mapping[str, Any] | None) -> bool:
    """Whether the summarising model may be asked: it is not in a cool-down after a failure."""
    return cooldown is None or cooldown["error"] == TOO_LITTLE


def summary_text(made: Compressed) -> str:
    """The summary as a person reads it."""
    return "" if made.summary is None else made.summary.render()
