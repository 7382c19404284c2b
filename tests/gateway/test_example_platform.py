"""The example plugin with a platform of its own keeps what every adapter promises."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

pytest.importorskip("aiohttp", reason="aiohttp is not installed: pip install -e '.[slack]'")

from gateway.config import PlatformConfig
from gateway.conformance import load_platform
from gateway.conformance.plugin import write_home
from gateway.platforms.base import MessageEvent, PlatformAdapter, SendError
from gateway.platforms.host import StandaloneHost

from .adapter_conformance import AdapterConformance, Place, running, until
from .ntfy_server import DROPPED, NtfyServer

PLUGIN = Path(__file__).parents[2] / "examples" / "plugins" / "ntfy"


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class NtfyPlace(Place):
    """Topics of the server."""

    adapter: Any
    chat_id = user_id = "ann-7f3a"
    crowd = 20
    lacks: ClassVar = {
        "person_edits": "what was published stays",
        "chat_is_deleted": "topics come and go by themselves",
    }

    def __init__(self, server: NtfyServer, home: Path) -> None:
        self.server = server
        manifest = load_platform(PLUGIN, home)
        topics = [self.chat_id, *(f"p{number}" for number in range(1, self.crowd + 1))]
        extra = {"server": server.url, "topics": topics}
        config = PlatformConfig(enabled=True, allow_all=True, extra=extra)
        self.adapter = manifest.make_adapter(config, StandaloneHost(config, ignore, home))

    async def prepare(self, home: Path) -> None:
        write_home(PLUGIN, home)

    async def adopt(self, adapter: PlatformAdapter) -> None:
        self.adapter = adapter
        await until(lambda: bool(self.adapter.place))

    async def is_there(self, home: Path) -> None:
        await until(lambda: bool(self.server.subscribers))
        await until((home / "gateway" / "ntfy-place.json").exists)

    async def person_says(self, text: str) -> Any:
        # Whoever subscribes for the first time is told of nothing that came before.
        await until(lambda: bool(self.adapter.place or self.server.subscribers))
        return await self.server.publish(self.chat_id, text.replace("\0", "").strip())

    async def delivered_again(self, said: Any) -> None:
        await self.server.tell(said)

    def acknowledged(self, said: Any) -> bool:
        return bool(self.adapter.place == said["id"])

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        return self.server.texts(self.chat_id)

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        limit = (429, {"Retry-After": str(retry_after)})
        self.server.faults.append((403, {}) if permanent else limit)

    async def person_leaves(self, text: str, number: int = 0) -> str:
        topic = f"p{number}" if number else self.chat_id
        await self.server.publish(topic, text)
        return topic

    async def person_sends(self, name: str, data: bytes) -> None:
        await until(lambda: bool(self.adapter.place))
        await self.server.attach(self.chat_id, name, data)

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        await self.server.publish(f"p{number}", text)
        return f"p{number}"

    def texts_in(self, chat_id: str) -> list[str]:
        return self.server.texts(chat_id)

    async def we_are_removed(self) -> None:
        self.server.forbidden.add(self.chat_id)

    async def go_away(self) -> None:
        await self.server.close()

    async def come_back(self) -> None:
        await self.server.open()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[NtfyPlace]:
    async with NtfyServer() as server:
        yield NtfyPlace(server, tmp_path / "plugin-home")


class TestNtfy(AdapterConformance):
    """Every check."""


def test_its_adapter_is_short() -> None:
    lines = [line for path in PLUGIN.glob("*.py") for line in path.read_text().splitlines()]
    assert len((PLUGIN / "adapter.py").read_text().splitlines()) < 150
    assert len(lines) < 200


async def test_files_of_strangers_and_of_other_servers_are_not_fetched(
    place: NtfyPlace, tmp_path: Path
) -> None:
    events: list[MessageEvent] = []

    async def take(event: MessageEvent) -> None:
        events.append(event)

    place.adapter.on_message = take
    async with running(place.adapter):
        await until(lambda: bool(place.adapter.place))
        other = {"name": "bait.txt", "size": 1, "url": f"{place.server.url}.example.org/file/f1"}
        await place.server.publish(place.chat_id, "look", attachment=other)
        await until(lambda: len(events) == 1)
        place.adapter.config.allow_all = False
        await place.server.attach(place.chat_id, "a.txt", b"a")
        await until(lambda: len(events) == 2)
    assert [event.media for event in events] == [[], []]
    assert "not fetched" in events[0].text


async def test_a_text_that_may_have_been_shown_is_said_to_be_unsure(place: NtfyPlace) -> None:
    adapter = place.adapter
    await adapter.connect()
    place.server.faults.append((DROPPED, {}))
    with pytest.raises(SendError) as broken:
        await adapter.send(place.chat_id, "hello")
    await place.server.close()
    with pytest.raises(SendError) as away:
        await adapter.send(place.chat_id, "hello")
    await place.server.open()
    with pytest.raises(SendError) as elsewhere:
        await adapter.send_media("../v1/account", __file__)
    await adapter.disconnect()
    assert broken.value.unsure and not broken.value.permanent
    assert not away.value.unsure and not away.value.permanent, "nobody was there to show it"
    assert elsewhere.value.permanent
