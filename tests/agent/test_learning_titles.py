"""Titles: from a model, else from the first words; never over a person's, never in the way."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from learning import Watched, new_agent, settled, side_model, until

from agent.agent import AIAgent
from agent.errors import RequestRefusedError
from agent.events import TitleSet
from agent.learning.learner import LearningSettings
from agent.learning.titles import clean_title, first_words
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step, call, fail, say
from hermes_state import SessionDB
from tools.delegate import delegate_task
from tools.registry import Registry

TITLES = LearningSettings(titles=True, review_every=0)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def chat(tmp_path: Path, db: SessionDB, side: ScriptedModel | None, **options: Any) -> AIAgent:
    return new_agent(tmp_path, db, side=side, settings=TITLES, **options)


def ask(agent: AIAgent, question: Any) -> str | None:
    assert agent.db is not None
    agent.run_conversation(question)
    settled(agent)
    return agent.db.get_session_title(agent.session_id)


def test_a_conversation_is_named_after_its_first_exchange(tmp_path: Path, db: SessionDB) -> None:
    watched = Watched()
    side = side_model("A plan for the garden\n")
    agent = chat(tmp_path, db, side, on_event=watched)
    assert ask(agent, "What shall I plant?") == "A plan for the garden"
    assert watched.of(TitleSet) == [TitleSet(agent.session_id, "A plan for the garden")]
    prompt = side.requests[0].messages[0]["content"]
    assert "What shall I plant?" in prompt and "ok" in prompt
    assert ask(agent, "And when?") == "A plan for the garden"
    assert side.calls == 1


def test_titles_that_are_taken_are_numbered(tmp_path: Path, db: SessionDB) -> None:
    titles = [
        ask(chat(tmp_path, db, side_model("Fix issue #7")), "Please fix it") for _ in range(3)
    ]
    assert titles[0] == "Fix issue #7"
    assert len(set(titles)) == 3 and all(
        title and title.startswith("Fix issue") for title in titles
    )


def test_a_conversation_that_is_compressed_meanwhile_is_named_where_it_is(
    tmp_path: Path, db: SessionDB
) -> None:
    watched, begun, rotated = Watched(), threading.Event(), threading.Event()
    side = ScriptedModel([say(begun.set, until(rotated), "A model's title")])
    agent = chat(tmp_path, db, side, on_event=watched)
    agent.run_conversation("Hello")
    first = agent.session_id
    assert begun.wait(60)
    db.rotate_session(first, "s2", [{"role": "user", "content": "[a summary]"}])
    rotated.set()
    settled(agent)
    assert (db.get_session_title(first), db.get_session_title("s2")) == (None, "A model's title")
    assert watched.of(TitleSet) == [TitleSet("s2", "A model's title")]


def test_a_title_that_a_person_gives_meanwhile_stays(tmp_path: Path, db: SessionDB) -> None:
    watched, begun, given_one = Watched(), threading.Event(), threading.Event()
    side = ScriptedModel([say(begun.set, until(given_one), "A model's title")])
    agent = chat(tmp_path, db, side, on_event=watched)
    agent.run_conversation("Hello")
    assert begun.wait(60)
    db.set_session_title(agent.session_id, "Mine")
    given_one.set()
    settled(agent)
    assert db.get_session_title(agent.session_id) == "Mine"
    assert watched.of(TitleSet) == []


def test_a_session_with_a_title_is_not_asked_about(tmp_path: Path, db: SessionDB) -> None:
    side = side_model()
    agent = chat(tmp_path, db, side)
    agent.ensure_session()
    db.set_session_title(agent.session_id, "Mine")
    assert ask(agent, "Hello") == "Mine"
    assert side.calls == 0


@pytest.mark.parametrize(
    "side",
    [
        None,
        side_model(fail(RequestRefusedError)),
        side_model("***"),
        side_model("<think>What could it be? A title must be short"),
        side_model("x" * 500),
    ],
    ids=["no model", "fails", "nothing", "only thoughts", "too much"],
)
def test_without_a_model_the_first_words_serve(
    tmp_path: Path, db: SessionDB, side: ScriptedModel | None
) -> None:
    title = ask(chat(tmp_path, db, side), "\n\n  # Plan the *garden* for spring\nand summer")
    assert title == "Plan the *garden* for spring"


def test_a_model_that_is_too_small_is_not_asked(tmp_path: Path, db: SessionDB) -> None:
    side = side_model("Its title")
    side.small = True  # type: ignore[attr-defined]
    assert ask(chat(tmp_path, db, side), "Plan the garden") == "Plan the garden"
    assert side.calls == 0


def test_leaving_at_once_costs_no_time_and_still_names_the_conversation(
    tmp_path: Path, db: SessionDB
) -> None:
    begun = threading.Event()
    side = ScriptedModel([say(begun.set, 3600.0, "Never")])
    agent = chat(tmp_path, db, side)
    agent.run_conversation("Plan the garden")
    assert begun.wait(60)
    agent.close()
    assert db.get_session_title(agent.session_id) == "Plan the garden"
    settled(agent)


def test_closing_with_a_closed_store_is_harmless(tmp_path: Path, db: SessionDB) -> None:
    begun = threading.Event()
    agent = chat(tmp_path, db, ScriptedModel([say(begun.set, 3600.0, "Never")]))
    agent.run_conversation("Plan the garden")
    assert begun.wait(60)
    db.close()
    agent.close()


@pytest.mark.parametrize("ends", ["fails", "is interrupted"])
def test_a_turn_without_an_answer_is_not_named(tmp_path: Path, db: SessionDB, ends: str) -> None:
    def first(request: ModelRequest) -> Step:
        return fail(RequestRefusedError) if ends == "fails" else say(agent.interrupt, 3600.0)

    agent = chat(tmp_path, db, side_model("T"), model=ScriptedModel([first, say("ok")]))
    assert ask(agent, "Hello") is None
    assert ask(agent, "Hello again") == "T"


def test_what_has_no_words_gets_no_title(tmp_path: Path, db: SessionDB) -> None:
    picture = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    assert ask(chat(tmp_path, db, None), picture) is None
    assert ask(chat(tmp_path, db, None), "?!") is None


def test_secrets_do_not_become_titles(tmp_path: Path, db: SessionDB) -> None:
    key = "sk-ant-" + "a1B2" * 8
    side = side_model(fail(RequestRefusedError))
    title = ask(chat(tmp_path, db, side), f"Use {key} please")
    assert title and key not in title
    assert key not in side.requests[0].messages[0]["content"]


def test_it_can_be_off_and_sub_agents_are_not_named(tmp_path: Path, db: SessionDB) -> None:
    off = new_agent(tmp_path, db, settings=LearningSettings(titles=False, review_every=0))
    assert ask(off, "Hello") is None
    model = ScriptedModel([call("delegate_task", goal="Look it up"), say("found"), say("done")])
    agent = chat(tmp_path, db, side_model("Look-up"), model=model, tools=Registry([delegate_task]))
    assert ask(agent, "Hello") == "Look-up"
    children = db.list_sessions_rich(include_children=True)
    assert [one["title"] for one in children if one["source"] == "tool"] == [None]


def test_a_title_set_during_a_turn_keeps_the_prompt(tmp_path: Path, db: SessionDB) -> None:
    begun, named = threading.Event(), threading.Event()
    side = ScriptedModel([say(until(begun), "A title")])
    model = ScriptedModel([
        say("one"),
        call("memory", target="memory", action="add", content="A fact."),
        say(begun.set, until(named), "two"),
        say("three"),
    ])  # fmt: skip

    def on_event(event: Any) -> None:
        if isinstance(event, TitleSet):
            named.set()

    agent = chat(tmp_path, db, side, model=model, on_event=on_event)
    agent.run_conversation("first")
    agent.run_conversation("second")
    settled(agent)
    agent.run_conversation("third")
    assert db.get_session_title(agent.session_id) == "A title"
    requests = model.requests
    assert len(requests) == 4
    for earlier, later in itertools.pairwise(requests):
        assert (earlier.system, earlier.tools) == (later.system, later.tools)
        assert later.messages[: len(earlier.messages)] == earlier.messages


@pytest.mark.parametrize(
    ("said", "title"),
    [
        ("**Title: Garden plan.**", "Garden plan"),
        ("<think>hm\nhm</think>\n\n“Garden plan”\nThat is it.", "Garden plan"),
        ("Garden\u202e plan\u200b", "Garden plan"),
        ("Wie man …", "Wie man …"),
        ("庭園計画", "庭園計画"),
        ("A very long title that goes on and on, well beyond what anybody would read",
         "A very long title that goes on and on, well beyond what…"),
        ("…", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_models_say_is_made_a_title(said: str, title: str | None) -> None:
    assert clean_title(said) == title


@given(st.text())
def test_any_text_gives_a_valid_title_or_none(text: str) -> None:
    for title in (clean_title(text), first_words(text)):
        assert title is None or SessionDB.sanitize_title(title) == title
        assert title is None or len(title) <= 61
