"""What a person typed becomes a valid expression that says what was meant."""

import re
import sys

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_state.search.query import MAX_PHRASE, MAX_TERMS, Query, Term, build, parse

pytestmark = pytest.mark.sqlite


SYNTAX = ['"', "*", "(", ")", ":", "^", "-", "+", "NOT", "AND", "OR", "NEAR", "NEAR(a b, 2)", "{a}"]
typed_text = st.one_of(
    st.text(st.characters(exclude_categories=[]), max_size=60),
    st.lists(
        st.sampled_from([*SYNTAX, "a", "foo", "bar_baz", "漢字", "'", ";", "\x00"]), max_size=12
    ).map(" ".join),
    st.lists(st.sampled_from([*SYNTAX, "a", "foo", "漢"]), max_size=12).map("".join),
)


def one(*words: str, prefix: bool = False, quoted: bool = False) -> Term:
    return Term(words, prefix, quoted)


@pytest.mark.parametrize(
    ("typed", "groups", "excluded"),
    [
        ("foo bar", [[one("foo")], [one("bar")]], []),
        ('"foo bar" baz', [[one("foo", "bar", quoted=True)], [one("baz")]], []),
        ("“foo bar”", [[one("foo", "bar", quoted=True)]], []),
        ("deplo*", [[one("deplo", prefix=True)]], []),
        ('"to dep"*', [[one("to", "dep", prefix=True, quoted=True)]], []),
        ("a OR b c", [[one("a"), one("b")], [one("c")]], []),
        ('(a OR "b c") AND d', [[one("a"), one("b", "c", quoted=True)], [one("d")]], []),
        ("foo -bar", [[one("foo")]], [one("bar")]),
        ("foo NOT bar", [[one("foo")]], [one("bar")]),
        ('foo -"bar baz"', [[one("foo")]], [one("bar", "baz", quoted=True)]),
        ("foo NOT (a OR b)", [[one("foo")]], [one("a"), one("b")]),
        ("foo_bar.py", [[one("foo", "bar", "py")]], []),
        ("--force", [[one("force")]], []),
        ("Portland OR", [[one("portland")], [one("or")]], []),
        ("OR NOT AND", [[one("or")]], [one("and")]),
        ("foo foo", [[one("foo")]], []),
        ('say "hello', [[one("say")], [one("hello")]], []),
        ("foo.*", [[one("foo")]], []),
        ("", [], []),
        ('?!* - "" \'', [], []),
        ("-foo", [], [one("foo")]),
    ],
)
def test_meaning(typed: str, groups: list[list[Term]], excluded: list[Term]) -> None:
    query = parse(typed)
    assert [list(group) for group in query.groups] == groups
    assert list(query.excluded) == excluded


def test_a_very_long_query_is_cut() -> None:
    assert len(parse(" ".join(f"w{n}" for n in range(10_000))).groups) == MAX_TERMS
    assert parse(" " * 5000 + "foo") == Query()


def test_a_very_long_phrase_is_cut() -> None:
    for typed in ('"' + "a " * 900 + '"*', "字" * 900, "a." * 900 + "b*"):
        ((term,),) = parse(typed).groups
        assert len(term.words) == MAX_PHRASE
        assert not term.prefix


def test_a_query_is_gone_through_once() -> None:
    steps = 0

    def count(*_: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        query = parse("a " + ", " * 1000)
    finally:
        sys.setprofile(None)
    assert query.groups == ((Term(("a",)),),)
    assert steps < 50_000


@pytest.fixture(scope="module")
def table() -> apsw.Connection:
    conn = apsw.Connection(":memory:")
    conn.execute("CREATE VIRTUAL TABLE t USING fts5(body, tokenize='ascii')")
    conn.execute("INSERT INTO t (body) VALUES ('§o1 foo bar baz 漢 字')")
    return conn


@given(typed=typed_text)
def test_every_text_is_a_valid_query(table: apsw.Connection, typed: str) -> None:
    query = parse(typed)
    if not query.groups:
        return
    expression = build(query, lambda term: [term], required=[["§o1"]], forbidden=["§o2"])
    table.execute("SELECT rowid FROM t WHERE t MATCH ?", (expression.text,)).fetchall()
    # Outside the quotes there is nothing but our own operators.
    assert not re.sub(r'"[^"]*"\*?|[() ]|AND|OR|NOT', "", expression.text)
    for phrase in re.findall(r'"([^"]*)"', expression.text):
        assert phrase in ("§", "§o1", "§o2") or not re.search(
            r"[^\w ]", re.sub(r"[^\x00-\x7f]", "", phrase)
        )


@given(st.lists(st.sampled_from("abcde"), min_size=1, max_size=5, unique=True), st.data())
def test_phrases_are_numbered_as_sqlite_numbers_them(words: list[str], data: st.DataObject) -> None:
    frequencies = data.draw(st.lists(st.floats(0, 1), min_size=len(words), max_size=len(words)))
    query = parse(" ".join(words))
    expression = build(
        query, lambda term: [term], required=[["§o1"]], frequency=frequencies.__getitem__
    )
    phrases = re.findall(r'"([^"]*)"', expression.text)
    for (term,), (numbers,) in zip(query.groups, expression.phrases, strict=True):
        assert [phrases[number] for number in numbers] == list(term.words)
