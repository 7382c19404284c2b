"""Signed webhooks out: each event once under its id, until the other side takes it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.errors import AuthenticationError
from agent.jobs.actions import Jobs
from agent.jobs.job import JobSettings
from agent.scripted import fail
from gateway.config import Platform, PlatformConfig
from gateway.platforms.events.hooks import HookError, read_hooks
from gateway.platforms.webhook.signing import sign
from hermes_state import OPERATOR

from .chats import Chats, gateway

SECRET = "a secret of the tests"


class Receiver:
    """A program that is told, and answers as it is told to."""

    def __init__(self) -> None:
        self.answers: list[int] = []
        self.requests: list[tuple[dict[str, str], bytes]] = []
        self.came = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[1:]
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head)
        }
        body = await reader.readexactly(int(headers["content-length"]))
        self.requests.append((headers, body))
        code = self.answers.pop(0) if self.answers else 204
        writer.write(f"HTTP/1.1 {code} x\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        self.came.set()

    async def wait_for(self, count: int) -> list[dict[str, Any]]:
        """The events of the first so many requests, each signed as it should be."""
        async with asyncio.timeout(20):
            while len(self.requests) < count:
                self.came.clear()
                await self.came.wait()
        for headers, body in self.requests:
            moment = int(headers["webhook-timestamp"])
            assert headers["webhook-signature"] == sign(SECRET, headers["webhook-id"], moment, body)
            assert json.loads(body)["id"] == headers["webhook-id"]
        return [json.loads(body) for _, body in self.requests]


@asynccontextmanager
async def receiver(**hook: Any) -> AsyncIterator[tuple[Receiver, dict[Platform, PlatformConfig]]]:
    """A program and the platform that tells it."""
    made = Receiver()
    server = await asyncio.start_server(made._serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/told"
    hooks = {"ops": {"url": url, "secret": SECRET, **hook}}
    yield made, {Platform.of("events"): PlatformConfig(enabled=True, extra={"hooks": hooks})}
    server.close()


def job_of(chats: Chats, deliver: str = "none", **to: str) -> str:
    settings = JobSettings(prompt="what is new?", deliver=deliver, to=to, usd_per_day=100.0)
    jobs = Jobs(chats.runner.settings, chats.db, OPERATOR)
    job = jobs.add("daily 04:00", settings)
    jobs.start(job.id)
    return job.id


async def test_the_end_of_a_turn_is_told_until_it_is_taken(tmp_path: Path) -> None:
    async with receiver(person="everybody") as (told, platform):
        told.answers = [500]
        async with gateway(tmp_path, others=platform) as chats:
            assert await chats.ask("hello") == "re: hello"
            first, again = await told.wait_for(2)
            assert first == again and first["type"] == "turn.ended"
            assert first["data"]["session_id"] == chats.session_id()
            assert first["data"]["outcome"] == "answered"
        async with gateway(tmp_path, others=platform) as chats:
            assert await chats.ask("once more") == "re: once more"
            events = await told.wait_for(3)
        assert len({event["id"] for event in events}) == 2 and len(events) == 3


async def test_a_failed_job_is_told_to_its_owners_hook_alone(tmp_path: Path) -> None:
    steps = [fail(AuthenticationError("no key"))]
    async with (
        receiver(events=["job.failed"]) as (told, platform),
        gateway(tmp_path, steps, others=platform) as chats,
    ):
        job_id = job_of(chats)
        [event] = await told.wait_for(1)
        assert event["type"] == "job.failed" and event["data"]["job_id"] == job_id
        assert "no key" in event["data"]["error"]
        # What happens to other persons is not the operator's.
        await chats.ask("hello")
        rows = chats.db.list_deliveries(("pending", "sending", "delivered"))
        assert [row["platform"] for row in rows].count("events") == 1


async def test_a_wanted_approval_is_told_without_its_secrets(tmp_path: Path) -> None:
    async with (
        receiver(events="approval.wanted") as (told, platform),
        gateway(tmp_path, others=platform) as chats,
    ):
        chats.db.create_session("s", source="cli")
        asked = chats.db.create_approval(
            session_id="s", command="curl -H 'Authorization: Bearer sk-abcdefghijklmnop123456'",
            description="asks the network", pattern_keys=["curl"],
        )  # fmt: skip
        [event] = await told.wait_for(1)
        assert event["data"]["approval_id"] == asked.id and "curl" in event["data"]["command"]
        assert "sk-abcdefghijklmnop" not in json.dumps(event)


async def test_the_answer_of_a_job_goes_to_a_hook(tmp_path: Path) -> None:
    async with (
        receiver(events="approval.wanted") as (told, platform),
        gateway(tmp_path, others=platform) as chats,
    ):
        job_id = job_of(chats, "chat", platform="events", chat_id="ops", session_key="events:ops")
        [event] = await told.wait_for(1)
        assert event["type"] == "message" and event["id"].startswith(f"job:{job_id}:")
        assert event["data"]["text"].startswith("re: [Job 'what is new?']")


async def test_one_that_wants_no_more_is_left_alone(tmp_path: Path) -> None:
    async with receiver(person="everybody") as (told, platform):
        told.answers = [410]
        async with gateway(tmp_path, others=platform) as chats:
            await chats.ask("hello")
            await told.wait_for(1)
            while not chats.db.list_deliveries(("failed",)):
                await asyncio.sleep(0.01)
            [row] = chats.db.list_deliveries(("failed",))
            assert "410" in row["last_error"] and len(told.requests) == 1


@pytest.mark.parametrize(
    ("hooks", "problem"),
    [
        (None, "at least one name"),
        ({"a": {"url": "ftp://x", "secret": SECRET}}, "must be an address"),
        ({"a": {"url": "https://x", "secret": "short"}}, "at least 16 characters"),
        ({"a": {"url": "https://x", "secret": SECRET, "events": ["x"]}}, "x is not known"),
        ({"a": {"url": "https://x", "secret": SECRET, "colour": 1}}, "colour is not known"),
        ({"a b": {}}, "letters, digits"),
    ],
)
def test_what_cannot_be_used_is_said(hooks: Any, problem: str) -> None:
    with pytest.raises(HookError, match=problem):
        read_hooks(hooks)
