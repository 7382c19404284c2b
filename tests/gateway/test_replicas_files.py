"""Files that came with messages, and output of tools, where the machine that has them is gone."""

from __future__ import annotations

import shutil
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from agent.model import ModelRequest
from agent.scripted import Step, call, say
from gateway.config import Platform
from hermes_state import INBOX_ID, LEASE_SECONDS, SessionDB, StoreError
from tools import objects
from tools.own_folders import OUTPUT_FOLDER

from ..state.owners import acting_as
from ..state.raw import query, tamper
from .chats import gateway

pytestmark = pytest.mark.postgres

FULL = "terminal: {mode: full}\n"
PNG = b"\x89PNG\r\n\x1a\n picture"


async def sent(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


def last(request: ModelRequest) -> str:
    return str(request.messages[-1]["content"])


@pytest.fixture
def homes(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "one", tmp_path / "two"


async def test_a_file_that_a_lost_machine_took_in_is_read_by_the_next(
    homes: tuple[Path, Path],
) -> None:
    """It was accepted there with its message, and nothing else was done with it."""
    one, two = homes
    with acting_as("one"):
        async with gateway(one, yaml=FULL) as chats:
            host = chats.runner.host_for(Platform.LOCAL)
            plan = await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
            picture = await host.keep_file("1", "map.png", sent(PNG))
            chats.runner.pipeline.take_up = lambda inbound: None  # type: ignore[method-assign]
            await chats.say("read it", media=[str(plan), str(picture)])
    shutil.rmtree(one / "media")
    steps: list[Any] = [
        lambda request: call("read_file", path=str(plan)),
        lambda request: say("it says: " + last(request)),
    ]
    async with gateway(two, steps, yaml=FULL, store=one) as chats:
        (answer,) = await chats.local.wait_for(1)
        assert "dig here" in answer
        asked = chats.model.requests[0].messages[-1]["content"]
        here = two / "media" / "local" / "1"
        assert f"[Attached file: {here / 'plan.txt'}]" in asked[0]["text"]
        assert asked[1]["image_url"]["url"].startswith("data:image/png;base64,")
        assert {path.name for path in here.iterdir()} == {"plan.txt", "map.png"}


async def test_a_turn_that_a_lost_machine_had_begun_goes_on_with_its_file(
    homes: tuple[Path, Path],
) -> None:
    one, two = homes
    key, path = "agent:main:local:dm:1", one / "media" / "local" / "1" / "plan.txt"
    path.parent.mkdir(parents=True)
    path.write_text("dig here\n")
    source = {"platform": "local", "chat_id": "1", "user_id": "u1", "chat_type": "dm"}
    target = {"id": "t", "to": {"session_key": key, "platform": "local", "chat_id": "1"}}
    with acting_as("one"), SessionDB(one / "state.db") as db:
        objects.put_file(db, one, path)
        facts = {"source": source, "media": [str(path)]}
        owner = db.ensure_person("local:u1").id
        db.accept_message("m", "s", "read it", source="local", session_key=key, facts=facts)
        content = f"read it\n[Attached file: {path}]"
        db.begin_turn(
            "s", {"role": "user", "content": content, INBOX_ID: "m"}, source="local",
            facts={"session_key": key, "user_id": owner}, leased=True, deliver_to=target,
        )  # fmt: skip
        silent = LEASE_SECONDS + 1
        tamper(db, f"UPDATE turns SET heartbeat_at = heartbeat_at - {silent}")
    shutil.rmtree(one / "media")
    steps: list[Any] = [
        lambda request: call("read_file", path=str(path)),
        lambda request: say("it says: " + last(request)),
    ]
    async with gateway(two, steps, yaml=FULL, store=one) as chats:
        (answer,) = await chats.local.wait_for(1)
        assert "dig here" in answer


async def test_output_of_a_tool_on_a_lost_machine_is_read_by_the_next(
    homes: tuple[Path, Path],
) -> None:
    one, two = homes
    told: list[str] = []

    def end(request: ModelRequest) -> Step:
        told.append(last(request))
        return say("done")

    command = "seq 1 60000"
    with acting_as("one"):
        async with gateway(one, [call("terminal", command=command), end], yaml=FULL) as chats:
            assert await chats.ask("count") == "done"
    (path,) = (one / OUTPUT_FOLDER).rglob("*.txt")
    assert str(path) in told[0]
    assert "machine only" not in told[0]
    shutil.rmtree(one / OUTPUT_FOLDER)
    steps: list[Any] = [
        lambda request: call("read_file", path=str(path), offset=59_999),
        lambda request: say(last(request)),
    ]
    async with gateway(two, steps, yaml=FULL, store=one) as chats:
        assert "60000" in await chats.ask("and the last?")


async def test_a_file_that_cannot_be_put_is_not_accepted(homes: tuple[Path, Path]) -> None:
    """Nor is its message: the platform delivers it again."""
    one, _ = homes
    async with gateway(one) as chats:
        host = chats.runner.host_for(Platform.LOCAL)
        tamper(chats.db, "ALTER TABLE object_chunks RENAME TO object_chunks_away")
        with pytest.raises(StoreError):
            await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
        tamper(chats.db, "ALTER TABLE object_chunks_away RENAME TO object_chunks")
        path = await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
        assert [known.name for known in objects.walk_objects(chats.db)] == [
            path.relative_to(one).as_posix()
        ]


async def test_a_file_that_is_damaged_in_the_store_is_told_and_the_message_answered(
    homes: tuple[Path, Path],
) -> None:
    one, two = homes
    with acting_as("one"):
        async with gateway(one) as chats:
            host = chats.runner.host_for(Platform.LOCAL)
            plan = await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
            chats.runner.pipeline.take_up = lambda inbound: None  # type: ignore[method-assign]
            await chats.say("read it", media=[str(plan)])
            tamper(chats.db, "DELETE FROM object_chunks")
    shutil.rmtree(one / "media")
    async with gateway(two, store=one) as chats:
        told, answer = await chats.local.wait_for(2)
        for text in (told, answer):
            assert "plan.txt could not be fetched: media/local/1/plan.txt is damaged" in text


async def test_files_go_with_their_conversation(homes: tuple[Path, Path]) -> None:
    one, _ = homes
    async with gateway(one, session_store_max_age_days=0) as chats:
        host = chats.runner.host_for(Platform.LOCAL)
        plan = await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
        await chats.ask("read it", media=[str(plan)])
        tamper(chats.db, "UPDATE objects SET put_at = 0")
        await chats.runner.prune()
        assert len(list(objects.walk_objects(chats.db))) == 1
        chats.db.delete_conversation(chats.session_id())
        await chats.runner.prune()
        assert list(objects.walk_objects(chats.db)) == []
        assert query(chats.db, "SELECT * FROM object_chunks") == []


def test_deleting_a_conversation_deletes_its_files(tmp_path: Path) -> None:
    """At once, whoever deletes it: nobody waits for a gateway to look."""
    from agent.store import open_store

    with open_store(tmp_path) as db:
        assert db.is_on_server
        db.create_session("s", "cli")
        path = tmp_path / "tool-output" / "s" / "x.txt"
        path.parent.mkdir(parents=True)
        path.write_text("long")
        objects.put_file(db, tmp_path, path, "s")
        db.delete_session("s")
        assert query(db, "SELECT * FROM object_blobs") == []
        assert query(db, "SELECT * FROM object_chunks") == []
        assert not path.exists()


@pytest.mark.sqlite
async def test_beside_a_store_in_a_file_nothing_is_put(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        host = chats.runner.host_for(Platform.LOCAL)
        plan = await host.keep_file("1", "plan.txt", sent(b"dig here\n"))
        await chats.ask("read it", media=[str(plan)])
        assert not chats.db.is_on_server
        assert list(SessionDB.list_objects(chats.db)) == []
