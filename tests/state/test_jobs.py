"""Jobs in the store: an occurrence is claimed once, run once, settled once."""

from __future__ import annotations

from typing import Any

import pytest

from hermes_state import EVERYONE, OPERATOR, JobError, SessionDB
from hermes_state.jobs import Claim, Notice, Settled, Skip, occurrence_id

from .interleaving import Outcome, Pair

CHAT = {"session_key": "k", "platform": "local", "chat_id": "1", "thread_id": None}


def add(db: SessionDB, job_id: str = "j", due: int = 100, **more: Any) -> dict[str, Any]:
    given = {"user_id": None, "name": job_id, "settings": {"prompt": "p"}, **more}
    return db.add_job(
        job_id, schedule="every 60 from 100", timezone="UTC", next_due=due, next_at=due, **given
    )


def claim(db: SessionDB, due: int = 100, job_id: str = "j", **more: Any) -> Any:
    wanted = more.pop("claim", Claim(due + 60, due + 60, (due,)))
    return db.claim_job(job_id, 1, due, wanted, content="do it", session_id="s", **more)


def states(db: SessionDB, job_id: str = "j") -> list[tuple[int, str]]:
    return [(int(run["due_at"]), run["state"]) for run in reversed(db.list_job_runs(job_id))]


def test_an_occurrence_is_an_inbox_row_of_its_name(db: SessionDB) -> None:
    add(db)
    assert claim(db) == [100]
    assert claim(db) is None, "the job has moved on"
    [row] = db.list_waiting(source="job")
    assert row["id"] == row["platform_message_id"] == occurrence_id("j", 100) == "job:j:100"
    assert row["facts"] == {"job": {"id": "j", "due": 100}}
    assert db.next_job_at() == 160 and states(db) == [(100, "waiting")]
    [job] = db.list_due_jobs(160)
    assert job["next_due"] == 160 and db.list_due_jobs(159) == []


def test_what_is_due_while_the_last_run_goes_on_is_left_out_or_queued(db: SessionDB) -> None:
    add(db)
    assert claim(db) == [100]
    assert claim(db, 160) == []
    assert states(db) == [(100, "waiting"), (160, "skipped")]
    assert claim(db, 220, overlaps=True) == [220]
    assert db.begin_run("j", 100, "s") and not db.begin_run("j", 220, "s")
    assert db.settle_run("j", 100, Settled("delivered", answer="a"))
    assert db.begin_run("j", 220, "s")


def test_a_run_is_settled_once_and_failures_are_told_with_growing_distance(db: SessionDB) -> None:
    add(db)
    for number in range(9):
        due = 100 + 60 * number
        claim(db, due)
        assert db.begin_run("j", due, "s")
        notice = Notice(f"say:{due}", "failed.", CHAT)
        assert db.settle_run("j", due, Settled("failed", "why"), notice)
        assert not db.settle_run("j", due, Settled("failed", "why"), notice)
    told = [row["obligation_id"] for row in db.list_deliveries()]
    assert told == ["say:100", "say:160", "say:280", "say:520"]
    assert [job["failures"] for job in db.list_jobs(OPERATOR)] == [9]
    claim(db, 640)
    assert db.settle_run("j", 640, Settled("silent"))
    assert [(job["failures"], job["runs"]) for job in db.list_jobs(OPERATOR)] == [(0, 10)]


def test_what_was_missed_is_noted_and_told_with_the_claim(db: SessionDB) -> None:
    add(db)
    notice = Notice("say:missed", "missed", CHAT)
    wanted = Claim(None, None, (400,), (Skip(100, 340, 5, "off"),), (notice,))
    assert claim(db, claim=wanted) == [400]
    assert states(db) == [(100, "skipped"), (400, "waiting")]
    assert [job["state"] for job in db.list_jobs(OPERATOR)] == ["done"]
    assert [row["content"] for row in db.list_deliveries()] == ["missed"]
    assert db.next_job_at() is None


def test_jobs_are_changed_as_they_were_read(db: SessionDB) -> None:
    job = add(db)
    assert db.change_job("j", 1, state="paused")
    assert not db.change_job("j", 1, name="late")
    assert claim(db) is None and db.next_job_at() is None
    assert db.get_job("j") == {
        **job, "state": "paused", "version": 2, "updated_at": db.get_job("j")["updated_at"],
    }  # type: ignore[index]  # fmt: skip
    assert not db.change_job("unknown", 1, name="x")
    with pytest.raises(ValueError, match="no colour"):
        db.change_job("j", 2, colour="red")


def test_names_and_numbers_are_an_owners(db: SessionDB) -> None:
    add(db)
    with pytest.raises(JobError, match="already"):
        add(db, "k", name="j")
    add(db, "k", name="j", user_id="local:1")
    with pytest.raises(JobError, match="limit"):
        add(db, "m", user_id="local:1", most=1)
    assert [job["id"] for job in db.list_jobs("local:1")] == ["k"]
    assert [job["id"] for job in db.list_jobs(OPERATOR)] == ["j"]
    assert db.list_jobs("local:2") == db.list_jobs("local:1", name="nothing") == []
    assert len(db.list_jobs(EVERYONE)) == 2


def test_a_removed_job_leaves_nothing_that_waits(db: SessionDB) -> None:
    add(db)
    claim(db)
    assert db.remove_job("j") and not db.remove_job("j")
    assert db.list_waiting(source="job") == db.list_job_runs("j") == db.list_open_runs() == []
    assert not db.start_run("j", 5, "x", "s") and not db.write_notepad("j", "x")


def test_a_run_that_somebody_wants_now_is_anybodys(db: SessionDB) -> None:
    add(db)
    assert db.start_run("j", 5, "now", "s", owned=False)
    assert not db.start_run("j", 5, "now", "s", owned=False)
    [run] = db.list_open_runs()
    assert (run["inbox_state"], run["inbox_owner"], run["content"]) == ("waiting", None, "now")
    assert db.claim_message("job:j:5", None)


def test_jobs_follow_their_person(db: SessionDB) -> None:
    one, two = db.add_person("Ada"), db.add_person("Bob")
    add(db, user_id=one.id)
    merge = db.merge_persons(one.id, two.id)
    assert [job["id"] for job in db.list_jobs(two.id)] == ["j"]
    db.unmerge_persons(merge.id)
    assert [job["id"] for job in db.list_jobs(one.id)] == ["j"] and not db.list_jobs(two.id)
    db.remove_person(one.id)
    assert [job["state"] for job in db.list_jobs(EVERYONE)] == ["paused"]


def test_one_of_two_processes_claims(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        add(db, name)

    def take(db: SessionDB, name: str) -> Any:
        return claim(db, job_id=name)

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert sorted([first.result or [], second.result or []]) == [[], [100]]
        assert len([row for row in db.list_waiting() if row["session_key"] == f"job:{name}"]) == 1

    pair.every_way(prepare, take, take, check)


def test_one_of_two_processes_settles(pair: Pair) -> None:
    def prepare(db: SessionDB, name: str) -> None:
        add(db, name)
        claim(db, job_id=name)

    def settle(db: SessionDB, name: str) -> Any:
        return db.settle_run(name, 100, Settled("failed", "x"), Notice(f"say:{name}", "f", CHAT))

    def check(db: SessionDB, name: str, first: Outcome, second: Outcome) -> None:
        assert sorted([first.result, second.result]) == [False, True]
        told = [row for row in db.list_deliveries() if row["obligation_id"] == f"say:{name}"]
        assert len(told) == 1

    pair.every_way(prepare, settle, settle, check)
