"""A gateway that is reached only by mail, and the place for its adapter."""

from __future__ import annotations

import base64
import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any, ClassVar

from agent.config import load_config
from agent.model import ModelRequest
from agent.scripted import ScriptedModel, Step
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.base import MessageEvent, PlatformAdapter
from gateway.platforms.host import StandaloneHost
from gateway.platforms.mail.adapter import MailAdapter
from gateway.platforms.mail.reader import Reader
from gateway.run import GatewayRunner
from hermes_state import AsyncSessionDB, SessionDB

from .adapter_conformance import Place
from .chats import CONFIG, Chats, echo
from .mail_server import AUTHSERV, PASSWORD, Post, Wire, plain


def section(post: Post, **more: Any) -> dict[str, Any]:
    """The section of the platform, as it points to the servers here."""
    return {
        "address": post.mailbox.address,
        "password": PASSWORD,
        "imap_host": f"127.0.0.1:{post.mailbox.server.port}",
        "smtp_host": f"127.0.0.1:{post.port}",
        "tls": False,
        "authserv_id": AUTHSERV,
        **more,
    }


@asynccontextmanager
async def mail_gateway(
    home: Path,
    post: Post,
    steps: Iterable[Step | Callable[[ModelRequest], Step]] | None = None,
    *,
    allowed: Iterable[str] = ("ann@people.example",),
    allow_all: bool = False,
    extra: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Chats]:
    """A gateway that is stopped at the end; called again with the same home, it is a restart."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(CONFIG)
    platform = PlatformConfig(
        enabled=True, allow_all=allow_all, allowed_users=tuple(allowed),
        extra=section(post, **(extra or {})),
    )  # fmt: skip
    config = GatewayConfig(
        platforms={Platform.EMAIL: platform}, **{"drain_timeout": 5.0, **settings}
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    model = ScriptedModel(steps if steps is not None else itertools.repeat(echo))
    runner._model = model
    await runner.start()
    try:
        await post.until(lambda: is_reading(runner))
        yield Chats(runner, model)
    finally:
        await runner.stop()
        await db.close()


def is_reading(runner: GatewayRunner) -> bool:
    """Whether the mailbox is connected, and read from a known place on."""
    adapter: Any = runner.adapters.get(Platform.EMAIL)
    return adapter is not None and bool(adapter.reader.place.validity)


def reader_of(chats: Chats) -> Reader:
    """What reads the mailbox."""
    adapter = chats.runner.adapters[Platform.EMAIL]
    assert isinstance(adapter, MailAdapter)
    return adapter.reader


def quote(mail: EmailMessage) -> str:
    """A mail as a program puts it below an answer."""
    lines = plain(mail).split("\n")
    return "\n".join(["On Monday, Hermes wrote:", "", *(f"> {line}" for line in lines)])


async def ignore(event: MessageEvent) -> None:
    """Takes everything."""


class MailPlace(Place):
    """A thread between a person and us."""

    adapter: MailAdapter
    chat_id = user_id = "ann@people.example"
    lacks: ClassVar[Mapping[str, str]] = {
        "person_edits": "a mail that was sent stays as it is",
        "we_are_removed": "nobody is thrown out of a thread",
    }

    def __init__(self, post: Post, wire: Wire, home: Path) -> None:
        self.post = post
        self._wire = wire
        given = section(post, imap_host=f"127.0.0.1:{wire.port}")
        config = PlatformConfig(enabled=True, allow_all=True, extra=given)
        self.adapter = MailAdapter(config, StandaloneHost(config, ignore, home))
        self._said = 0
        self._is_there = False
        """Whether a gateway of another process reads."""

    async def person_says(self, text: str) -> Any:
        await self._write(text, self.chat_id)
        return self._said

    async def _write(self, text: str, sender: str, **more: Any) -> None:
        await self.post.until(lambda: self._is_there or self.adapter.reader.place.validity)
        thread = f"<thread.of.{sender.partition('<')[2] or sender}".rstrip(">") + ">"
        self.post.write(text, sender, In_Reply_To=thread, References=thread, **more)
        self._said += 1

    async def delivered_again(self, said: Any) -> None:
        mail = self.post.written[int(said) - 1]
        self.post.deliver(mail)
        self.post.written.append(mail)
        self._said += 1

    async def person_sends(self, name: str, data: bytes) -> None:
        await self._write("", self.chat_id, files=[(name, data)])

    async def another_says(self, number: int, text: str, name: str = "") -> str:
        address = f"person{number}@people.example"
        shown = f"=?utf-8?b?{base64.b64encode(name.encode()).decode()}?="
        await self._write(text, f"{shown} <{address}>" if name else address)
        return address

    def texts_in(self, chat_id: str) -> list[str]:
        return self.post.texts(chat_id)

    async def chat_is_deleted(self) -> None:
        self.post.gone.add(self.chat_id)

    async def go_away(self) -> None:
        await self._wire.cut()
        await self.post.go_away()

    async def come_back(self) -> None:
        await self.post.come_back()
        await self._wire.join()

    async def adopt(self, adapter: PlatformAdapter) -> None:
        assert isinstance(adapter, MailAdapter)
        self.adapter = adapter
        await self.post.until(lambda: adapter.reader.place.validity)

    async def is_there(self, home: Path) -> None:
        await self.post.until(lambda: self._wire.waiting)
        self._is_there = True

    async def is_deserted(self) -> None:
        await self.post.until(lambda: not self._wire.waiting)

    def acknowledged(self, said: Any) -> bool:
        return self.adapter.reader.place.uid >= int(said)

    async def person_presses(self, label: str) -> None:
        raise NotImplementedError

    def texts(self) -> list[str]:
        return self.post.texts(self.chat_id)

    def fail_next(self, *, retry_after: float | None = None, permanent: bool = False) -> None:
        busy = f"451 4.7.1 Greylisted, try again in {retry_after} seconds"
        self.post.refusals.append("550 5.1.1 No such person" if permanent else busy)
