"""The parts of the terminal interface that need no screen."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("textual")

from textual.color import Color
from textual.theme import Theme

from hermes_cli.tui import start
from hermes_cli.tui.copy_screen import copyable
from hermes_cli.tui.diffs import coloured, find_diff, planned_diff
from hermes_cli.tui.pastes import Pastes
from hermes_cli.tui.server import ServerProcess
from hermes_cli.tui.settings import MOST_KEPT, InputHistory, Settings
from hermes_cli.tui.stored_blocks import blocks_of
from hermes_cli.tui.texts import clean, cost, one_line, plain, seconds, tokens
from hermes_cli.tui.themes import DEFAULT, NAMES, THEMES
from hermes_cli.tui.tool_card import ToolCard

ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
CONTROLS = [chr(n) for n in (*range(0x20), 0x7F, *range(0x80, 0xA0)) if chr(n) not in "\n\t"]


@given(st.lists(st.one_of(ANY_TEXT, st.sampled_from(["\x1b[2J", "\x1b]0;x\x07", "\x9b", "\r"]))))
def test_nothing_reaches_the_terminal_that_it_would_obey(pieces: list[str]) -> None:
    cleaned = clean("".join(pieces))
    assert not any(control in cleaned for control in CONTROLS)
    assert clean(cleaned) == cleaned


def test_cleaning_keeps_what_people_read() -> None:
    assert clean("a\x1b[31mred\x1b[0m\n\tb") == "ared\n\tb"
    assert clean("10%\r50%\r100%\nnext\r\n") == "100%\nnext\n"
    assert clean("Grüße, 世界 🌍") == "Grüße, 世界 🌍"


@given(ANY_TEXT, st.integers(1, 80))
def test_one_line_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width and "\n" not in line


def test_numbers_as_people_write_them() -> None:
    assert [tokens(n) for n in (950, 12_345, 1_200_000)] == ["950", "12k", "1.2M"]
    assert [cost(n) for n in (None, 0.0, 0.00123, 1.5)] == ["", "", "$0.0012", "$1.50"]
    assert [seconds(n) for n in (0.42, 12, 185)] == ["0.4 s", "12 s", "3 min 05 s"]
    assert plain([{"type": "text", "text": "a"}, {"type": "image_url"}]) == "a\n[image]"


@given(st.lists(ANY_TEXT, max_size=5), ANY_TEXT)
def test_pastes_come_back_as_they_were(texts: list[str], between: str) -> None:
    pastes = Pastes()
    between = between.replace("[", "")
    written = between.join(pastes.keep(text) for text in texts)
    if not any("[Pasted text" in text for text in texts):
        assert pastes.put_back(written) == between.join(texts)


@given(sent=st.lists(ANY_TEXT.filter(str.strip), min_size=1, max_size=8), draft=ANY_TEXT)
def test_history_is_kept_and_browsed(sent: list[str], draft: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        history = InputHistory(home)
        for text in sent:
            history.add(text)
        kept = [one for n, one in enumerate(sent) if n == 0 or one != sent[n - 1]]
        again = InputHistory(home)
        older = [again.older(draft) for _ in range(len(kept) + 1)]
        assert older == [*reversed(kept), None]
        assert [again.newer() for _ in range(len(kept) + 1)] == [*kept[1:], draft, None]
        assert (home / "tui_history.jsonl").stat().st_mode & 0o077 == 0


def test_history_survives_damage_and_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "tui_history.jsonl"
    path.write_text('"whole"\n{"cut\n3\n')
    assert InputHistory(tmp_path).older("") == "whole"
    path.write_text('"x"\n' * (3 * MOST_KEPT))
    InputHistory(tmp_path)
    assert len(path.read_text().splitlines()) == MOST_KEPT


def test_settings_survive_damage(tmp_path: Path) -> None:
    settings = Settings(tmp_path)
    settings.set("theme", "x")
    assert Settings(tmp_path).get("theme", "") == "x"
    assert Settings(tmp_path).get("theme", False) is False, "of another kind"
    (tmp_path / "tui.json").write_text("{")
    assert Settings(tmp_path).get("theme", "y") == "y"
    Settings(tmp_path / "missing").set("theme", "x")  # costs only the memory of it


@pytest.mark.parametrize("theme", THEMES, ids=NAMES)
def test_text_stands_out_in_every_theme(theme: Theme) -> None:
    texts = [
        theme.foreground, theme.primary, theme.secondary, theme.accent, theme.warning, theme.error,
        theme.success, theme.variables["muted"],
    ]  # fmt: skip
    for ground in (theme.background, theme.surface, theme.panel):
        for text in texts:
            assert text is not None and ground is not None
            ratio = contrast(Color.parse(text), Color.parse(ground))
            assert ratio >= 4.5, f"{text} on {ground}: {ratio:.1f}"
    assert DEFAULT in NAMES


def contrast(one: Color, other: Color) -> float:
    """How much two colours differ in lightness, from 1 to 21."""

    def lightness(color: Color) -> float:
        parts = [part / 255 for part in color.rgb]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((lightness(one), lightness(other)))
    return (light + 0.05) / (dark + 0.05)


def test_diffs_are_found_and_coloured() -> None:
    result = "Edited x.\n--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new"
    diff = find_diff(result)
    assert diff.startswith("--- a") and find_diff("--- only a rule\ntext") == ""
    styles = {str(span.style) for span in coloured(diff).spans}
    assert {"$success", "$error"} <= styles
    assert planned_diff({"old_string": "a\nb", "new_string": "a\nc"}).splitlines()[-2:] == [
        "-b",
        "+c",
    ]
    assert planned_diff({"path": "x"}) == ""


def test_what_can_be_copied() -> None:
    answer = "So:\n```python\nx = 1\n```\nand\n~~~\ny\nz\n~~~\n```unfinished\n"
    found = copyable([answer, "Older."])
    assert [one.text for one in found] == [answer.strip(), "x = 1", "y\nz", "Older."]
    assert [one.label.strip() for one in found][1:3] == ["python, 1 lines", "code, 2 lines"]


def test_stored_tools_become_cards() -> None:
    calls = [
        {"id": "a", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}},
        {"id": "b", "function": {"name": "odd", "arguments": "{not json"}},
    ]
    blocks = blocks_of(
        [
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "a.txt", "tool_call_id": "a"},
            {"role": "tool", "content": "lost", "tool_call_id": "unknown"},
        ]
    )
    first, second = [block for block in blocks if isinstance(block, ToolCard)]
    assert (first.state, first.result) == ("done", "a.txt")
    assert second.state == "running" and "{not json" in second.body().plain


async def test_a_server_that_ends_at_once_has_last_words() -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('It is broken.')"]
    server = ServerProcess(command)
    server.start()
    wire = await server.dial()
    async with asyncio.timeout(60):
        assert await wire.receive() is None
        await wire.close()
    assert server.last_words() == "It is broken."
    with pytest.raises(OSError):
        await ServerProcess(["/no/such/program"]).dial()


def test_the_interface_needs_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen:
        def isatty(self) -> bool:
            return True

    assert not start.is_possible()
    monkeypatch.setattr(sys, "stdin", Screen())
    monkeypatch.setattr(sys, "stdout", Screen())
    monkeypatch.setenv("TERM", "xterm")
    assert start.is_possible()
    monkeypatch.setenv("TERM", "dumb")
    assert not start.is_possible()
