"""What 1, 10 and 100 gateways over one database would do with a million conversations.

A discrete-event simulation, driven by the costs that `bench.scaling` has measured: what a turn
costs a gateway and the database in processor time, how often it commits, how long a flush takes.
What is assumed beside them is in `docs/scaling.md`. `python -m bench.simulation` prints its tables.
"""

from __future__ import annotations

import json
import math
import random
from collections import defaultdict, deque
from dataclasses import dataclass, field, replace

from .events import Clock, Log, Station, Then
from .measure import OUT

COSTS_FILE = "scaling-costs.json"
CONVERSATIONS = 1_000_000
NOTICED = 0.05
"""Seconds by which a wait must be longer for anybody to care."""
LONGEST_WAIT = 1.0
"""Seconds that a turn may take longer than its model, 99 times in 100, for a rate to count."""


@dataclass(frozen=True)
class Costs:
    """What a turn without tools costs; seconds are those of one core."""

    gateway_seconds: float = 0.012
    """Processor time of a gateway."""
    database_seconds: float = 0.006
    """Processor time of the database."""
    commits: float = 7.0
    """Transactions that write."""
    flush_seconds: float = 0.002
    """How long the database's disk takes to keep what it was told."""
    model_seconds: float = 0.3
    beat_seconds: float = 0.001
    """Processor time of the database for a second of a replica that does nothing."""

    @classmethod
    def measured(cls) -> Costs:
        """Those of the last `python -m bench scaling`; else those written here."""
        file = OUT / COSTS_FILE
        return cls(**json.loads(file.read_text())) if file.exists() else cls()


@dataclass(frozen=True)
class Plan:
    """What is simulated."""

    replicas: int = 10
    turns_per_second: float = 100.0
    conversations: int = CONVERSATIONS
    database_cores: int = 8
    gateway_cores: int = 1
    """A gateway is one process with one event loop."""
    lease_seconds: float = 20.0
    beat_seconds: float = 5.0
    seconds: float = 60.0
    warm_up: float = 5.0
    hot_share: float = 0.0
    """The share of all turns that one conversation asks for."""
    one_bot: float = 0.0
    """The share of all turns that belong to one bot, whose chats live on one replica."""
    dies_at: float | None = None
    """When the first replica dies."""
    seed: int = 1


@dataclass
class Turn:
    """A question on its way."""

    asked: float
    chat: int
    replica: int


@dataclass
class Outcome:
    """What came of a plan; waits are what a turn took beside its model."""

    plan: Plan
    waits: list[float] = field(default_factory=list)
    asked: list[float] = field(default_factory=list)
    """When each of them was asked."""
    calm: list[float] = field(default_factory=list)
    """The waits in other chats than the hot one."""
    done: int = 0
    unanswered: int = 0
    gateway_busy: float = 0.0
    database_busy: float = 0.0
    flushes_per_commit: float = 0.0
    taken_over: int = 0
    longest_queue: int = 0

    def wait(self, share: float) -> float:
        """The wait that this share of turns does not exceed."""
        return late(self.waits, share)

    @property
    def keeps_up(self) -> bool:
        """Whether turns are answered as fast as they are asked for."""
        waiting = self.unanswered / max(1.0, self.plan.turns_per_second)
        return self.wait(0.99) <= LONGEST_WAIT and waiting < 2.0


class Cluster:
    """Gateways, a database, and those who ask."""

    def __init__(self, plan: Plan, costs: Costs) -> None:
        self.plan, self.costs = plan, costs
        self.clock = Clock()
        self._chance = random.Random(plan.seed)
        self._gateways = [Station(self.clock, plan.gateway_cores) for _ in range(plan.replicas)]
        self._database = Station(self.clock, plan.database_cores)
        self._log = Log(self.clock, costs.flush_seconds)
        self._chats: dict[int, deque[Turn]] = {}
        """Who is being answered, and what waits behind it: one turn at a time in a conversation."""
        self._living = list(range(plan.replicas))
        self.outcome = Outcome(plan)

    def run(self) -> Outcome:
        """Let the plan happen."""
        plan, outcome = self.plan, self.outcome
        self._next_arrival()
        for number in range(plan.replicas):
            self.clock.after(plan.beat_seconds * number / plan.replicas, self._beat)
        if plan.dies_at is not None:
            self.clock.after(plan.dies_at, self._die)
        self.clock.run(plan.seconds)
        outcome.unanswered = sum(len(queue) for queue in self._chats.values())
        outcome.gateway_busy = sum(g.busy(plan.seconds) for g in self._gateways) / plan.replicas
        outcome.database_busy = self._database.busy(plan.seconds)
        outcome.flushes_per_commit = self._log.flushes / max(1, self._log.commits)
        outcome.longest_queue = max(
            self._database.longest, *(gateway.longest for gateway in self._gateways)
        )
        return outcome

    # Those who ask

    def _next_arrival(self) -> None:
        self.clock.after(self._chance.expovariate(self.plan.turns_per_second), self._arrive)

    def _arrive(self) -> None:
        plan, chance = self.plan, self._chance
        self._next_arrival()
        if chance.random() < plan.hot_share:
            chat = 0
        else:
            chat = chance.randrange(1, plan.conversations)
        turn = Turn(self.clock.now, chat, self._home_of(chat))
        queue = self._chats.setdefault(chat, deque())
        queue.append(turn)
        if len(queue) == 1:
            self._answer(turn)

    def _home_of(self, chat: int) -> int:
        """The replica that a chat is on: a bot's chats are on one, all others are spread."""
        if self.plan.one_bot and chat % 1000 < self.plan.one_bot * 1000:
            return self._living[0]
        return self._living[chat % len(self._living)]

    # A turn

    def _answer(self, turn: Turn) -> None:
        """Half of the work before the model, half behind it."""
        costs, gateway = self.costs, self._gateways[turn.replica]
        work = costs.gateway_seconds / 2
        model = self._chance.expovariate(1 / costs.model_seconds)

        def before() -> None:
            gateway.use(work, lambda: self._commit(gateway, think))

        def think() -> None:
            self.clock.after(model, behind)

        def behind() -> None:
            gateway.use(work, lambda: self._commit(gateway, finish))

        def finish() -> None:
            self.outcome.done += 1
            if turn.asked >= self.plan.warm_up:
                self.outcome.waits.append(self.clock.now - turn.asked - model)
                self.outcome.asked.append(turn.asked)
                if turn.chat:
                    self.outcome.calm.append(self.outcome.waits[-1])
            self._next_in(turn.chat)

        before()

    def _commit(self, gateway: Station, then: Then) -> None:
        """Half of a turn's transactions, one after the other, unless whoever makes them dies."""
        each = self.costs.database_seconds / self.costs.commits

        def step(left: int) -> None:
            if gateway.is_down:
                return
            if left:
                self._database.use(each, lambda: self._log.commit(lambda: step(left - 1)))
            else:
                then()

        step(round(self.costs.commits / 2))

    def _next_in(self, chat: int) -> None:
        queue = self._chats[chat]
        queue.popleft()
        if queue:
            self._answer(queue[0])
        else:
            del self._chats[chat]

    # Replicas

    def _beat(self) -> None:
        seconds = self.costs.beat_seconds * self.plan.beat_seconds
        self._database.use(seconds, lambda: None)
        self.clock.after(self.plan.beat_seconds, self._beat)

    def _die(self) -> None:
        """The first replica ends; the others notice when its leases have run out."""
        self._gateways[0].fail()
        self.clock.after(self.plan.lease_seconds, self._take_over)

    def _take_over(self) -> None:
        """What the dead one was doing begins again elsewhere, all of it at once."""
        self._living.remove(0)
        for chat, queue in self._chats.items():
            first = queue[0].replica
            for turn in queue:
                if turn.replica == 0:
                    turn.replica = self._home_of(chat)
            if first == 0:
                self.outcome.taken_over += 1
                self._answer(queue[0])


def simulate(plan: Plan, costs: Costs) -> Outcome:
    """What comes of a plan."""
    return Cluster(plan, costs).run()


def most_turns(plan: Plan, costs: Costs, *, precision: float = 0.05) -> Outcome:
    """The highest rate at which turns are answered as fast as they are asked for."""
    low, high = 0.0, _bound(plan, costs) * 1.2
    best = simulate(replace(plan, turns_per_second=max(1.0, high / 100)), costs)
    while high - low > precision * high:
        middle = (low + high) / 2
        found = simulate(replace(plan, turns_per_second=middle), costs)
        if found.keeps_up:
            low, best = middle, found
        else:
            high = middle
    return best


def _bound(plan: Plan, costs: Costs) -> float:
    """Turns per second beyond which something has more to do than it can."""
    gateways = plan.replicas * plan.gateway_cores / costs.gateway_seconds
    return min(gateways, plan.database_cores / costs.database_seconds)


def storm(outcome: Outcome, ordinary: float, window: float = 0.5) -> float:
    """Seconds after the take-over in which those who asked then waited more than twice as long as
    otherwise, 99 of 100 of them; `ordinary` is that wait."""
    plan = outcome.plan
    assert plan.dies_at is not None
    began = plan.dies_at + plan.lease_seconds
    windows: dict[int, list[float]] = defaultdict(list)
    for asked, wait in zip(outcome.asked, outcome.waits, strict=True):
        windows[math.floor((asked - began) / window)].append(wait)
    slow = [
        number
        for number, waits in windows.items()
        if number >= 0 and late(waits, 0.99) > 2 * ordinary + NOTICED
    ]
    return (max(slow) + 1) * window if slow else 0.0


def late(waits: list[float], share: float) -> float:
    """The wait that this share of turns does not exceed."""
    return sorted(waits)[min(len(waits) - 1, int(len(waits) * share))] if waits else math.inf


SIZES = (1, 10, 100)
CORES = 16
"""Of the database, in the tables."""
ORDINARY_FLUSH = 0.001
"""Seconds, where what was measured is a disk that does not wait for anything."""
LOAD = 0.6
"""The share of the highest rate at which faults are looked at."""


def tables(costs: Costs, sizes: tuple[int, ...] = SIZES, seconds: float = 30.0) -> list[str]:
    """What the page says, as lines of Markdown; with a disk that is at least an ordinary one."""
    costs = replace(costs, flush_seconds=max(costs.flush_seconds, ORDINARY_FLUSH))
    plan = Plan(database_cores=CORES, seconds=seconds, warm_up=seconds / 6)
    lines = [
        "| Gateways | Turns per second | A day for each of a million conversations"
        " | Added, p50 / p99 | Gateways busy | Database busy | Commits per flush |",
        "|---|---|---|---|---|---|---|",
    ]
    best = {size: most_turns(replace(plan, replicas=size), costs) for size in sizes}
    for size, found in best.items():
        rate = found.plan.turns_per_second
        lines.append(
            f"| {size} | {rate:,.0f} | {rate * 86_400 / CONVERSATIONS:,.0f}"
            f" | {found.wait(0.5) * 1e3:.0f} / {found.wait(0.99) * 1e3:.0f} ms"
            f" | {found.gateway_busy:.0%} | {found.database_busy:.0%}"
            f" | {1 / max(found.flushes_per_commit, 1e-9):.1f} |"
        )
    lines += [
        "",
        "| Gateways | Turns per second | One dies: taken over | Waits are ordinary again after"
        " | A hot chat asks for | It is answered | Others wait, p99 |",
        "|---|---|---|---|---|---|---|",
    ]
    for size, found in best.items():
        rate = found.plan.turns_per_second * LOAD
        lines.append(_faults(replace(plan, replicas=size, turns_per_second=rate), costs))
    return lines


def _faults(plan: Plan, costs: Costs) -> str:
    """What the death of one replica, and a chat that asks all the time, do."""
    ordinary = simulate(plan, costs)
    if plan.replicas > 1:
        dies = plan.seconds / 3
        after = replace(plan, dies_at=dies, seconds=plan.seconds + plan.lease_seconds)
        died = simulate(after, costs)
        storms = f"{died.taken_over:,} turns | {storm(died, ordinary.wait(0.99)):.1f} s"
    else:
        storms = "no other | when it is started again"
    wanted = 10.0
    hot = simulate(replace(plan, hot_share=wanted / plan.turns_per_second), costs)
    answered = min(wanted, 1 / (costs.model_seconds + ordinary.wait(0.5)))
    return (
        f"| {plan.replicas} | {plan.turns_per_second:,.0f} | {storms}"
        f" | {wanted:.0f} turns/s | {answered:.1f} turns/s"
        f" | {late(hot.calm, 0.99) * 1e3:.0f} ms |"
    )


if __name__ == "__main__":
    print(*tables(Costs.measured()), sep="\n")
