"""The .env format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.env import load_dotenv, parse_dotenv
from agent.home import ConfigError


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("A=1\nB=2", {"A": "1", "B": "2"}),
        ("# note\n\n  export A = x  # trailing\n", {"A": "x"}),
        ("A=abc#def\nB=#nothing\n", {"A": "abc#def", "B": ""}),
        ("A='a $B # c \\n'\n", {"A": "a $B # c \\n"}),
        ('A="x \\"y\\" \\n\\t\\\\ # z" # note\n', {"A": 'x "y" \n\t\\ # z'}),
        ('A="line 1\nline 2"\nB=2\n', {"A": "line 1\nline 2", "B": "2"}),
        ("A=\r\nB=x y z\r\n", {"A": "", "B": "x y z"}),
        ("\ufeffA=1\n", {"A": "1"}),
        ("A=1\nA=2\n", {"A": "2"}),
        ("A=it's\n", {"A": "it's"}),
        ("A=k=v==\n", {"A": "k=v=="}),
    ],
)
def test_values(text, values):
    assert parse_dotenv(text) == (values, [])


@pytest.mark.parametrize(
    ("text", "values", "bad"),
    [
        ("A=1\nnot a value\nB=2\n", {"A": "1", "B": "2"}, [2]),
        ('A="never closed\nB=2\n', {"B": "2"}, [1]),
        ("A='one' two\nB=2\n", {"B": "2"}, [1]),
        ("1A=x\n=y\n", {}, [1, 2]),
    ],
)
def test_bad_lines_are_numbered_and_the_others_read(text, values, bad):
    assert parse_dotenv(text) == (values, bad)


def test_a_bad_line_is_reported_without_its_content(tmp_path):
    path = tmp_path / ".env"
    path.write_text("A=1\nsk-this-is-a-secret\n")
    path.chmod(0o600)
    values, warnings = load_dotenv(path)
    assert values == {"A": "1"}
    assert len(warnings) == 1
    assert "line 2" in warnings[0]
    assert "secret" not in warnings[0]


def test_no_file_is_no_values_and_a_folder_is_an_error(tmp_path):
    assert load_dotenv(tmp_path / ".env") == ({}, [])
    with pytest.raises(ConfigError, match="cannot be read"):
        load_dotenv(tmp_path)


names = st.from_regex(r"[A-Z_][A-Z0-9_]{0,8}", fullmatch=True)


@given(st.dictionaries(names, st.text(max_size=20).filter(lambda v: "\r" not in v), max_size=5))
def test_double_quoted_values_come_back_as_they_were(values):
    def quoted(value: str) -> str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    text = "".join(f"export {name}={quoted(value)}\n" for name, value in values.items())
    assert parse_dotenv(text) == (values, [])


@given(st.text(alphabet="A='\"\\# \n\r\texport", max_size=60))
def test_any_text_is_read_without_failing(text):
    values, bad = parse_dotenv(text)
    assert all(1 <= number <= text.count("\n") + 1 for number in bad)
    assert all(isinstance(value, str) for value in values.values())
