"""What is stored is what is loaded, whatever it is made of."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import InvalidMessageError, SessionDB
from hermes_state.codec import JSON_MARK, decode_content, encode_content, encode_text, plain_text

from .. import seeds
from .raw import query

any_text = st.text(st.characters(exclude_categories=()))
awkward_text = any_text | st.sampled_from(
    ["", "\x00", "a\x00b", JSON_MARK, JSON_MARK + "[1]", JSON_MARK + "{", "\ud800", "x\udfff"]
)
any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | awkward_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(awkward_text, inner, max_size=4),
    max_leaves=12,
)
with_the_store = settings(
    deadline=None,
    max_examples=seeds.examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def joined(value: Any) -> Any:
    """The value with surrogate pairs joined into the character they stand for, as JSON reads them.

    Half of a pair on its own stays what it is.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    if isinstance(value, list):
        return [joined(part) for part in value]
    if isinstance(value, dict):
        return {joined(name): joined(part) for name, part in value.items()}
    return value


def is_whole(value: Any) -> bool:
    return joined(value) == value


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionDB]:
    with SessionDB(tmp_path_factory.mktemp("codec") / "state.db") as db:
        db.create_session("s", "cli")
        yield db


def stored_and_loaded(store: SessionDB, **fields: Any) -> dict[str, Any]:
    message_id = store.append_message("s", "user", **fields)
    newest = store.get_messages("s")[-1]
    assert newest["id"] == message_id
    conversation = store.get_messages_as_conversation("s")[-1]
    for name in fields:
        absent = "" if newest[name] == "" else None  # an empty one may be left out
        assert conversation.get(name, absent) == newest[name]
    store.clear_messages("s")
    return newest


@with_the_store
@given(any_json)
def test_any_content_comes_back_as_it_was(store: SessionDB, content: Any) -> None:
    assert stored_and_loaded(store, content=content)["content"] == joined(content)


@with_the_store
@given(awkward_text, awkward_text, awkward_text)
def test_any_text_comes_back_as_it_was(
    store: SessionDB, reasoning: str, reasoning_content: str, api_content: str
) -> None:
    given_texts = {
        "reasoning": reasoning,
        "reasoning_content": reasoning_content,
        "api_content": api_content,
    }
    loaded = stored_and_loaded(store, **given_texts)
    assert {name: loaded[name] for name in given_texts} == joined(given_texts)


@with_the_store
@given(st.lists(any_json, min_size=1) | st.dictionaries(awkward_text, any_json, min_size=1))
def test_any_json_column_comes_back_as_it_was(store: SessionDB, value: Any) -> None:
    names = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")
    loaded = stored_and_loaded(store, **dict.fromkeys(names, value))
    for name in names:
        assert loaded[name] == joined(value)


@given(any_json.filter(is_whole))
def test_encoding_is_undone_by_decoding(value: Any) -> None:
    assert decode_content(encode_content(value)) == value


@given(st.text().filter(lambda text: not text.startswith(JSON_MARK)))
def test_plain_text_is_stored_as_it_is(text: str) -> None:
    assert encode_content(text) == text


def test_scripts_read_ordinary_text_in_the_table(db: SessionDB) -> None:
    db.create_session("s", "cli")
    db.append_message("s", "user", "Grüße, 世界 🌍")
    db.append_message("s", "user", [{"type": "text", "text": "Grüße"}])
    raw = [text for (text,) in query(db, "SELECT content FROM messages ORDER BY id")]
    assert raw[0] == "Grüße, 世界 🌍"
    assert json.loads(raw[1].removeprefix("\x00json:")) == [{"type": "text", "text": "Grüße"}]


@pytest.mark.parametrize(
    "content",
    [b"bytes", bytearray(b"x"), {1, 2}, object(), [object()], {"a": b"x"}, [math.inf, {3j}]],
    ids=lambda value: type(value).__name__,
)
def test_what_json_cannot_hold_is_refused_by_name(db: SessionDB, content: Any) -> None:
    db.create_session("s", "cli")
    with pytest.raises(InvalidMessageError, match="content"):
        db.append_message("s", "user", content)
    with pytest.raises(InvalidMessageError, match="tool_calls"):
        db.append_message("s", "assistant", tool_calls=[content])
    assert db.message_count() == 0


def test_content_that_contains_itself_is_refused(db: SessionDB) -> None:
    db.create_session("s", "cli")
    loop: list[Any] = []
    loop.append(loop)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for content in (loop, deep):
        with pytest.raises(InvalidMessageError):
            db.append_message("s", "user", content)
    session = db.get_session("s")
    assert session and session["message_count"] == 0


def test_damaged_json_comes_back_as_the_text_it_is() -> None:
    assert decode_content(JSON_MARK + "[1, ") == JSON_MARK + "[1, "


@pytest.mark.parametrize(
    ("given_value", "stored"),
    [("a", "a"), (5, "5"), (1.5, "1.5"), (None, None), ("a\ud800", "a\ufffd")],
)
def test_short_texts_may_be_numbers(given_value: Any, stored: str | None) -> None:
    assert encode_text(given_value, "model") == stored


@pytest.mark.parametrize("given_value", [True, b"x", ["x"], {}])
def test_short_texts_are_nothing_else(given_value: Any) -> None:
    with pytest.raises(InvalidMessageError, match="model must be text"):
        encode_text(given_value, "model")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("hello", "hello"),
        (["a", "b"], "a b"),
        ([{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {}}], "see [image]"),
        ([{"type": "input_image"}, {"type": "audio"}, 5], "[image]"),
        ({"a": 1}, '{"a":1}'),
    ],
)
def test_plain_text_is_what_a_person_reads(content: Any, text: str) -> None:
    assert plain_text(content) == text


def test_a_message_of_fifty_megabytes_is_kept(tmp_path: Path) -> None:
    text = "0123456789" * 5_000_000
    with SessionDB(tmp_path / "state.db") as db:
        db.create_session("s", "cli")
        db.append_message("s", "tool", text)
        assert db.get_messages("s")[0]["content"] == text
