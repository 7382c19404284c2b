"""What people and chats may use: looked up, reserved before each model call, and said in words.

`LimitTable` has the limits of one person, as configured and as kept with them. The store decides,
in one transaction over all processes (`hermes_state.reservations`). Where nothing is limited none
of this is there, and nothing is asked of the store.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from hermes_state import (
    NOBODY,
    AsyncSessionDB,
    CallReserved,
    Limit,
    LimitUse,
    ModelCall,
    person_of,
    stored_owner,
)
from tools.base import Asker, NobodyToAsk, ToolError

from .access import role_of
from .catalog import Prices, cost_at, cost_usd, dearest_prices, lookup
from .config.schema import LimitSettings, SpendingLimits
from .errors import LimitReachedError
from .events import Noticed
from .model import Model, ModelRequest, Usage
from .threads import in_thread

if TYPE_CHECKING:
    from hermes_state import Person, SessionDB

    from .agent import AIAgent
    from .call_costs import SpendsFor
    from .config import Config
    from .events import Watcher
    from .reply import Reply

UNKNOWN_OUTPUT = 32_768
"""Tokens that an answer is taken to have at most if neither its model nor the request says."""
LOOK_SECONDS = 2.0
"""After which a reservation is tried again, whatever is known to run."""
GO_ON, STOP = "Go on", "Stop"
FREE = Prices(0.0, 0.0, 0.0, 0.0)

_MONEY: tuple[tuple[str, Literal["dollars", "tokens"], Literal["day", "month"]], ...] = (
    ("usd_per_day", "dollars", "day"),
    ("usd_per_month", "dollars", "month"),
    ("tokens_per_day", "tokens", "day"),
    ("tokens_per_month", "tokens", "month"),
)


class LimitTable:
    """The limits of one person, and those of chats."""

    def __init__(
        self,
        settings: LimitSettings,
        owner: str | None,
        *,
        role: str = "member",
        own: Mapping[str, Any] | None = None,
        doors: Collection[str] = (),
    ) -> None:
        """`owner` is the person's id (None: the operator), `own` what is kept with them; they are
        named in the settings by id or any of their `doors`, not by their name, which they choose
        themselves."""
        self._settings = settings
        self._owner = stored_owner(owner)
        self.is_operator = role == "operator"
        named = {str(key).lower(): limits for key, limits in settings.people.items()}
        called = dict.fromkeys((person_of(owner).lower(), *map(str.lower, doors)))
        configured = _narrowest([named[each] for each in called if each in named])
        known = {item.name for item in fields(SpendingLimits)}
        kept = {key: most for key, most in (own or {}).items() if key in known}
        self._limits = _merged(
            settings.default, settings.roles.get(role), configured, SpendingLimits(**kept)
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited."""
        nothing = SpendingLimits()
        return all(limits == nothing for limits in (self._limits, *self._settings.chats.values()))

    def list_limits(self, session_key: str | None) -> list[Limit]:
        """The limits in money and tokens that hold for the person in a chat."""
        found = [
            Limit("person", self._owner, unit, period, most)
            for unit, period, most in list_amounts(self._limits)
        ]
        if session_key is not None:
            chats = self._settings.chats
            of_chat = _merged(chats.get("*"), chats.get(session_key))
            found += [
                Limit("chat", session_key, unit, period, most)
                for unit, period, most in list_amounts(of_chat)
            ]
        return found

    @property
    def turns_at_once(self) -> int | None:
        """How many turns of the person may run at once; None for any number."""
        most = self._limits.turns_at_once
        return None if most is None else int(most)

    def assumed_cost(self, usage: Usage, model: str, provider: str) -> float | None:
        """What limits count for a call in the place of its known price; None if that counts."""
        configured = self._settings.prices.get(model)
        if configured is not None:
            read, written = configured.input, configured.output
            return cost_at(Prices(read, written, read, read), usage)
        if cost_usd(usage, model) is not None:
            return None
        is_free = self._settings.unknown_prices == "free" or provider == "local"
        return cost_at(FREE if is_free else dearest_prices(provider), usage)


def _merged(*limits: SpendingLimits | None) -> SpendingLimits:
    """Several together; what is set in a later one wins."""
    chosen: dict[str, Any] = {}
    for part in limits:
        for item in fields(SpendingLimits):
            most = None if part is None else getattr(part, item.name)
            if most is not None:
                chosen[item.name] = most
    return SpendingLimits(**chosen)


def _narrowest(entries: list[SpendingLimits]) -> SpendingLimits:
    """The least of each: nobody has more by joining another door."""
    chosen: dict[str, Any] = {}
    for item in fields(SpendingLimits):
        given = [most for entry in entries if (most := getattr(entry, item.name)) is not None]
        chosen[item.name] = min(given, default=None)
    return SpendingLimits(**chosen)


def list_amounts(
    limits: SpendingLimits,
) -> list[tuple[Literal["dollars", "tokens"], Literal["day", "month"], float]]:
    """The limits in money and tokens that are set: unit, period and most."""
    return [
        (unit, period, float(most))
        for name, unit, period in _MONEY
        if (most := getattr(limits, name)) is not None
    ]


def build_limits(
    config: Config,
    owner: str | None,
    person: Person | None = None,
    doors: Collection[str] = (),
) -> LimitTable | None:
    """The limits of a session's owner; None if nothing is limited for them.

    `person` is who that is, with what is kept with them, None if there is no such person; `doors`
    are theirs.
    """
    role = role_of(config, owner, person)
    own = None if person is None else person.limits
    table = LimitTable(config.limits, owner, role=role, own=own, doors=doors)
    return None if table.is_empty else table


def find_limits(config: Config, db: SessionDB, owner: str | None) -> LimitTable | None:
    """The same, with the person looked up."""
    person = None if owner == NOBODY else db.get_person(person_of(owner))
    doors = db.list_doors(person_of(owner)) if config.limits.people and owner != NOBODY else ()
    return build_limits(config, owner, person, doors)


def list_chat_limits(settings: LimitSettings) -> list[Limit]:
    """The limits of the chats that are named."""
    chats = settings.chats
    return [
        Limit("chat", key, unit, period, most)
        for key in chats
        if key != "*"
        for unit, period, most in list_amounts(_merged(chats.get("*"), chats[key]))
    ]


@dataclass(frozen=True, slots=True)
class Reservation:
    """A call that may be made."""

    id: str
    table: LimitTable
    input_tokens: int
    """As estimated."""

    def used_until(self, reply: Reply, outcome: str) -> Usage:
        """What a call has taken that was broken off, as far as can be told: no provider says."""
        from .compression.tokens import text_tokens

        is_sent = reply.seconds is not None
        if not is_sent or (outcome == "error" and not reply.text):
            return Usage()  # it was not made, or was refused
        return Usage(self.input_tokens, text_tokens(reply.text) if reply.text else 0)


class Limiter:
    """Reserves the model calls of one agent."""

    def __init__(self, table: LimitTable, agent: AIAgent) -> None:
        assert agent.db is not None
        self._table = table
        self._agent = agent
        self._db = AsyncSessionDB(agent.db)

    async def reserve(
        self,
        task: str,
        model: Model,
        request: ModelRequest,
        *,
        emit: Watcher,
        input_tokens: int | None = None,
        is_first: bool = False,
        seconds: float | None = None,
    ) -> Reservation:
        """Reserve a call, when what runs leaves room for it; LimitReachedError if nothing is left.

        It is one of the running turn, its first in this process if `is_first`; with `seconds` it
        is one beside it that takes no longer. The operator is asked whether to go on.
        """
        journal, table = self._agent._journal, self._table
        limits = table.list_limits(journal.spends_for.session_key) + self._agent.job_limits
        at_once = table.turns_at_once if is_first and journal.works_for is None else None
        if input_tokens is None:
            input_tokens = estimated(request)
        call = call_at_most(table, task, model, request, input_tokens, journal.spends_for)
        is_told = False
        while True:
            seen = self._db.wake.number
            answer = await self._db.reserve_call(
                journal.session_id,
                call,
                limits,
                lease=None if seconds is not None else journal.lease,
                seconds=seconds,
                turns_at_once=at_once,
            )
            if isinstance(answer, CallReserved):
                for use in answer.warnings:
                    emit(Noticed(nearly_used(use), to_chat=True))
                return Reservation(answer.id, table, input_tokens)
            if answer.use is not None and not answer.may_pass:
                if not await self._may_go_on(answer.use):
                    raise LimitReachedError(is_reached(answer.use))
                await self._db.waive_limit(answer.use)
                continue
            if not is_told:
                is_told = True
                emit(Noticed(waits_for(answer.use, at_once)))
            await self._wait_for_room(seen, limits, at_once)

    async def _wait_for_room(self, seen: int, limits: list[Limit], at_once: int | None) -> None:
        """Wait until what runs leaves room; after a while, for another try in any case: only that
        gives up what processes have left that are gone."""
        # Reading first: a try that is refused is a write too, which would wake all who wait.
        deadline = time.monotonic() + LOOK_SECONDS
        has_room = False
        while not has_room and (left := deadline - time.monotonic()) > 0:
            seen = await self._db.wake.wait_async(seen, left)
            has_room = await self._db.at_hand(self._has_room, limits, at_once)

    def _has_room(self, limits: list[Limit], at_once: int | None) -> bool:
        db, journal = self._db.sync, self._agent._journal
        if at_once is not None and journal.lease is not None:
            conversation = journal.lease.conversation_id
            if db.count_other_turns(person_of(self._agent.user_id), conversation) >= at_once:
                return False
        uses = db.list_limit_uses(limits)
        return all(use.spent + use.reserved < use.limit.most for use in uses)

    async def _may_go_on(self, use: LimitUse) -> bool:
        """Whether the operator wants to go on beyond a limit; nobody else is asked."""
        if not self._table.is_operator:
            return False
        asker = self._agent.turn_asker()
        if not _can_ask(asker):
            return False
        question = f"{is_reached(use)} Go on until then all the same?"
        try:
            answer = await in_thread(lambda: asker.clarify(question, [GO_ON, STOP]))
        except ToolError:  # nobody answered
            return False
        return answer.strip().lower() == GO_ON.lower()


def call_at_most(
    table: LimitTable,
    task: str,
    model: Model,
    request: ModelRequest,
    input_tokens: int,
    spends_for: SpendsFor,
) -> ModelCall:
    """A call with what it can take at most."""
    known = lookup(model.name)
    most = request.max_tokens or (known.max_output_tokens if known else None)
    usage = Usage(input_tokens, most or min(model.context_length, UNKNOWN_OUTPUT))
    key, source, job = spends_for
    return ModelCall(
        task=task,
        model=model.name,
        provider=model.provider,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cost_usd=cost_usd(usage, model.name),
        assumed_cost_usd=table.assumed_cost(usage, model.name, model.provider),
        session_key=key,
        source=source,
        job=job,
    )


def _can_ask(asker: Asker) -> bool:
    from .asking import Reachable

    if isinstance(asker, NobodyToAsk):
        return False
    return not isinstance(asker, Reachable) or asker.can_ask("clarify")


def estimated(request: ModelRequest) -> int:
    from .compression.tokens import estimate_tokens

    return estimate_tokens(request.messages, request.system, request.tools)


# In words


def amount(unit: str, number: float) -> str:
    """So many dollars or tokens."""
    return f"${number:.2f}" if unit == "dollars" else f"{number:,.0f} tokens"


def named(limit: Limit) -> str:
    """A limit, as whoever it holds for is told of it."""
    whose = {"person": "Your", "chat": "This chat's", "job": "This job's"}[limit.subject]
    return f"{whose} limit of {amount(limit.unit, limit.most)} a {limit.period}"


def goes_on(use: LimitUse) -> str:
    """When a limit begins anew."""
    day = "" if use.limit.period == "day" else f"on {_date(use.ends_at)} "
    return f"{day}at 00:00 UTC"


def _date(at: float) -> str:
    moment = time.gmtime(at)
    return f"{moment.tm_mday} {time.strftime('%B', moment)}"


def is_reached(use: LimitUse) -> str:
    """That nothing is left, and until when."""
    return f"{named(use.limit)} is reached; it goes on {goes_on(use)}."


def nearly_used(use: LimitUse) -> str:
    """That little is left."""
    limit = use.limit
    return (
        f"⚠️ {named(limit)} is used to {use.spent / limit.most:.0%}"
        f" ({amount(limit.unit, use.spent)}); it begins anew {goes_on(use)}."
    )


def waits_for(use: LimitUse | None, at_once: int | None) -> str:
    """What a call waits for that may be made when others have ended."""
    if use is None:
        turns = "turn of yours runs" if at_once == 1 else "turns of yours run"
        return f"{at_once} {turns} already; this one goes on when one of them has ended."
    return (
        f"What runs now may use up the rest: {named(use.limit)[0].lower()}{named(use.limit)[1:]}."
        " This goes on when that has ended."
    )


def used_line(use: LimitUse) -> str:
    """How much of a limit is used, in one line."""
    limit = use.limit
    unit = limit.unit
    runs = f", {amount(unit, use.reserved)} reserved" if use.reserved else ""
    when = "today" if limit.period == "day" else "this month"
    whose = {"person": "Limit", "chat": "Limit of this chat", "job": "Limit of this job"}
    return (
        f"{whose[limit.subject]}: {amount(unit, use.spent)} of {amount(unit, limit.most)} {when}"
        f"{runs} (anew {goes_on(use)})"
    )
