"""Sub-agents in the background: begun at once, told exactly once, whatever happens meanwhile."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import background
from agent.agent import AIAgent
from agent.delegation import asker_in_background
from agent.errors import RequestRefusedError
from agent.events import BackgroundFinished, Event
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, fail, say
from hermes_cli.asking import TerminalAsker
from hermes_state import SessionDB
from hermes_state.delegations import is_note
from hermes_state.history import repair_message_sequence
from tools.approval import StoredAsker
from tools.base import NobodyToAsk, ToolContext, Workspace, tool
from tools.delegate import delegate_task
from tools.registry import Registry

from .. import seeds
from .histories import problems

CHILD = Path(__file__).with_name("delegating_child.py")
LONG = 20


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store
        assert background.stop_all(store) == []


class Ended:
    """Collects what has ended, and waits for it."""

    def __init__(self) -> None:
        self.events: list[BackgroundFinished] = []
        self._arrived = threading.Semaphore(0)

    def __call__(self, event: Event) -> None:
        if isinstance(event, BackgroundFinished):
            self.events.append(event)
            self._arrived.release()

    def wait(self) -> BackgroundFinished:
        assert self._arrived.acquire(timeout=LONG), "nothing ended"
        return self.events[-1]


def is_child(request: ModelRequest) -> bool:
    return "sub-agent" in request.system


def notes(db: SessionDB, session_id: str) -> list[str]:
    return [m["content"] for m in db.get_messages(session_id) if is_note(m["content"])]


def texts(request: ModelRequest) -> str:
    return "\n".join(str(message["content"]) for message in request.messages)


def new_agent(
    db: SessionDB, folder: Path, answer: object, ended: Ended, *more: object, session_id: str = "s"
) -> AIAgent:
    return AIAgent(
        ScriptedModel([answer] * 30),  # type: ignore[list-item]
        db=db,
        session_id=session_id,
        user_id="ada",
        tools=Registry([delegate_task, *more]),  # type: ignore[list-item]
        workspace=Workspace(folder, folder),
        on_event=ended,
    )


def test_the_turn_ends_at_once_and_the_next_one_is_told(db: SessionDB, tmp_path: Path) -> None:
    may_finish = threading.Event()
    ended = Ended()

    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            return say(may_finish.wait, f"report on {request.messages[0]['content']}")
        if request.messages[-1]["role"] == "tool":
            return say("It runs.")
        if "Background result" in texts(request):
            return say("I have read it.")
        return call("delegate_task", tasks=[{"goal": "one"}, {"goal": "two"}], background=True)

    agent = new_agent(db, tmp_path, answer, ended)
    result = agent.run_conversation("Start them")
    assert result["final_response"] == "It runs."
    told = result["messages"][2]["content"]
    (running,) = db.list_delegations("s")
    assert running["delegation_id"] in told
    assert (running["state"], running["goals"]) == ("running", ["one", "two"])
    assert notes(db, "s") == []

    may_finish.set()
    event = ended.wait()
    assert (event.session_id, event.status) == ("s", "completed")
    assert event.text.index("report on one") < event.text.index("report on two")

    result = agent.run_conversation("And?")
    assert result["final_response"] == "I have read it."
    agent.run_conversation("Once more?")
    (note,) = notes(db, "s")
    assert event.delegation_id in note
    assert "completed" in note
    assert "report on two" in note
    messages = db.get_messages("s")
    where = next(i for i, m in enumerate(messages) if is_note(m["content"]))
    assert messages[where + 1]["content"] == "And?"
    assert problems(repair_message_sequence(messages)) == []
    (row,) = db.list_delegations("s")
    assert (row["state"], row["delivery_state"]) == ("completed", "delivered")
    assert [s["id"] for s in db.list_sessions_rich()] == ["s"]
    for child in row["sessions"]:
        session = db.get_session(child)
        assert session is not None
        assert (session["user_id"], session["parent_session_id"]) == ("ada", "s")
        assert session["ended_at"] is not None


def test_a_running_turn_is_told_at_its_next_step(db: SessionDB, tmp_path: Path) -> None:
    ended = Ended()

    @tool(toolset="test", effect="none")
    def wait_for_it(context: ToolContext) -> str:
        """Wait until the other one has ended."""
        ended.wait()
        return "waited"

    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            return say("the report")
        if "Background result" in texts(request):
            return say("Read in the same turn.")
        if request.messages[-1]["role"] == "tool":
            return call("wait_for_it")
        return call("delegate_task", goal="look", background=True)

    agent = new_agent(db, tmp_path, answer, ended, wait_for_it)
    result = agent.run_conversation("go")
    assert result["final_response"] == "Read in the same turn."
    assert len(notes(db, "s")) == 1
    agent.run_conversation("more")
    assert len(notes(db, "s")) == 1
    assert problems(repair_message_sequence(db.get_messages("s"))) == []


def test_the_result_follows_the_conversation_through_a_compression(
    db: SessionDB, tmp_path: Path
) -> None:
    may_finish = threading.Event()
    ended = Ended()

    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            return say(may_finish.wait, "the report")
        if len(request.messages) == 1 and "Background" not in texts(request):
            return call("delegate_task", goal="look", background=True)
        return say("ok")

    agent = new_agent(db, tmp_path, answer, ended)
    agent.run_conversation("go")
    db.rotate_session("s", "s2", [{"role": "user", "content": "what was said"}])
    may_finish.set()
    ended.wait()
    agent.run_conversation("and?")
    assert agent.session_id == "s2"
    assert (len(notes(db, "s")), len(notes(db, "s2"))) == (0, 1)
    assert [d["delivery_state"] for d in db.list_delegations("s2")] == ["delivered"]


def test_a_failure_and_a_stop_are_told_too(db: SessionDB, tmp_path: Path) -> None:
    ended = Ended()
    under_way = threading.Event()

    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            if request.messages[0]["content"] == "bad":
                return fail(RequestRefusedError("no such model"))
            return say("half", under_way.set, 3600.0)
        return say("ok")

    agent = new_agent(db, tmp_path, answer, ended)
    agent.delegation.start([{"goal": "bad"}])
    assert ended.wait().status == "failed"
    endless = agent.delegation.start([{"goal": "endless"}])
    assert under_way.wait(LONG)
    assert background.running_here() == [endless]
    assert background.stop(endless)
    assert ended.wait().status == "interrupted"
    assert not background.stop(endless)
    agent.run_conversation("And?")
    bad, stopped = notes(db, "s")
    assert "failed" in bad
    assert "no such model" in bad
    assert "stopped before it was done" in stopped
    assert problems(repair_message_sequence(db.get_messages("s"))) == []


def test_of_two_agents_in_one_conversation_one_tells(db: SessionDB, tmp_path: Path) -> None:
    ended = Ended()

    def answer(request: ModelRequest) -> Step:
        return say("report") if is_child(request) else say("ok")

    first = new_agent(db, tmp_path, answer, ended)
    first.delegation.start([{"goal": "look"}])
    ended.wait()
    with SessionDB(tmp_path / "state.db") as other:
        agents = [first, new_agent(other, tmp_path, answer, ended)]
        threads = [threading.Thread(target=a.run_conversation, args=("hi",)) for a in agents]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(notes(db, "s")) == 1


def test_not_more_than_a_few_at_once(db: SessionDB, tmp_path: Path) -> None:
    ended = Ended()

    def answer(request: ModelRequest) -> Step:
        if is_child(request):
            return say(3600.0)
        if request.messages[-1]["role"] == "tool":
            return say("Then not.")
        return call("delegate_task", goal="one too many", background=True)

    agent = new_agent(db, tmp_path, answer, ended)
    for number in range(background.MOST_AT_ONCE):
        agent.delegation.start([{"goal": f"task {number}"}])
    result = agent.run_conversation("go")
    assert "running already" in result["messages"][2]["content"]
    assert background.stop_all(db) == []
    assert {d["state"] for d in db.list_delegations("s")} == {"interrupted"}


def test_without_a_store_it_is_refused(tmp_path: Path) -> None:
    model = ScriptedModel([call("delegate_task", goal="x", background=True), say("I see.")])
    agent = AIAgent(model, tools=Registry([delegate_task]))
    assert "Without a store" in agent.run_conversation("go")["messages"][2]["content"]


def test_secrets_do_not_come_back_with_a_report(db: SessionDB, tmp_path: Path) -> None:
    ended = Ended()
    secret = "sk-proj-" + "a1B2" * 12

    def answer(request: ModelRequest) -> Step:
        return say(f"the key is {secret}") if is_child(request) else say("ok")

    agent = new_agent(db, tmp_path, answer, ended)
    agent.delegation.start([{"goal": "look"}])
    assert secret not in ended.wait().text
    agent.run_conversation("And?")
    assert secret not in notes(db, "s")[0]


def test_killed_meanwhile_the_outcome_is_unknown_and_told_once(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, str(CHILD), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "under way\n"
    with SessionDB(tmp_path / "state.db") as db:
        model = ScriptedModel([say("Not yet."), say("Now I know."), say("Still.")])
        agent = AIAgent(model, db=db, session_id="s")
        agent.run_conversation("Is it done?")
        assert notes(db, "s") == []  # its process lives: nothing is known yet
        child.kill()
        child.wait()
        agent.run_conversation("And now?")
        agent.run_conversation("And now?")
        (note,) = notes(db, "s")
        (row,) = db.list_delegations("s")
        assert (row["state"], row["delivery_state"]) == ("lost", "delivered")
        assert "outcome unknown" in note
        assert "count the stars" in note
        assert row["sessions"][0] in note
        asked, closed = db.get_messages(row["sessions"][0])
        assert asked["content"] == "count the stars"
        assert "cut off" in closed["content"]
        assert db.list_abandoned_turns() == []
        assert problems(repair_message_sequence(db.get_messages("s"))) == []


@pytest.mark.fuzz
def test_killed_at_random_moments_each_outcome_is_told_once(tmp_path: Path) -> None:
    chance = random.Random(seeds.seed())
    started = -1
    ended: set[int] = set()
    for _ in range(seeds.times(5, 12)):
        child = subprocess.Popen(
            [sys.executable, str(CHILD), str(tmp_path), str(started + 1)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(chance.randint(1, 6))]
        time.sleep(chance.uniform(0, 0.01))  # a moment that is random within a step
        child.kill()
        lines += child.stdout.read().splitlines()
        child.wait()
        for line in lines:
            what, _, number = line.strip().partition(" ")
            if what == "starting" and number:
                started = int(number)
            elif what == "ended" and number:
                ended.add(int(number))
    with SessionDB(tmp_path / "state.db") as db:
        agent = AIAgent(ScriptedModel([say("I am back.")]), db=db, session_id="s")
        agent.run_conversation("Are you there?")
        told = notes(db, "s")
        rows = db.list_delegations("s", limit=1000)
        assert ended
        assert len(told) == len(rows)
        assert {one["state"] for one in rows} <= {"completed", "lost"}
        for one in rows:
            assert sum(one["delegation_id"] in note for note in told) == 1
            assert one["delivery_state"] == "delivered"
        for number in ended:
            assert sum(f"Task: task {number}\n" in note for note in told) == 1
        assert problems(repair_message_sequence(db.get_messages("s"))) == []


def test_nobody_at_a_prompt_is_asked_from_the_background() -> None:
    later = StoredAsker(lambda request: None, lambda question, choices: "")
    assert asker_in_background(later) is later
    assert isinstance(asker_in_background(TerminalAsker()), NobodyToAsk)


def test_what_ends_after_it_was_given_up_is_told_after_all(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.create_delegation("bg_1", "s", {"goals": ["g"], "sessions": []})
    assert db.lose_delegation("bg_1")
    db.deliver_results("s")
    assert db.finish_delegation("bg_1", "completed", "the report")
    assert not db.finish_delegation("bg_1", "completed", "again")
    db.deliver_results("s")
    assert db.deliver_results("s") is None
    lost, done = notes(db, "s")
    assert "outcome unknown" in lost
    assert "the report" in done


def test_deleting_a_conversation_forgets_its_background_work(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.create_delegation("bg_1", "s", {"goals": ["private"]})
    db.delete_session("s")
    assert db.list_delegations("s") == []
