"""Jobs in a gateway: from the moment they are due to one answer in a chat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AuthenticationError
from agent.jobs.actions import Jobs
from agent.jobs.job import JobSettings
from agent.model import Usage
from agent.scripted import call, fail, say
from hermes_state import OPERATOR, JobError

from .chats import Chats, gateway
from .loopback import LoopbackServer, Request, Response

CHAT = {
    "session_key": "agent:main:local:dm:1", "platform": "local", "chat_id": "1", "thread_id": None,
}  # fmt: skip


def jobs_of(chats: Chats, owner: str = OPERATOR) -> Jobs:
    return Jobs(chats.runner.settings, chats.db, owner)


def to_chat(prompt: str, **more: Any) -> JobSettings:
    return JobSettings(prompt=prompt, deliver="chat", to=CHAT, usd_per_day=100.0, **more)


async def settled(chats: Chats, job_id: str, count: int = 1) -> list[dict[str, Any]]:
    """The runs of a job, newest first, once so many are settled."""
    while True:
        runs = chats.db.list_job_runs(job_id)
        if len(runs) >= count and all(run["ended_at"] for run in runs):
            return runs
        await asyncio.sleep(0.01)


async def test_a_job_that_is_due_is_answered_in_its_chat_once(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        job = jobs_of(chats).add("in 1 second", to_chat("what is new?"))
        [text] = await chats.local.wait_for(1)
        assert text.startswith("re: [Job 'what is new?']")
        [run] = await settled(chats, job.id)
        assert run["state"] == "delivered" and run["session_id"].startswith(f"cron_{job.id}_")
        session = chats.db.get_session(run["session_id"])
        assert session is not None and session["end_reason"] == "cron_complete"
        said = chats.db.get_messages(run["session_id"])
        assert [message["role"] for message in said] == ["user", "assistant"]
        assert said[0]["platform_message_id"] == f"job:{job.id}:{int(run['due_at'])}"
        assert jobs_of(chats).find(job.id).state == "done"
        await chats.runner.scheduler.recover()
        assert len(chats.local.texts("1")) == 1


async def test_a_reminder_comes_in_its_chat_and_can_be_answered(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        assert await chats.ask("hello") == "re: hello"
        kept = await chats.ask("/remind me in 1 second to call Ada")
        assert kept.startswith("⏰ call Ada") and "in 1 second" in kept
        assert (await chats.local.wait_for(3))[2] == "⏰ call Ada"
        assert await chats.ask("done, thanks") == "re: done, thanks"
        said = [row["content"] for row in chats.db.get_messages(chats.session_id())]
        assert said[2:] == ["[Job 'call Ada']\n\ncall Ada", "⏰ call Ada", "done, thanks",
                            "re: done, thanks"]  # fmt: skip
        assert "call Ada" in await chats.ask("/cron") and len(chats.model.requests) == 2


async def test_jobs_of_others_do_not_exist(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("/remind tomorrow at nine call Ada", chat_id="1")
        [row] = chats.db.list_jobs("local:u1")
        mine = await chats.ask(f"/cron pause {row['id']}", chat_id="2", user_id="u2")
        assert mine == f"There is no job '{row['id']}'."
        assert mine.replace(row["id"], "xxx") == await chats.ask(
            "/cron pause xxx", chat_id="2", user_id="u2"
        )
        assert (await chats.ask("/cron", chat_id="2", user_id="u2")).startswith("You have no jobs.")
        assert await chats.ask(f"/cron pause {row['id']}", chat_id="1") == "call Ada is paused."


async def test_nobody_has_more_done_in_a_chat_by_a_job_than_by_a_message(tmp_path: Path) -> None:
    yaml = 'access: {chats: {"local:dm:1": {tools: [web]}}}\n'
    async with gateway(tmp_path, yaml=yaml) as chats:
        await chats.ask("/cron add in 1 second | run it for me")
        while not chats.model.requests:
            await asyncio.sleep(0.01)
        tools = {tool["function"]["name"] for tool in chats.model.requests[-1].tools}
        assert tools and {name.partition("_")[0] for name in tools} == {"web"}


async def test_a_job_that_answers_in_a_group_tells_nothing_of_a_persons_memory(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("/memory add Ada is moving.", chat_id="ada", user_id="ada")
        group = {"chat_id": "g", "chat_type": "group", "user_id": "ada"}
        await chats.ask("/memory add Dinner is at eight.", **group)
        await chats.ask("/cron add in 1 second | what is up?", **group)
        await chats.ask("/cron add in 1 second | how is it?", chat_id="ada", user_id="ada")
        while len(chats.model.requests) < 2:
            await asyncio.sleep(0.01)
        told = {
            "group" if "up?" in str(request.messages) else "own": (
                "moving" in request.system, "eight" in request.system,
            )
            for request in chats.model.requests
        }  # fmt: skip
        assert told == {"group": (False, True), "own": (True, False)}


async def test_a_job_spends_no_more_than_it_may_in_a_day(tmp_path: Path) -> None:
    """Whatever its person may spend elsewhere: they and their other jobs go on."""
    dear = say("ok", usage=Usage(10, 3))
    yaml = "limits: {prices: {scripted: {input: 0, output: 1000000}}}\nmodel: {max_tokens: 1}\n"
    async with gateway(tmp_path, [dear] * 9, yaml=yaml) as chats:
        jobs = jobs_of(chats)
        poor = JobSettings(prompt="what is new?", deliver="chat", to=CHAT, usd_per_day=2.0)
        job, rich = (jobs.add("daily 04:00", each) for each in (poor, to_chat("and old?")))
        states = []
        for number in (1, 2):
            while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                await asyncio.sleep(0.1)
            states.append((await settled(chats, job.id, number))[0])
        assert [run["state"] for run in states] == ["delivered", "failed"]
        assert "This job's limit of $2.00 a day is reached" in states[1]["error"]
        assert (states[0]["cost_usd"], chats.model.calls) == (3.0, 1)
        assert await chats.runner.scheduler.start_now(rich) is not None
        assert (await settled(chats, rich.id))[0]["state"] == "delivered"
        assert await chats.ask("hello", chat_id="2") == "ok"


async def test_jobs_are_limited_in_dollars_and_tokens_a_day_and_a_month(tmp_path: Path) -> None:
    """By what is set for each, and by what is configured for all."""
    yaml = (
        "limits: {prices: {scripted: {input: 0, output: 1000000}}}\n"
        "model: {max_tokens: 1}\njobs: {usd_per_day: 100, tokens_per_month: 2}\n"
    )
    much = {"usd_per_day": 50.0, "tokens_per_month": 10_000.0}
    wanted: list[dict[str, float]] = [
        {}, much, much | {"usd_per_month": 2.0}, much | {"tokens_per_day": 2.0},
    ]  # fmt: skip
    async with gateway(tmp_path, [say("ok", usage=Usage(2, 3))] * 9, yaml=yaml) as chats:
        jobs = jobs_of(chats)
        with pytest.raises(JobError, match="2 tokens a month"):
            jobs_of(chats, "local:9").add("daily 04:00", JobSettings(prompt="x", **much))
        kept = [jobs.add("daily 04:00", JobSettings(prompt="x", **each)) for each in wanted]
        for number in (1, 2):
            for job in kept:
                while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                    await asyncio.sleep(0.1)
            ended = [(await settled(chats, job.id, number))[0]["error"] for job in kept]
            assert number == 2 or ended == [None] * 4
        assert [error and error.split(" is reached")[0] for error in ended] == [
            "This job's limit of 2 tokens a month", None, "This job's limit of $2.00 a month",
            "This job's limit of 2 tokens a day",
        ]  # fmt: skip


async def test_silence_is_kept_and_not_sent(tmp_path: Path) -> None:
    async with gateway(tmp_path, [say("[SILENT] nothing new")]) as chats:
        job = jobs_of(chats).add("in 1 second", to_chat("what is new?"))
        [run] = await settled(chats, job.id)
        assert (run["state"], run["answer"]) == ("silent", "[SILENT] nothing new")
        assert (
            chats.local.texts("1") == [] and chats.db.list_deliveries(("pending", "failed")) == []
        )


async def test_a_failure_is_told_once(tmp_path: Path) -> None:
    async with gateway(tmp_path, [fail(AuthenticationError("no key"))]) as chats:
        job = jobs_of(chats).add("in 1 second", to_chat("what is new?"))
        [run] = await settled(chats, job.id)
        assert run["state"] == "failed" and "no key" in run["error"]
        [told] = await chats.local.wait_for(1)
        assert told.startswith("⚠️ The job what is new?, due ") and "no key" in told


async def test_a_script_needs_no_model_and_a_monitor_only_for_what_is_new(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.write_text("one")
    async with gateway(tmp_path, [say("it is one"), say("it is two")]) as chats:
        jobs = jobs_of(chats)
        script = jobs.add("in 1 second", to_chat("", kind="script", script="echo from a script"))
        [run] = await settled(chats, script.id)
        assert run["state"] == "delivered" and "from a script" in run["answer"]
        assert chats.model.requests == []
        monitor = jobs.add(
            "daily 04:00", to_chat("what is it?", kind="monitor", script=f"cat {watched}")
        )
        answers = []
        for number, content in enumerate(["one", "one", "two"], 1):
            watched.write_text(content)
            job = jobs.find(monitor.id)
            while await chats.runner.scheduler.start_now(job) is None:
                await asyncio.sleep(0.1)
            answers.append((await settled(chats, monitor.id, number))[0]["answer"])
        assert answers == ["it is one", "[SILENT] Nothing has changed.", "it is two"]


class Page(LoopbackServer):
    """A page that changes."""

    text, status = "one", 200

    async def answer(self, request: Request) -> Response:
        """What it says now."""
        return Response(self.status, self.text.encode(), "text/plain")


async def test_a_page_is_watched(tmp_path: Path) -> None:
    yaml = "\nweb: {allow_private: ['127.0.0.1']}\n"
    async with Page() as page, gateway(tmp_path, [say("new"), say("newer")], yaml=yaml) as chats:
        jobs = jobs_of(chats)
        watch = to_chat("what is new?", kind="monitor", url=f"{page.url}/news")
        job = jobs.add("daily 04:00", watch)
        answers = []
        for number, text in enumerate(["one", "one", "two"], 1):
            page.text = text
            while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                await asyncio.sleep(0.1)
            answers.append((await settled(chats, job.id, number))[0]["answer"])
        assert answers == ["new", "[SILENT] Nothing has changed.", "newer"]
        assert "two" in str(chats.model.requests[-1].messages)
        # A page that fails has not changed: it is told as a failure, and the next look is at the
        # page as it was.
        states = []
        for number, status in enumerate([503, 200], 4):
            page.status = status
            while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                await asyncio.sleep(0.1)
            states.append((await settled(chats, job.id, number))[0])
        assert [run["state"] for run in states] == ["failed", "silent"]
        assert "cannot be read" in states[0]["error"] and len(chats.model.requests) == 2


async def test_what_a_job_has_noted_is_shown_to_its_next_run(tmp_path: Path) -> None:
    steps = [call("cronjob", action="note", note="Ada was asked"), say("noted"), say("again")]
    async with gateway(tmp_path, steps) as chats:
        jobs = jobs_of(chats)
        job = jobs.add("daily 04:00", to_chat("whom now?", notepad=True))
        for number in (1, 2):
            while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                await asyncio.sleep(0.1)
            await settled(chats, job.id, number)
        first, _, last = (str(request.messages[-1]["content"]) for request in chats.model.requests)
        assert "nothing yet" in first and "Ada was asked" not in first
        assert "Ada was asked" in last


async def test_the_model_keeps_jobs_of_its_person(tmp_path: Path) -> None:
    steps = [
        call("cronjob", action="add", schedule="in 1 second", prompt="Tea", kind="message"),
        say("I will."),
    ]
    async with gateway(tmp_path, steps) as chats:
        assert await chats.ask("remind me of my tea") == "I will."
        assert (await chats.local.wait_for(2))[1] == "⏰ Tea"
        [row] = chats.db.list_jobs("local:u1")
        assert row["settings"]["deliver"] == "chat"


async def test_what_was_missed_is_told_and_run_by_its_rule(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("hello")
        now = int(chats.db.now())
        for rule in ("skip", "once", "all"):
            settings = to_chat(rule, missed=rule, kind="message", missed_most=2, overlap="queue")
            row = chats.db.add_job(
                rule, user_id=None, name=rule, schedule=f"every 3600 from {now - 4 * 3600 - 600}",
                timezone="UTC", settings=settings.kept(), next_due=now - 4 * 3600 - 600,
                next_at=now - 4 * 3600 - 600,
            )  # fmt: skip
            assert row["id"] == rule
        texts = (await chats.local.wait_for(7))[1:]
        assert sum("nothing was running" in text for text in texts) == 3
        assert texts.count("⏰ once") == 1 and texts.count("⏰ all") == 2
        runs = {rule: await settled(chats, rule) for rule in ("skip", "once", "all")}
        assert [run["skipped"] for run in runs["skip"]] == [5]
        assert [(run["state"], run["skipped"]) for run in runs["once"]] == [
            ("delivered", 0), ("skipped", 4),
        ]  # fmt: skip
        assert [(run["state"], run["skipped"]) for run in runs["all"]] == [
            ("delivered", 0), ("delivered", 0), ("skipped", 3),
        ]  # fmt: skip


async def test_a_run_that_died_with_its_process_goes_on_once(tmp_path: Path) -> None:
    begun = asyncio.Event()
    steps = [say(begun.set, asyncio.Event(), "never"), say("after all")]
    async with gateway(tmp_path, steps) as chats:
        job = jobs_of(chats).add("in 1 second", to_chat("what is new?"))
        await begun.wait()
        # Whichever of the two gateways sees it first goes on with it.
        chats.db._execute_write(
            lambda conn: (
                conn.execute("UPDATE turns SET owner = 'm|b|n|1|1', heartbeat_at = 0"),
                conn.execute("UPDATE job_runs SET owner = 'm|b|n|1|1'"),
            )
        )
        async with gateway(tmp_path, [say("after all")], account="other") as other:
            [run] = await settled(other, job.id)
            assert (run["state"], run["answer"]) == ("delivered", "after all")
            assert len(other.db.list_deliveries(("pending", "sending", "delivered"))) == 1


async def test_an_occurrence_that_nobody_had_begun_is_begun_by_another(tmp_path: Path) -> None:
    async with gateway(tmp_path, yaml="\njobs: {enabled: false}\n") as chats:
        job = jobs_of(chats).add("daily 04:00", to_chat("what is new?"))
        jobs_of(chats).start(job.id)
    async with gateway(tmp_path) as chats:
        assert (await chats.local.wait_for(1))[0].startswith("re: ")
        [run] = await settled(chats, job.id)
        assert run["state"] == "delivered"


async def test_a_check_in_speaks_only_if_there_is_reason(tmp_path: Path) -> None:
    async with gateway(tmp_path, [say("[SILENT]"), say("Your goal rests.")]) as chats:
        jobs = jobs_of(chats)
        check = jobs.add("daily 04:00", to_chat("", kind="check", where="own"))
        states = []
        for number in range(1, 4):
            if number == 3:
                chats.db.create_session("s", "cli")
                chats.db.set_goal("s", "Ship it", "begin")
                chats.db.pause_goal("s", "you wrote something")
            while await chats.runner.scheduler.start_now(jobs.find(check.id)) is None:
                await asyncio.sleep(0.1)
            states.append((await settled(chats, check.id, number))[0]["state"])
        assert states == ["silent", "silent", "delivered"]
        assert await chats.local.wait_for(1) == ["Your goal rests."]
        assert len(chats.model.requests) == 2
        assert "Goal paused: Ship it" in str(chats.model.requests[-1].messages)


async def test_a_prompt_may_have_a_command_that_fetches_what_it_is_about(tmp_path: Path) -> None:
    async with gateway(tmp_path, [say("one"), say("again")]) as chats:
        jobs = jobs_of(chats)
        job = jobs.add("daily 04:00", to_chat("what is it?", script="echo the same"))
        for number in (1, 2):
            while await chats.runner.scheduler.start_now(jobs.find(job.id)) is None:
                await asyncio.sleep(0.1)
            await settled(chats, job.id, number)
        assert [run["answer"] for run in chats.db.list_job_runs(job.id)] == ["again", "one"]


async def test_what_needs_approval_is_asked_in_the_chat_or_refused(tmp_path: Path) -> None:
    def steps() -> list[Any]:
        return [call("terminal", command="echo it ran", needs=["no wall"]), say("done")]

    def questions(chats: Chats) -> list[str]:
        return [text for text in chats.local.texts("1") if text.startswith("🔐 May I do this?")]

    async def result(chats: Chats, approvals: str, reply: str) -> str:
        jobs = jobs_of(chats)
        job = jobs.add("daily 04:00", to_chat(approvals + reply, approvals=approvals))
        known = len(questions(chats))
        jobs.start(job.id)
        if approvals == "ask":
            while len(questions(chats)) == known:
                await chats.local.wait_for(len(chats.local.texts("1")) + 1)
            assert "echo it ran" in questions(chats)[-1]
            if reply:
                await chats.say(reply)
        [run] = await settled(chats, job.id)
        assert run["state"] == "delivered", run
        request = chats.model.requests[-1]
        return str(next(each["content"] for each in request.messages if each["role"] == "tool"))

    deadline = "\napprovals: {timeout: 1}\n"
    async with gateway(tmp_path / "a", [*steps(), *steps(), *steps()]) as chats:
        assert await result(chats, "ask", "/approve") == "it ran"
        assert "it ran" not in await result(chats, "ask", "/deny")
        assert "it ran" not in await result(chats, "refuse", "")
    async with gateway(tmp_path / "b", steps(), yaml=deadline) as chats:
        assert "it ran" not in await result(chats, "ask", "")


async def test_a_job_makes_no_jobs_without_end_and_spends_no_more_than_it_may(
    tmp_path: Path,
) -> None:
    def add(name: str) -> Any:
        return call(
            "cronjob", action="add", schedule="in 1 second", prompt=name, name=name, kind="prompt"
        )

    steps = [add("second"), say("made"), add("third"), say("could not")]
    async with gateway(tmp_path, steps) as chats:
        await chats.ask("/sethome")
        jobs = jobs_of(chats, "local:u1")
        first = jobs.add("daily 04:00", JobSettings(prompt="first", usd_per_day=1.0))
        jobs.start(first.id)
        await settled(chats, first.id)
        second = jobs.find("second")
        assert second.settings.depth == 1
        [run] = await settled(chats, second.id)
        refused = chats.model.requests[-1].messages[-1]["content"]
        assert "may not make further jobs" in refused and len(jobs.all()) == 2, run
        poor = jobs.add("daily 05:00", JobSettings(prompt="poor", usd_per_day=0.0))
        jobs.start(poor.id)
        [run] = await settled(chats, poor.id)
        assert run["state"] == "failed" and "is reached" in run["error"]
        assert len(chats.model.requests) == 4, "nothing was asked of the model"
