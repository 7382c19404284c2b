"""`hermes import ~/.openclaw`: its conversations, and what lies beside them."""

from __future__ import annotations

import hashlib
import json
import stat
from pathlib import Path
from typing import Any

import pytest

CALL = {"type": "toolCall", "id": "t1", "name": "exec", "arguments": {"command": "ls"}}


def line(number: int, role: str, *content: Any, parent: int | None = None, **more: Any) -> str:
    """A message; each string of its content is a text."""
    blocks = [{"type": "text", "text": c} if isinstance(c, str) else c for c in content]
    follows = number - 1 if parent is None else parent
    return json.dumps({
        "type": "message", "id": f"m{number}", "parentId": f"m{follows}" if follows else None,
        "timestamp": f"2026-02-01T10:00:{number:02}.000Z",
        "message": {"role": role, "content": blocks, **more},
    })  # fmt: skip


def write(path: Path, *lines: str) -> None:
    header = {"type": "session", "version": 3, "id": path.stem,
              "timestamp": "2026-02-01T09:59:00.000Z", "cwd": "/home/me"}  # fmt: skip
    model = {"type": "model_change", "id": "m0", "parentId": None, "modelId": "claude-x"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([json.dumps(header), json.dumps(model), *lines]) + "\n")


@pytest.fixture
def claw(tmp_path: Path) -> Path:
    home = tmp_path / "dot-openclaw"
    sessions = home / "agents" / "main" / "sessions"
    write(
        sessions / "aaaa.jsonl",
        line(1, "user", "What is in the folder?"),
        line(2, "assistant", {"type": "thinking", "thinking": "Hm."}, "I look.", CALL),
        line(3, "toolResult", "roof.txt", toolCallId="t1", toolName="exec"),
        line(4, "assistant", "A file about the roof."),
    )
    index = {"agent:main:telegram:dm:42": {"sessionId": "aaaa", "label": "The roof"}}
    (sessions / "sessions.json").write_text(json.dumps(index))
    (home / "workspace" / "memory").mkdir(parents=True)
    (home / "workspace" / "memory" / "2026-02-01.md").write_text("We met.")
    (home / "workspace" / "MEMORY.md").write_text(
        "# Memory\n\n- The roof is green.\n- The harbour\n  freezes in May.\n\nA paragraph.\n"
    )
    (home / "workspace" / "SOUL.md").write_text("You are kind.")
    skill = home / "workspace" / "skills" / "bread"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: bread\ndescription: Bake.\n---\nKnead.\n")
    agent = home / "agents" / "main" / "agent"
    agent.mkdir()
    profiles = {
        "anthropic:default": {"type": "api_key", "provider": "anthropic", "key": "sk-ant-claw"},
        "openai:login": {"type": "oauth", "provider": "openai", "access": "x"},
        "elsewhere": {"type": "api_key", "provider": "nobody-knows", "key": "k"},
    }
    (agent / "auth-profiles.json").write_text(json.dumps({"profiles": profiles}))
    channels = {"telegram": {"botToken": "42:abc"}, "zalo": {"token": "z"}}
    (home / "openclaw.json").write_text(json.dumps({"channels": channels}))
    (home / "cron").mkdir()
    (home / "cron" / "jobs.json").write_text("{}")
    return home


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_everything_comes_along_or_is_said(cli: Any, claw: Path) -> None:
    before = contents(claw)
    said = cli("import", str(claw), "--json").json
    assert contents(claw) == before
    assert (said["conversations"], said["messages"], said["imported"]) == (1, 4, 1)
    with cli.store() as db:
        session = db.get_session("openclaw_aaaa")
        assert (session["title"], session["source"]) == ("The roof", "openclaw")
        assert session["model"] == "claude-x"
        messages = db.get_messages("openclaw_aaaa")
        assert [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"]
        assert messages[1]["tool_calls"][0]["function"]["name"] == "exec"
        assert messages[2]["tool_call_id"] == "t1"
        assert "Hm." not in str(messages)
        assert db.search_messages("roof.txt")
    parts = {part["what"]: (part["outcome"], part["note"]) for part in said["parts"]}
    assert {what for what, (outcome, _) in parts.items() if outcome == "brought"} == {
        "key anthropic:default", "channels.telegram", "SOUL.md", "skill bread",
        "MEMORY.md: “The roof is green.”", "MEMORY.md: “The harbour freezes in May.”",
        "MEMORY.md: “A paragraph.”",
    }  # fmt: skip
    assert {what for what, (outcome, _) in parts.items() if outcome == "left behind"} == {
        "key openai:login", "key elsewhere", "channels.zalo", "daily notes", "cron/jobs.json",
        "openclaw.json",
    }  # fmt: skip
    env = (cli.home / ".env").read_text()
    assert "ANTHROPIC_API_KEY=sk-ant-claw" in env
    assert "TELEGRAM_BOT_TOKEN=42:abc" in env
    assert stat.S_IMODE((cli.home / ".env").stat().st_mode) == 0o600
    assert "The roof is green." in cli("memory", "show").out
    assert "bread" in cli("skills", "list").out


def test_a_second_import_brings_only_what_is_new(cli: Any, claw: Path) -> None:
    cli("import", str(claw))
    write(claw / "agents" / "work" / "sessions" / "bbbb.jsonl", line(1, "user", "Hello"))
    said = cli("import", str(claw), "--json").json
    assert (said["imported"], said["skipped"]) == (1, 1)
    assert not [p for p in said["parts"] if p["outcome"] == "brought"]
    with cli.store() as db:
        assert db.get_session("openclaw_bbbb")["title"] == "work"


def test_a_look_changes_nothing_and_shows_no_secret(cli: Any, claw: Path) -> None:
    said = cli("import", str(claw), "--dry-run")
    assert "A home of OpenClaw: 1 conversations, 4 messages." in said.out
    assert "would be" in said.out
    assert list(cli.home.iterdir()) == []
    shown = cli("import", str(claw)).out
    assert "sk-ant-claw" not in said.out + shown
    assert "42:abc" not in said.out + shown


def test_what_is_here_stays(cli: Any, claw: Path) -> None:
    (cli.home / ".env").write_text("ANTHROPIC_API_KEY=mine\n")
    (cli.home / "SOUL.md").write_text("You are strict.")
    said = cli("import", str(claw), "--json").json
    parts = {part["what"]: part["outcome"] for part in said["parts"]}
    assert parts["key anthropic:default"] == parts["SOUL.md"] == "left behind"
    assert "ANTHROPIC_API_KEY=mine" in (cli.home / ".env").read_text()
    assert (cli.home / "SOUL.md").read_text() == "You are strict."


def test_the_branch_of_the_last_line_is_taken(cli: Any, claw: Path) -> None:
    write(
        claw / "agents" / "main" / "sessions" / "tree.jsonl",
        line(1, "user", "Begin"),
        line(2, "assistant", "the first answer"),
        line(3, "user", "left aside"),
        line(4, "user", "another way", parent=2),
        line(5, "assistant", "the last answer"),
    )
    cli("import", str(claw))
    with cli.store() as db:
        texts = [m["content"] for m in db.get_messages("openclaw_tree")]
    assert texts == ["Begin", "the first answer", "another way", "the last answer"]


@pytest.mark.parametrize(
    ("lines", "texts", "left"),
    [
        (['{"type": "mess'], None, {"lines that cannot be read": 1, "empty conversations": 1}),
        (["[" * 100_000, line(1, "user", "a", parent=0)], ["a"], {"lines that cannot be read": 1}),
        ([line(1, "user", "a"), line(2, "assistant", "b", CALL)], ["a", "b"],
         {"tool calls without a result": 1}),
        ([line(1, "user", "a"), line(2, "toolResult", "x", toolCallId="gone")], ["a"],
         {"results without a tool call": 1}),
        ([line(1, "user", "a", {"type": "image", "data": "x"})], ["a"], {"pictures": 1}),
        ([line(2, "user", "a", parent=3), line(3, "assistant", "b", parent=2)], ["a", "b"], {}),
        ([line(1, "user", 7, None, {"type": "text", "text": 7})], None,
         {"empty conversations": 1}),
        ([json.dumps({"type": "message", "message": {"role": "user", "content": "plain"}})],
         ["plain"], {}),
        (["null", "7", '"x"', json.dumps({"type": "message", "message": 7})], None,
         {"empty conversations": 1}),
    ],
)  # fmt: skip
def test_files_that_are_not_as_they_should_be(
    cli: Any, claw: Path, lines: list[str], texts: list[str] | None, left: dict[str, int]
) -> None:
    path = claw / "agents" / "main" / "sessions" / "odd.jsonl"
    path.write_text("\n".join(lines))
    said = cli("import", str(claw), "--json").json
    assert said["left_out"] == left
    assert said["errors"] == []
    with cli.store() as db:
        if texts is None:
            assert db.get_session("openclaw_odd") is None
        else:
            assert [m["content"] for m in db.get_messages("openclaw_odd")] == texts


def test_settings_that_are_no_json_are_said(cli: Any, claw: Path) -> None:
    (claw / "openclaw.json").write_text("// comments\n{channels: {}}")
    (claw / "agents" / "main" / "agent" / "auth-profiles.json").write_bytes(b"\xff\xfe")
    said = cli("import", str(claw), "--json").json
    outcomes = {part["what"]: part["outcome"] for part in said["parts"]}
    assert outcomes["openclaw.json"] == "left behind"
    assert said["imported"] == 1
