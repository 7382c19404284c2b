"""`hermes model`, `config`, `tools`, `skills` and `memory`, with good and with bad input."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

CONFIG = """\
# My model.
model:
  default: gpt-5   # the best
  provider: openai
approvals: {mode: manual}
"""


def configure(cli: Any, text: str = CONFIG) -> Path:
    path: Path = cli.home / "config.yaml"
    path.write_text(text)
    return path


def test_model_shows_lists_and_sets(cli: Any) -> None:
    assert cli("model").out.startswith("local:")
    path = configure(cli)
    assert "OPENAI_API_KEY" in cli("model").out
    assert "gpt-5" in cli("model", "list", "gpt").out
    assert any(one["configured"] for one in cli("model", "list", "--json").json)
    assert cli("model", "list", "zzz").code == 1
    assert "anthropic:claude-sonnet-5-5" in cli("model", "set", "anthropic:claude-sonnet-5-5").out
    text = path.read_text()
    assert "# My model." in text
    assert "# the best" in text
    assert cli("model").out.startswith("anthropic:claude-sonnet-5-5\n")
    assert cli("model", "set", "local:").out.startswith("From now on local:")
    cli.fails("model", "set", "")
    cli.fails("model", "set")
    assert "Did you mean list?" in cli.fails("model", "lst")


def test_a_model_of_another_provider_leaves_nothing_of_the_old_one(cli: Any) -> None:
    path = configure(
        cli, "model: {default: m, provider: custom, base_url: 'http://x/v1', api_key: k}\n"
    )
    assert cli("model", "set", "openai:gpt-5").code == 0
    text = path.read_text()
    assert "http://x" not in text
    assert "api_key: k" not in text
    assert cli("config", "get", "model.base_url").out == "https://api.openai.com/v1\n"


def test_config_get(cli: Any) -> None:
    configure(cli, CONFIG + "platforms: {telegram: {enabled: true, token: '123:abc'}}\n")
    assert cli("config", "get", "model.default").out == "gpt-5\n"
    assert "approvals.mode: manual" in cli("config", "get").out
    assert cli("config", "get", "approvals", "--json").json["approvals.mode"] == "manual"
    assert cli("config", "get", "platforms.telegram.enabled").out == "true\n"
    assert "(not set)" in cli("config", "get", "model.api_key").out
    assert "Did you mean approvals.mode?" in cli.fails("config", "get", "aprovals.mode")


def test_config_set_keeps_everything_else(cli: Any) -> None:
    path = configure(cli)
    assert cli("config", "set", "approvals.mode", "smart").code == 0
    assert path.read_text() == CONFIG.replace("manual", "smart")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "already" in cli("config", "set", "approvals.mode", "smart").out
    assert cli("config", "set", "approvals.allow", "[ls, 'git *']").code == 0
    assert cli("config", "get", "approvals.allow").out == '["ls", "git *"]\n'
    before = path.read_text()
    assert "must be one of" in cli.fails("config", "set", "approvals.mode", "perhaps")
    assert "Did you mean approvals.mode?" in cli.fails("config", "set", "approval.mode", "off")
    assert "section" in cli.fails("config", "set", "approvals", "off")
    assert path.read_text() == before
    assert cli("config", "set", "mine.own", "5", "--force").code == 0


def test_text_that_is_not_unicode_is_refused(cli: Any) -> None:
    path = configure(cli)
    for value in ("\ud800", "caf\udce9"):
        assert "not valid Unicode" in cli.fails("config", "set", "model.default", value)
        assert "not valid Unicode" in cli.fails("config", "set", "SOME_TOKEN", value)
        assert "not valid Unicode" in cli.fails("config", "set", value, "1", "--force")
    assert path.read_text() == CONFIG
    assert not (cli.home / ".env").exists()
    assert cli("config", "get", "model.default").out == "gpt-5\n"


def test_an_argument_that_is_not_utf8_is_refused(cli: Any) -> None:
    path = configure(cli)
    done = subprocess.run(
        [sys.executable, "-m", "hermes_cli.main", "config", "set", "model.default", b"caf\xe9"],
        env={**os.environ, "HERMES_HOME": str(cli.home)},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"not valid Unicode" in done.stderr and b"Traceback" not in done.stderr
    assert path.read_text() == CONFIG


def test_secrets_go_into_the_env_file(cli: Any) -> None:
    said = cli("config", "set", "OPENAI_API_KEY", "sk-secret")
    assert "sk-secret" not in said.out
    path = cli.home / ".env"
    assert path.read_text() == "OPENAI_API_KEY=sk-secret\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert cli("config", "set", "OPENAI_API_KEY", "").code == 0
    assert path.read_text() == ""


def test_config_check_and_path(cli: Any) -> None:
    assert cli("config", "path").out == f"{cli.home / 'config.yaml'}\n"
    assert cli("config", "path", "--env").out == f"{cli.home / '.env'}\n"
    assert "all is well" in cli("config", "check").out
    path = configure(cli, "model: [broken\n")
    said = cli("config", "check")
    assert said.code == 1
    assert "line" in said.out
    assert "not valid YAML" in cli.fails("config", "get")
    path.write_text("modell: gpt-5\n")
    assert "model" in cli("config", "check").out


def test_tools(cli: Any) -> None:
    assert "terminal" in cli("tools").out
    names = {one["name"] for one in cli("tools", "list", "--json").json}
    assert {"terminal", "read_file", "memory"} <= names
    assert cli("tools", "show", "terminal").out.startswith("terminal (terminal)")
    assert "terminal" in cli.fails("tools", "show", "termnal")
    assert cli("tools", "disable", "web_fetch").code == 0
    assert "Left out: web_fetch" in cli("tools").out
    assert cli("tools", "disable", "files").code == 0
    assert "read_file" not in {one["name"] for one in cli("tools", "list", "--json").json}
    assert "Did you mean" in cli.fails("tools", "disable", "web_fech")
    assert cli("tools", "enable", "files").code == 0
    assert "enabled already" in cli("tools", "enable", "files").out


def test_skills(cli: Any) -> None:
    assert "no skills yet" in cli("skills").out
    folder = cli.home / "skills" / "notes"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: notes\ndescription: Take notes.\n---\nWrite.\n")
    assert "Take notes." in cli("skills").out
    assert cli("skills", "list", "--json").json[0]["name"] == "notes"
    assert "Write." in cli("skills", "show", "notes").out
    assert "Did you mean notes?" in cli.fails("skills", "show", "note")


def test_memory(cli: Any) -> None:
    assert "nothing yet" in cli("memory").out
    assert cli("memory", "add", "The sky is blue.").code == 0
    assert cli("memory", "add", "--user", "Likes tea.").code == 0
    shown = {"memory": ["The sky is blue."], "user": ["Likes tea."]}
    assert cli("memory", "show", "--json").json == shown
    assert "No entry contains" in cli.fails("memory", "remove", "tea")
    assert cli("memory", "remove", "--user", "tea").code == 0
    assert "at most" in cli.fails("memory", "add", "x" * 5000)
    assert "empty" in cli.fails("memory", "add", " ")
    assert cli("memory", "show", "--json").json == {"memory": ["The sky is blue."], "user": []}


def test_memory_says_where_it_is_from_and_can_be_undone(cli: Any) -> None:
    cli("memory", "add", "The sky is blue.")
    (entry,) = cli("memory", "show", "--json", "--where").json
    assert (entry["text"], entry["how"], entry["shared"]) == ("The sky is blue.", "person", False)
    cli("memory", "edit", entry["id"], "The sky is grey.")
    shown = cli("memory").out
    assert "The sky is grey." in shown and "written by command" in shown
    changes = cli("memory", "history", "--json").json
    assert [change["action"] for change in changes] == ["replace", "add"]
    assert "Undone" in cli("memory", "undo").out
    assert cli("memory", "show", "--json").json["memory"] == ["The sky is blue."]
    assert "undone already" in cli.fails("memory", "undo", changes[0]["id"])
    assert "changed since" not in cli("memory", "undo").out
    assert "nothing to undo" in cli.fails("memory", "undo")
    assert "undid" in cli("memory", "history").out
    (cli.home / "memories" / "MEMORY.md").write_text("By hand.\n")
    assert "By hand. (written by hand)" in cli("memory").out
    cli("memory", "remove", "--for-good", "By hand")
    assert "By hand" not in (cli.home / "memories/history/changes.jsonl").read_text()


def test_memory_of_others_and_of_everybody(cli: Any) -> None:
    cli("memory", "add", "--shared", "Closed on Mondays.")
    cli("memory", "add", "Mine.")
    shown = cli("memory").out
    assert "For everybody" in shown and "Closed on Mondays." in shown
    assert cli("memory", "show", "--shared", "--json").json["memory"] == ["Closed on Mondays."]
    assert "nobody called" in cli.fails("memory", "show", "--person", "Ada")
    cli("people", "add", "Ada")
    cli("memory", "add", "--person", "Ada", "Likes tea.")
    assert cli("memory", "show", "--person", "Ada", "--json").json["memory"] == ["Likes tea."]
    cli("memory", "add", "--group", "telegram:-1", "Fridays.")
    assert cli("memory", "show", "--group", "telegram:-1", "--json").json["memory"] == ["Fridays."]
    assert cli("memory", "show", "--json").json["memory"] == ["Mine."]


def test_skills_are_shared_removed_and_brought_back(cli: Any) -> None:
    folder = cli.home / "skills" / "sew"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: sew\ndescription: how to sew\n---\nSew.\n")
    assert "Everybody" in cli("skills", "share", "sew").out
    shared = cli.home / "shared" / "skills" / "sew" / "SKILL.md"
    assert shared.read_text().endswith("Sew.\n") and not folder.exists()
    assert shared.stat().st_mode & 0o077 == 0
    assert "no skill" in cli.fails("skills", "share", "sew")
    assert cli("skills", "list", "--json").json[0]["name"] == "sew"
    cli("skills", "remove", "--shared", "sew")
    assert not shared.exists()
    cli("memory", "undo", "--shared")
    assert shared.exists()
    cli("memory", "undo")
    assert (folder / "SKILL.md").exists()


def test_pull_says_why_it_cannot(cli: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert "the index pip is set to" in cli.fails("model", "pull", code=1)


def test_keys_without_meaning_are_named(cli: Any) -> None:
    path = configure(cli, "browser: {x: 1}\nsecurity: {}\ncheckpoints: {enabled: false}\n")
    path.chmod(0o600)
    said = cli("config", "check")
    assert said.code == 0
    assert "these keys mean nothing here:\n  browser\n" in said.out
    assert "security" not in said.out, "an empty section asks for nothing"
    assert "checkpoints" not in said.out
    assert "all is well" not in said.out
    said = cli("doctor")
    assert said.code == 0
    assert "browser is a key that means nothing here" in said.out
    assert "All is well" not in said.out


def test_approvals_are_listed_and_taken_back(cli: Any) -> None:
    assert "Nothing is always allowed" in cli("approvals").out
    with SessionDB(cli.home / "state.db") as db:
        db.grant_patterns(["git-push"], None)
        db.grant_patterns(["docker\x1b[2Jprune"], "telegram:ada")
        shown = cli("approvals").out
        assert "git-push" in shown and "telegram:ada" in shown
        assert "\x1b[2J" not in shown, "a stranger's escapes are shown, not obeyed"
        listed = cli("approvals", "list", "--json").json
        assert [one["granted_by"] for one in listed] == ["", "telegram:ada"]
        assert "There is no approval '3'" in cli.fails("approvals", "revoke", "3")
        assert "Which one?" in cli.fails("approvals", "revoke")
        assert "git-push" in cli("approvals", "revoke", "1").out
        assert [one["granted_by"] for one in db.list_grants()] == ["telegram:ada"]
        assert cli("approvals", "revoke", "--all").code == 0
        assert db.list_grants() == []
    assert cli("approvals", "revoke", "--all").out == "Nothing is always allowed.\n"
