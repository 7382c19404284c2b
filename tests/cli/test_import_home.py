"""`hermes import HOME`: what comes along, what is left behind and why; twice is once."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location(
    "cli_agent_home", Path(__file__).with_name("agent_home.py")
)
assert _spec is not None
assert _spec.loader is not None
agent_home = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(agent_home)

AGENT = os.environ.get("HERMES_AGENT_PYTHON")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.startswith(("state.db", "search.db"))
    }


def outcomes(said: Any) -> dict[str, tuple[str, str]]:
    return {part["what"]: (part["outcome"], part["note"]) for part in said.json["parts"]}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return Path(agent_home.make_agent_home(tmp_path / "agent-home"))


def test_everything_comes_along_or_is_said(cli: Any, source: Path) -> None:
    before = contents(source)
    parts = outcomes(cli("import", str(source), "--json"))
    assert contents(source) == before
    brought = {what for what, (outcome, _) in parts.items() if outcome == "brought"}
    left = {what: note for what, (outcome, note) in parts.items() if outcome == "left behind"}
    assert brought == {
        "config.yaml", ".env", "auth.json: openrouter key 1", "SOUL.md",
        "MEMORY.md: “The sky is blue.”", "USER.md: “Likes tea.”", "skill kitchen/bread",
        "plugin greeter", "event hook watcher", "cron/jobs.json", "scripts", "profile coder",
        "profile coder: SOUL.md", "profile coder: .env", "profile coder: MEMORY.md: “Uses tabs.”",
    }  # fmt: skip
    assert set(left) == {
        "which plugins and hooks may run", "shell-hooks-allowlist.json",
        "auth.json: openrouter key 2", "auth.json: log-in for nous", "auth.json: anthropic key 1",
        "auth.json: custom:mine key 1", "logs", "kanban.db", "audio_cache", "pairing", "mystery",
    }  # fmt: skip
    assert all(left.values()), "each with why"
    assert "1 jobs" in parts["cron/jobs.json"][1]
    every = json.dumps(parts)
    assert not [secret for secret in agent_home.SECRETS if secret in every]


def test_what_came_along_works(cli: Any, source: Path) -> None:
    assert cli("import", str(source)).code == 0
    dotenv = (cli.home / ".env").read_text()
    assert "OPENROUTER_API_KEY=sk-or-first" in dotenv
    assert "OPENAI_API_KEY=sk-env" in dotenv
    assert stat.S_IMODE((cli.home / ".env").stat().st_mode) == 0o600
    assert cli("memory", "show", "--json").json["user"] == ["Likes tea."]
    assert "Bake bread" in cli("skills").out
    kept = (cli.home / "cron" / "jobs.json").read_bytes()
    assert kept == (source / "cron" / "jobs.json").read_bytes()
    assert (cli.home / "profiles" / "coder" / "SOUL.md").read_text() == "You write code.\n"
    assert "terminal" in cli("tools").out


def test_what_runs_by_itself_is_off_until_it_is_allowed(cli: Any, source: Path) -> None:
    from conversation.event_hooks import EventHooks

    assert cli("import", str(source)).code == 0
    assert "greeter 1 (user): not enabled" in cli("plugins", "list").out
    assert "# all" in (cli.home / "config.yaml").read_text(), "comments stay"
    assert cli("config", "get", "hooks_auto_accept").out == "false\n"
    assert EventHooks(cli.home / "hooks").loaded_hooks == []
    assert asyncio.run(EventHooks(cli.home / "hooks").emit("agent:start", {})) == []
    assert "watcher (event hook): not agreed to" in cli("hooks", "list").out
    said = cli("doctor")
    assert said.code == 1
    assert "hermes hooks accept watcher" in said.out
    assert cli("hooks", "accept", "watcher").code == 0
    assert EventHooks(cli.home / "hooks").loaded_hooks == ["watcher"]
    assert cli("hooks", "revoke", "watcher").code == 0
    assert EventHooks(cli.home / "hooks").loaded_hooks == []


def test_consent_in_the_environment_is_not_brought(cli: Any, source: Path) -> None:
    with (source / ".env").open("a") as file:
        file.write("HERMES_ACCEPT_HOOKS=1\n")
    for again in (False, True):
        parts = outcomes(cli("import", str(source), "--json"))
        assert parts[".env: HERMES_ACCEPT_HOOKS"][0] == "left behind"
        assert parts[".env"][0] == ("here already" if again else "brought")
        assert "HERMES_ACCEPT_HOOKS" not in (cli.home / ".env").read_text()


KILLED = """
import os, shutil, signal, sys
real, left = shutil.copyfile, [int(sys.argv[1])]
def copy(*args, **named):
    left[0] -= 1
    if left[0] < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **named)
shutil.copyfile = copy
from hermes_cli.main import main
main(["import", sys.argv[2]])
"""


def test_a_killed_import_is_brought_to_its_end_by_the_next(cli: Any, source: Path) -> None:
    agent_home.write(source / "plugins" / "greeter" / "data" / "x", "x")
    for count in (0, 2):  # within the skill, which is whole after that, and within the plugin
        command = [sys.executable, "-c", KILLED, str(count), str(source)]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert list((cli.home / "plugins").iterdir()) == [cli.home / "plugins" / ".importing-greeter"]
    assert (cli.home / "skills" / "kitchen" / "bread" / "SKILL.md").exists()
    parts = outcomes(cli("import", str(source), "--json"))
    assert parts["plugin greeter"][0] == "brought"
    assert parts["SOUL.md"][0] == parts["skill kitchen/bread"][0] == "here already"
    assert contents(cli.home / "plugins") == contents(source / "plugins")
    assert not list(cli.home.rglob(".importing-*"))


def test_twice_is_once(cli: Any, source: Path) -> None:
    first = outcomes(cli("import", str(source), "--json"))
    before = contents(cli.home)
    again = outcomes(cli("import", str(source), "--json"))
    assert contents(cli.home) == before
    brought = [what for what, (outcome, _) in again.items() if outcome == "brought"]
    assert brought == ["profile coder"]
    assert {what for what, (outcome, _) in again.items() if outcome == "left behind"} <= set(first)


def test_an_import_that_was_cut_off_is_repeated(cli: Any, source: Path) -> None:
    partial = cli.home / "plugins" / ".importing-greeter"
    agent_home.write(partial / "plugin.yaml", "half")
    assert outcomes(cli("import", str(source), "--json"))["plugin greeter"][0] == "brought"
    assert not partial.exists()
    assert contents(cli.home / "plugins") == contents(source / "plugins")


def test_nothing_that_is_here_is_replaced(cli: Any, source: Path) -> None:
    mine = {
        "config.yaml": "model: mine\n",
        ".env": "OPENAI_API_KEY=sk-mine\n",
        "SOUL.md": "I am mine.\n",
        "plugins/greeter/plugin.yaml": "name: greeter\n",
        "hooks/watcher/HOOK.yaml": "name: watcher\n",
        "cron/jobs.json": "[]",
        "skills/kitchen/bread/SKILL.md": "mine",
    }
    for name, text in mine.items():
        agent_home.write(cli.home / name, text)
    parts = outcomes(cli("import", str(source), "--json"))
    for name in mine.keys() - {".env"}:
        assert (cli.home / name).read_text() == mine[name], name
    assert "OPENAI_API_KEY=sk-mine" in (cli.home / ".env").read_text()
    assert "TELEGRAM_BOT_TOKEN=tg-token" in (cli.home / ".env").read_text()
    for what in ("config.yaml", "SOUL.md", "plugin greeter", "event hook watcher",
                 "cron/jobs.json", "skill kitchen/bread", ".env: OPENAI_API_KEY"):  # fmt: skip
        assert parts[what][0] == "left behind", what
    assert parts[".env: TELEGRAM_BOT_TOKEN"][0] == "brought"


def test_a_dry_run_says_the_same_and_changes_nothing(cli: Any, source: Path) -> None:
    before = contents(cli.home)
    planned = outcomes(cli("import", str(source), "--dry-run", "--json"))
    assert contents(cli.home) == before
    assert planned.keys() == outcomes(cli("import", str(source), "--json")).keys()
    assert "left behind" in cli("import", str(source), "--dry-run").out


def test_what_cannot_be_read_is_left_and_the_rest_comes(cli: Any, source: Path) -> None:
    (source / "auth.json").write_text("{broken")
    (source / "config.yaml").write_text("a: [broken")
    parts = outcomes(cli("import", str(source), "--json"))
    assert parts["auth.json"][0] == parts["config.yaml"][0] == "left behind"
    assert parts["skill kitchen/bread"][0] == "brought"


def test_a_home_without_a_conversation_yet(cli: Any, tmp_path: Path) -> None:
    source = tmp_path / "fresh"
    source.mkdir()
    (source / "SOUL.md").write_text("Be kind.")
    store = sqlite3.connect(source / "state.db")
    store.execute("CREATE TABLE async_delegations (delegation_id TEXT PRIMARY KEY)")
    store.close()
    assert cli("import", str(source), "--dry-run").out.startswith("A Hermes home: 0 sessions")
    assert outcomes(cli("import", str(source), "--json"))["SOUL.md"][0] == "brought"
    assert cli("sessions", "list").code == 0


@pytest.mark.skipif(not AGENT, reason="HERMES_AGENT_PYTHON names no interpreter with that system")
def test_a_home_that_the_program_itself_has_made(cli: Any, tmp_path: Path) -> None:
    source = tmp_path / "made-by-it"
    source.mkdir()
    environ = os.environ | {"HERMES_HOME": str(source), "HOME": str(tmp_path)}
    program = str(Path(str(AGENT)).with_name("hermes"))
    for words in (
        ["auth", "add", "openrouter", "--type", "api-key", "--api-key", "sk-or-made"],
        ["config", "set", "agent.max_turns", "17"],
    ):
        subprocess.run([program, *words], env=environ, check=True, capture_output=True)
    make_job = "from cron.jobs import create_job; create_job('Say hi', 'every 2h', name='greet')"
    subprocess.run([str(AGENT), "-c", make_job], env=environ, check=True, capture_output=True)
    parts = outcomes(cli("import", str(source), "--json"))
    assert parts["auth.json: openrouter key 1"][0] == "brought"
    assert parts["cron/jobs.json"] == (
        "brought", "1 jobs; take them over: hermes cron import",
    )  # fmt: skip
    assert parts["SOUL.md"][0] == "brought"
    assert "OPENROUTER_API_KEY=sk-or-made" in (cli.home / ".env").read_text()
    assert cli("config", "get", "agent.max_iterations").out == "17\n"
