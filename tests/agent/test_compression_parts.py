"""The parts of compression by themselves: shortening, reading replies, reading form, merging."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.compression.fallback import extract, sentences
from agent.compression.merge import apply_changes, fit_entries, fold_in, labelled
from agent.compression.plan import Measure, divide
from agent.compression.prompt import Change, Changes, UnusableReply, read_reply, stretches, tell_all
from agent.compression.shorten import cut, fit_group, lighten, with_arguments
from agent.compression.summary import Entry, Summary
from agent.compression.tokens import estimate_tokens, text_tokens
from hermes_state.turn_log import ROW_ID

Message = dict[str, Any]


def user(text: str, row: int) -> Message:
    return {"role": "user", "content": text, ROW_ID: row}


def texts(entries: list[Entry]) -> list[str]:
    return [entry.text for entry in entries]


# Shortening


def test_a_cut_is_visible_and_says_where_the_whole_is() -> None:
    text = "begin " + "middle words " * 500 + " end"
    short = cut(text, 60, row=123)
    assert short.startswith("begin")
    assert short.endswith("end")
    assert "characters left out; in full: message #123" in short
    assert text_tokens(short) <= 60
    assert cut("short", 60, 1) == "short"


def test_cutting_again_keeps_the_first_pointer() -> None:
    once = cut("words and words " * 900, 400, row=7)
    assert "message #7" in cut(once, 80, row=99)


def test_old_messages_lose_weight_but_not_their_calls() -> None:
    call = {
        "id": "c1",
        "type": "function",
        "function": {
            "name": "write_file",
            "arguments": json.dumps({"path": "notes.md", "content": "line\n" * 2000, "mode": 7}),
        },
    }
    said = {"role": "assistant", "content": "Writing.", "tool_calls": [call], "reasoning": "hm"}
    light = lighten(said)
    arguments = json.loads(light["tool_calls"][0]["function"]["arguments"])
    assert arguments["path"] == "notes.md"
    assert arguments["mode"] == 7
    assert len(arguments["content"]) < 300
    assert light["tool_calls"][0]["id"] == "c1"
    assert "reasoning" not in light
    assert "reasoning" in said
    picture = {"type": "image_url", "image_url": {"url": "data:,"}}
    seen = lighten({"role": "user", "content": [picture], ROW_ID: 5})
    assert seen["content"] == [{"type": "text", "text": "[image left out; see message #5]"}]


@pytest.mark.parametrize("arguments", ["{" * 5000, "null " * 3000, '["x", ' * 2000])
def test_arguments_that_are_no_object_become_one(arguments: str) -> None:
    call = {"id": "c", "function": {"name": "x", "arguments": arguments}}
    short = with_arguments({"role": "assistant", "tool_calls": [call]}, 50)
    assert isinstance(json.loads(short["tool_calls"][0]["function"]["arguments"]), dict)


def test_only_the_large_messages_of_a_group_are_cut() -> None:
    small = {"role": "tool", "content": "exit 0", "tool_call_id": "a"}
    large = {"role": "tool", "content": "log line\n" * 3000, "tool_call_id": "b"}
    group = fit_group([small, large], 200)
    assert group[0] is small
    assert estimate_tokens(group) <= 200


# Reading a model's reply

ADDED = [Change("decision", "Use 9090.", (14,))]


@pytest.mark.parametrize(
    "reply",
    [
        '{"add": [{"kind": "decision", "text": "Use 9090.", "messages": [14]}]}',
        'Sure!\n```json\n{"add":[{"kind":"Decisions","text":"Use 9090.","rows":"#14"}]}\n```\nBye',
        '{"add": [{"kind": "decision", "text": "Use 9090.", "messages": [14]}, {"kind": "fa',
        '{"decisions": [{"text": "Use 9090.", "message": 14}]}',
        '[{"kind": "decision", "text": "Use 9090.", "messages": ["#14"]}]',
    ],
)
def test_replies_are_read_whatever_their_dress(reply: str) -> None:
    assert read_reply(reply).add == ADDED


def test_a_reply_in_words_is_read_too() -> None:
    changes = read_reply("Here you go\n- Decision: Use 9090. #14\n* open: tell Ada\nnothing: else")
    assert [(c.kind, c.rows) for c in changes.add] == [("decision", (14,)), ("open", ())]


def test_changes_of_entries_are_read() -> None:
    changes = read_reply(
        '{"replace": [{"id": "d1", "text": "Use 9090."}, {"id": 3}, "x"], "remove": ["o2", null]}'
    )
    assert changes.replace == {"D1": Change("", "Use 9090.")}
    assert changes.remove == ["O2", ""]


def test_no_changes_is_an_answer() -> None:
    assert read_reply('{"add": [], "remove": []}') == Changes()


@pytest.mark.parametrize("reply", ["", "  ", "I cannot do that.", "{" * 10_000, None, '{"a": 1}'])
def test_nonsense_is_not(reply: Any) -> None:
    with pytest.raises(UnusableReply):
        read_reply(reply)


# The prompt


def test_a_prompt_is_bounded_and_shows_the_newest_when_all_is_too_much() -> None:
    messages = [user(f"message {n} " + "and more " * 50, n) for n in range(1, 400)]
    told = tell_all(messages, 1000)
    assert sum(text_tokens(one) + 1 for one in told) <= 1000
    assert "message 399" in told[-1]


def test_stretches_keep_the_order_and_lose_nothing() -> None:
    messages = [user("word " * 40, n) for n in range(1, 100)]
    parts = stretches(messages, 1500, 4)
    assert 1 < len(parts) <= 4
    assert [m for part in parts for m in part] == messages
    assert stretches(messages[:3], 1500, 4) == [messages[:3]]


# Reading the form


def test_wishes_open_points_and_files_are_found() -> None:
    messages = [
        user("Nice weather today. Please always use tabs in Makefile.am, never spaces.", 1),
        user("TODO: renew the certificate of api.example.org.", 2),
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {"id": "c", "function": {"name": "read_file", "arguments": '{"path": "src/a.py"}'}}
            ],
            ROW_ID: 3,
        },
        user("What do you think of port 8080?", 4),
    ]
    found = {(c.entry.kind, c.entry.text): c.entry.rows for c in extract(messages)}
    assert found == {
        ("decision", "always use tabs in Makefile.am, never spaces."): (1,),
        ("open", "TODO: renew the certificate of api.example.org."): (2,),
        ("file", "src/a.py (read_file)"): (3,),
    }


def test_sentences_that_point_back_stay_with_what_they_point_at() -> None:
    said = sentences("The gate code? That would be 4711. ```\ncode = 1\n``` Fine.")
    assert said == ["The gate code? That would be 4711."]


def test_a_topic_in_focus_is_found_without_other_signs() -> None:
    messages = [user("The boiler makes a strange noise these days.", 1)]
    assert extract(messages) == []
    assert [c.entry.rows for c in extract(messages, "boiler")] == [(1,)]


# Merging


def fold(*said: str) -> list[Entry]:
    return fold_in([], extract([user(text, row) for row, text in enumerate(said, start=1)]))


@pytest.mark.parametrize(
    ("first", "later"),
    [
        ("Use port 8080 for the staging proxy.", "Change the port of the staging proxy to 9090."),
        ("We go with PostgreSQL 16 as the database.", "Use SQLite 3 instead of PostgreSQL 16."),
        ("The review meeting is at 10:30.", "Correction, the review meeting is at 11:45."),
        ("Name the branch release-2.4.", "I was wrong about the branch, name it release-2.5."),
    ],
)
def test_what_is_changed_replaces_what_was_said(first: str, later: str) -> None:
    (entry,) = fold(first, later)
    assert entry.text == later
    assert entry.rows == (1, 2)


def test_different_matters_stay_side_by_side() -> None:
    said = [
        "Use port 8080 for the staging proxy.",
        "Use port 9090 for the metrics exporter.",
        "Never push to the branch main-2 directly.",
        "The backup of state.db runs at 03:15.",
    ]
    assert texts(fold(*said)) == said


def test_an_older_statement_replaces_nothing() -> None:
    known = [Entry("decision", "The port of the staging proxy is 9090.", (40,))]
    old = extract([user("Change the port of the staging proxy to 8080.", 7)])
    assert fold_in(known, old) == known


def test_what_is_settled_is_open_no_more() -> None:
    assert (
        fold("TODO: renew the Rosnov certificate.", "The Rosnov certificate is renewed, done.")
        == []
    )
    assert texts(fold("TODO: renew the Rosnov certificate.", "The Kelvex report is done.")) != []


def test_a_model_can_point_only_at_what_it_was_shown() -> None:
    entries = [Entry("decision", "Use 8080.", (3,)), Entry("open", "Tell Ada.", (4,))]
    assert list(labelled(entries)) == ["D1", "O1"]
    changes = Changes(
        add=[Change("fact", "The token is in .env", (12, 999)), Change("nonsense", "x")],
        replace={"D1": Change("", "Use 9090.", (13, 998)), "D7": Change("fact", "lost")},
        remove=["O1", "O9"],
    )
    assert apply_changes(entries, changes, frozenset({12, 13})) == [
        Entry("decision", "Use 9090.", (3, 13)),
        Entry("fact", "The token is in .env", (12,)),
    ]


def test_a_model_cannot_wipe_the_record() -> None:
    entries = [Entry("fact", f"fact {n}", (n,)) for n in range(1, 30)]
    changes = Changes(remove=[f"F{n}" for n in range(1, 30)])
    assert apply_changes(entries, changes, frozenset()) == entries


def test_room_goes_to_what_is_worth_most_and_to_the_focus() -> None:
    entries = [
        *(Entry("note", f"Somebody said something about item {n}", (n,)) for n in range(1, 40)),
        Entry("goal", "Move the shop to the new server.", (1,)),
        Entry("decision", "Use nginx 1.27.", (2,)),
        Entry("note", "The boiler is noisy.", (3,)),
    ]
    kept = fit_entries(entries, 120, focus="boiler")
    assert {"Move the shop to the new server.", "The boiler is noisy."} <= set(texts(kept))
    assert sum(text_tokens(entry.line()) for entry in kept) <= 120
    assert "The boiler is noisy." not in texts(fit_entries(entries, 90))
    assert fit_entries(entries, 0) == []


# Dividing


def conversation(turns: int) -> list[Message]:
    messages: list[Message] = []
    for n in range(turns):
        call = {"id": f"c{n}", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}
        messages += [
            {"role": "user", "content": f"Question {n}? " + "words " * 30},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"out {n} " + "file " * 60},
            {"role": "assistant", "content": f"Answer {n}. " + "words " * 30},
        ]
    return [{**message, ROW_ID: row} for row, message in enumerate(messages, start=1)]


def test_first_and_last_messages_stay_as_they_are() -> None:
    messages = conversation(40)
    plan = divide(messages, target_tokens=3000, measure=Measure(estimate_tokens), keep_first=2)
    assert plan.head == messages[:3]
    assert plan.tail == messages[-len(plan.tail) :]
    assert len(plan.tail) >= 4
    assert plan.tail[0]["role"] == "user"
    assert plan.middle == messages[3 : -len(plan.tail)]
    assert plan.previous is None


def test_in_a_long_turn_the_request_stays_before_the_newest_steps() -> None:
    messages = conversation(3)
    request = {"role": "user", "content": "Now do the whole migration.", ROW_ID: 50}
    steps: list[Message] = []
    for n in range(60):
        call = {"id": f"s{n}", "function": {"name": "terminal", "arguments": "{}"}}
        steps.append({"role": "assistant", "content": f"step {n}", "tool_calls": [call]})
        steps.append({"role": "tool", "tool_call_id": f"s{n}", "content": "done " * 30})
    plan = divide(
        [*messages, request, *steps],
        target_tokens=2000,
        measure=Measure(estimate_tokens),
        keep_first=2,
    )
    assert plan.request == [request]
    assert request not in plan.middle
    assert plan.tail[-1] == steps[-1]
    assert plan.tail[0]["role"] == "assistant"
    shown = plan.assemble(Summary((), 10))
    roles = [message["role"] for message in shown]
    assert roles[len(plan.head) :][:4] == ["user", "assistant", "user", "assistant"]
