"""What IRC is made of, without a server; and what ngIRCd does not have, against a few lines."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config import PlatformConfig
from gateway.platforms.base import MessageEvent, SendError
from gateway.platforms.irc.adapter import IrcAdapter
from gateway.platforms.irc.client import IrcError
from gateway.platforms.irc.formatting import lines_of, to_irc
from gateway.platforms.irc.inbound import without_address
from gateway.platforms.irc.pace import BURST, Pace
from gateway.platforms.irc.protocol import (
    cut_line,
    fold,
    is_target,
    parse_line,
    room_for,
    without_marks,
)

from .adapter_conformance import running, until
from .irc_network import settings


def test_lines_are_read() -> None:
    line = parse_line(b"@msgid=a\\:b;time=x;+typing :ann!a@h PRIVMSG #a :hi : there\r\n")
    assert line is not None
    assert (line.command, line.params, line.nick) == ("PRIVMSG", ("#a", "hi : there"), "ann")
    assert line.tags == {"msgid": "a;b", "time": "x", "+typing": ""}
    assert line.param(5) == "" and line.param(-1) == "hi : there"
    old = parse_line("PRIVMSG a :caf\u00e9".encode("cp1252"))
    assert old is not None and old.param(1) == "café"
    assert parse_line(b"\r\n") is None and parse_line(b":only.a.prefix\r\n") is None


@given(st.binary(max_size=200))
def test_any_line_is_read(data: bytes) -> None:
    line = parse_line(data)
    assert line is None or line.command


@given(st.text(max_size=400), st.integers(20, 120))
def test_pieces_of_a_line_fit_and_lose_nothing(text: str, room: int) -> None:
    text = text.encode("utf-8", "replace").decode()
    pieces = cut_line(text, room)
    assert all(len(piece.encode()) <= room for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


@given(st.text(max_size=300))
def test_any_markdown_becomes_lines_that_say_nothing_else(text: str) -> None:
    for line in lines_of(to_irc(text)):
        assert line and not set(line) & set("\r\n\x00\x01")


def test_marks_go_on_in_the_next_line() -> None:
    assert lines_of(to_irc("**one\n\n**two\nthree** _four_")) == [
        "**one", "\x02two", "\x02three\x02 \x1dfour\x1d",
    ]  # fmt: skip
    assert lines_of(to_irc("# A **title**\n```\ncode\n```\n[x](http://a)")) == [
        "\x02A title\x02", "code", "x (http://a)",
    ]  # fmt: skip
    assert lines_of("") == ["…"]


def test_names() -> None:
    assert fold("Ann[]\\~") == "ann{}|^" and fold("A[", "ascii") == "a["
    assert is_target("#a") and is_target("ann")
    for bad in ("", "a b", "a\r\nQUIT", ":a", "a,b", "$*", "a!b@c"):
        assert not is_target(bad), bad
    assert room_for("hermes", "#channel") < 420
    assert without_marks("\x02a\x0304,12b\x03 c\x0f\x1d\td") == "ab c d"


def test_who_is_addressed() -> None:
    assert without_address("Hermes: hi", "hermes") == "hi"
    assert without_address("hermes", "hermes") == ""
    assert without_address("hi @hermes!", "hermes") == "hi @hermes!"
    for other in ("hermes2: hi", "ask hermes", "mail@hermes.org", "@hermes-bot hi"):
        assert without_address(other, "hermes") is None, other


async def test_a_few_lines_at_once_and_then_one_after_the_other() -> None:
    now, slept = 0.0, []

    async def sleep(seconds: float) -> None:
        nonlocal now
        slept.append(seconds)
        now += seconds

    pace = Pace(2.0, lambda: now, sleep)
    for _ in range(BURST):
        await pace.wait()
    assert slept == []
    await pace.wait()
    await pace.wait()
    assert slept == [2.0, 2.0]
    pace.note_urgent()
    await pace.wait()
    assert slept[-1] == 4.0, "what did not wait is paid for later"
    now += 1000
    for _ in range(BURST):
        await pace.wait()
    assert len(slept) == 3
    pace.slow_down()
    assert pace.interval == 4.0


class Modern:
    """A few lines of a server with SASL, accounts and ids of messages."""

    def __init__(self, password: str = "pencil") -> None:
        self.password = password
        self.told: list[str] = []
        self.said: list[str] = []
        self.writer: asyncio.StreamWriter | None = None
        self.answers: dict[str, Callable[[list[str]], list[str]]] = {}

    def tell(self, line: str) -> None:
        assert self.writer is not None
        self.writer.write(f"{line}\r\n".encode())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        secret = ""
        while data := await reader.readline():
            line = data.decode().rstrip("\r\n")
            self.told.append(line)
            words = line.split(" ")
            if words[0] == "CAP" and words[1] == "LS":
                self.tell(":s CAP * LS * :multi-prefix sasl=PLAIN,EXTERNAL")
                self.tell(":s CAP * LS :account-tag message-tags server-time echo-message")
            elif words[0] == "CAP" and words[1] == "REQ":
                self.tell(f":s CAP * ACK :{line.partition(':')[2]}")
            elif line == "AUTHENTICATE PLAIN":
                self.tell("AUTHENTICATE +")
            elif words[0] == "AUTHENTICATE":
                secret += words[1].rstrip("+") if words[1] == "+" else words[1]
                if len(words[1]) < 400:
                    plain = base64.b64decode(secret).decode().split("\0")
                    right = plain == ["bot", "bot", self.password]
                    self.tell(":s 903 * :in" if right else ":s 904 * :SASL failed")
            elif line == "CAP END":
                self.tell(":s 001 hermes :hi")
                self.tell(":s 005 hermes CASEMAPPING=ascii NICKLEN=30 :are supported")
                self.tell(":s 376 hermes :end")
            elif words[0] == "PING":
                self.tell(f":s PONG s :{line.partition(':')[2]}")
            elif words[0] == "WHOIS":
                self.tell(f":s 311 hermes {words[1]} u h * :r")
                self.tell(f":s 330 hermes {words[1]} Ann :is logged in as")
            elif words[0] == "PRIVMSG":
                self.said.append(line)
                for answer in self.answers.get("PRIVMSG", lambda _: [])(words):
                    self.tell(answer)
        writer.close()


@asynccontextmanager
async def connected(
    modern: Modern, password: str = "pencil"
) -> AsyncIterator[tuple[IrcAdapter, list[MessageEvent]]]:
    events: list[MessageEvent] = []

    async def take(event: MessageEvent) -> None:
        events.append(event)

    server = await asyncio.start_server(modern.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    extra = settings(port, require_account=True, account="bot", password=password)
    adapter = IrcAdapter(PlatformConfig(enabled=True, extra=extra), take)
    try:
        async with running(adapter):
            yield adapter, events
    finally:
        server.close()


async def test_an_account_is_logged_in_and_people_are_known_by_theirs() -> None:
    modern = Modern("p" * 300)  # in two pieces
    async with connected(modern, "p" * 300) as (adapter, events):
        modern.tell("@account=Ann;msgid=1;time=2026-01-01T00:00:00.000Z :a!u@h PRIVMSG hermes :hi")
        modern.tell("@account=Ann;msgid=1 :a!u@h PRIVMSG hermes :hi")
        modern.tell("@time=2026-01-01T00:00:00.000Z;account=Ann :a!u@h PRIVMSG hermes :again")
        modern.tell(":hermes!u@h PRIVMSG ann :an echo of ours")
        modern.tell(":s PRIVMSG hermes :the server itself")
        modern.tell(":b!u@h PRIVMSG hermes :nobody")
        await until(lambda: adapter.inbound.taken == 6)
        assert [event.text for event in events] == ["hi", "hi", "again"]
        assert [event.message_id for event in events[:2]] == ["msgid:1"] * 2
        assert str(events[2].message_id).startswith("time:")
        assert {event.source.user_id for event in events} == {"Ann".lower()}
        assert events[0].timestamp is not None and events[0].timestamp.year == 2026
        assert any(line.startswith("NOTICE b :I know people") for line in modern.told)
        await adapter.send("ann", "an answer")
        assert modern.said == ["PRIVMSG a :an answer"], "to whoever has the account now"


async def test_a_wrong_password_is_told() -> None:
    with pytest.raises(IrcError, match="IRC_PASSWORD"):
        async with connected(Modern(), "wrong"):
            pass


@pytest.mark.parametrize(
    ("answer", "permanent", "seconds"),
    [
        (":s 263 hermes PRIVMSG :Please wait a while", False, 30.0),
        (":s 439 hermes #a :Please wait 12 seconds", False, 12.0),
        (":s 477 hermes #a :You need a registered nick", True, None),
        (":s 403 hermes #a :No such channel", True, None),
        (":s 401 hermes #b :No such nick", None, None),
    ],
)
async def test_refusals_are_told_apart(
    answer: str, permanent: bool | None, seconds: float | None
) -> None:
    modern = Modern()
    modern.answers["PRIVMSG"] = lambda words: [answer]
    async with connected(modern) as (adapter, _):
        if permanent is None:
            await adapter.send("#a", "what is said of another is not ours")
            return
        with pytest.raises(SendError) as refused:
            await adapter.send("#a", "hello")
        assert (refused.value.permanent, refused.value.retry_after) == (permanent, seconds)


async def test_who_is_too_quick_slows_down() -> None:
    modern = Modern()
    async with connected(modern) as (adapter, _):
        before = adapter._pace.interval
        running_client: Any = asyncio.ensure_future(adapter.client.run())
        modern.answers["PRIVMSG"] = lambda words: ["ERROR :Closing link (Excess Flood)"]
        with pytest.raises(SendError) as broken:
            await adapter.send("#a", "hello")
        assert broken.value.unsure
        with pytest.raises(ConnectionError, match="Flood"):
            await running_client
        assert adapter._pace.interval > before
        with pytest.raises(SendError):
            await adapter.send("#a", "hello")
        return


@pytest.mark.parametrize(
    ("extra", "why"),
    [
        ({"server": ""}, "IRC_SERVER"),
        ({"nick": "a b"}, "no nickname"),
        ({"channels": ["garden"]}, "no channel"),
        ({"tls": True, "ca_file": "/nowhere"}, "ca_file"),
    ],
)
async def test_what_cannot_be_used_is_said(extra: dict[str, Any], why: str) -> None:
    async def take(event: MessageEvent) -> None:
        """Takes everything."""

    with pytest.raises(IrcError, match=why):
        await IrcAdapter(PlatformConfig(extra=settings(1, **extra)), take).connect()
