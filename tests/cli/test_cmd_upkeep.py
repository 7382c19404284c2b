"""`hermes doctor`, `backup`, `restore`, `logs`, `insights`, `completion` and `version`."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from hermes_cli import __version__
from hermes_cli.commands.plots import bar, columns, spark
from hermes_state import ModelCall, SessionDB

PROGRAM = [sys.executable, "-m", "hermes_cli.main"]


# The doctor


def test_a_new_home_is_well_once_there_is_a_model_that_can_use_tools(cli: Any) -> None:
    said = cli("doctor")
    assert said.code == 0, said
    assert "All is well." not in said.out
    assert "too small for tools" in said.out
    assert "There are no problems" in said.out
    (cli.home / ".env").touch(mode=0o600)
    (cli.home / ".env").write_text("OPENAI_API_KEY=sk-test\n")
    said = cli("doctor")
    assert said.code == 0, said
    # Where bubblewrap is missing, what the wall cannot do is a hint, and the only one.
    hints = [line[2:] for line in said.out.splitlines() if line.startswith("! ")]
    assert hints in ([], ["wall"]), said
    assert ("All is well." in said.out) == (not hints)


def test_the_doctor_says_what_is_wrong_and_puts_it_right(rome: Any) -> None:
    with rome.store() as db:
        db._execute_write(
            lambda conn: conn.execute("UPDATE sessions SET message_count = 99").fetchall()
        )
    rome.home.chmod(0o755)
    (rome.home / ".env").write_text("A=b\n")
    (rome.home / ".env").chmod(0o644)
    said = rome("doctor")
    assert said.code == 1
    assert "2 sessions count" in said.out
    assert "can be read by others" in said.out
    assert "hermes doctor --fix" in said.out
    with rome.store() as db:
        assert (db.get_session("20260101_101010_aaaaaa") or {})["message_count"] == 99
    assert rome("doctor", "--fix").code == 0
    assert stat.S_IMODE((rome.home / ".env").stat().st_mode) == 0o600
    assert stat.S_IMODE(rome.home.stat().st_mode) == 0o700
    assert rome("doctor", "--json").json["ok"]
    with rome.store() as db:
        assert (db.get_session("20260101_101010_aaaaaa") or {})["message_count"] == 2


def test_the_doctor_mends_the_search_index(rome: Any) -> None:
    with rome.store() as db:
        db.search_messages("train")
        db.search_index._file.run(lambda conn: conn.execute("DELETE FROM doc_0") and None)
    assert "lacks 4 messages" in rome("doctor").out
    assert rome("doctor", "--fix").code == 0
    assert rome("sessions", "search", "train").code == 0


@pytest.mark.sqlite
def test_the_doctor_tells_of_a_loss_until_it_is_acknowledged(rome: Any) -> None:
    (rome.home / "state.db").write_bytes(b"no database at all" * 500)
    for _ in range(2):
        said = rome("doctor")
        assert said.code == 1
        assert "state.db.damaged-" in said.out
        assert "hermes doctor --acknowledge" in said.out
    assert "state.db.damaged-" not in rome("doctor", "--acknowledge").out
    assert "state.db.damaged-" not in rome("doctor").out


@pytest.mark.sqlite
def test_the_doctor_looks_at_everything_else_too(rome: Any) -> None:
    (rome.home / "config.yaml").write_text(
        "model: {default: gpt-5, provider: openai}\nplugins: {enabled: [gone]}\n"
        "hooks: {pre_tool_call: [{command: /bin/true}]}\nunknwon: 1\n"
    )
    (rome.home / "memories").mkdir()
    (rome.home / "memories" / "USER.md").write_text("x" * 3000)
    bad = rome.home / "skills" / "bad"
    bad.mkdir(parents=True)
    (bad / "SKILL.md").write_text("no front matter")
    said = rome("doctor").out
    for part in (
        "OPENAI_API_KEY",
        "unknwon",
        "gone is enabled",
        "/bin/true",
        "USER.md",
        "skills/bad",
    ):
        assert part in said, part
    (rome.home / "config.yaml").write_text("model: [broken")
    assert "not valid YAML" in rome("doctor").out
    (rome.home / "state.db").write_bytes(b"nothing of a database" * 999)
    assert rome("doctor").code in (0, 1)  # salvaged, and said
    assert list(rome.home.glob("state.db.damaged-*"))


# Backups


@pytest.mark.sqlite
def test_a_backup_brings_everything_back(rome: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (rome.home / ".env").write_text("OPENAI_API_KEY=sk-x\n")
    (rome.home / "memories").mkdir()
    (rome.home / "memories" / "USER.md").write_text("Likes tea.\n")
    (rome.home / "logs").mkdir()
    (rome.home / "logs" / "agent.log").write_text("x")
    made = rome("backup", "-o", "mine.tar.gz", "--json").json
    assert (made["sessions"], made["messages"]) == (2, 4)
    assert set(made["files"]) == {"state.db", ".env", "memories/USER.md"}
    assert stat.S_IMODE(Path("mine.tar.gz").stat().st_mode) == 0o600
    rome("sessions", "delete", "Trip to Rome", "--yes")
    rome("memory", "add", "--user", "Likes coffee.")
    assert "--yes" in rome.fails("restore", "mine.tar.gz")
    said = rome("restore", "mine.tar.gz", "--yes")
    assert said.code == 0, said
    assert "noon" in rome("sessions", "show", "Trip to Rome").out
    assert rome("sessions", "search", "train").code == 0
    assert rome("memory", "show", "--json").json["user"] == ["Likes tea."]
    assert (rome.home / "logs" / "agent.log").exists()
    (aside,) = (rome.home / "backups").glob("before-restore-*")
    assert "coffee" in (aside / "memories" / "USER.md").read_text()
    with SessionDB(aside / "state.db") as before:
        assert before.get_session("20260101_101010_aaaaaa") is None
    elsewhere = rome.home.parent / "elsewhere"
    monkeypatch.setenv("HERMES_HOME", str(elsewhere))
    assert rome("restore", "mine.tar.gz", "--yes").code == 0
    assert "noon" in rome("sessions", "show", "Trip to Rome").out
    assert rome("doctor", "--json").json["parts"]["files"]["ailments"] == []


def test_a_backup_without_secrets_leaves_them_alone(rome: Any) -> None:
    (rome.home / ".env").write_text("OPENAI_API_KEY=sk-x\n")
    made = rome("backup", "--no-secrets", "-l", "travel", "--json").json
    assert "travel" in made["path"]
    assert ".env" not in made["files"]
    assert rome("restore", made["path"], "--yes").code == 0
    assert (rome.home / ".env").read_text() == "OPENAI_API_KEY=sk-x\n"


@pytest.mark.sqlite
def test_a_home_in_use_is_not_replaced(rome: Any) -> None:
    assert rome("backup", "-o", "mine.tar.gz").code == 0
    with rome.store() as db:
        assert "in use" in rome.fails("restore", "mine.tar.gz", "--yes")
        assert rome("backup", "-o", "second.tar.gz").code == 0  # while it is in use
        assert db.append_message("20260102_101010_bbbbbb", "user", "still here")
    from gateway.status import GatewayLock

    lock = GatewayLock(rome.home)
    lock.acquire()
    try:
        assert "gateway" in rome.fails("restore", "mine.tar.gz", "--yes")
    finally:
        lock.release()


def test_bad_backups_are_refused(rome: Any) -> None:
    assert rome("backup", "-o", "mine.tar.gz").code == 0
    assert "not overwritten" in rome.fails("backup", "-o", "mine.tar.gz")
    assert "label" in rome.fails("backup", "-l", "../x")
    assert "There is no file" in rome.fails("restore", "none.tar.gz")
    whole = Path("mine.tar.gz").read_bytes()
    Path("cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    assert "damaged" in rome.fails("restore", "cut.tar.gz", "--yes")
    Path("text.tar.gz").write_text("hello")
    rome.fails("restore", "text.tar.gz")
    with tarfile.open("other.tar.gz", "w:gz") as archive:
        archive.add("text.tar.gz")
    assert "backup.json is missing" in rome.fails("restore", "other.tar.gz")
    shutil.rmtree("out", ignore_errors=True)
    with tarfile.open("mine.tar.gz") as archive:
        archive.extractall("out", filter="data")
    Path("out/added.txt").write_text("x")
    with tarfile.open("changed.tar.gz", "w:gz") as archive:
        for one in sorted(Path("out").iterdir()):
            archive.add(one, one.name)
    assert "added.txt" in rome.fails("restore", "changed.tar.gz", "--yes", code=1)
    assert not list((rome.home).glob(".restore-*"))
    assert "Trip to Rome" in rome("sessions", "list").out


@pytest.mark.sqlite
def test_a_restore_that_fails_puts_everything_back(rome: Any, monkeypatch: Any) -> None:
    from hermes_cli import home_backup

    assert rome("backup", "-o", "mine.tar.gz").code == 0
    rome("sessions", "rename", "Trip to Rome", "Later")
    real = home_backup._move

    def fails_at_the_store(source: Path, target: Path, moved: Any) -> None:
        if target == rome.home / "state.db":
            raise OSError(28, "No space left on device", str(target))
        real(source, target, moved)

    monkeypatch.setattr(home_backup, "_move", fails_at_the_store)
    assert "No space left" in rome.fails("restore", "mine.tar.gz", "--yes", code=1)
    assert "Later" in rome("sessions", "list").out


# Logs

RECORDS = (
    "2026-01-01 10:00:00,000 INFO agent.x [s1]: begun\n"
    "2026-01-01 10:00:01,000 ERROR agent.x [s2]: failed\nTraceback: here\n"
    "2026-01-01 10:00:02,000 WARNING agent.x: odd\n"
)


def test_logs_show_the_wanted_records(cli: Any) -> None:
    assert "There is no" in cli.fails("logs", code=1)
    (cli.home / "logs").mkdir()
    (cli.home / "logs" / "agent.log").write_text(RECORDS)
    assert cli("logs").out == RECORDS
    assert cli("logs", "-n", "1").out.endswith("odd\n")
    assert cli("logs", "-n", "0").out == ""
    failure = "".join(RECORDS.splitlines(keepends=True)[1:3])
    assert cli("logs", "--level", "error").out == failure
    assert "begun" in cli("logs", "--session", "s1").out
    assert "failed" not in cli("logs", "--session", "s1").out
    cli.fails("logs", "--level", "loud")
    cli.fails("logs", "-n", "-1")
    cli.fails("logs", "--file", "other")


def test_logs_follow_what_is_written_also_over_a_rotation(cli: Any) -> None:
    path = cli.home / "logs" / "agent.log"
    path.parent.mkdir()
    path.write_text(RECORDS)
    with subprocess.Popen([*PROGRAM, "logs", "-f", "-n", "1"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert b"odd" in child.stdout.readline()
        with path.open("a") as file:
            file.write("2026-01-01 10:00:03,000 INFO x: more\n")
        assert b"more" in child.stdout.readline()
        path.rename(path.with_suffix(".log.1"))
        path.write_text("2026-01-01 10:00:04,000 INFO x: after\n")
        assert b"after" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130


# Insights


def test_insights_draw_what_happened(rome: Any) -> None:
    with rome.store() as db:
        db.update_token_counts(
            "20260101_101010_aaaaaa", 5000, 700, model="gpt-5", estimated_cost_usd=0.5,
            api_call_count=3,
        )  # fmt: skip
    said = rome("insights").out
    for part in ("2 conversations", "4 messages", "$0.50", "█", "gpt-5", "Messages per day"):
        assert part in said, part
    found = rome("insights", "--json", "--days", "2").json
    assert found["activity"]["days"][time.strftime("%Y-%m-%d")]["messages"] == 4
    assert "0 conversations" in rome("insights", "--source", "telegram").out
    rome.fails("insights", "--days", "0")
    rome.fails("insights", "--days", "many")


def test_insights_tell_of_people_and_their_limits(cli: Any) -> None:
    with cli.store() as db:
        for owner, dollars in (("telegram:1", 0.5), ("telegram:2", 1.5)):
            begun = db.begin_turn(
                owner, {"role": "user", "content": "?"}, source="telegram",
                facts={"user_id": owner}, leased=True,
            )  # fmt: skip
            call = ModelCall("turn", "gpt-5", input_tokens=9, cost_usd=dollars)
            db.record_step(owner, [], lease=begun.lease, ends=True, call=call)
    said = cli("insights").out
    assert "People" in said and "telegram:2" in said and "Limits" not in said
    config = cli.home / "config.yaml"
    config.write_text("limits: {default: {usd_per_day: 2}}\n")
    said = cli("insights").out
    assert "Limits" in said and "$1.50 of $2.00 per day" in said
    limits = cli("insights", "--json").json["limits"]
    assert {(limit["name"], limit["spent"]) for limit in limits} == {
        ("telegram:1", 0.5), ("telegram:2", 1.5),
    }  # fmt: skip


def test_plots() -> None:
    assert bar(0, 5, 10) == ""
    assert bar(5, 5, 3) == "███"
    assert bar(1, 1000, 3) == "▏"
    assert columns([], 3) == []
    assert columns([0, 0], 3) == []
    assert columns([1, 2], 2) == [" █", "██"]
    assert spark([0, 1, 8]) == " ▁█"


# Completion and version


def test_bash_completes_commands_actions_and_options(cli: Any) -> None:
    script = cli("completion", "bash").out
    for typed, wanted in (
        ("hermes ses", "sessions"),
        ("hermes sessions ex", "export"),
        ("hermes sessions export --fo", "--format"),
        ("hermes completion z", "zsh"),
        ("hermes --ver", "--version"),
    ):
        words = typed.split()
        done = subprocess.run(
            ["bash", "-c", f'{script}\nCOMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}\n'
             'set -u; _hermes; echo "${COMPREPLY[@]}"'],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert wanted in done.stdout.split(), (typed, done)


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_other_shells_can_read_their_scripts(cli: Any, shell: str) -> None:
    script = cli("completion", shell).out
    assert "sessions" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
    cli.fails("completion", "tcsh")


def test_version(cli: Any) -> None:
    assert cli("--version").out == f"hermes {__version__}\n"
    assert cli("version").out.startswith(f"hermes {__version__}\n")
    assert cli("version", "--json").json["version"] == __version__
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"hermes {__version__}\n"


def test_a_home_that_cannot_be_used_is_said(cli: Any, monkeypatch: Any) -> None:
    Path("file").touch()
    monkeypatch.setenv("HERMES_HOME", str(Path("file").absolute() / "home"))
    assert "HERMES_HOME" in cli.fails("sessions", "list")
    assert os.environ["HERMES_HOME"]
