"""One worker per conversation: the same order and the same ends, whichever front end asks."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.config.schema import AgentSettings
from agent.events import Event
from agent.model import ModelRequest
from agent.outcome import NotStarted, TurnOutcome
from agent.request import Question, TakenOver, TurnRequest
from agent.running import WAITING
from agent.scripted import ScriptedModel, Step, say
from conversation import patience
from conversation.abandoned import take_over_turn
from conversation.door import Abandoned, Door, Origin
from conversation.event_hooks import EventHooks
from conversation.service import Conversations
from hermes_base.process import this_process
from hermes_state import (
    AsyncSessionDB,
    Lease,
    SessionDB,
    StoreOutcomeUnknownError,
    StoreUnavailableError,
    TakenTurn,
)

ELSEWHERE = "elsewhere:1:1"
SESSION = "s1"

Work = str | TakenTurn


def asked(request: ModelRequest) -> str:
    return str([one["content"] for one in request.messages if one["role"] == "user"][-1])


def echo(request: ModelRequest) -> Step:
    return say(f"re: {asked(request)}")


class House:
    """A store, a model, and the conversations of one process."""

    def __init__(self, home: Path, steps: Iterable[Any]) -> None:
        self.home = home
        self.db = SessionDB(home / "state.db")
        self.model = ScriptedModel(steps)
        self.is_running = True
        self.accepted: set[str] = set()
        self.told: list[str] = []
        """What doors were told, in order."""
        self.hooks = EventHooks(home / "hooks")
        self.conversations = Conversations(
            AsyncSessionDB(self.db),
            AgentSettings,
            lambda: self.hooks,
            is_running=lambda: self.is_running,
        )

    def door(self, key: str, *messages: str) -> MemoryDoor:
        return MemoryDoor(self, key, messages)

    def accept(self, text: str) -> str:
        self.db.accept_message(text, SESSION, text, source="cli")
        self.accepted.add(text)
        return text

    def abandon(self, text: str, *, heartbeat_at: float = 0.0) -> None:
        """A turn that another process began."""
        message = {"role": "user", "content": text}
        self.db.begin_turn(SESSION, message, source="cli", facts={}, leased=True)

        def change(conn: Any) -> None:
            conn.execute("UPDATE turns SET owner = ?, heartbeat_at = ?", (ELSEWHERE, heartbeat_at))

        self.db._database.write(change)

    def said(self) -> list[str]:
        return [str(row["content"]) for row in self.db.get_messages(SESSION)]


class MemoryDoor(Door[Work]):
    """A front end in memory."""

    def __init__(self, house: House, key: str, messages: Iterable[str]) -> None:
        self.key = key
        self.house = house
        self.waiting: deque[str] = deque(messages)
        self.keeps_refused = self.stops_waiting = False
        self.broken: Exception | None = None
        self.outcomes: list[TurnOutcome] = []
        self.delivering: Callable[[], Any] | None = None
        self.events: list[Event] = []
        self.agent: AIAgent | None = None

    def session_id(self) -> str:
        return SESSION

    async def next(self) -> Work | None:
        if not self.waiting or not self.house.is_running:
            return None
        return self.waiting.popleft()

    async def prepare(self, work: Work) -> Any:
        if self.broken is not None:
            raise self.broken
        self.agent = AIAgent(self.house.model, db=self.house.db, session_id=SESSION)
        return self.agent

    def request(self, work: Work) -> TurnRequest:
        if not isinstance(work, str):
            return TakenOver(work)
        return Question(work, (work,) if work in self.house.accepted else ())

    def origin(self, work: Work) -> Origin:
        return Origin("memory", SESSION, user_id=self.key)

    def asked(self, work: Work) -> str:
        return work if isinstance(work, str) else ""

    def watch(self, work: Work, agent: Any) -> Any:
        return self.events.append

    def keeps(self, work: Work, outcome: NotStarted) -> bool:
        return self.keeps_refused

    async def deliver(self, work: Work, outcome: TurnOutcome) -> None:
        self.outcomes.append(outcome)
        self.house.told.append(f"{self.key}: {outcome.text or outcome.error or outcome.status}")
        if self.delivering is not None:
            await self.delivering()

    def wait_begins(self, work: Work, text: str) -> None:
        self.house.told.append(text)

    def gives_up(self, work: Work) -> bool:
        return self.stops_waiting

    async def wait_ends(self, work: Work, has_ended: bool) -> None:
        self.house.told.append(f"waited: {has_ended}")

    async def take_over(self, turn: Abandoned) -> Work | None:
        return take_over_turn(self.house.db, turn.row, AgentSettings())


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    made = House(tmp_path, itertools.repeat(echo))
    yield made
    made.db.close()


async def test_what_waits_is_run_in_order(house: House) -> None:
    door = house.door("a", "two", "three")
    await house.conversations.work(door, "one")
    assert house.told == ["a: re: one", "a: re: two", "a: re: three"]
    assert house.conversations.finished == 3 and not house.conversations.is_busy("a")


async def test_where_a_turn_ran_its_conversation_is_known(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await house.conversations.work(house.door("a"), "one")
    monkeypatch.setattr(SessionDB, "get_session", None)  # it is not asked again
    assert house.conversations.places.name(SESSION) == SESSION
    assert house.conversations.places.is_empty


async def test_two_doors_of_a_conversation_take_turns(house: House) -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    def first(request: ModelRequest) -> Step:
        begun.set()
        return say(release, "slow")

    house.model = ScriptedModel([first, echo])
    one, other = house.door("a"), house.door("b")
    assert house.conversations.begin(one, "x") and not house.conversations.begin(one, "y")
    await begun.wait()
    assert house.conversations.begin(other, "z")
    assert house.conversations.holder(SESSION) == "a"
    release.set()
    while house.conversations.is_busy("a") or house.conversations.is_busy("b"):
        await asyncio.sleep(0)
    assert house.told == ["a: slow", "b: re: z"]
    assert house.said() == ["x", "slow", "z", "re: z"]


async def test_a_slow_delivery_holds_up_nobody_else(house: House) -> None:
    release = asyncio.Event()
    one, other = house.door("a"), house.door("b")
    one.delivering = release.wait
    house.conversations.begin(one, "x")
    while not house.told:
        await asyncio.sleep(0)
    await house.conversations.work(other, "y")
    assert house.told == ["a: re: x", "b: re: y"] and house.conversations.is_busy("a")
    release.set()
    while house.conversations.is_busy("a"):
        await asyncio.sleep(0)


async def test_an_abandoned_turn_comes_first(house: House) -> None:
    house.abandon("left")
    door = house.door("a")
    await house.conversations.work(door, "new")
    assert house.told == ["a: re: left", "a: re: new"]
    assert house.said() == ["left", "re: left", "new", "re: new"]


async def test_an_abandoned_turn_is_work_of_its_own(house: House) -> None:
    house.abandon("left")
    door = house.door("a", "new")
    await house.conversations.work(door, Abandoned(house.db.list_abandoned_turns()[0]))
    assert house.told == ["a: re: left", "a: re: new"]


async def test_a_turn_that_runs_elsewhere_is_waited_for(house: House) -> None:
    house.abandon("theirs", heartbeat_at=time.time())
    door = house.door("a")
    house.conversations.begin(door, "ours")
    while not house.told:
        await asyncio.sleep(0)
    assert house.told == [WAITING]
    _end(house)
    while house.conversations.is_busy("a"):
        await asyncio.sleep(0.001)
    assert house.told == [WAITING, "waited: True", "a: re: ours"]


def _end(house: House) -> None:
    """The other process ends its turn."""
    turn = house.db.get_turn(SESSION)
    assert turn is not None
    assert house.db.end_turn(Lease(SESSION, turn["fence"], turn["owner"]))


async def test_who_does_not_want_to_wait_is_not_answered(house: House) -> None:
    house.abandon("theirs", heartbeat_at=time.time())
    door = house.door("a")
    door.stops_waiting = True
    await house.conversations.work(door, house.accept("ours"))
    assert house.told == [WAITING, "waited: False"]
    assert house.model.calls == 0


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_message_that_cannot_be_run_is_kept_or_dropped(house: House, keeps: bool) -> None:
    door = house.door("a")
    door.broken, door.keeps_refused = RuntimeError("no model"), keeps
    await house.conversations.work(door, house.accept("one"))
    assert house.told == ["a: RuntimeError: no model"]
    assert isinstance(door.outcomes[0], NotStarted) and house.conversations.failed == 1
    assert [row["id"] for row in house.db.list_waiting(SESSION)] == (["one"] if keeps else [])


async def test_nothing_is_begun_once_the_process_stops(house: House) -> None:
    door = house.door("a", "two")
    house.is_running = False
    house.abandon("left")
    await house.conversations.work(door, Abandoned(house.db.list_abandoned_turns()[0]))
    assert house.told == [] and house.model.calls == 0


async def test_a_stop_interrupts_what_takes_too_long(house: House) -> None:
    begun, never = asyncio.Event(), asyncio.Event()

    def slow(request: ModelRequest) -> Step:
        begun.set()
        return say(never)

    house.model = ScriptedModel([slow])
    house.conversations.begin(house.door("a", "two"), "one")
    await begun.wait()
    house.is_running = False
    assert await house.conversations.drain(0.01) == ["a"]
    assert house.told == ["a: interrupted"]


async def test_event_hooks_hear_of_the_turns_of_every_door(house: House) -> None:
    folder = house.home / "hooks" / "one"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("name: one\nevents: ['agent:*', 'session:start']\n")
    (folder / "handler.py").write_text(
        "heard = []\n"
        "def handle(event, context):\n"
        "    heard.append((event, context['platform'], context.get('message')))\n"
    )
    await house.conversations.work(house.door("a"), "one")
    handler: Any = house.hooks._load()[0][2]
    assert handler.__globals__["heard"] == [
        ("session:start", "memory", None),
        ("agent:start", "memory", "one"),
        ("agent:end", "memory", "one"),
    ]


async def test_a_silent_turn_is_stopped_at_every_door(tmp_path: Path) -> None:
    never = asyncio.Event()
    house = House(tmp_path, [say("half", never)])
    house.conversations._settings = lambda: AgentSettings(gateway_timeout=0.05)
    door = house.door("a")
    await house.conversations.work(door, "one")
    assert door.outcomes[0].interrupted
    house.db.close()


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE", 0.0)


class LostAnswers:
    """A method of the store whose first answers are lost, after or before it counts."""

    def __init__(self, house: House, name: str, counts: bool, times: int = 1) -> None:
        self.method, self.counts, self.left = getattr(house.db, name), counts, times
        setattr(house.db, name, self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.left == 0:
            return self.method(*args, **kwargs)
        self.left -= 1
        if self.counts:
            self.method(*args, **kwargs)
        raise StoreOutcomeUnknownError("the server cannot be asked whether it counts")


@pytest.mark.parametrize("counts", [True, False])
async def test_a_take_over_whose_outcome_is_unknown_is_asked_for_again(
    house: House, quick_retries: None, counts: bool
) -> None:
    house.abandon("left")
    lost = LostAnswers(house, "take_over_turn", counts, times=2)
    door = house.door("a", "new")
    await house.conversations.work(door, Abandoned(house.db.list_abandoned_turns()[0]))
    assert lost.left == 0
    assert house.told == ["a: re: left", "a: re: new"]
    assert house.said() == ["left", "re: left", "new", "re: new"]


@pytest.mark.parametrize("counts", [True, False])
async def test_a_take_over_that_was_given_up_is_found_again(house: House, counts: bool) -> None:
    """By whoever looks next, when its lease has run out: nobody works under it."""
    house.abandon("left")
    LostAnswers(house, "take_over_turn", counts)
    with pytest.raises(StoreOutcomeUnknownError):
        take_over_turn(house.db, house.db.list_abandoned_turns()[0], AgentSettings())
    row = house.db.get_turn(SESSION)
    assert row is not None and (row["owner"] == this_process()) == counts
    assert not house.conversations.is_ours(row), "nobody here works on it"
    house.db._database.write(lambda conn: conn.execute("UPDATE turns SET heartbeat_at = 0"))
    found = house.db.list_abandoned_turns()[0]
    await house.conversations.work(house.door("a"), Abandoned(found))
    assert house.said() == ["left", "re: left"]


@pytest.mark.parametrize("counts", [True, False])
async def test_closing_a_turn_may_be_asked_for_again(
    house: House, quick_retries: None, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.abandon("left")
    LostAnswers(house, "close_abandoned_turn", counts)
    monkeypatch.setattr("conversation.abandoned.is_resumed", lambda *given: False)
    door = house.door("a", "new")
    await house.conversations.work(door, Abandoned(house.db.list_abandoned_turns()[0]))
    assert house.told == ["a: re: new"]
    assert house.said().count("new") == 1


@pytest.mark.parametrize("counts", [True, False])
async def test_a_turn_that_may_have_begun_is_ended_when_the_store_can_say(
    house: House, quick_retries: None, counts: bool
) -> None:
    """Whoever asked was told that it failed: nobody goes on with it, now or after a restart."""
    get_turn, is_lost = house.db.get_turn, False
    away = 3

    class Lost(MemoryDoor):
        async def run(self, agent: Any, request: TurnRequest, watch: Any) -> TurnOutcome:
            nonlocal is_lost
            is_lost = True
            if counts:
                message = {"role": "user", "content": "x"}
                house.db.begin_turn(SESSION, message, source="cli", facts={}, leased=True)
            raise StoreOutcomeUnknownError("nobody can be asked")

    def look(*args: Any) -> Any:
        nonlocal away
        if is_lost and away:
            away -= 1
            raise StoreUnavailableError("the server is away")
        return get_turn(*args)

    house.db.get_turn = look  # type: ignore[method-assign, assignment]
    await house.conversations.run(Lost(house, "a", []), "x")
    assert "nobody can be asked" in house.told[0] and away == 0
    row = get_turn(SESSION)
    assert (row["state"] if row is not None else None) == ("ended" if counts else None)
    await house.conversations.run(house.door("a"), "y")
    assert house.told[-1] == "a: re: y"
