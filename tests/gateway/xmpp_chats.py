"""A gateway that is reached only through a real XMPP server, and the place for its adapter."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from slixmpp.exceptions import IqTimeout

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.host import StandaloneHost
from gateway.platforms.xmpp.adapter import XmppAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place, until
from .chats import CONFIG, Chats, echo
from .xmpp_server import Files, Person, Prosody, Wire


@asynccontextmanager
async def xmpp_gateway(
    home: Path,
    section: dict[str, Any],
    allowed: Iterable[str] = (),
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(enabled=True, allowed_users=tuple(allowed), extra=section)
    config = GatewayConfig(
        platforms={Platform.XMPP: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


def adapter_of(chats: Chats) -> XmppAdapter:
    """The gateway's adapter."""
    adapter = chats.runner.adapters[Platform.XMPP]
    assert isinstance(adapter, XmppAdapter)
    return adapter


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


IN_ROOM = 4
"""From this number on, people write in the room."""


class XmppPlace(Place):
    """A direct chat on the server, and as many others as are wanted."""

    adapter: XmppAdapter
    crowd = 10

    def __init__(
        self,
        server: Prosody,
        wire: Wire,
        files: Files,
        ann: Person,
        home: Path,
        *,
        with_room: bool = False,
    ) -> None:
        """`with_room` has some of the others write in a room that they share."""
        self._room = server.room() if with_room else ""
        self._server, self._wire, self._files, self._ann = server, wire, files, ann
        self._others: dict[int, Person] = {}
        self.chat_id = self.user_id = ann.jid
        self._me = server.add_account("hermes")
        section = server.section(
            self._me,
            server=f"127.0.0.1:{wire.port}",
            media_hosts=[files.url.removeprefix("http://")],
            rooms=[self._room] if with_room else [],
            nick="hermes",
        )
        config = PlatformConfig(enabled=True, allow_all=True, extra=section)
        self.adapter = XmppAdapter(config, StandaloneHost(config, ignore, home))
        self._wait_for_people(self.adapter)

    def _wait_for_people(self, adapter: XmppAdapter) -> None:
        """What was sent counts as sent when their clients have it: they run beside us."""
        tell = adapter.sender._tell

        async def tell_them(xml: ET.Element) -> None:
            await tell(xml)
            for person in (self._ann, *self._others.values()):
                if person.jid == xml.get("to"):
                    with contextlib.suppress(IqTimeout):
                        await person.settle()

        adapter.sender._tell = tell_them  # type: ignore[method-assign]

    async def person_says(self, text: str) -> Any:
        return self._ann.write(self._me, text), text

    async def delivered_again(self, said: Any) -> None:
        self._ann.write(self._me, said[1], name=said[0])

    def acknowledged(self, said: Any) -> bool:
        return said[0] in self._ann.receipts()

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    async def person_edits(self, said: Any, text: str) -> None:
        correction = f"<replace xmlns='urn:xmpp:message-correct:0' id='{said[0]}'/>"
        self._ann.write(self._me, text, more=correction)

    async def person_sends(self, name: str, data: bytes) -> None:
        address = self._files.put(name, data)
        out_of_band = f"<x xmlns='jabber:x:oob'><url>{address}</url></x>"
        self._ann.write(self._me, address, more=out_of_band)

    def texts(self) -> list[str]:
        return self._ann.texts(self._me)

    async def person_leaves(self, text: str, number: int = 0) -> str:
        if not self._room or number < IN_ROOM:
            return await super().person_leaves(text, number)
        person = await self._in_room(number)
        person.write(self._room, f"hermes: {text}")
        return self._room

    async def prepare(self, home: Path) -> None:
        await super().prepare(home)
        if self._room:
            await self._in_room(IN_ROOM)  # else there is no room

    async def _in_room(self, number: int) -> Person:
        person = await self._another(number)
        if not any(self._room in one.get("from", "") for one in person.presences):
            await person.join(self._room)
        return person

    async def _another(self, number: int) -> Person:
        if number not in self._others:
            person = Person(self._server, self._server.add_account("other"))
            self._others[number] = await person.__aenter__()
        return self._others[number]

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        person = await self._another(number)
        nick = f"<nick xmlns='http://jabber.org/protocol/nick'>{escape(name)}</nick>"
        person.write(self._me, text, more=nick if name else "")
        return person.jid

    def texts_in(self, chat_id: str) -> list[str]:
        if chat_id == self._room:
            someone = self._others[max(self._others)]
            names = (f"{chat_id}/hermes{more}" for more in ("", "_", "__"))
            return [text for name in names for text in someone.texts(name)]
        return next(one for one in self._others.values() if one.jid == chat_id).texts(self._me)

    async def chat_is_deleted(self) -> None:
        await self._ann.__aexit__()
        self._server.remove_account(self._ann.jid)

    async def we_are_removed(self) -> None:
        await self._ann.block(self._me)

    async def go_away(self) -> None:
        await self._wire.cut()

    async def come_back(self) -> None:
        await self._wire.mend()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, XmppAdapter)
        self.adapter = adapter
        self._wait_for_people(adapter)

    async def is_there(self, home: Path) -> None:
        while not await self._ann.sees(f"{self._me}/hermes"):
            await asyncio.sleep(0.01)
        # From its first time in the room on, what is said there is for us.
        kept = home / "gateway" / "xmpp-place.json"
        await until(lambda: not self._room or (kept.exists() and self._room in kept.read_text()))

    async def is_deserted(self) -> None:
        while await self._ann.sees(f"{self._me}/hermes"):
            await asyncio.sleep(0.01)

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        if permanent:
            self._server.refuse_next(self._me, "cancel", "service-unavailable")
        else:
            text = f"Too much; try again in {retry_after} seconds"
            self._server.refuse_next(self._me, "wait", "resource-constraint", text)

    async def close(self) -> None:
        """The others leave."""
        for person in self._others.values():
            await person.__aexit__()
