"""`hermes cron`: jobs from the command line, run by a timer."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from hermes_state import SessionDB

PLATFORM = "platforms:\n  telegram: {home_channel: {chat_id: 42}}\n"


def until(cli: Any, *words: str, has: str) -> str:
    """Say something until its answer has a text."""
    deadline = time.monotonic() + 30
    while has not in (said := cli(*words)).out:
        assert said.code == 0 and time.monotonic() < deadline, said
        time.sleep(0.1)
    return str(said.out)


def test_a_job_from_its_making_to_its_history(cli: Any) -> None:
    assert "There are no jobs." in cli("cron").out
    said = cli("cron", "add", "daily 08:30 Europe/Berlin", "What is new?", "--name", "news")
    assert said.code == 0 and said.out.count("08:30 (Europe/Berlin)") == 3, said
    assert "Nothing is running jobs now." in said.out
    [job] = json.loads(cli("cron", "list", "--json").out)
    assert (job["name"], job["schedule"], len(job["next_times"])) == ("news", "cron 30 8 * * *", 3)
    assert "news is paused." in cli("cron", "pause", "news").out
    assert "paused" in cli("cron", "list").out
    assert "news goes on." in cli("cron", "resume", job["id"][:6]).out
    rules = ("--jitter", "60", "--missed", "all", "--missed-most", "3")
    edited = cli("cron", "edit", "news", "--schedule", "daily 09:15", *rules)
    assert "09:15 (Europe/Berlin)" in edited.out
    [job] = json.loads(cli("cron", "list", "--json").out)
    assert (job["jitter"], job["missed"], job["missed_most"]) == (60, "all", 3)
    assert "between 1 and" in cli("cron", "edit", "news", "--missed-most", "0").err
    assert "was not due yet" in cli("cron", "history", "news").out
    assert "news is removed." in cli("cron", "remove", "news").out
    assert cli("cron", "history", "news").err == "hermes: There is no job 'news'.\n"


def test_what_is_due_is_run_without_a_gateway(cli: Any) -> None:
    cli("cron", "add", "in 1 second", "Tea", "--kind", "message", "--name", "tea")
    until(cli, "cron", "run-due", has="1 run.")
    assert "done" in cli("cron", "history", "tea").out
    assert cli("cron", "run-due").out == "0 run.\n"


def test_what_was_begun_by_hand_is_run_without_a_gateway(cli: Any) -> None:
    cli("cron", "add", "in 1 second", "Tea", "--kind", "message", "--name", "tea")
    until(cli, "cron", "run-due", has="1 run.")
    while (said := cli("cron", "run", "tea")).code:  # a run is named by its second
        assert "in this very second" in said.err, said
    assert cli("cron", "run-due").out == "1 run.\n"
    runs = json.loads(cli("cron", "history", "tea", "--json").out)
    assert [(run["state"], run["answer"]) for run in runs] == [("done", "⏰ Tea")] * 2


def test_answers_for_a_chat_wait_for_a_gateway(cli: Any) -> None:
    (cli.home / "config.yaml").write_text(PLATFORM)
    said = cli("cron", "add", "in 1 second", "Tea", "--kind", "message", "--deliver", "telegram")
    assert said.code == 0, said
    out = until(cli, "cron", "run-due", has="1 run.")
    assert "1 text waits for a gateway" in out
    assert "delivered" in cli("cron", "history", "Tea").out


def test_times_are_shown_before_a_job_is_kept(cli: Any) -> None:
    shown = cli("cron", "add", "daily 08:30 UTC", "hello", "--dry-run")
    assert shown.code == 0 and shown.out.count("08:30 (UTC)") == 3
    assert "There are no jobs" in cli("cron", "list").out
    assert cli("cron", "add", "when pigs fly", "hello", "--dry-run").code == 2


def test_mistakes_are_sentences(cli: Any) -> None:
    for words, problem in (
        (["whenever", "x"], "names no time I understand"),
        (["daily 08:30", ""], "needs a prompt"),
        (["daily 08:30", "x", "--deliver", "nowhere:1"], "There is no platform 'nowhere'"),
        (["daily 08:30", "x", "--timezone", "Mars/Base"], "no time zone"),
        (["daily 08:30", "x", "--until", "soon"], "is no day"),
    ):
        said = cli("cron", "add", *words)
        assert said.code == 2 and problem in said.err, said
    assert cli("cron", "remove", "x").code == 2


def test_the_jobs_of_hermes_agent_are_taken_over(cli: Any) -> None:
    (cli.home / "config.yaml").write_text(PLATFORM)
    file = cli.home / "cron" / "jobs.json"
    assert "There is no" in cli("cron", "import").err
    file.parent.mkdir()
    jobs: list[dict[str, Any]] = [
        {"id": "1", "name": "news", "prompt": "news?",
         "schedule": {"kind": "cron", "expr": "0 7 * * *"}, "deliver": "origin",
         "origin": {"platform": "telegram", "chat_id": "7"}},
        {"id": "2", "name": "often", "prompt": "x", "schedule": {"kind": "interval", "minutes": 20},
         "enabled": False, "deliver": "local"},
        {"id": "3", "name": "past", "prompt": "x",
         "schedule": {"kind": "once", "run_at": "2020-01-01T00:00:00+00:00"}},
        {"id": "4", "name": "over", "prompt": "x", "schedule": "every 5m",
         "repeat": {"times": 2, "completed": 2}},
    ]  # fmt: skip
    file.write_text(json.dumps({"jobs": jobs}))
    said = cli("cron", "import")
    assert said.code == 0 and "past: left out." in said.out and "over: left out" in said.out, said
    kept = {job["name"]: job for job in json.loads(cli("cron", "list", "--json").out)}
    assert kept["news"]["to"]["chat_id"] == "7" and kept["often"]["state"] == "paused"
    assert "already" in cli("cron", "import").out


def test_a_text_is_sent_once_through_the_outbox(cli: Any) -> None:
    (cli.home / "config.yaml").write_text(PLATFORM)
    assert "No gateway runs" in cli("send", "--to", "telegram", "--id", "x", "MEDIA:/etc/hosts").out
    assert "sent before" in cli("send", "--to", "telegram:42", "--id", "x", "again").out
    assert cli("send", "--to", "home", "to my home chat").code == 0
    with SessionDB(cli.home / "state.db") as db:
        rows = db.list_deliveries()
    assert [(row["chat_id"], row["content"]) for row in rows] == [
        ("42", "MEDIA:/etc/hosts"), ("42", "to my home chat"),
    ]  # fmt: skip
    assert all(row["obligation_id"].startswith("say:") for row in rows), "no files are read"
    (cli.home / "report.pdf").write_bytes(b"now")
    report = ["--file", str(cli.home / "report.pdf")]
    assert cli("send", "--to", "home", "--id", "r", "the report", *report).code == 0
    assert "sent before" in cli("send", "--to", "home", "--id", "r", "the report", *report).out
    assert cli("send", "--to", "home", "--file", "nowhere").code == 2
    (cli.home / "report.pdf").write_bytes(b"later")
    with SessionDB(cli.home / "state.db") as db:
        said, file = db.list_deliveries()[2:]
    assert said["content"] == "the report" and file["obligation_id"] == "file:send:r:0"
    assert Path(file["content"]).read_bytes() == b"now", "as it was when it was sent"
    for words in (["--to", "slack", "x"], ["--to", "none", "x"], ["--to", "telegram", " "]):
        assert cli("send", *words).code == 2


def test_a_platform_that_has_variables_alone_is_sent_to(cli: Any) -> None:
    (cli.home / ".env").write_text(
        "EMAIL_ADDRESS=hermes@test.example\nEMAIL_PASSWORD=x\nEMAIL_IMAP_HOST=imap.test.example\n"
    )
    assert cli("send", "--to", "email:ann@people.example", "hello").code == 0
    deliver = ["--deliver", "email:ann@people.example"]
    assert cli("cron", "add", "every day at 7", "the news", *deliver).code == 0
    assert cli("send", "--to", "matrix:!x", "hello").code == 2
    with SessionDB(cli.home / "state.db") as db:
        (row,) = db.list_deliveries()
        db.set_meta("home_chat:email", json.dumps({"chat_id": "bob@people.example"}))
    assert (row["platform"], row["chat_id"]) == ("email", "ann@people.example")
    assert cli("send", "--to", "home", "to the home chat").code == 0
