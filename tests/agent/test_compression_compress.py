"""Compressing conversations: what is kept, how records build on each other, what failure does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.compression.compress import compress, preview, shorten_to_fit
from agent.compression.summary import is_bridge, is_record, parse
from agent.compression.tokens import estimate_tokens
from hermes_state import SessionDB
from hermes_state.turn_log import ROW_ID

from .histories import problems

Message = dict[str, Any]


class Reader:
    """A summarising model that answers from a list, and keeps what it was asked."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.prompts: list[str] = []

    async def __call__(self, system: str, prompt: str) -> str:
        self.prompts.append(prompt)
        reply = self.replies.pop(0) if self.replies else {}
        if isinstance(reply, BaseException):
            raise reply
        return reply if isinstance(reply, str) else json.dumps({"add": [], **reply})


def talk(turns: int, first_row: int = 1, filler: str = "and so on ") -> list[Message]:
    messages: list[Message] = []
    for n in range(turns):
        messages.append({"role": "user", "content": f"Question number {n}: " + filler * 20})
        messages.append({"role": "assistant", "content": f"Answer number {n}: " + filler * 20})
    return [{**message, ROW_ID: first_row + n} for n, message in enumerate(messages)]


def record_of(messages: list[Message]) -> Message:
    (record,) = filter(is_record, messages)
    return record


async def test_the_middle_becomes_one_record() -> None:
    messages = talk(40)
    reader = Reader({"add": [{"kind": "decision", "text": "Ship on Friday.", "messages": [21]}]})
    made = await compress(messages, target_tokens=1500, ask=reader)
    assert made is not None
    assert (made.method, made.error) == ("summary", None)
    assert made.after_tokens == estimate_tokens(made.messages) <= 1500 < made.before_tokens
    assert made.covers_until == 80
    assert made.messages[:2] == messages[:2]
    assert made.messages[-3:] == messages[-3:]
    assert problems(made.messages) == []
    record = record_of(made.messages)
    assert "- Ship on Friday. [#21]" in record["content"]
    kept = [message for message in made.messages if ROW_ID in message]
    assert made.summary is not None
    assert made.summary.covered == len(messages) - len(kept)
    # What stays in sight is not told to the model.
    assert "#3 user" in reader.prompts[0]
    assert "#1 user" not in "".join(reader.prompts)
    assert "#80 " not in "".join(reader.prompts)


async def test_the_next_record_is_an_update_not_a_summary_of_a_summary() -> None:
    first = await compress(
        talk(40),
        target_tokens=1500,
        ask=Reader(
            {
                "add": [
                    {"kind": "decision", "text": "Ship on Friday.", "messages": [21]},
                    {"kind": "open", "text": "Tell Ada.", "messages": [22]},
                    {"kind": "fact", "text": "The build needs node 22.", "messages": [23]},
                ]
            }
        ),
    )
    assert first is not None
    stored = [{**m, ROW_ID: n} for n, m in enumerate(first.messages, start=101)]
    later = [*stored, *talk(40, first_row=201)]
    reader = Reader(
        {
            "replace": [{"id": "D1", "text": "Ship on Monday.", "messages": [203]}],
            "remove": ["O1"],
        }
    )
    second = await compress(later, target_tokens=1500, ask=reader)
    assert second is not None
    assert second.summary is not None
    told = "".join(reader.prompts)
    assert "D1 Ship on Friday. [#21]" in told
    assert "Record of earlier messages" not in told
    assert "[Read.]" not in told
    lines = record_of(second.messages)["content"].splitlines()
    assert "- Ship on Monday. [#21 #203]" in lines
    assert "- The build needs node 22. [#23]" in lines
    assert not any("Tell Ada" in line for line in lines)
    said = [one for one in later if not is_record(one) and not is_bridge(one)]
    shown = [one for one in second.messages if not is_record(one) and not is_bridge(one)]
    assert first.summary is not None
    assert second.summary.covered == first.summary.covered + len(said) - len(shown)
    assert second.messages[:2] == stored[:2]
    assert problems(second.messages) == []


async def test_old_tool_outputs_go_first_and_may_be_enough() -> None:
    messages: list[Message] = []
    for n in range(12):
        call = {"id": f"c{n}", "function": {"name": "terminal", "arguments": "{}"}}
        messages += [
            {"role": "user", "content": f"Run it, take {n}."},
            {"role": "assistant", "content": "", "tool_calls": [call], "reasoning": "hm " * 40},
            {"role": "tool", "tool_call_id": f"c{n}", "content": f"line {n}\n" * 300},
            {"role": "assistant", "content": f"It says {n}."},
        ]
    messages = [{**message, ROW_ID: n} for n, message in enumerate(messages, start=1)]
    reader = Reader(AssertionError("no model is needed"))
    made = await compress(messages, target_tokens=6000, ask=reader)
    assert made is not None
    assert reader.prompts == []
    assert made.summary is None
    assert [m["role"] for m in made.messages] == [m["role"] for m in messages]
    assert made.messages[-4:] == messages[-4:]
    assert "in full: message #3" in made.messages[2]["content"]
    assert "reasoning" not in made.messages[1]


async def test_what_fits_is_left_alone() -> None:
    assert await compress(talk(3), target_tokens=5000, ask=None) is None
    assert await compress([], target_tokens=10, ask=None) is None


@pytest.mark.parametrize(
    "reply", [TimeoutError("no answer"), RuntimeError("broken"), "", "I'd rather not."]
)
async def test_a_model_that_fails_is_done_without(reply: Any) -> None:
    messages = talk(40)
    messages[20]["content"] += " From now on use PostgreSQL 17 for the archive."
    made = await compress(messages, target_tokens=1500, ask=Reader(reply, reply, reply, reply))
    assert made is not None
    assert made.method == "fallback"
    assert made.error
    assert made.after_tokens <= 1500
    entries = parse(record_of(made.messages)).entries
    assert [e.rows for e in entries if "PostgreSQL 17" in e.text] == [(21,)]


async def test_a_failing_model_is_not_asked_again_and_again() -> None:
    reader = Reader(*[RuntimeError("down")] * 9)
    await compress(talk(400), target_tokens=3000, ask=reader)
    assert len(reader.prompts) == 1


async def test_prompts_are_few_and_bounded() -> None:
    reader = Reader()
    await compress(talk(800), target_tokens=3000, ask=reader, prompt_tokens=2500)
    assert 1 < len(reader.prompts) <= 4
    assert all(estimate_tokens([{"content": p}]) <= 2500 for p in reader.prompts)


async def test_the_model_forgets_and_the_form_remembers() -> None:
    messages = talk(40)
    messages[20]["content"] = "Never restart the host db-primary-7 before 18:30, use db-standby-2."
    call = {"id": "c", "function": {"name": "patch", "arguments": '{"path": "src/boot.py"}'}}
    messages[31]["tool_calls"] = [call]
    messages.insert(32, {"role": "tool", "tool_call_id": "c", "content": "ok"})
    made = await compress(messages, target_tokens=2000, ask=Reader())
    assert made is not None
    assert made.method == "summary"
    text = record_of(made.messages)["content"]
    assert "db-primary-7" in text
    assert "src/boot.py (patch)" in text


async def test_the_focus_is_kept_in_preference() -> None:
    messages = talk(60)
    for n in range(4, 100, 4):
        messages[n]["content"] = f"Always use the setting option-{n} = value-{n} for service-{n}."
    messages[10]["content"] = "The greenhouse gets a new roof some day, with glass."
    plain = await compress(messages, target_tokens=900, ask=None)
    focused = await compress(messages, target_tokens=900, ask=None, focus="the greenhouse")
    assert plain is not None
    assert focused is not None
    assert "greenhouse" not in record_of(plain.messages)["content"]
    assert "greenhouse" in record_of(focused.messages)["content"]


async def test_pictures_of_the_middle_are_counted() -> None:
    messages = talk(40)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    for n in (10, 20, 30):
        messages[n]["content"] = [{"type": "text", "text": "Look: " + "more " * 40}, picture]
    made = await compress(messages, target_tokens=1500, ask=Reader())
    assert made is not None
    assert made.summary is not None
    assert made.summary.images == 3
    assert preview(messages, 1500).images == 3


async def test_a_message_larger_than_the_target_is_cut_not_lost() -> None:
    huge = {"role": "user", "content": "Read this: " + "data " * 20_000, ROW_ID: 9}
    made = await compress([*talk(4), huge], target_tokens=1000, ask=None)
    assert made is not None
    assert made.after_tokens <= 1000
    last = made.messages[-1]["content"]
    assert last.startswith("Read this: data")
    assert "in full: message #9" in last


def test_at_the_floor_the_request_is_left_with_a_pointer() -> None:
    messages = [*talk(50), {"role": "user", "content": "Fix the login. " * 500, ROW_ID: 777}]
    made = shorten_to_fit(messages, target_tokens=90)
    assert made.after_tokens <= 90
    (only,) = made.messages
    assert "Fix the login." in only["content"]
    assert "message #777" in only["content"]
    assert made.method == "fallback"


def test_the_last_resort_keeps_an_earlier_record_where_there_is_room() -> None:
    first = shorten_to_fit(
        [
            *talk(20),
            {"role": "user", "content": "Use key-4711 for the vault.", ROW_ID: 99},
            *talk(9),
        ],
        target_tokens=1200,
    )
    again = shorten_to_fit([*first.messages, *talk(40, 200)], target_tokens=1200)
    assert "key-4711" in record_of(again.messages)["content"]


def test_a_preview_says_what_would_happen() -> None:
    messages = talk(40)
    seen = preview(messages, 1500, focus="number 7")
    assert seen.worthwhile
    assert seen.kept_first == 2
    assert seen.kept_last > 2
    assert seen.summarised == 80 - seen.kept_first - seen.kept_last
    assert seen.in_focus
    assert seen.after_tokens <= 1500 < seen.before_tokens
    assert not preview(talk(2), 1500).worthwhile


async def test_the_record_survives_the_store_and_every_original_is_found(tmp_path: Path) -> None:
    db = SessionDB(tmp_path / "state.db")
    try:
        session = "s0"
        db.create_session(session, "cli")
        for stage in range(3):
            said = [{k: v for k, v in m.items() if k != ROW_ID} for m in talk(30)]
            said[15]["content"] += f" Use token-{stage}{stage} for stage {stage}."
            db.append_messages(session, said)
            view = db.load_live(session)
            assert view is not None
            made = await compress(view.messages, target_tokens=1500, ask=Reader())
            assert made is not None
            assert made.covers_until == view.messages[-1][ROW_ID]
            rotation = db.rotate_session(
                session, f"s{stage + 1}", made.messages, covers_until=made.covers_until
            )
            session = rotation.session_id
        view = db.load_live(session)
        assert view is not None
        assert problems(view.messages) == []
        entries = parse(record_of(view.messages)).entries
        for stage in range(3):
            (entry,) = [e for e in entries if f"token-{stage}{stage}" in e.text]
            (row,) = entry.rows
            (original,) = db.get_messages_around(f"s{stage}", row, 0)["window"]
            assert f"token-{stage}{stage}" in original["content"]
            assert db.search_messages(f"token-{stage}{stage}", conversation_id="s0")
    finally:
        db.close()


def test_results_stay_with_their_calls_when_the_user_has_said_nothing() -> None:
    call = {"id": "a", "function": {"name": "terminal", "arguments": "{}"}}
    lost = {"role": "tool", "tool_call_id": "gone", "content": "nobody asked"}
    record = shorten_to_fit(talk(40), target_tokens=900).messages[2:3]
    assert is_record(record[0])
    steps = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "line " * 400},
    ]
    for messages in ([*record, *steps], [lost, *record, lost, *steps], steps):
        for target in (100, 200, 400, 800):
            made = shorten_to_fit(messages, target_tokens=target)
            assert problems(made.messages) == []
            assert made.after_tokens <= target
