"""/v1/runs: accepted at once, watched from anywhere, answered, stopped, found again."""

from __future__ import annotations

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from agent.errors import RequestRefusedError
from agent.model import ModelRequest
from agent.scripted import Step, call, fail, say
from hermes_state import formats

from .chats import asked, echo
from .serving import Served, serving


async def begin(served: Served, text: str = "go", **body: Any) -> str:
    answer = await served.http.post("/v1/runs", json={"input": text, **body})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


async def events(served: Served, run_id: str, after: int | None = None) -> list[dict[str, Any]]:
    """All events of a run up to its end, with their numbers."""
    headers = {} if after is None else {"Last-Event-ID": str(after)}
    answer = await served.http.get(f"/v1/runs/{run_id}/events", headers=headers)
    assert answer.status_code == 200, answer.text
    found = []
    for block in answer.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in lines:
            found.append({**json.loads(lines["data"]), "id": int(lines["id"])})
    return found


async def test_a_run_is_watched_to_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("One ", "two.")]) as served:
        run_id = await begin(served)
        seen = await events(served, run_id)
        assert [one["event"] for one in seen] == [
            "run.started", "message.delta", "message.delta", "message.completed", "run.completed",
        ]  # fmt: skip
        assert [one["id"] for one in seen] == [1, 2, 3, 4, 5]
        assert seen[-1]["output"] == "One two."
        status = (await served.http.get(f"/v1/runs/{run_id}")).json()
        assert (status["status"], status["output"]) == ("completed", "One two.")


async def test_watching_goes_on_behind_the_last_event_seen(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("a", "b", "c")]) as served:
        run_id = await begin(served)
        whole = await events(served, run_id)
        for cut in range(len(whole) + 1):
            assert await events(served, run_id, after=cut) == whole[cut:]


async def test_a_watcher_that_comes_in_the_middle_sees_everything(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with serving(tmp_path, [say("first ", release, "last")]) as served:
        run_id = await begin(served)
        watchers = [asyncio.ensure_future(events(served, run_id)) for _ in range(3)]
        await asyncio.sleep(0.05)
        release.set()
        found = await asyncio.gather(*watchers)
        assert found[0] == found[1] == found[2]
        said = "".join(one["delta"] for one in found[0] if one["event"] == "message.delta")
        assert said == "first last"


async def test_a_dangerous_command_asks_for_leave(tmp_path: Path) -> None:
    target = tmp_path / "doomed"
    target.mkdir()

    def steps() -> list[Step]:
        return [call("terminal", command=f"rm -rf {target}"), say("Finished.")]

    for choice, is_gone in (("deny", False), ("once", True)):
        async with serving(tmp_path / choice, steps()) as served:
            run_id = await begin(served)
            watching = asyncio.ensure_future(events(served, run_id))
            for _ in range(3000):
                status = (await served.http.get(f"/v1/runs/{run_id}")).json()
                if status["status"] == "waiting_for_approval":
                    break
                await asyncio.sleep(0.02)
            assert status["status"] == "waiting_for_approval"
            wrong = await served.http.post(f"/v1/runs/{run_id}/approval", json={"choice": "x"})
            assert wrong.json()["error"]["code"] == "invalid_approval_choice"
            stranger = await served.other.post(
                f"/v1/runs/{run_id}/approval", json={"choice": choice}
            )
            assert stranger.status_code == 404
            done = await served.http.post(f"/v1/runs/{run_id}/approval", json={"choice": choice})
            assert done.json()["resolved"] == 1
            names = [one["event"] for one in await watching]
            assert "approval.request" in names and names[-1] == "run.completed"
            assert target.exists() is not is_gone
            again = await served.http.post(f"/v1/runs/{run_id}/approval", json={"choice": choice})
            assert again.json()["error"]["code"] == "approval_not_pending"


async def test_without_a_run_nothing_dangerous_is_allowed(tmp_path: Path) -> None:
    target = tmp_path / "kept"
    target.mkdir()
    async with serving(
        tmp_path / "home", [call("terminal", command=f"rm -rf {target}"), say("No.")]
    ) as served:
        answer = await served.chat("go")
        assert answer.status_code == 200 and target.exists()


async def test_a_run_is_stopped(tmp_path: Path) -> None:
    async with serving(tmp_path, [say("Half", asyncio.Event()), say("Next.")]) as served:
        run_id = await begin(served, session_id="s")
        watching = asyncio.ensure_future(events(served, run_id))
        while (await served.http.get(f"/v1/runs/{run_id}")).json()["status"] != "running":
            await asyncio.sleep(0.01)
        assert any(role == "user" for role, _ in served.told("s"))
        stranger = await served.other.post(f"/v1/runs/{run_id}/stop")
        assert stranger.status_code == 404
        assert (await served.http.post(f"/v1/runs/{run_id}/stop")).status_code == 200
        assert (await watching)[-1]["event"] == "run.cancelled"
        again = (await served.http.post(f"/v1/runs/{run_id}/stop")).json()
        assert again["status"] == "cancelled"
        assert (await served.chat("next", "s")).status_code == 200


async def test_a_failed_run_says_why(tmp_path: Path) -> None:
    steps = itertools.repeat(fail(RequestRefusedError("No such model")))
    async with serving(tmp_path, steps) as served:
        run_id = await begin(served)
        last = (await events(served, run_id))[-1]
        assert last["event"] == "run.failed" and "No such model" in last["error"]


async def test_a_run_outlives_the_process(tmp_path: Path) -> None:
    begun = asyncio.Event()

    def answer(request: ModelRequest) -> Step:
        begun.set()
        return say(asyncio.Event()) if asked(request) == "stuck" else echo(request)

    async with serving(tmp_path, itertools.repeat(answer), drain_timeout=0.1) as served:
        done = await begin(served, "quick")
        await events(served, done)
        stuck = await begin(served, "stuck", session_id="s")
        waiting = await begin(served, "waiting", session_id="s")
        await begun.wait()
    async with serving(tmp_path) as served:
        status = (await served.http.get(f"/v1/runs/{done}")).json()
        assert (status["status"], status["output"]) == ("completed", "re: quick")
        # What was accepted and not begun is answered now, and once.
        for _ in range(3000):
            status = (await served.http.get(f"/v1/runs/{waiting}")).json()
            if status["status"] == "completed":
                break
            await asyncio.sleep(0.02)
        assert (status["status"], status["output"]) == ("completed", "re: waiting")
        assert (await served.http.get(f"/v1/runs/{stuck}")).status_code == 200
        assert [asked(request) for request in served.model.requests] == ["waiting"]
        assert (await served.other.get(f"/v1/runs/{done}")).status_code == 404
        unknown = await served.http.get("/v1/runs/run_0.nothing")
        assert unknown.json()["error"]["code"] == "run_not_found"


async def test_a_run_that_waits_for_a_newer_release_is_queued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: ModelRequest) -> Step:
        return say(asyncio.Event())

    with monkeypatch.context() as newer:
        newer.setattr(formats, "UNDERSTOOD", 2)
        newer.setattr(formats, "NEEDED", {"inbox.request": 2})
        async with serving(tmp_path, itertools.repeat(answer), drain_timeout=0.1) as served:
            await begin(served, "stuck", session_id="s")
            waiting = await begin(served, "waiting", session_id="s")
    async with serving(tmp_path) as served:
        status = (await served.http.get(f"/v1/runs/{waiting}")).json()
        assert status["status"] == "queued"
        assert served.model.requests == []


async def test_a_silent_run_is_told_of_and_then_stopped(tmp_path: Path) -> None:
    never = asyncio.Event()
    yaml = "agent: {gateway_timeout_warning: 0.05, gateway_timeout: 0.3}\n"
    async with serving(tmp_path, [say("Half", never, "whole")], yaml=yaml) as served:
        seen = await events(served, await begin(served))
        told = [event["text"] for event in seen if event["event"] == "notice"]
        assert "Still at it" in told[0]
        assert "I stopped" in told[-1]
        assert seen[-1]["event"] == "run.cancelled"


async def test_event_hooks_see_an_api_turn_too(tmp_path: Path) -> None:
    folder = tmp_path / "hooks" / "watch"
    folder.mkdir(parents=True)
    (folder / "HOOK.yaml").write_text("name: watch\nevents: ['session:*', 'agent:*']\n")
    (folder / "handler.py").write_text(
        "import json, pathlib\n"
        f"FILE = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "def handle(event, context):\n"
        "    with FILE.open('a') as file:\n"
        "        file.write(json.dumps([event, context['platform']]) + '\\n')\n"
    )
    async with serving(tmp_path, [call("todo", todos=[]), say("done"), say("again")]) as served:
        session = {"session_id": "talk"}
        for _ in range(2):
            await events(served, await begin(served, **session))
    seen = [json.loads(line) for line in (tmp_path / "seen").read_text().splitlines()]
    assert {platform for _, platform in seen} == {"api_server"}
    names = [name for name, _ in seen]
    assert [name for name in names if name != "agent:step"] == [
        "session:start", "agent:start", "agent:end", "agent:start", "agent:end",
    ]  # fmt: skip
    assert names.count("agent:step") == 1
