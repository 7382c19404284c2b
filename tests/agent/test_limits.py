"""Limits in turns: refused with when it goes on, or asked; warned once; nothing lost."""

from __future__ import annotations

import asyncio
import calendar
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from learning import new_agent, settled

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary, AuxiliaryError
from agent.build import build_agent
from agent.catalog import dearest_prices, lookup
from agent.config import Config, load_config
from agent.config.schema import LimitSettings, SpendingLimits, TokenPrices
from agent.errors import AuthenticationError
from agent.events import Event, Noticed, QuestionAsked
from agent.learning.learner import LearningSettings
from agent.limits import GO_ON, STOP, LimitTable, find_limits
from agent.model import Usage
from agent.outcome import Failed
from agent.request import Question
from agent.scripted import ScriptedModel, call, fail, say
from hermes_state import NOBODY, OPERATOR, SessionDB
from hermes_state.dialect import rows
from hermes_state.opening import FileConnection
from tools.base import Choice, ToolContext, ToolError, tool
from tools.delegate import delegate_task
from tools.registry import Registry

NOON = float(calendar.timegm((2026, 11, 18, 12, 0, 0)))
PRICES = {"m": TokenPrices(input=0.0, output=1_000_000.0)}
"""A dollar per token that is written."""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [NOON]
    monkeypatch.setattr(FileConnection, "now", lambda conn: now[0])
    return now


def table(owner: str | None = "telegram:42", **limits: Any) -> LimitTable:
    settings = LimitSettings(default=SpendingLimits(**limits), prices=PRICES)
    return LimitTable(settings, owner, role="operator" if owner is None else "member")


def dollars(number: int, text: str = "ok") -> Any:
    """A reply that costs so many dollars."""
    return say(text, usage=Usage(10, number))


def agent_with(db: SessionDB, limits: LimitTable, *steps: Any, **options: Any) -> AIAgent:
    model = ScriptedModel(steps, name="m")
    options.setdefault("user_id", "telegram:42")
    options.setdefault("request_options", {"max_tokens": 5})
    return AIAgent(model, db=db, limits=limits, platform="telegram", **options)


def stored_calls(db: SessionDB) -> list[dict[str, Any]]:
    return db._database.read(lambda conn: rows(conn, "SELECT * FROM model_calls ORDER BY made_at"))


def test_a_limit_of_one_person_holds_by_any_of_their_doors(db: SessionDB, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        'limits: {default: {usd_per_day: 9}, people: {"telegram:42": {usd_per_day: 1}}}\n'
    )
    config = load_config(tmp_path, {})
    eve, other = db.ensure_person("telegram:42").id, db.ensure_person("telegram:43").id

    def most(person: str) -> float:
        limits = find_limits(config, db, person)
        assert limits is not None
        return limits.list_limits(None)[0].most

    assert (most(eve), most(other)) == (1, 9)
    db.merge_persons(eve, other)
    assert most(other) == 1


class Person:
    """Answers questions, and remembers them."""

    def __init__(self, says: str | Exception) -> None:
        self.says = says
        self.asked: list[tuple[str, list[str]]] = []

    def approve(self, request: Any) -> Choice:
        raise AssertionError(request)

    def clarify(self, question: str, choices: list[str]) -> str:
        self.asked.append((question, choices))
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def test_a_person_is_refused_with_when_it_goes_on_and_goes_on_then(
    db: SessionDB, clock: list[float]
) -> None:
    agent = agent_with(db, table(usd_per_day=2), dollars(3), dollars(1, "hello again"))
    assert agent.run_conversation("one")["final_response"] == "ok"
    outcome = agent.run_blocking(Question("two"))
    said = "Your limit of $2.00 a day is reached; it goes on at 00:00 UTC."
    assert isinstance(outcome, Failed) and outcome.limit_reached and outcome.error == said
    history = [(m["role"], m["content"]) for m in db.get_messages_as_conversation(agent.session_id)]
    assert history[-2:] == [("user", "two"), ("assistant", f"[No answer: {said}]")]
    turn = db.get_turn(agent.session_id)
    assert turn is not None and turn["state"] == "ended"
    clock[0] += 86_400 / 2
    assert agent.run_conversation("three")["final_response"] == "hello again"
    assert [row["assumed_cost_usd"] for row in stored_calls(db)] == [3.0, 1.0]


def test_a_limit_is_met_in_the_middle_of_a_turn(db: SessionDB, clock: list[float]) -> None:
    def echo(context: ToolContext, text: str) -> str:
        return text

    step = call("echo", text="a")
    steps = [type(step)(step.moves, Usage(10, 2)), say("never")]
    agent = agent_with(
        db, table(usd_per_day=2), *steps,
        tools=Registry([tool(toolset="test", effect="none")(echo)]),
    )  # fmt: skip
    outcome = agent.run_blocking(Question("one"))
    assert outcome.limit_reached and agent.llm.calls == 1  # type: ignore[attr-defined]
    roles = [m["role"] for m in db.get_messages_as_conversation(agent.session_id)]
    assert roles == ["user", "assistant", "tool", "assistant"]  # what the tool did is kept


@pytest.mark.parametrize(
    ("answer", "goes_on"), [(GO_ON, True), (STOP, False), ("?", False), (ToolError("no"), False)]
)
def test_the_operator_is_asked(
    db: SessionDB, clock: list[float], answer: Any, goes_on: bool
) -> None:
    person = Person(answer)
    events: list[Event] = []
    agent = agent_with(
        db, table(None, usd_per_day=2), dollars(3), dollars(1, "on"), dollars(1, "and on"),
        user_id=None, asker=person, on_event=events.append,
    )  # fmt: skip
    agent.run_conversation("one")
    outcome = agent.run_blocking(Question("two"))
    ((question, choices),) = person.asked
    assert question.startswith("Your limit of $2.00 a day is reached; it goes on at 00:00 UTC.")
    assert choices == [GO_ON, STOP]
    assert [event.kind for event in events if isinstance(event, QuestionAsked)] == ["clarify"]
    assert outcome.text == ("on" if goes_on else "") and outcome.limit_reached is not goes_on
    if goes_on:
        assert agent.run_conversation("three")["final_response"] == "and on"
        assert len(person.asked) == 1  # until the day is over


def test_nobody_else_is_asked(db: SessionDB, clock: list[float]) -> None:
    person = Person(GO_ON)
    agent = agent_with(db, table(usd_per_day=2), dollars(3), asker=person)
    agent.run_conversation("one")
    assert agent.run_blocking(Question("two")).limit_reached
    assert person.asked == []


def test_is_warned_once(db: SessionDB, clock: list[float]) -> None:
    events: list[Event] = []
    limits = table(usd_per_day=10, tokens_per_month=1000)
    agent = agent_with(db, limits, dollars(8), dollars(1), dollars(0), on_event=events.append)
    for text in ("one", "two", "three"):
        agent.run_conversation(text)
    assert [event for event in events if isinstance(event, Noticed)] == [
        Noticed(
            "⚠️ Your limit of $10.00 a day is used to 80% ($8.00); it begins anew at 00:00 UTC.",
            to_chat=True,
        )
    ]


def test_every_chat_may_have_a_limit(db: SessionDB, clock: list[float]) -> None:
    settings = LimitSettings(
        chats={"*": SpendingLimits(usd_per_day=3), "rich": SpendingLimits(usd_per_day=9)},
        prices=PRICES,
    )
    limits = LimitTable(settings, "telegram:42")
    said = []
    for key in ("poor", "rich"):
        facts = {"session_key": key}
        agent = agent_with(db, limits, dollars(4), dollars(4), session_facts=facts)
        agent.run_conversation("one")
        said.append(agent.run_blocking(Question("two")).error)
    assert said == ["This chat's limit of $3.00 a day is reached; it goes on at 00:00 UTC.", None]


def test_what_sub_agents_and_side_tasks_use_counts(
    tmp_path: Path, db: SessionDB, clock: list[float]
) -> None:
    steps = [call("delegate_task", goal="look"), dollars(1, "found"), dollars(1, "done")]
    side = ScriptedModel([dollars(1, "A title")], name="m")
    agent = new_agent(
        tmp_path, db, side=side, model=ScriptedModel(steps, name="m"), user_id="ada",
        platform="telegram", tools=Registry([delegate_task]),
        settings=LearningSettings(titles=True, review_every=0),
        limits=table("ada", usd_per_day=1_000_000),
    )  # fmt: skip
    agent.run_conversation("hello")
    settled(agent)
    assert sorted((row["task"], row["assumed_cost_usd"]) for row in stored_calls(db)) == [
        ("delegation", 1.0), ("title_generation", 1.0), ("turn", 0.0), ("turn", 1.0),
    ]  # fmt: skip
    assert {row["outcome"] for row in stored_calls(db)} == {"complete"}


async def test_a_side_task_without_anything_left_is_not_asked(
    db: SessionDB, clock: list[float]
) -> None:
    side = ScriptedModel([])
    auxiliary = Auxiliary(lambda: side)
    agent = agent_with(db, table(usd_per_day=2), dollars(3), auxiliary=auxiliary)
    await agent.run(Question("one"))
    with pytest.raises(AuxiliaryError, match="a day is reached"):
        await auxiliary.ask("title", "", "x")
    assert side.calls == 0


async def test_a_side_task_that_fails_gives_its_reservation_back(
    db: SessionDB, clock: list[float]
) -> None:
    side = ScriptedModel([fail(AuthenticationError("no key"))], name="m")
    auxiliary = Auxiliary(lambda: side)
    agent = agent_with(db, table(usd_per_day=9), dollars(1), auxiliary=auxiliary)
    await agent.run(Question("one"))
    with pytest.raises(AuxiliaryError, match="no key"):
        await auxiliary.ask("title", "", "x")
    assert sorted(row["outcome"] for row in stored_calls(db)) == ["complete", "interrupted"]


async def test_an_interrupted_call_counts_with_what_was_said(db: SessionDB) -> None:
    spoken, never = asyncio.Event(), asyncio.Event()
    step = say("some words that were said", spoken.set, never.wait)
    agent = agent_with(db, table(usd_per_day=1000), step)
    turn = asyncio.create_task(agent.run(Question("hello")))
    await asyncio.wait_for(spoken.wait(), 30)
    agent.interrupt()
    await turn
    (row,) = stored_calls(db)
    assert row["outcome"] == "interrupted"
    assert row["input_tokens"] > 0 and row["output_tokens"] > 0


def test_a_call_that_the_provider_refused_costs_nothing(db: SessionDB) -> None:
    agent = agent_with(db, table(usd_per_day=9), fail(AuthenticationError("no key")))
    agent.run_conversation("one")
    (row,) = stored_calls(db)
    assert (row["outcome"], row["assumed_cost_usd"], row["process"]) == ("error", 0.0, None)


async def test_turns_at_once_wait_for_each_other(db: SessionDB) -> None:
    limits = table(turns_at_once=1)
    spoken, go = asyncio.Event(), asyncio.Event()
    events: list[Event] = []
    waits = asyncio.Event()

    def watch(event: Event) -> None:
        events.append(event)
        if isinstance(event, Noticed):
            waits.set()

    first = agent_with(db, limits, say("one", spoken.set, go))
    second = agent_with(db, limits, say("two"), on_event=watch)
    others = table("telegram:7", turns_at_once=1)
    other = agent_with(db, others, say("three"), user_id="telegram:7")
    running = asyncio.create_task(first.run(Question("a")))
    await asyncio.wait_for(spoken.wait(), 30)
    waiting = asyncio.create_task(second.run(Question("b")))
    assert (await other.run(Question("c"))).text == "three"
    await asyncio.wait_for(waits.wait(), 30)
    assert second.llm.calls == 0  # type: ignore[attr-defined]
    go.set()
    assert ((await running).text, (await waiting).text) == ("one", "two")
    assert [event.text for event in events if isinstance(event, Noticed)] == [
        "1 turn of yours runs already; this one goes on when one of them has ended."
    ]


# Prices


def test_an_unknown_price_counts_as_the_dearest_of_its_provider() -> None:
    limits = LimitTable(LimitSettings(), None)
    usage = Usage(1_000_000, 1_000_000)
    assert limits.assumed_cost(usage, "gpt-5", "openai") is None
    dearest = dearest_prices("anthropic")
    claude = lookup("claude-opus-5")
    assert claude is not None and claude.prices is not None
    assert dearest.output >= claude.prices.output
    assert limits.assumed_cost(usage, "claude-of-tomorrow", "anthropic") == pytest.approx(
        dearest.input + dearest.output
    )
    everybody = dearest_prices("custom")
    assert everybody.output >= dearest.output
    assert limits.assumed_cost(usage, "mine", "custom") == pytest.approx(
        everybody.input + everybody.output
    )
    assert limits.assumed_cost(usage, "SmolLM3", "local") == 0.0
    free = LimitTable(LimitSettings(unknown_prices="free"), None)
    assert free.assumed_cost(usage, "mine", "custom") == 0.0


# The configuration


def configured(home: Path, text: str) -> Config:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text)
    return load_config(home, {})


def per_day(limits: LimitTable | None) -> list[float]:
    assert limits is not None
    return [limit.most for limit in limits.list_limits(None) if limit.period == "day"]


def test_limits_are_found_by_person_role_and_default(tmp_path: Path, db: SessionDB) -> None:
    config = configured(
        tmp_path / "home",
        "limits:\n"
        "  default: {usd_per_day: 2, turns_at_once: 3}\n"
        "  roles: {operator: {usd_per_day: 50}, guest: {usd_per_day: 1}}\n"
        "  people: {'telegram:7': {usd_per_day: 7}, 'telegram:8': {usd_per_day: 8}}\n"
        "platforms: {telegram: {token: 'x', admins: [1]}}\n",
    )
    for number in (1, 7, 8, 9, 10):
        db.ensure_person(f"telegram:{number}", "Bob" if number == 8 else None)
    db.set_person_role("telegram:9", "guest")
    db.set_person_role("telegram:10", "operator")
    owners = (None, *(f"telegram:{number}" for number in (1, 7, 8, 9, 10)), "discord:1", NOBODY)
    assert [per_day(find_limits(config, db, owner)) for owner in owners] == [
        [50], [50], [7], [8], [1], [50], [2], [1],
    ]  # fmt: skip
    db.merge_persons("telegram:7", "telegram:8")  # by either door: the narrower holds
    assert per_day(find_limits(config, db, "telegram:8")) == [7]
    db.unmerge_persons(db.list_merges()[0].id)
    db.set_person_limit("telegram:7", "usd_per_day", 70)
    db.set_person_limit("telegram:7", "turns_at_once", 5)
    seven = find_limits(config, db, "telegram:7")
    assert seven is not None and (per_day(seven), seven.turns_at_once) == ([70], 5)


def test_a_limit_that_is_kept_with_a_person_holds(
    tmp_path: Path, db: SessionDB, clock: list[float]
) -> None:
    config = configured(tmp_path / "home", "auxiliary: {title_generation: {enabled: false}}\n")
    db.set_person_limit(OPERATOR, "tokens_per_day", 5)
    model = ScriptedModel([dollars(5), say("never")])
    agent = build_agent(config, db, model=model, tools=Registry())
    assert agent.run_conversation("one")["final_response"] == "ok"
    assert agent.run_blocking(Question("two")).error == (
        "Your limit of 5 tokens a day is reached; it goes on at 00:00 UTC."
    )
    ada = db.ensure_person("telegram:42", "Ada")
    free = build_agent(
        config, db, model=ScriptedModel([say("free")]), user_id=ada.id, person=ada, tools=Registry()
    )
    assert free.run_conversation("one")["final_response"] == "free"
    assert free.limiter is None


@pytest.mark.parametrize("text", ["", "limits: {}\n", "limits: {unknown_prices: free}\n"])
def test_nothing_is_limited_by_default(tmp_path: Path, db: SessionDB, text: str) -> None:
    assert find_limits(configured(tmp_path / "home", text), db, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "limits: {default: {usd_per_day: -1}}", "limits: {default: {usd_per_day: much}}",
        "limits: {people: [a]}", "limits: {roles: {memebr: {usd_per_day: 1}}}",
        "limits: {people: {'local:a': 5}}", "limits: {people: {Ada: {usd_per_day: 9}}}",
        "limits: {default: {turns_at_once: 0}}",
        "limits: {unknown_prices: cheap}",
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Exception, match="limits"):
        configured(tmp_path / "home", text)


# What it takes


def told_of(db: SessionDB, work: Callable[[], object]) -> list[str]:
    """What the writing connection is told meanwhile."""
    told: list[str] = []
    writer = db._database._writer  # type: ignore[union-attr]
    assert isinstance(writer, FileConnection)
    writer.trace_v2(1, lambda event: told.append(event["sql"]))
    try:
        work()
    finally:
        writer.trace_v2(0, None)
    return told


def test_only_where_something_is_limited_is_a_call_reserved(db: SessionDB) -> None:
    plain = AIAgent(ScriptedModel([say("one"), say("two")]), db=db)
    limited = agent_with(db, table(usd_per_day=9), dollars(1), dollars(1))
    for agent, commits in ((plain, 2), (limited, 3)):
        agent.run_conversation("first")
        told = told_of(db, lambda agent=agent: agent.run_conversation("second"))  # type: ignore[misc]
        assert told.count("COMMIT") == commits
        is_reserved = any("'reserved'" in statement for statement in told)
        assert is_reserved is (agent is limited)
