"""/api/sessions, and what the server says about itself."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from agent.scripted import call, say

from .serving import serving


async def test_a_session_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        made = await served.http.post("/api/sessions", json={"id": "s1", "title": "Plans"})
        assert made.status_code == 201 and made.json()["session"]["title"] == "Plans"
        twice = await served.http.post("/api/sessions", json={"id": "s1"})
        assert (twice.status_code, twice.json()["error"]["code"]) == (409, "session_exists")
        answer = await served.http.post("/api/sessions/s1/chat", json={"message": "hi"})
        assert answer.json()["message"] == {"role": "assistant", "content": "re: hi"}
        assert answer.headers["x-hermes-session-id"] == "s1"
        listed = (await served.http.get("/api/sessions")).json()
        assert [one["id"] for one in listed["data"]] == ["s1"]
        assert listed["data"][0]["preview"] == "hi" and not listed["has_more"]
        rows = (await served.http.get("/api/sessions/s1/messages")).json()["data"]
        assert [(one["role"], one["content"]) for one in rows] == [
            ("user", "hi"), ("assistant", "re: hi"),
        ]  # fmt: skip
        patched = await served.http.patch("/api/sessions/s1", json={"title": "Other plans"})
        assert patched.json()["session"]["title"] == "Other plans"
        gone = await served.http.delete("/api/sessions/s1")
        assert gone.json() == {"object": "hermes.session.deleted", "id": "s1", "deleted": True}
        assert (await served.http.get("/api/sessions/s1")).status_code == 404


async def test_a_fork_goes_its_own_way(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.chat("one", "s1")
        fork = await served.http.post("/api/sessions/s1/fork", json={"id": "s2"})
        assert fork.status_code == 201 and fork.json()["session"]["parent_session_id"] == "s1"
        await served.chat("two", "s2")
        await served.chat("three", "s1")
        assert [text for _, text in served.told("s2")] == ["one", "re: one", "two", "re: two"]
        assert [text for _, text in served.told("s1")] == ["one", "re: one", "three", "re: three"]


async def test_a_turn_as_named_events(tmp_path: Path) -> None:
    todo = {"todos": [{"id": "1", "content": "x", "status": "pending"}]}
    async with serving(tmp_path, [call("todo", **todo), say("All ", "set.")]) as served:
        await served.http.post("/api/sessions", json={"id": "s1"})
        answer = await served.http.post("/api/sessions/s1/chat/stream", json={"message": "go"})
        blocks = [block.splitlines() for block in answer.text.split("\n\n") if "data:" in block]
        found = [(lines[0][7:], json.loads(lines[1][6:])) for lines in blocks]
        names = [name for name, _ in found]
        assert names[:2] == ["run.started", "message.started"]
        assert {"tool.started", "tool.completed"} <= set(names)
        assert names[-3:] == ["assistant.completed", "run.completed", "done"]
        assert dict(found)["assistant.completed"]["content"] == "All set."
        assert [facts["seq"] for _, facts in found] == list(range(1, len(found) + 1))


async def test_nobody_sees_somebody_elses_sessions(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.chat("a secret", "s1")
        served.db.create_session("cli", "cli")
        other = served.other
        assert (await other.get("/api/sessions")).json()["data"] == []
        asked = {"message": "x"}
        for method, path, body in (
            ("GET", "/api/sessions/s1", None),
            ("GET", "/api/sessions/s1/messages", None),
            ("PATCH", "/api/sessions/s1", {"title": "mine"}),
            ("DELETE", "/api/sessions/s1", None),
            ("POST", "/api/sessions/s1/fork", {}),
            ("POST", "/api/sessions/s1/chat", asked),
            ("POST", "/api/sessions/s1/chat/stream", asked),
            ("GET", "/api/sessions/cli", None),
        ):
            answer = await other.request(method, path, json=body)
            assert answer.status_code == 404, (method, path)
            assert "secret" not in answer.text
        headers = {"X-Hermes-Session-Id": "s1"}
        body = {"messages": [{"role": "user", "content": "what did she say?"}]}
        stolen = await other.post("/v1/chat/completions", json=body, headers=headers)
        assert stolen.status_code == 200  # a conversation of their own
        assert "a secret" not in str(served.model.requests[1:])
        assert len(served.told("s1")) == 2


async def test_a_name_that_another_uses_is_answered_as_any_new_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        other = served.other
        await served.chat("a secret", "s1")
        await served.http.patch("/api/sessions/s1", json={"title": "Divorce"})

        async def probe(name: str, title: str) -> list[tuple[int, str]]:
            """Everything that can be done with a name; the answers, the name left out."""
            body = {"messages": [{"role": "user", "content": "hello"}]}
            headers = {"X-Hermes-Session-Id": name}
            base = f"/api/sessions/{name}"
            answers = [
                await other.get(base),
                await other.post("/api/sessions", json={"id": name, "title": title}),
                await other.post("/api/sessions", json={"id": name}),
                await other.get(base),
                await other.patch(base, json={"title": title}),
                await other.get("/v1/runs/run_0123456789abcdef." + name),
                await other.post("/v1/chat/completions", json=body, headers=headers),
                await other.get(f"{base}/messages"),
                await other.post(f"{base}/chat", json={"message": "more"}),
                await other.get("/api/sessions"),
                await other.post(f"{base}/fork", json={"id": f"{name}.fork", "title": f"{title}2"}),
                await other.delete(base),
                await other.get(base),
            ]
            digits = re.compile(r"[0-9.]+(?=[,}\]])|[0-9a-f]{8,}")
            return [
                (
                    answer.status_code,
                    digits.sub("0", answer.text.replace(name, "NAME").replace(title, "TITLE")),
                )
                for answer in answers
                if answer.headers.get("X-Hermes-Session-Id", name) == name or pytest.fail(name)
            ]

        taken = await probe("s1", "Divorce")
        await other.delete("/api/sessions/s1.fork")
        free = await probe("q7", "Holidays")
        assert [code for code, _ in taken] == [code for code, _ in free]
        assert taken == free
        assert len(served.told("s1")) == 2


async def test_a_session_with_a_running_turn_is_not_deleted(tmp_path: Path) -> None:
    release = asyncio.Event()
    async with serving(tmp_path, [say("x", release, "y")]) as served:
        turn = asyncio.ensure_future(served.chat("go", "s1"))
        while not served.told("s1"):
            await asyncio.sleep(0.01)
        refused = await served.http.delete("/api/sessions/s1")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "session_busy")
        release.set()
        assert (await turn).status_code == 200
        assert (await served.http.delete("/api/sessions/s1")).status_code == 200


async def test_lists_come_in_pages(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        for number in range(5):
            await served.chat("x", f"s{number}")
        first = (await served.http.get("/api/sessions?limit=3")).json()
        rest = (await served.http.get("/api/sessions?limit=3&offset=3")).json()
        assert first["has_more"] and not rest["has_more"]
        ids = [one["id"] for one in first["data"] + rest["data"]]
        assert ids == ["s4", "s3", "s2", "s1", "s0"]
        assert (await served.http.get("/api/sessions?limit=x")).status_code == 400


@pytest.mark.parametrize("path", ["/health", "/v1/health"])
async def test_health_needs_no_key(tmp_path: Path, path: str) -> None:
    async with serving(tmp_path) as served, served.client("") as nobody:
        answer = await nobody.get(path)
        assert answer.status_code == 200 and answer.json()["status"] == "ok"
        assert (await nobody.get("/health/detailed")).status_code == 401


async def test_what_the_server_says_about_itself(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        models = await served.openai.models.list()
        assert len(models.data) == 1 and models.data[0].object == "model"
        detailed = (await served.http.get("/health/detailed")).json()
        assert detailed["platforms"] == {"api_server": "connected"}
        found = (await served.http.get("/v1/capabilities")).json()
        assert found["object"] == "hermes.api_server.capabilities"
        assert found["features"]["session_continuity_header"] == "X-Hermes-Session-Id"
        toolsets = (await served.http.get("/v1/toolsets")).json()["data"]
        assert "terminal" in {one["name"] for one in toolsets}
        skill = tmp_path / "shared" / "skills" / "greet"
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Says hello.\n---\nHello.")
        skills = (await served.http.get("/v1/skills")).json()["data"]
        assert skills == [{"name": "greet", "description": "Says hello."}]


async def test_every_route_that_is_named_exists(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        endpoints = (await served.http.get("/v1/capabilities")).json()["endpoints"]
        for one in endpoints.values():
            path = one["path"].replace("{", "").replace("}", "")
            answer = await served.http.request(one["method"], path, json={})
            assert answer.status_code != 405 and "no such route" not in answer.text, one
