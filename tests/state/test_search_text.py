"""How text becomes words."""

import json
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_state.search.document import calls_text, content_text, cut_content_text
from hermes_state.search.folding import MAX_WORD, fold, is_unspaced, located_words, words

pytestmark = pytest.mark.sqlite


any_text = st.text(st.characters(exclude_categories=[]), max_size=80)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, World!", ["hello", "world"]),
        ("foo_bar.py a@b.c", ["foo", "bar", "py", "a", "b", "c"]),
        ("naïve Straße İstanbul", ["naive", "strasse", "istanbul"]),
        ("e\u0301te\u0301 été", ["ete", "ete"]),
        ("Ｆｕｌｌ ﬁne Ⅷ", ["full", "fine", "viii"]),
        ("数据库ok", ["数", "据", "库", "ok"]),
        ("がｶﾞ", ["が", "ガ"]),
        ("한국어", ["한", "국", "어"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("ไทย", ["ไ", "ท", "ย"]),
        ("مُحَمَّد", ["محمد"]),
        ("ship it 🚀", ["ship", "it", "🚀"]),
        ("soft\u00adhyphen zero\u200bwidth", ["softhyphen", "zero", "width"]),
        ("\x00\ud800!?§¶ ", []),
        ("x" * 100, ["x" * MAX_WORD]),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    assert words(text) == expected


@given(any_text)
def test_words_are_safe_to_quote_and_stable(text: str) -> None:
    for word in words(text):
        word.encode()
        assert not re.search(r"[\s\"'§¶*()\x00-\x1f]", word)
        assert word.isascii() == bool(re.fullmatch("[a-z0-9]+", word))
        assert words(word) == [word] or len(word) == MAX_WORD


@given(any_text)
def test_folding_twice_is_folding_once(text: str) -> None:
    assert fold(fold(text)).split() == fold(text).split()


@given(st.text(st.sampled_from("aZ9 -_é漢かｶ한\u0301ไṩß\n🚀"), max_size=60))
def test_located_words_are_the_words_and_stand_where_they_say(text: str) -> None:
    text = unicodedata.normalize("NFC", text)
    located = list(located_words(text))
    assert [word for word, _, _ in located] == words(text)
    for word, start, end in located:
        assert words(text[start:end]) == [word]


def test_unspaced_characters() -> None:
    assert is_unspaced("漢")
    assert not is_unspaced("a")
    assert not is_unspaced("漢漢")


def test_text_of_parts_without_embedded_data() -> None:
    parts = [
        {"type": "text", "text": "look at this"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "tool_result", "content": [{"type": "text", "text": "nested"}]},
        "loose",
    ]
    raw = "\x00json:" + json.dumps(parts)
    assert content_text(raw) == "look at this\nnested\nloose"
    assert content_text("see data:image/png;base64,QUJD+/= end").split() == ["see", "end"]
    assert cut_content_text(raw[:60]).startswith("look at")


def test_names_and_arguments_of_calls() -> None:
    calls = (
        '[{"id": "c1", "function": {"name": "write_file",'
        ' "arguments": "{\\"path\\": \\"a.txt\\", \\"n\\": 3, \\"x\\": [true, null]}"}}]'
    )
    assert words(calls_text(None, calls)) == ["write", "file", "path", "a", "txt", "n", "3", "x"]
    assert calls_text("terminal", None) == "terminal"
    assert "not json" in calls_text(None, "not json")


def test_deep_nesting_is_indexed_as_text() -> None:
    deep = "[" * 100_000 + '"pearl"' + "]" * 100_000
    assert "pearl" in words(calls_text(None, deep))
    assert "pearl" in words(content_text("\x00json:" + deep))
