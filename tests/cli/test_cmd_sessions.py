"""`hermes sessions`, with good and with bad input."""

from __future__ import annotations

import json
import os
import pty
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ..embeddings_server import embeddings_server

SECRET = "sk-abcdefghijklmnop1234567890"


def test_list_shows_what_was_talked_about(rome: Any) -> None:
    said = rome("sessions", "list")
    assert "Trip to Rome" in said.out
    assert "What grows in the shade?" in said.out
    assert "\x1b" not in said.out  # no colours for a pipe
    found = rome("sessions", "list", "--json", "-n", "1").json
    assert [one["id"] for one in found] == ["20260102_101010_bbbbbb"]
    assert rome("sessions", "list", "--source", "telegram").out.startswith("There are no such")
    assert "1 or more" in rome.fails("sessions", "list", "-n", "0")


def test_search_finds_and_says_when_it_does_not(rome: Any) -> None:
    said = rome("sessions", "search", "train")
    assert "Trip to Rome" in said.out
    assert said.code == 0
    assert rome("sessions", "search", "zeppelin").code == 1
    hits = rome("sessions", "search", "ferns", "--json", "--role", "assistant").json
    assert hits[0]["session_id"] == "20260102_101010_bbbbbb"


def test_why_something_was_found(rome: Any) -> None:
    said = rome("sessions", "search", "--why", "when", "does", "the", "train", "leave")
    assert said.code == 0, said
    assert "fits the question by" in said.out and "train" in said.out
    assert "has all words; score" in rome("sessions", "search", "--why", "train").out


def test_search_by_meaning_is_built_and_shown(rome: Any) -> None:
    assert "no model yet" in rome("sessions", "meaning", "--status").out
    settings = rome.home / "config.yaml"
    with embeddings_server() as server:
        settings.write_text(f"search: {{model: tiny, base_url: '{server.url}'}}\n")
        assert "Search by meaning has looked at 0 of" in rome("doctor").out
        said = rome("sessions", "meaning")
        assert "Search by meaning (tiny) has looked at 100%" in said.out, said
        assert "100%" in rome("sessions", "meaning", "--anew").out
        assert "Search by meaning has" not in rome("doctor").out
        hits = rome("sessions", "search", "--why", "--json", "who was it in the railway?").json
        assert all("meaning" in hit["why"] for hit in hits)
    assert "cannot be asked" in rome("sessions", "meaning", "--anew").err
    settings.write_text("search: {meaning: off}\n")
    assert "is off" in rome("sessions", "meaning").out
    settings.write_text("search: {model: tiny}\n")
    assert "search.base_url" in rome("sessions", "meaning").err


def test_show_reads_one_by_id_prefix_or_title(rome: Any) -> None:
    for name in ("20260101_101010_aaaaaa", "20260101", "Trip to Rome"):
        said = rome("sessions", "show", name)
        assert "Take the train to Rome at noon." in said.out, name
    assert len(rome("sessions", "show", "Trip to Rome", "--json", "-n", "1").json["messages"]) == 1
    assert "Did you mean 'Trip to Rome'?" in rome.fails("sessions", "show", "Trip to Room")
    assert "Give more of the id" in rome.fails("sessions", "show", "2026010")


def test_nothing_that_was_said_reaches_the_terminal_as_a_command(rome: Any) -> None:
    with rome.store() as db:
        db.append_message("20260102_101010_bbbbbb", "user", "evil \x1b]0;title\x07 text")
    for command in (["show", "20260102"], ["search", "evil"]):
        said = rome("sessions", *command)
        assert "evil" in said.out
        assert "\x1b" not in said.out
        assert "\x07" not in said.out


def test_tree_draws_the_lineage(rome: Any) -> None:
    with rome.store() as db:
        db.rotate_session("20260101_101010_aaaaaa", "second", [{"role": "user", "content": "s"}])
        db.branch_session("second", "aside")
        db.branch_session("second", "other")
        db.rotate_session("second", "third", [{"role": "user", "content": "s"}])
        db.rotate_session("aside", "aside2", [{"role": "user", "content": "s"}])
    lines = rome("sessions", "tree", "third").out.splitlines()
    marks = [line.split("2026")[0] if "2026" in line else line for line in lines]
    assert marks[0].startswith("Trip to Rome")
    assert lines[1].startswith("↓ ")
    assert [line[:3] for line in lines[2:]] == ["├─ ", "│  ", "├─ ", "↓ T"]
    assert "⑂" in lines[2]
    assert lines[-1].endswith("← here")
    family = rome("sessions", "tree", "Trip to Rome", "--json").json
    assert [one["relation"] for one in family].count("branch") == 2
    rome.fails("sessions", "tree", "nobody")


@pytest.mark.parametrize(("form", "mark"), [("markdown", "# Trip"), ("html", "<h1>Trip")])
def test_pages_hold_what_was_said_without_secrets(rome: Any, form: str, mark: str) -> None:
    with rome.store() as db:
        db.append_message(
            "20260101_101010_aaaaaa", "user", f"my api_key={SECRET} <script>alert(1)</script> ```"
        )
    page = rome("sessions", "export", "Trip to Rome", "-f", form).out
    assert mark in page
    assert "Take the train to Rome at noon." in page
    assert SECRET not in page
    assert SECRET in rome("sessions", "export", "Trip to Rome", "-f", form, "--raw").out
    if form == "html":
        assert "<script>" not in page


def test_what_is_exported_can_be_imported_elsewhere(rome: Any, monkeypatch: Any) -> None:
    with rome.store() as db:
        db.rotate_session("20260101_101010_aaaaaa", "second", [{"role": "user", "content": "s"}])
    assert rome("sessions", "export", "--all", "-o", "all.jsonl").code == 0
    assert stat.S_IMODE(Path("all.jsonl").stat().st_mode) == 0o600
    assert rome("sessions", "import", "all.jsonl").out.startswith("Imported 0 sessions; 3 were")
    elsewhere = rome.home.parent / "elsewhere"
    monkeypatch.setenv("HERMES_HOME", str(elsewhere))
    assert rome("sessions", "import", "all.jsonl", "--json").json["imported"] == 3
    assert "noon" in rome("sessions", "show", "second").out
    assert rome("doctor", "--json").json["parts"]["conversations"]["ailments"] == []


def test_bad_exports_and_imports_are_refused(rome: Any) -> None:
    assert "--all" in rome.fails("sessions", "export")
    assert "--source goes with --all" in rome.fails(
        "sessions", "export", "Trip to Rome", "--source", "x"
    )
    rome.fails("sessions", "export", "--all", "-o", "missing/x.jsonl", code=1)
    assert "is a folder" in rome.fails("sessions", "export", "--all", "-o", ".")
    assert "There is no file" in rome.fails("sessions", "import", "none.jsonl")
    Path("bad.jsonl").write_text('{"id": "x"}\n{broken\n')
    assert "line 2" in rome.fails("sessions", "import", "bad.jsonl")
    Path("other.json").write_text("[1]")
    assert "hermes import" in rome.fails("sessions", "import", "other.json")
    Path("wrong.jsonl").write_text(json.dumps({"id": "x", "messages": "y"}))
    assert "nothing was imported" in rome.fails("sessions", "import", "wrong.jsonl", code=1)
    Path("empty.jsonl").touch()
    assert "empty" in rome.fails("sessions", "import", "empty.jsonl")


def test_rename_and_branch(rome: Any) -> None:
    assert rome("sessions", "rename", "Trip to Rome", "Roman holiday").code == 0
    assert "already in use" in rome.fails("sessions", "rename", "20260102", "Roman holiday")
    assert "at most 100" in rome.fails("sessions", "rename", "20260102", "x" * 101)
    made = rome("sessions", "branch", "Roman holiday", "--json").json
    assert made["title"] == "Roman holiday #2"
    # The title names exactly one, although a branch has the same with a number.
    rome("sessions", "delete", "Roman holiday", "--yes")
    assert "There is no" not in rome("sessions", "show", made["id"]).err
    rome.fails("sessions", "show", "20260101_101010_aaaaaa")
    assert "no title any more" in rome("sessions", "rename", made["id"], "").out


def test_delete_asks(rome: Any) -> None:
    assert "--yes" in rome.fails("sessions", "delete", "Trip to Rome")
    assert "Trip to Rome" in rome("sessions", "list").out
    rome.fails("sessions", "delete", "Trip to Rome", "nobody", "--yes")
    assert "Trip to Rome" in rome("sessions", "list").out  # all that is named, or nothing
    assert rome("sessions", "delete", "Trip to Rome", "--yes").code == 0
    assert "Trip to Rome" not in rome("sessions", "list").out


@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"n\n", 2)])
def test_delete_takes_an_answer_at_a_terminal(rome: Any, answer: bytes, code: int) -> None:
    person, program = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "hermes_cli.main", "sessions", "delete", "Trip to Rome"],
        stdin=program, stdout=program, stderr=program, env={**os.environ, "TERM": "xterm"},
    ) as child:  # fmt: skip
        os.close(program)
        seen = b""
        while b"[y/N]" not in seen:
            seen += os.read(person, 1000)
        os.write(person, answer)
        assert child.wait(30) == code
    os.close(person)
    with rome.store() as db:
        assert (db.get_session("20260101_101010_aaaaaa") is None) == (code == 0)


def test_prune_and_archive_take_what_is_old(rome: Any) -> None:
    old = time.time() - 200 * 86_400
    with rome.store() as db:
        db.create_session("ancient", "cron", started_at=old)
        db.append_message("ancient", "user", "x", timestamp=old)
        db.end_session("ancient", "cron_complete")
        db._execute_write(
            lambda conn: conn.execute(
                "UPDATE sessions SET ended_at = started_at WHERE id = 'ancient'"
            ).fetchall()
        )
    assert "would be deleted" in rome("sessions", "prune", "--dry-run").out
    rome.fails("sessions", "prune")
    assert "Archived 1" in rome("sessions", "archive", "--older-than", "90", "--yes").out
    assert "ancient" in rome("sessions", "list", "--archived").out
    assert rome("sessions", "archive", "ancient", "--undo").code == 0
    assert rome("sessions", "list", "--archived", "--json").json == []
    assert "Deleted 1" in rome("sessions", "prune", "--yes").out
    assert "are that old" in rome("sessions", "prune", "--yes").out
    rome.fails("sessions", "archive")
    rome.fails("sessions", "archive", "Trip to Rome", "--older-than", "3")
    rome.fails("sessions", "archive", "--older-than", "3", "--undo")
    for wrong in ("soon", "-3", "3 months", "nan", "1e9", "w", "²"):
        said = rome.fails("sessions", "prune", f"--older-than={wrong}")
        assert "give days or weeks, such as 365, 365d or 12w" in said


@pytest.mark.parametrize("old", ["200", "200d", "28w", "28 W", " 199.5d "])
def test_how_old_is_said_in_days_or_weeks(rome: Any, old: str) -> None:
    long_ago = time.time() - 210 * 86_400
    with rome.store() as db:
        db.create_session("ancient", "cron", started_at=long_ago)
        db.append_message("ancient", "user", "x", timestamp=long_ago)
        db.end_session("ancient", "cron_complete")
        db._execute_write(
            lambda conn: conn.execute(
                "UPDATE sessions SET ended_at = started_at WHERE id = 'ancient'"
            ).fetchall()
        )
    assert "ancient" in rome("sessions", "prune", "--older-than", old, "--dry-run").out
    assert "are that old" in rome("sessions", "prune", "--older-than", "40w", "--yes").out


def test_stats_and_care(rome: Any) -> None:
    assert "2 conversations in 2 sessions" in rome("sessions", "stats").out
    assert rome("sessions", "stats", "--json").json["messages"] == 4
    assert rome("sessions", "optimize").code == 0


@pytest.mark.sqlite
def test_repair_salvages_a_damaged_store(rome: Any) -> None:
    assert "can be read" in rome("sessions", "repair").out
    with rome.store() as db:
        db.append_messages(
            "20260102_101010_bbbbbb", [{"role": "user", "content": "leaf " * 900}] * 40
        )
    path = rome.home / "state.db"
    content = bytearray(path.read_bytes())
    middle = len(content) // 4096 // 2 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(content)
    assert rome("sessions", "repair").code == 0
    assert list(rome.home.glob("state.db.damaged-*"))
    assert rome("doctor", "--json").json["parts"]["conversations"]["ailments"] == []


def test_a_reader_that_leaves_is_no_accident(rome: Any) -> None:
    program = f"{sys.executable} -m hermes_cli.main sessions export --all --raw"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {program} | true"], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
