"""A gateway with one Matrix account on a real server, and that server for the shared checks."""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.matrix.adapter import MatrixAdapter
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, PlatformLease, SessionDB

from .adapter_conformance import Place, until
from .chats import CONFIG, echo
from .synapse import Between, Person, Synapse, shown_in


class Bot:
    """A running gateway with one Matrix account."""

    def __init__(self, runner: GatewayRunner, model: ScriptedModel) -> None:
        self.runner, self.model = runner, model

    @property
    def db(self) -> SessionDB:
        return self.runner._session_db._db  # type: ignore[no-any-return]

    @property
    def adapter(self) -> MatrixAdapter:
        adapter = self.runner.adapters[Platform.MATRIX]
        assert isinstance(adapter, MatrixAdapter)
        return adapter


class Kept:
    """What the adapter keeps under a name: in a private file of the home, or, where the store is on
    a server, with its lease there."""

    def __init__(self, home: Path, name: str) -> None:
        self._store, self._name = home / "state.db", name
        self.file = home / "gateway" / f"{name}.json"

    def read(self) -> dict[str, Any]:
        with SessionDB(self._store) as db:
            if not db.is_on_server:
                return dict(json.loads(self.file.read_text()))
            assert not self.file.exists()
            (lease,) = db.list_platform_leases()
            return dict(db.get_kept_for_platform(lease["name"])[self._name])

    def write(self, kept: dict[str, Any]) -> None:
        """For a gateway that does not run."""
        with SessionDB(self._store) as db:
            if db.is_on_server:
                (held,) = db.list_platform_leases()
                lease = PlatformLease(held["name"], held["fence"], held["owner"])
                db.keep_for_platform(lease, {self._name: kept})
            else:
                self.file.write_text(json.dumps(kept))


@asynccontextmanager
async def running(
    home: Path,
    synapse: Synapse | Between,
    account: Person,
    allowed: Iterable[Person] = (),
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    password: bool = False,
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Bot]:
    """A gateway on the server, stopped at the end; again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    given = {"homeserver": synapse.url, "user_id": account.user_id, **(extra or {})}
    if password:
        given["password"] = account.password
    matrix = PlatformConfig(
        enabled=True,
        token="" if password else account.token,
        allowed_users=tuple(one.user_id for one in allowed),
        extra=given,
    )
    config = GatewayConfig(
        platforms={Platform.MATRIX: matrix}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        yield Bot(runner, model)
    finally:
        await runner.stop()
        await db.close()


class MatrixPlace(Place):
    """A direct chat on the server, with something between us that can refuse."""

    adapter: MatrixAdapter
    crowd = 5
    lacks: ClassVar = {"chat_is_deleted": "rooms are left, not deleted"}

    def __init__(self, between: Between, synapse: Synapse, bot: Person, ann: Person) -> None:
        self._between, self._synapse, self._bot, self._ann = between, synapse, bot, ann
        config = PlatformConfig(
            enabled=True,
            allowed_users=(ann.user_id,),
            # Not by its token: each home makes a device, with keys of its own.
            extra={
                "homeserver": between.url,
                "user_id": bot.user_id,
                "password": bot.password,
            },
        )
        self.adapter = MatrixAdapter(config, _ignore)
        self.user_id = ann.user_id
        self._others: dict[int, tuple[Person, str]] = {}

    async def meet(self) -> None:
        """Have a room, and the adapter in it, before anything counts."""
        self.chat_id = await self._ann.room(self._bot, direct=True)
        await self._bot.join(self.chat_id)
        await self.adapter.connect()
        reading = asyncio.create_task(self.adapter.run())
        while not self._since:
            await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait([reading])
        await self.adapter.disconnect()

    @property
    def _since(self) -> str:
        return self.adapter.state.place(self._between.url, self._bot.user_id).since

    def _get(self, path: str, person: Person | None = None) -> Any:
        url = f"{self._synapse.url}/_matrix/client/v3/{path}"
        headers = {"Authorization": f"Bearer {(person or self._bot).token}"}
        return (
            httpx.get(url, headers=headers, trust_env=False, verify=False).raise_for_status().json()
        )

    async def person_says(self, text: str) -> Any:
        since = self._since
        return await self._ann.say(self.chat_id, text), since

    async def delivered_again(self, said: Any) -> None:
        await self._between.repeat(said[1])

    def acknowledged(self, said: Any) -> bool:
        return said[0] not in json.dumps(self._get(f"sync?since={self._since}"))

    async def person_edits(self, said: Any, text: str) -> None:
        new = {"msgtype": "m.text", "body": text}
        relation = {"rel_type": "m.replace", "event_id": said[0]}
        edit = {"m.new_content": new, "m.relates_to": relation}
        await self._ann.say(self.chat_id, f"* {text}", **edit)

    async def person_sends(self, name: str, data: bytes) -> None:
        answer = httpx.post(
            f"{self._synapse.url}/_matrix/media/v3/upload", content=data, trust_env=False,
            headers={"Authorization": f"Bearer {self._ann.token}"}, verify=False,
        )  # fmt: skip
        file = {"msgtype": "m.file", "body": name, "filename": name}
        await self._ann.put(self.chat_id, {**file, "url": answer.json()["content_uri"]})

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        if number not in self._others:
            person = self._synapse.register(f"other-{uuid.uuid4().hex[:8]}")
            if name:
                path = f"profile/{person.user_id}/displayname"
                await person.call("PUT", path, {"displayname": name})
            self._others[number] = person, await person.room(self._bot, direct=True)
        person, room = self._others[number]
        await person.say(room, text)
        return room

    async def we_are_removed(self) -> None:
        path = f"rooms/{self.chat_id}/kick"
        await self._ann.call("POST", path, {"user_id": self._bot.user_id})

    async def go_away(self) -> None:
        await self._between.go_away()

    async def come_back(self) -> None:
        await self._between.come_back()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, MatrixAdapter)
        self.adapter = adapter
        await until(lambda: bool(self._since))

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        return self.texts_in(self.chat_id)

    def texts_in(self, chat_id: str) -> list[str]:
        person = next((one for one, room in self._others.values() if room == chat_id), self._ann)
        events = self._get(f"rooms/{chat_id}/messages?dir=f&limit=1000", person)["chunk"]
        return [one["content"]["body"] for one in shown_in(events, self._bot.user_id)]

    async def close(self) -> None:
        """The others leave."""
        for person, _ in self._others.values():
            await person.close()

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        if permanent:
            refusal = (403, {"errcode": "M_FORBIDDEN", "error": "no"})
        else:
            wait = int((retry_after or 1) * 1000)
            refusal = (
                429, {"errcode": "M_LIMIT_EXCEEDED", "error": "slow", "retry_after_ms": wait},
            )  # fmt: skip
        self._between.refusals.append(refusal)


async def _ignore(event: MessageEvent) -> None:
    """Takes everything."""
