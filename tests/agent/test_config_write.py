"""config.yaml and .env are changed one value at a time; everything else stays as it is."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from agent.config.env import parse_dotenv
from agent.config.write import edited, set_config_value, set_config_values, set_dotenv_value
from agent.home import ConfigError

FILE = """\
# My configuration.
model:
  default: gpt-5   # the good one
  provider: openai

display:
  show_reasoning: false
# About tools:
tools:
  disabled:
    - web
    # not that one
unknown: {a: 1, b: [2, 3]}
"""


def change(text: str, key: str, value: Any) -> str:
    path_parts = key.split(".")
    changed = edited(text, path_parts, value)
    assert changed is not None
    return changed


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("model.default", "gpt-6", "  default: gpt-6   # the good one"),
        ("model.max_tokens", 500, "  max_tokens: 500"),
        ("display.show_reasoning", True, "  show_reasoning: true"),
        ("display.busy_input_mode", "queue", "  busy_input_mode: queue"),
        ("approvals.mode", "off", "  mode: 'off'"),
        ("tools.disabled", ["web", "memory"], "  disabled: [web, memory]"),
        ("tools.disabled", [], "  disabled: []"),
        ("unknown.c", "x", "unknown: {a: 1, b: [2, 3], c: x}"),
        ("max_live_sessions", 3, "max_live_sessions: 3"),
    ],
)
def test_one_line_changes(key: str, value: Any, line: str) -> None:
    changed = change(FILE, key, value)
    assert line in changed.splitlines()
    gone = [one for one in FILE.splitlines() if one.strip() and one not in changed.splitlines()]
    assert len(gone) <= (3 if key == "tools.disabled" else 1), gone
    assert "# About tools:" in changed and "# My configuration." in changed


@pytest.mark.parametrize(
    ("text", "key", "value", "expected"),
    [
        ("", "a.b", 1, {"a": {"b": 1}}),
        ("# nothing yet", "a", 1, {"a": 1}),
        ("model: gpt-5\n", "model.provider", "openai",
         {"model": {"default": "gpt-5", "provider": "openai"}}),
        ("model: gpt-5", "model.default", "gpt-6", {"model": {"default": "gpt-6"}}),
        ("model:\n", "model.default", "gpt-6", {"model": {"default": "gpt-6"}}),
        ("model: {}\n", "model.default", "gpt-6", {"model": {"default": "gpt-6"}}),
        ("a:\n  b: |\n    long\n    text\nc: 1\n", "a.b", "short", {"a": {"b": "short"}, "c": 1}),
        ("a:\n    b: 1", "a.c", "2", {"a": {"b": 1, "c": "2"}}),
    ],
)  # fmt: skip
def test_odd_files(tmp_path: Path, text: str, key: str, value: Any, expected: Any) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert set_config_value(path, key, value) is True
    assert yaml.safe_load(path.read_text()) == expected
    assert set_config_value(path, key, value) is False
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_written_too_cleverly_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    text = "base: &base {mode: manual}\napprovals: *base\n"
    path.write_text(text)
    with pytest.raises(ConfigError, match="by hand"):
        set_config_value(path, "approvals.mode", "smart")
    assert path.read_text() == text
    path.write_text("a: [1")
    with pytest.raises(ConfigError, match="not valid YAML"):
        set_config_value(path, "b", 1)
    path.write_text("a: 1\n")
    with pytest.raises(ConfigError, match="no section"):
        set_config_value(path, "a.b", 1)


@pytest.mark.parametrize(
    ("key", "value"), [("approvals.mode", "perhaps"), ("model.provider", "nobody"), ("model", [])]
)
def test_a_value_that_could_not_be_used_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    with pytest.raises(ConfigError, match=key.split(".", maxsplit=1)[0]):
        set_config_value(path, key, value)
    assert path.read_text() == FILE


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.yaml"
    real.write_text("a: 1\n")
    link = tmp_path / "config.yaml"
    link.symlink_to(real)
    set_config_value(link, "a", 2)
    assert link.is_symlink() and real.read_text() == "a: 2\n"


NAMES = st.sampled_from(["tools", "web", "security", "x"])
SCALARS = st.one_of(
    st.text(max_size=20), st.integers(), st.booleans(), st.none(), st.lists(st.text(max_size=5))
)
FILES = st.dictionaries(NAMES, st.one_of(SCALARS, st.dictionaries(NAMES, SCALARS, max_size=3)))


@given(FILES, st.booleans(), NAMES, NAMES, SCALARS)
@example({"web": "\x85"}, False, "x", "x", "\x85")
@example({"x": {"tools": ["\x85a"]}}, True, "x", "x", ["\x85"])
def test_any_file_is_changed_rightly_or_not_at_all(
    content: dict[str, Any], flow: bool, section: str, name: str, value: Any
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        text = yaml.safe_dump(content, default_flow_style=flow, allow_unicode=True)
        path.write_text(text, encoding="utf-8")
        try:
            set_config_value(path, f"{section}.{name}", value)
        except ConfigError:
            assert path.read_text(encoding="utf-8") == text
            return
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert found[section][name] == value
        others = {key: found[key] for key in found if key != section}
        before = yaml.safe_load(text) or {}  # not `content`: U+0085 is read as a line end
        assert others == {key: before[key] for key in before if key != section}


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@example("\x85")
@example(["a\u2028b", "\ufeff"])
def test_any_text_can_be_set_and_read(value: Any) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config.yaml")
        set_config_value(path, "x.y", value)
        for loader in (yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            assert yaml.load(path.read_text(encoding="utf-8"), loader) == {"x": {"y": value}}


BROKEN = ["\ud800", "a\udcffb", ["x", "\udfff"], {"a": {"\ud800": 1}}]
"""Half of a surrogate pair; the second is how Python holds a byte that is not UTF-8."""


@pytest.mark.parametrize("value", BROKEN)
def test_text_that_is_not_unicode_is_refused(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(FILE)
    with pytest.raises(ConfigError, match=r"x\.y is not valid Unicode") as refused:
        set_config_value(path, "x.y", value)
    str(refused.value).encode()
    assert path.read_text() == FILE
    with pytest.raises(ConfigError, match="not valid Unicode") as refused:
        set_config_value(path, "x.\ud800", 1)
    str(refused.value).encode()
    assert path.read_text() == FILE


def test_a_file_that_hermes_could_not_read_is_not_written(tmp_path: Path) -> None:
    """One YAML loader takes what the other refuses; what counts is the one that reads it."""
    path = tmp_path / "config.yaml"
    path.write_text('x: "\\uD800"\n')
    with pytest.raises(ConfigError, match="not valid YAML"):
        set_config_value(path, "y", 1)
    assert path.read_text() == 'x: "\\uD800"\n'


def test_a_variable_that_is_not_unicode_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("A=1\n")
    with pytest.raises(ConfigError, match="A is not valid Unicode"):
        set_dotenv_value(path, "A", "secret\udcff")
    assert path.read_text() == "A=1\n"


def test_dotenv_keeps_the_other_lines(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# keys\nexport A=1\nB='two words'\n")
    assert set_dotenv_value(path, "A", "new")
    assert path.read_text() == "# keys\nB='two words'\nA=new\n"
    assert not set_dotenv_value(path, "A", "new")
    assert set_dotenv_value(path, "A", None)
    assert path.read_text() == "# keys\nB='two words'\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_dotenv_that_cannot_be_changed_line_by_line_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    text = 'A="begins\nB=within\nends"\n'
    path.write_text(text)
    with pytest.raises(ConfigError, match="by hand"):
        set_dotenv_value(path, "B", "secret-value")
    assert path.read_text() == text


@given(st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs", "Cc"])))
def test_any_value_comes_back(value: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, ".env")
        path.write_text("OTHER=1\n")
        try:
            set_dotenv_value(path, "NAME", value)
        except ConfigError:
            assert path.read_text() == "OTHER=1\n"
            return
        assert parse_dotenv(path.read_text(encoding="utf-8"))[0] == {"OTHER": "1", "NAME": value}


def test_keys_that_only_make_sense_together_change_as_one(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("# Mine.\n")
    server = {"model.provider": "custom", "model.base_url": "http://x/v1", "model.default": "m"}
    with pytest.raises(ConfigError):
        set_config_value(path, "model.base_url", "http://x/v1")
    assert set_config_values(path, server)
    assert not set_config_values(path, server)
    text = path.read_text()
    assert yaml.safe_load(text)["model"]["base_url"] == "http://x/v1"
    with pytest.raises(ConfigError):
        set_config_values(path, {"model.default": "other", "approvals.mode": "perhaps"})
    assert path.read_text() == text
    assert text.startswith("# Mine.\n")
