"""IRC against a real server: every promise of the gateway, as people there see it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from agent.scripted import call, say
from gateway import delivery, supervision
from gateway.config import Platform, PlatformConfig
from gateway.platforms.base import SendError
from gateway.platforms.irc import inbound
from gateway.platforms.irc.adapter import IrcAdapter
from gateway.platforms.irc.client import IrcError

from .adapter_conformance import AdapterConformance, until
from .irc_network import (
    Between,
    Inspircd,
    IrcPlace,
    IrcServer,
    Ngircd,
    Person,
    running,
    settings,
)
from .irc_services import PASSWORD, services
from .paste_service import PasteService


@pytest.fixture(scope="module")
def ngircd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ngircd]:
    server = Ngircd(tmp_path_factory.mktemp("irc"), tls=True)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="module")
def inspircd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Inspircd]:
    server = Inspircd(tmp_path_factory.mktemp("irc"))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["ngircd", "inspircd"])
def server(request: pytest.FixtureRequest) -> IrcServer:
    """Each in turn; where one is not installed, its half is skipped."""
    server: IrcServer = request.getfixturevalue(request.param)
    return server


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, inbound):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)


class TestConformance(AdapterConformance):
    @pytest.fixture
    async def place(self, ngircd: Ngircd) -> AsyncIterator[IrcPlace]:
        async with Between(ngircd.port) as between:
            place = IrcPlace(between, ngircd)
            yield place
            place.close()


_numbers = itertools.count(1)


@pytest.fixture
def ann(server: IrcServer) -> Iterator[Person]:
    person = Person(server, f"ann{next(_numbers)}", "#garden")
    yield person
    person.close()


async def test_asked_and_answered(tmp_path: Path, server: IrcServer, ann: Person) -> None:
    async with running(tmp_path, server.port, [ann.mask]) as chats:
        ann.say("hermes", "hello \x02you\x02 \x034,2red")
        assert await ann.wait_for(bool) == ["re: hello you red"]
        assert set(chats.runner.session_store._entries) == {f"agent:main:irc:dm:{ann.mask}"}
        ann.write("NOTICE hermes :I am a program")
        ann.say("hermes", "\x01VERSION\x01")
        ann.say("hermes", "\x01ACTION waves\x01")
        assert (await ann.wait_for(lambda texts: len(texts) == 2))[1] == "re: \x1dwaves\x1d"
        ann.say("hermes", "!status")
        texts = await ann.wait_for(lambda texts: len(texts) > 2)
        assert not texts[2].startswith("re:"), "it is a command"
        assert chats.model.calls == 2


async def test_a_channel_by_mention(tmp_path: Path, server: IrcServer, ann: Person) -> None:
    extra = {"channels": ["#Garden"]}
    bob = Person(server, f"bob{next(_numbers)}", "#garden")
    allowed = [ann.mask, bob.mask]
    async with running(tmp_path, server.port, allowed, extra=extra) as chats:
        ann.say("#garden", "others use hermes")
        ann.say("#garden", "not for the bot, says hermes")
        ann.say("#garden", "Hermes: by name")
        await ann.wait_for(lambda texts: "re: by name" in texts, to="#garden")
        bob.say("#garden", "what do you think, @hermes?")
        texts = await bob.wait_for(lambda texts: len(texts) > 1, to="#garden")
        assert texts == ["re: by name", "re: what do you think, @hermes?"]
        assert set(chats.runner.session_store._entries) == {
            f"agent:main:irc:group:#garden:{ann.mask}",
            f"agent:main:irc:group:#garden:{bob.mask}",
        }
        adapter = chats.runner.adapters[Platform.IRC]
        with pytest.raises(SendError) as refused:
            await adapter.send("#nowhere", "anybody?")
        assert refused.value.permanent
        with pytest.raises(SendError) as refused:
            await adapter.send("#a\r\nQUIT", "anybody?")
        assert refused.value.permanent
    bob.close()


async def test_a_stranger_is_let_in_with_a_code_and_not_by_name(
    tmp_path: Path, server: IrcServer
) -> None:
    eve = Person(server, "eve")
    async with running(tmp_path, server.port) as chats:
        eve.say("hermes", "hello?")
        said = " ".join(await eve.wait_for(bool))
        code = said.split("pairing code is ")[1].split()[0]
        assert chats.db.approve_pairing(code) is not None
        eve.say("hermes", "now?")
        await eve.wait_for(lambda texts: "re: now?" in texts)
        eve.write("NICK eva")
        eve.settle()
        mallory = Person(server, "eve")
        mallory.write("NICK eve")
        mallory.close()
        other = Person(server, "mallory")
        await until(lambda: not other.sees("eve"))
        other.write("NICK eve")
        other.settle()
        other.nick = "eve"
        other.say("hermes", "I am eve, what did I say?")
        assert "pairing code" in " ".join(await other.wait_for(bool))
        assert chats.model.calls == 1
        adapter = chats.runner.adapters[Platform.IRC]
        with pytest.raises(SendError) as away:
            await adapter.send(eve.mask, "for eve alone")
        assert not away.value.permanent and away.value.retry_after
        assert "for eve alone" not in other.texts()
        other.close()
    eve.close()


async def test_who_has_no_account_is_told_so_once(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    extra = {"require_account": True}
    async with running(tmp_path, server.port, [ann.mask], extra=extra) as chats:
        ann.say("hermes", "one")
        ann.say("hermes", "two")
        assert await ann.wait_for(bool) == [inbound.NO_ACCOUNT]
        adapter = chats.runner.adapters[Platform.IRC]
        assert isinstance(adapter, IrcAdapter)
        await until(lambda: adapter.inbound.taken == 2)
        assert await ann.wait_for(bool) == [inbound.NO_ACCOUNT]
        assert chats.model.calls == 0


async def test_people_are_known_by_their_accounts_whatever_their_names(
    tmp_path: Path, inspircd: Inspircd
) -> None:
    with services(inspircd.link_port):
        extra = {"require_account": True, "account": "bot", "password": "wrong"}
        refused = IrcAdapter(PlatformConfig(extra=settings(inspircd.port, **extra)), ignored)
        with pytest.raises(IrcError, match="IRC_PASSWORD"):
            await refused.connect()
        extra["password"] = PASSWORD
        ann = Person(inspircd, "nightingale", login=("Ann", PASSWORD))
        eve = Person(inspircd, "ann")
        async with running(tmp_path, inspircd.port, ["ann"], extra=extra) as chats:
            ann.say("hermes", "hello")
            assert await ann.wait_for(bool) == ["re: hello"]
            eve.say("hermes", "I am ann")
            assert await eve.wait_for(bool) == [inbound.NO_ACCOUNT]
            assert set(chats.runner.session_store._entries) == {"agent:main:irc:dm:ann"}
            adapter = chats.runner.adapters[Platform.IRC]
            await adapter.send("ann", "for Ann, under whatever name")
            assert ann.texts()[1:] == ["for Ann, under whatever name"]
            assert chats.model.calls == 1
        ann.close()
        eve.close()


async def test_leave_is_asked_for_and_given_in_the_chat(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    for answer, expected in (("!approve", False), ("!deny", True), ("1", False)):
        victim = tmp_path / "victim"
        victim.mkdir(exist_ok=True)
        steps = [call("terminal", command=f"rm -rf {victim}"), say("done")]
        ann.heard.clear()
        async with running(tmp_path / "home", server.port, [ann.mask], steps) as chats:
            ann.say("hermes", "remove it")
            await ann.wait_for(lambda texts: any("/approve" in text for text in texts))
            assert any(str(victim) in text for text in ann.texts())
            assert victim.exists()
            ann.say("hermes", answer)
            await ann.wait_for(lambda texts: "done" in texts)
            assert victim.exists() is expected
            chats.model.assert_done()


async def test_a_taken_nickname_and_tls(tmp_path: Path, server: IrcServer, ann: Person) -> None:
    taken = Person(server, "hermes")
    extra = {"server": f"localhost:{server.tls_port}", "tls": True, "nick": "hermes"}
    strict = IrcAdapter(PlatformConfig(extra=settings(0, **extra)), ignored)
    with pytest.raises(ConnectionError, match="cannot be reached"):
        await strict.connect()
    extra["ca_file"] = str(server.certificate)
    async with running(tmp_path, server.port, [ann.mask], extra=extra) as chats:
        ann.say("hermes_", "hello")
        assert await ann.wait_for(bool, by="hermes_") == ["re: hello"]
        taken.close()
        adapter = chats.runner.adapters[Platform.IRC]
        assert isinstance(adapter, IrcAdapter)
        while adapter.client.nick != "hermes":
            adapter.client.ask_for_nick()
            await adapter.client.settle()
        ann.say("hermes", "and now?")
        assert await ann.wait_for(bool, by="hermes") == ["re: and now?"]


async def ignored(event: object) -> None:
    """Takes everything."""


async def test_it_comes_back_and_sends_what_is_owed(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    goes_on = asyncio.Event()
    steps = [say(goes_on, "the answer"), say("re: two")]
    async with Between(server.port) as between, running(
        tmp_path, between.port, [ann.mask], steps, busy_input_mode="queue"
    ) as chats:  # fmt: skip
        ann.say("hermes", "one")
        await until(lambda: chats.model.calls == 1)
        await between.go_away()
        await until(lambda: Platform.IRC not in chats.runner.adapters)
        goes_on.set()
        while not chats.db.list_deliveries(("pending",)):
            await asyncio.sleep(0.01)
        await between.come_back()
        await ann.wait_for(lambda texts: texts == ["the answer"])
        ann.say("hermes", "two")
        await ann.wait_for(lambda texts: texts == ["the answer", "re: two"])


async def test_an_answer_that_may_have_been_shown_is_reported_and_not_repeated(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    async with Between(server.port) as between, running(
        tmp_path, between.port, [ann.mask]
    ):  # fmt: skip
        ann.say("hermes", "zero")
        await ann.wait_for(bool)
        between.is_deaf = True
        ann.say("hermes", "one")
        await ann.wait_for(lambda texts: len(texts) == 2)
        between.is_deaf = False
        await between.go_away()
        await between.come_back()
        texts = await ann.wait_for(lambda texts: len(texts) > 2)
        assert texts[1] == "re: one" and "/last" in texts[2]
        ann.say("hermes", "!last")
        assert (await ann.wait_for(lambda texts: len(texts) > 3))[3] == "re: one"


async def test_a_long_answer_is_cut_into_lines_and_its_rest_is_pasted(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("what the note says")
    long = " ".join(f"**{number}** wörd" for number in range(600))
    async with PasteService() as service, running(
        tmp_path / "home", server.port, [ann.mask], [say(long), say(long)],
        extra={"paste_url": service.url, "max_lines": 4},
    ) as chats:  # fmt: skip
        ann.say("hermes", "tell me")
        texts = await ann.wait_for(lambda texts: len(texts) == 4)
        assert all(len(text.encode()) < 450 for text in texts)
        assert texts[3].endswith(f"{service.url}/0") and "more lines" in texts[3]
        assert service.kept[0][1].decode().count("wörd") == 600
        adapter = chats.runner.adapters[Platform.IRC]
        await adapter.send_media(ann.mask, str(note), caption="for you")
        assert service.kept[1] == ("note.txt", b"what the note says")
        assert ann.texts()[4:] == ["for you", f"note.txt ({service.url}/1)"]
        service.answers = 500
        ann.say("hermes", "again")
        texts = await ann.wait_for(lambda texts: len(texts) == 10)
        assert "answers 500" in texts[9]


async def test_hostile_texts_say_nothing_else_to_the_server(
    tmp_path: Path, server: IrcServer, ann: Person
) -> None:
    hostile = "one\r\nQUIT :bye\x00\x01DCC SEND x\x01\r\n:x PRIVMSG #a :two\u2028\ud83d three"
    async with running(tmp_path, server.port, [ann.mask], [say(hostile)]):
        ann.say("hermes", "go")
        texts = await ann.wait_for(lambda texts: len(texts) == 3)
        assert texts[1].startswith("QUIT :byeDCC SEND x") and "\x01" not in "".join(texts)
