"""E-mail against a real IMAP server: every promise of the gateway, as people there see it."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("aioimaplib", reason="aioimaplib is not installed: pip install -e '.[email]'")
pytest.importorskip("aiosmtpd", reason="aiosmtpd is not installed: pip install -e '.[dev]'")

from agent.scripted import call, say
from gateway import delivery, supervision
from gateway.config import Platform, PlatformConfig
from gateway.platforms import lanes
from gateway.platforms.base import SendError
from gateway.platforms.host import StandaloneHost
from gateway.platforms.mail import reader, sending, smtp
from gateway.platforms.mail.adapter import MailAdapter
from gateway.platforms.mail.headers import Head
from gateway.platforms.mail.imap import Mailbox
from gateway.platforms.mail.settings import MailError, read_settings

from .adapter_conformance import AdapterConformance, running
from .mail_chats import MailPlace, ignore, mail_gateway, quote, reader_of, section
from .mail_server import AUTHSERV, PROVED, Dovecot, Post, Wire, plain


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    server = Dovecot()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
async def post(dovecot: Dovecot) -> AsyncIterator[Post]:
    async with Post(dovecot.new_mailbox()) as post:
        yield post


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, lanes):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)


class TestConformance(AdapterConformance):
    @pytest.fixture
    async def place(self, post: Post, tmp_path: Path) -> AsyncIterator[MailPlace]:
        async with Wire(post.mailbox.server.port) as wire:
            yield MailPlace(post, wire, tmp_path)


ANN = "ann@people.example"


async def test_a_thread_is_a_conversation(tmp_path: Path, post: Post) -> None:
    async with mail_gateway(tmp_path, post) as chats:
        question = post.write("hello **you**", subject="A question", sender=f"Ann <{ANN}>")
        await post.until(lambda: post.sent)
        to, answer = post.sent[0]
        assert to == ANN == answer["To"] and answer["Subject"] == "Re: A question"
        assert answer["In-Reply-To"] == answer["References"] == question["Message-ID"]
        assert answer["Auto-Submitted"] == "auto-replied"
        assert answer.get_content_type() == "multipart/alternative"
        assert plain(answer) == "re: Subject: A question\n\nhello you"
        html = answer.get_body(("html",))
        assert html is not None and "hello <strong>you</strong>" in html.get_content()

        post.write(f"and then?\n\n{quote(answer)}", answers=answer)
        await post.until(lambda: len(post.sent) == 2)
        assert post.texts()[1] == "re: and then?" and post.sent[1][1]["Subject"] == "Re: A question"
        assert len(post.sent[1][1]["References"].split()) == 3
        # A program that forgets the beginning, and names our last mail only.
        post.write("and now?", In_Reply_To=str(post.sent[1][1]["Message-ID"]))
        await post.until(lambda: len(post.sent) == 3)
        (key,) = chats.runner.session_store._entries
        assert key.startswith(f"agent:main:email:dm:{ANN}:")
        # Another thread, and somebody else in the same one.
        post.write("elsewhere", subject="Another")
        await post.until(lambda: len(post.sent) == 4)
        assert len(chats.runner.session_store._entries) == 2
        await post.until(lambda: len(post.mailbox.mails("Sent")) == 4)
    assert post.mailbox.flags() == [""] * 4, "nothing is marked as read"


async def test_what_a_program_wrote_is_never_answered(tmp_path: Path, post: Post) -> None:
    async with mail_gateway(tmp_path, post, extra={"authserv_id": AUTHSERV}) as chats:
        for fields in (
            {"Auto-Submitted": "auto-replied"},
            {"Auto-Submitted": "auto-generated (failure)"},
            {"Precedence": "bulk"},
            {"List-Id": "<news.people.example>"},
            {"List-Unsubscribe": "<mailto:x@people.example>"},
            {"X-Autoreply": "yes"},
            {"X-Auto-Response-Suppress": "DR, All"},
            {"Message-ID": f"<hermes.{'0' * 16}.{'0' * 24}@test.example>"},
        ):
            mail = EmailMessage()
            mail["From"] = ANN
            for name, value in {"Message-ID": "<a@b>", **fields}.items():
                mail[name] = value
            mail.set_content("no answer, please")
            post.deliver(f"{PROVED}{mail.as_string()}".encode())
        report = (
            "Content-Type: multipart/report; report-type=delivery-status; boundary=x\n\n--x--\n"
        )
        for head in (
            f"Return-Path: <>\nFrom: {ANN}\n\nbounced",
            f"From: {ANN}\n{report}",
            "From: mailer-daemon@people.example\n\nbounced",
            "From: noreply+1@people.example\n\nnews",
            f"From: {ANN}\nFrom: {ANN}\n\nwhich one?",
            f"From: {ANN}, bob@people.example\n\nwhich one?",
            f'From: "{ANN}" <evil@elsewhere.example>\n\nI am Ann',
            f"From: {ANN} <evil@elsewhere.example>\n\nI am Ann",
            "\n\n",
        ):
            post.deliver(f"{PROVED}{head}".encode())
        post.write("from us", sender=post.mailbox.address)
        post.write("not proved", proved=False)
        other = "Authentication-Results: other.example; dkim=pass header.d=people.example\n"
        post.deliver(f"{other}{PROVED}From: {ANN}\n\nforged".encode())
        post.write("of a person")
        await post.until(lambda: post.sent)
        assert post.texts() == ["re: of a person"] and chats.model.calls == 1


async def test_a_stranger_gets_one_code(tmp_path: Path, post: Post) -> None:
    eve = "eve@elsewhere.example"
    async with mail_gateway(tmp_path, post) as chats:
        post.write("hello?", sender=eve, subject="Hi", files=[("a.txt", b"a file")])
        await post.until(lambda: post.sent)
        code = post.texts(eve)[0].split("pairing code is ")[1].split()[0]
        assert post.to(eve)[0]["Subject"] == "Re: Hi"
        post.write("hello??", sender=eve)
        post.write("unproved", sender="mallory@elsewhere.example", proved=False)
        await post.until(lambda: reader_of(chats).place.uid == 3)
        assert not (tmp_path / "media").exists()
        assert chats.db.approve_pairing(code) is not None
        post.write("now?", sender=eve)
        await post.until(lambda: len(post.sent) == 2)
        assert post.texts(eve)[1] == "re: now?" and chats.model.calls == 1


async def test_files_both_ways(tmp_path: Path, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("some notes")
    monkeypatch.chdir(work)
    files = [("../../plan.txt", b"a plan"), ("plan.txt", b"another plan"), ("ü\u202e.bin", b"\x00")]
    steps = [say("Here.\n\nMEDIA: notes.txt")]
    async with mail_gateway(tmp_path / "home", post, steps) as chats:
        post.write("look", files=files)
        await post.until(lambda: post.sent)
        text = str(chats.model.requests[0].messages[-1]["content"])
        kept = sorted((tmp_path / "home" / "media" / "email").rglob("*-*"))
        assert [path.read_bytes() for path in kept] == [b"a plan", b"another plan", b"\x00"]
        assert all(path.name in text for path in kept)
        (answer,) = post.to()
        assert plain(answer) == "Here."
        (file,) = answer.iter_attachments()
        assert file.get_filename() == "notes.txt" and file.get_content() == "some notes"


async def test_files_that_the_server_does_not_take_are_named(tmp_path: Path, post: Post) -> None:
    file = tmp_path / "plan.bin"
    file.write_bytes(b"x" * 9000)
    post.most_bytes = 6000
    given = PlatformConfig(extra=section(post))
    async with running(MailAdapter(given, StandaloneHost(given, ignore, tmp_path))) as adapter:
        assert await adapter.send_with_files(ANN, "Here", [file, tmp_path / "gone"], key="k")
        (mail,) = post.to()
        assert plain(mail).startswith("Here") and "too large" in plain(mail)
        assert "gone" in plain(mail) and not list(mail.iter_attachments())
        assert await adapter.send_with_files(ANN, "Here", [file], key="k")
        assert len(post.sent) == 1, "under the same key it is the same mail"
        with pytest.raises(SendError) as refused:
            await adapter.send(ANN, "x" * 9000)
        assert refused.value.permanent


async def test_leave_is_given_with_a_number(tmp_path: Path, post: Post) -> None:
    for number, expected in ((1, False), (2, True)):
        victim = tmp_path / "victim"
        victim.mkdir(exist_ok=True)
        steps = [call("terminal", command=f"rm -rf {victim}"), say("done")]
        post.sent.clear()
        async with mail_gateway(tmp_path / "home", post, steps) as chats:
            post.write("remove it", subject="Please")
            await post.until(lambda: post.sent)
            asked = post.to()[0]
            text = plain(asked)
            assert str(victim) in text and victim.exists()
            shown = text.rpartition("Or answer with a number: ")[2].split(", ")
            choice = next(one for one in shown if ("Allow once", "Deny")[number - 1] in one)
            post.write(f"{choice.split()[0]}\n\n{quote(asked)}", answers=asked)
            await post.until(lambda: len(post.sent) == 2)
            assert post.texts()[1] == "done"
            assert victim.exists() is expected
            chats.model.assert_done()


async def test_what_came_while_nobody_was_there(tmp_path: Path, post: Post) -> None:
    post.write("before the first time")
    async with mail_gateway(tmp_path, post):
        post.write("one")
        await post.until(lambda: post.sent)
    for number in range(45):
        post.write(f"missed {number}")
    async with mail_gateway(tmp_path, post):
        await post.until(lambda: len(post.sent) == 46)
    post.mailbox.number_anew()
    post.write("after")
    # What was moved there meanwhile was not written for us now.
    post.write("long ago", Date="Thu, 19 Nov 2020 04:00:00 +0000")
    async with mail_gateway(tmp_path, post):
        await post.until(lambda: "re: after" in post.texts())
        await post.until(lambda: len(post.sent) == 47)
        post.write("the end")
        await post.until(lambda: "re: the end" in post.texts())
    expected = {"re: one", "re: after", "re: the end", *(f"re: missed {n}" for n in range(45))}
    assert set(post.texts()) == expected and len(post.sent) == len(expected)


async def test_both_servers_go_away_and_come_back(tmp_path: Path, post: Post) -> None:
    async with Wire(post.mailbox.server.port) as wire:
        extra = {"imap_host": f"127.0.0.1:{wire.port}"}
        async with mail_gateway(tmp_path, post, extra=extra) as chats:
            await wire.cut()
            await post.until(lambda: Platform.EMAIL not in chats.runner.adapters)
            post.write("one")
            await wire.join()
            await post.until(lambda: post.sent)
            # The other one: what is owed waits in the outbox.
            await post.go_away()
            post.write("two")
            await post.until(lambda: chats.model.calls == 2)
            post.write("three", answers=post.sent[0][1])
            await post.until(lambda: chats.model.calls == 3)
            await post.come_back()
            await post.until(lambda: len(post.sent) == 3)
        assert sorted(post.texts()) == ["re: one", "re: three", "re: two"]


@pytest.mark.parametrize("keeps_sent", [True, False])
async def test_a_connection_that_breaks_while_a_mail_is_sent(
    tmp_path: Path, post: Post, monkeypatch: pytest.MonkeyPatch, keeps_sent: bool
) -> None:
    monkeypatch.setattr(sending, "LOOK_PAUSE", 0.01)
    post.keeps_sent = keeps_sent
    extra = {"sent": "server" if keeps_sent else "none"}
    async with mail_gateway(tmp_path, post, extra=extra):
        for is_sent in (True, False):
            post.sent.clear()
            post.hangs_up = [is_sent]
            post.write("one")
            if keeps_sent:
                await post.until(lambda: "re: one" in post.texts())
            else:
                await post.until(lambda: any("/last" in text for text in post.texts()))
            post.write("end")
            await post.until(lambda: "re: end" in post.texts())
            texts = post.texts()
            if keeps_sent:
                assert texts == ["re: one", "re: end"], "it was looked for, and sent if it was not"
            else:
                assert texts.count("re: one") == int(is_sent), "nobody knows: it is not sent again"
                assert sum("/last" in text for text in texts) == 1


async def test_tls_from_the_start_or_before_anything_is_said(tmp_path: Path, post: Post) -> None:
    server = post.mailbox.server
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server.folder / "cert.pem", server.folder / "key.pem")
    await post.go_away()
    await post.come_back(context)
    for port in (server.tls_port, server.port):
        extra = {
            "tls": True,
            "imap_host": f"localhost:{port}",
            "smtp_host": f"localhost:{post.port}",
        }
        strict = MailAdapter(PlatformConfig(extra=section(post, **extra)), ignore)
        if port == server.port:
            with pytest.raises(ConnectionError, match="cannot be reached"):
                await strict.connect()  # nobody vouches for the certificate
        settings = read_settings(section(post, **extra, ca_file=str(server.folder / "cert.pem")))
        imap = replace(settings.imap, from_the_start=port == server.tls_port)
        mailbox = Mailbox(imap)
        await mailbox.open()
        assert (await mailbox.select("INBOX")).validity
        await mailbox.close()
        await smtp.check(settings.smtp)
    assert post.logins


async def test_a_mail_that_breaks_its_reader_keeps_nobody_out(
    tmp_path: Path, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = reader.find_thread

    def fails_for_one(head: Head, *more: str) -> str:
        if head.first("subject") == "poison":
            raise RuntimeError("a fault of ours")
        return read(head, *more)

    monkeypatch.setattr(reader, "find_thread", fails_for_one)
    async with mail_gateway(tmp_path, post):
        post.write("one", subject="poison")
        post.write("two")
        await post.until(lambda: post.sent)
        assert post.texts() == ["re: two"]


async def test_without_idle_it_looks_and_marks_if_it_is_told_to(tmp_path: Path, post: Post) -> None:
    extra = {"idle": False, "poll_seconds": 0.02, "mark_read": True}
    async with mail_gateway(tmp_path, post, extra=extra):
        post.write("hello")
        await post.until(lambda: post.sent)
        await post.until(lambda: post.mailbox.flags() == ["S"])
        post.write("again")
        await post.until(lambda: len(post.sent) == 2)


async def test_what_is_missing_is_said(tmp_path: Path, post: Post) -> None:
    async def problem(allowed: tuple[str, ...] = (), **extra: Any) -> str:
        given = PlatformConfig(allowed_users=allowed, extra=section(post, **extra))
        with pytest.raises((MailError, ConnectionError)) as told:
            await MailAdapter(given, ignore).connect()
        return str(told.value)

    assert "EMAIL_ADDRESS" in await problem(address="nobody")
    assert "EMAIL_ADDRESS" in await problem(address="a@b\r\nTo: c@d")
    assert "EMAIL_PASSWORD" in await problem(password="")
    assert "EMAIL_PASSWORD" in await problem(password="wrong")
    assert "EMAIL_IMAP_HOST" in await problem(imap_host="")
    assert "small letters" in await problem(allowed=("Ann@people.example",))
    assert "INBOX.nothing" in await problem(folder="INBOX.nothing", authserv_id="")
    assert "there is none" in await problem(authserv_id="")
    post.write("hello")
    assert AUTHSERV in await problem(authserv_id="")
    assert "is no number" in await problem(poll_seconds="often")
    assert "is not one of" in await problem(sent="somebody")
    assert "cannot be used" in await problem(ca_file="/nowhere", tls=True)


async def test_two_programs_that_answer_each_other_stop(tmp_path: Path, post: Post) -> None:
    async with mail_gateway(tmp_path, post, extra={"most_per_hour": 3}) as chats:
        post.write("0", subject="x")
        await post.until(lambda: post.sent)
        for number in range(1, 8):
            post.write(str(number), answers=post.sent[0][1])
        post.write("another thread")
        await post.until(lambda: any("another thread" in text for text in post.texts()))
        await post.until(lambda: any("two programs" in text for text in post.texts()))
        assert sum("two programs" in text for text in post.texts()) == 1
        assert chats.model.calls <= 4


async def test_what_is_sent_to_an_address_begins_a_thread(tmp_path: Path, post: Post) -> None:
    note = tmp_path / "home" / "media" / "sent" / "note.txt"
    async with mail_gateway(tmp_path / "home", post) as chats:
        to = {
            "session_key": f"agent:main:email:dm:{ANN}",
            "platform": "email",
            "chat_id": ANN,
        }
        chats.db.add_delivery("say:job", "# The news\n\nAll is **well**.", **to)
        note.parent.mkdir(parents=True)
        note.write_text("a note")
        chats.db.add_delivery("file:note", str(note), **to)
        await chats.runner.delivery.look()
        await post.until(lambda: len(post.sent) == 2)
        news, file = post.to()
        assert news["Subject"] == "The news" and news["Auto-Submitted"] == "auto-generated"
        assert next(file.iter_attachments()).get_filename() == "note.txt"
        chats.db.add_delivery("say:bad", "hello", **{**to, "chat_id": "a@b\r\nBcc: c@d"})
        await chats.runner.delivery.look()
        post.write(f"Why?\n\n{quote(news)}", answers=news)
        await post.until(lambda: len(post.sent) == 3)
        assert "All is well" in post.texts()[2], "what it answers is in no conversation"
        assert all(address == ANN for address, _ in post.sent)


async def test_hostile_mails_and_answers(tmp_path: Path, post: Post) -> None:
    evil = "one\r\nBcc: victim@people.example\r\n.\r\nRCPT TO:<victim@people.example>\x00\ud83d"
    async with mail_gateway(tmp_path, post, [say(evil), *[say("fine")] * 9]) as chats:
        subject = "=?utf-8?q?x=0D=0ABcc:_victim=40people.example?= " + "=?" * 400
        post.deliver(f"{PROVED}From: {ANN}\nMessage-ID: <1@x>\nSubject: {subject}\n\nhi".encode())
        await post.until(lambda: len(post.sent) == 1)
        assert post.sent[0][0] == ANN and post.sent[0][1]["Bcc"] is None
        assert ".\nRCPT TO" in post.texts()[0]
        raw = [
            b"References: " + b"<a@b> " * 20_000 + b"\nMessage-ID: <2@x>\n\nmany",
            b"Message-ID: <3@x>\nContent-Type: text/plain; charset=punycode\n\n\xff\xfe",
            b"Message-ID: <4@x>\nContent-Type: multipart/mixed; boundary=b\n\n"
            + b"--b\nContent-Type: text/plain\n\nx\n" * 300,
            b"Message-ID: <5@x>\nContent-Type: multipart/mixed; boundary=\n\n--\n\n--",
            b"Message-ID: <6@x>\nContent-Transfer-Encoding: base64\n\n!!!!=====\xff",
            b"X: " + b"y" * 200_000 + b"\nMessage-ID: <7@x>\n\nafter a long field",
        ]
        for number, rest in enumerate(raw, 2):
            post.deliver(PROVED.encode() + f"From: {ANN}\n".encode() + rest)
            await post.until(lambda number=number: len(post.sent) == number)  # type: ignore[misc]
        assert chats.model.calls == len(raw) + 1
