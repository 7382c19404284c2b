"""The table of commands: names, scopes, parsing, completion, suggestions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slash_surface import Front

from agent import background
from agent.plugin_loading import load_plugins
from agent.slash import (
    Exec,
    Plugin,
    Prefill,
    Send,
    Skill,
    catalog,
    complete,
    is_command,
    is_slow,
    lookup,
    run,
    wire,
)
from agent.slash.table import parse, table
from hermes_base import plugins
from hermes_state import SessionDB

EVERYWHERE = {
    "new", "retry", "undo", "title", "branch", "compress", "rollback", "stop", "background",
    "agents", "queue", "steer", "goal", "status", "whoami", "resume", "sessions", "model", "yolo",
    "reasoning", "memory", "reload-mcp", "reload-skills", "help", "usage", "insights", "version",
}  # fmt: skip
TERMINAL = {
    "clear", "history", "save", "handoff", "config", "tools", "toolsets", "plugins", "copy",
    "image", "quit",
}  # fmt: skip
CHATS = {"approve", "deny", "commands"}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


@pytest.fixture
def front(db: SessionDB, tmp_path: Path) -> Front:
    return Front(db, tmp_path / "home")


def write_skill(home: Path, name: str) -> None:
    folder = home / "skills" / name
    folder.mkdir(parents=True)
    text = f"---\nname: {name}\ndescription: How to {name}.\n---\nFirst, look around.\n"
    (folder / "SKILL.md").write_text(text)


def test_the_known_commands_are_where_they_belong() -> None:
    terminal = {one.name for one in catalog("cli")}
    chats = {one.name for one in catalog("gateway")}
    assert terminal & chats >= EVERYWHERE
    assert terminal - chats >= TERMINAL
    assert chats - terminal >= CHATS


def test_aliases() -> None:
    for alias, name in [
        ("reset", "new"), ("fork", "branch"), ("compact", "compress"), ("bg", "background"),
        ("btw", "background"), ("tasks", "agents"), ("q", "queue"), ("exit", "quit"),
        ("v", "version"), ("reload_skills", "reload-skills"), ("NEW@my_bot", "new"),
    ]:  # fmt: skip
        found = lookup(alias)
        assert found is not None, alias
        assert found.name == name


def test_every_command_says_what_it_does() -> None:
    for one in table().values():
        assert one.summary, one.name
        assert one.category, one.name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/title  A plan ", ("title", "A plan")),
        ("/NEW", ("new", "")),
        ("/reload_mcp@bot now", ("reload-mcp", "now")),
        ("/goal a\nb", ("goal", "a\nb")),
        ("/", ("", "")),
    ],
)
def test_parsing(line: str, expected: tuple[str, str]) -> None:
    assert parse(line) == expected


def test_a_path_is_no_command() -> None:
    assert is_command("/new")
    assert is_command("/new\nlines")
    for line in ("/", "/etc/hosts is what?", "new", "", "//"):
        assert not is_command(line)


def test_an_unknown_command_names_the_nearest(front: Front) -> None:
    assert "Did you mean /resume?" in front.refused("/resme")
    assert "Did you mean" not in front.refused("/xyzzy")
    write_skill(front.config.home, "deploy-site")
    assert "Did you mean /deploy-site?" in front.refused("/deploy-sit")


def test_what_belongs_elsewhere_says_so(front: Front, db: SessionDB, tmp_path: Path) -> None:
    assert "only available on chat platforms" in front.refused("/approve")
    chat = Front(db, tmp_path / "home", platform="telegram", user_id="42", scope="gateway")
    assert "only available in the terminal" in chat.refused("/config")


def test_results_as_json_carries_them() -> None:
    assert wire(Exec("done")) == {"type": "exec", "output": "done"}
    assert wire(Send("hi")) == {"type": "send", "message": "hi"}
    assert wire(Send("hi", "again")) == {"type": "send", "message": "hi", "notice": "again"}
    assert wire(Prefill("hi", "edit")) == {"type": "prefill", "message": "hi", "notice": "edit"}
    assert wire(Skill("do", "x")) == {"type": "skill", "message": "do", "name": "x"}
    assert wire(Plugin("said")) == {"type": "plugin", "output": "said"}


def test_a_skill_is_a_command(front: Front) -> None:
    write_skill(front.config.home, "deploy_site")
    result = front.type("/deploy-site to production")
    assert isinstance(result, Skill)
    assert result.name == "deploy_site"
    assert "First, look around." in result.message
    assert result.message.endswith("to production")
    assert "/deploy_site  How to deploy_site." in front.shown("/skills")
    assert "/deploy-site" in front.shown("/help")


def test_a_plugin_brings_commands(front: Front, tmp_path: Path) -> None:
    folder = front.config.home / "plugins" / "counter"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: counter\nversion: '1'\n")
    (folder / "__init__.py").write_text(
        "def register(ctx):\n"
        "    ctx.register_command('count_up', lambda a: f'counted {a}', 'Counts.', '[n]')\n"
    )
    load_plugins({"plugins": {"enabled": ["counter"]}}, front.config.home)
    try:
        assert front.type("/count-up 3") == Plugin("counted 3")
        assert "Counts." in front.shown("/help")
        assert "counter: loaded" in front.shown("/plugins")
        assert [item.text for item in complete(front, "/count").items] == ["/count_up"]
    finally:
        plugins.forget_plugins()


def test_completing_names(front: Front) -> None:
    write_skill(front.config.home, "resign")
    found = complete(front, "/res")
    assert found.replace_from == 0
    assert [item.text for item in found.items] == ["/reset", "/resign", "/resume"]
    assert "/reset" not in [item.text for item in complete(front, "/").items]
    assert complete(front, "res").items == []


def test_completing_arguments(front: Front) -> None:
    front.ask("A question")
    front.type("/title Garden plan")
    found = complete(front, "/resume  ga")
    assert found.replace_from == len("/resume  ")
    assert [item.text for item in found.items] == ["Garden plan"]
    assert "claude-sonnet-5" in str(complete(front, "/model claude-so").items)
    assert [item.text for item in complete(front, "/busy q").items] == ["queue"]
    assert [item.text for item in complete(front, "/help un").items] == ["undo"]
    assert complete(front, "/version x").items == []
    assert complete(front, "/nonsense x").items == []


def test_slow_commands_are_marked(front: Front) -> None:
    assert is_slow(front, "/compress")
    assert is_slow(front, "/a-plugins-own")
    assert not is_slow(front, "/status")


def test_a_command_that_breaks_does_not_break_the_front_end(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(title: str | None) -> None:
        raise RuntimeError("the screen is gone")

    monkeypatch.setattr(front, "new_session", broken)
    assert "/new failed: RuntimeError: the screen is gone" in front.refused("/new")


@given(st.text(max_size=40))
def test_no_line_breaks_it(text: str) -> None:
    parse("/" + text)
    is_command("/" + text)


@pytest.mark.parametrize("name", sorted({one.name for one in catalog("both")}))
def test_every_command_answers_whatever_it_is_given(
    db: SessionDB, tmp_path: Path, name: str
) -> None:
    scope = "gateway" if name in CHATS else "cli"
    for args in ("", "1", "-1", "nonsense words", "--x", "∞\0"):
        front = Front(db, tmp_path / "home", scope=scope)  # type: ignore[arg-type]
        for said in (False, True):
            if said:
                front.ask("Hello")
            result = run(front, f"/{name} {args}")
            text = getattr(result, "output", "") or getattr(result, "message", "")
            assert "failed: " not in str(text)
    assert background.stop_all(db) == []


def test_the_table_is_not_imported_with_the_chat() -> None:
    program = "import sys, hermes_cli.chat; print('agent.slash' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
