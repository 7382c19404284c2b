"""The mode of a conversation as a field of the API's requests: kept with it, never full."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.scripted import say

from .serving import Served, serving

HI: list[Any] = [{"role": "user", "content": "hi"}]
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": HI},
    "/v1/responses": {"input": "hi"},
    "/v1/runs": {"input": "hi"},
}


def is_plan(served: Served, number: int = -1) -> bool:
    """Whether the model was told that it is to plan."""
    return "Plan mode" in str(served.model.requests[number].messages[-1])


async def ended(served: Served, url: str, found: dict[str, Any]) -> None:
    """Wait for the end of a run; anything else has ended with its answer."""
    while url == "/v1/runs":
        run = (await served.http.get(f"/v1/runs/{found['run_id']}")).json()
        if run["status"] == "completed":
            return
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("url", list(BODIES))
async def test_a_mode_is_kept_with_the_conversation(tmp_path: Path, url: str) -> None:
    async with serving(tmp_path) as served:
        for mode, is_so in (({"mode": "plan"}, True), ({}, True), ({"mode": "guarded"}, False)):
            answer = await served.http.post(
                url, json={**BODIES[url], **mode}, headers={"X-Hermes-Session-Id": "house"}
            )
            assert answer.status_code in (200, 202), answer.text
            await ended(served, url, answer.json())
            assert is_plan(served) is is_so
        (session,) = served.db.list_sessions_rich(user_id="api_server:alice")
        assert served.db.get_wall_settings(session["id"])["mode"] == "guarded"


@pytest.mark.parametrize("url", list(BODIES))
@pytest.mark.parametrize(
    ("mode", "status", "code"),
    [("full", 403, "mode_not_allowed"), ("free", 400, "invalid_mode"), (["plan"], 400, None)],
)
async def test_full_and_what_is_no_mode_are_refused(
    tmp_path: Path, url: str, mode: Any, status: int, code: str | None
) -> None:
    async with serving(tmp_path) as served:
        answer = await served.http.post(url, json={**BODIES[url], "mode": mode})
        assert answer.status_code == status
        error = answer.json()["error"]
        assert error["param"] == "mode"
        assert code is None or error["code"] == code
        assert not served.model.requests


async def test_a_message_that_waits_keeps_the_mode_it_came_with(tmp_path: Path) -> None:
    begun, go = asyncio.Event(), asyncio.Event()
    steps = [say("one", begun.set, go), say("two"), say("three")]
    async with serving(tmp_path, steps) as served:
        headers = {"X-Hermes-Session-Id": "house"}

        async def post(**mode: str) -> None:
            await served.http.post(
                "/v1/chat/completions", json={"messages": HI, **mode}, headers=headers
            )

        first = asyncio.create_task(post())
        await begun.wait()
        second = asyncio.create_task(post(mode="plan"))
        while not served.db.list_waiting(source="api_server"):
            await asyncio.sleep(0.01)
        third = asyncio.create_task(post(mode="guarded"))
        while len(served.db.list_waiting(source="api_server")) < 2:
            await asyncio.sleep(0.01)
        go.set()
        await asyncio.gather(first, second, third)
        assert [is_plan(served, number) for number in range(3)] == [False, True, False]


async def test_a_chat_of_a_session_has_the_field_too(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.http.post("/api/sessions", json={"id": "house"})
        body = {"message": "hi", "mode": "plan"}
        answer = await served.http.post("/api/sessions/house/chat", json=body)
        assert answer.status_code == 200, answer.text
        assert is_plan(served)
