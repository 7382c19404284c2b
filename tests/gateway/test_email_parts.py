"""What a mail is made of, and what its readers make of mails that nobody should send."""

from __future__ import annotations

from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.config import load_config
from agent.config.env import parse_dotenv
from gateway.config import Platform
from gateway.config_load import load_gateway_config
from gateway.platforms.kept import KeptFacts
from gateway.platforms.mail.automatic import why_automatic
from gateway.platforms.mail.compose import File, compose, subject_of
from gateway.platforms.mail.headers import (
    Head,
    decode_words,
    find_date,
    find_ids,
    find_sender,
    read_head,
    read_parameters,
)
from gateway.platforms.mail.imap import Summary
from gateway.platforms.mail.mime import Content, decode_text, read_content
from gateway.platforms.mail.place import MOST_RECENT, Place, Places
from gateway.platforms.mail.quoting import cut_quotes, cut_signature
from gateway.platforms.mail.reader import identify, text_of
from gateway.platforms.mail.settings import MailError, is_address, read_settings
from gateway.platforms.mail.threads import (
    Thread,
    Threads,
    bare_subject,
    find_thread,
    name_of,
    own_id,
    references_of,
)
from gateway.platforms.mail.trust import read_results, why_not_proved
from hermes_base.redaction import redact
from hermes_cli.gateway_setup import set_up

OWN = "hermes@test.example"
ANN = "ann@people.example"


def head(**fields: str) -> Head:
    return Head(tuple((name.replace("_", "-"), value) for name, value in fields.items()))


# Who wrote


@pytest.mark.parametrize(
    ("value", "address", "name"),
    [
        ("ann@people.example", ANN, ""),
        ("Ann <Ann@People.Example>", ANN, "Ann"),
        ('"Ann, of \\"people\\"" <ann@people.example>', ANN, 'Ann, of "people"'),
        ("=?utf-8?q?Ann_M=C3=BCller?= <ann@people.example>", ANN, "Ann Müller"),
        ("ann@people.example (Ann)", ANN, ""),
        ("<ann@people.example>", ANN, ""),
    ],
)
def test_a_sender_is_read(value: str, address: str, name: str) -> None:
    assert find_sender(read_head(f"From: {value}\r\n\r\n".encode())) == (address, name)


@pytest.mark.parametrize(
    "value",
    [
        "", "Ann", "ann@", "@people.example", "ann@a@b", "a@b, c@d", "a@b c@d", "<a@b> <c@d>",
        "a@b <c@d", "group: a@b;", '"a@b"@c', "ann@people.example\x00", "änn@people.example",
        "a b@c", "<a@b>c", "ann@[127.0.0.1]\\",
    ],
)  # fmt: skip
def test_what_names_nobody_is_nobody(value: str) -> None:
    assert find_sender(Head((("from", value),))) is None


def test_two_senders_are_none() -> None:
    assert find_sender(Head((("from", ANN), ("from", ANN)))) is None
    assert find_sender(Head()) is None


PROVES = "mx.test.example; "


@pytest.mark.parametrize(
    "found",
    [
        "dkim=pass header.d=people.example",
        "dkim=pass (good key) header.i=@people.example header.s=x; spf=fail",
        "dkim=fail; spf=pass smtp.mailfrom=ann@people.example",
        "spf=pass (sender IP is 1.2.3.4) smtp.mailfrom=people.example; dkim=none",
        "dmarc=pass (p=NONE sp=NONE) header.from=people.example",
        "dkim = pass header.d = people.example",
        "DKIM=PASS Header.D=People.Example",
        "auth=pass (login) smtp.auth=ann@people.example",
        'dkim=pass header.d="people.example"',
    ],
)
def test_a_sender_is_proved(found: str) -> None:
    given = head(**{"authentication-results": PROVES + found})
    assert why_not_proved(given, ANN, ["mx.test.example"]) == ""
    assert why_not_proved(given, ANN, ["*.test.example"]) == ""
    assert why_not_proved(given, ANN, ["*.example.test", "test.example"])
    assert why_not_proved(given, ANN, [])
    assert why_not_proved(given, "ann@other.example", ["mx.test.example"])


@pytest.mark.parametrize(
    "found",
    [
        "", "none", "dkim=pass", "dkim=pass header.d=evil.example",
        "dkim=fail header.d=people.example", "dkim=pass header.d=example",
        "dkim=pass header.d=le.example", "spf=pass smtp.helo=people.example",
        "dkim=pass header.d=evil.people.example", "spf=pass smtp.mailfrom=ann@evil.example",
        "dkim=pass header.d=people.example; dmarc=fail header.from=people.example",
        "dmarc=pass header.from=evil.example",
        "dkim=pass header.d=evil.example (; dkim=pass header.d=people.example)",
        'spf=pass smtp.mailfrom="x; dkim=pass header.d=people.example"@evil.example',
        'spf=pass smtp.mailfrom="\\"; dkim=pass header.d=people.example"@evil.example',
        'spf=pass smtp.mailfrom="ann@people.example"@evil.example',
        "spf=fail (dkim=pass header.d=people.example",
        "spf=pass smtp.mailfrom=ann@people.example@evil.example",
        "auth=pass smtp.auth=ann", "x-dkim=pass header.d=people.example",
    ],
)  # fmt: skip
def test_what_proves_nothing(found: str) -> None:
    given = head(**{"authentication-results": PROVES + found})
    assert why_not_proved(given, ANN, ["mx.test.example"])


def test_only_the_topmost_word_of_the_own_server_counts() -> None:
    good = ("authentication-results", f"{PROVES}dkim=pass header.d=people.example")
    bad = ("authentication-results", f"{PROVES}dkim=none")
    other = ("authentication-results", "evil.example; dkim=pass header.d=people.example")
    assert not why_not_proved(Head((good, bad, other)), ANN, ["mx.test.example"])
    for above in (bad, other):
        assert why_not_proved(Head((above, good)), ANN, ["mx.test.example"])
    assert why_not_proved(Head(), ANN, ["mx.test.example"])


@given(st.text(alphabet='dkim=pas;"\\() header.d@x', max_size=200))
def test_any_results_are_read(value: str) -> None:
    name, methods = read_results(value)
    assert isinstance(name, str) and all(method.name for method in methods if method.result)


@pytest.mark.parametrize(
    ("fields", "is_automatic"),
    [
        ({}, False),
        ({"auto_submitted": "no"}, False),
        ({"auto_submitted": "No; x=y"}, False),
        ({"auto_submitted": "auto-notified; owner-email=x"}, True),
        ({"precedence": "first-class"}, False),
        ({"precedence": "List"}, True),
        ({"return_path": "<ann@people.example>"}, False),
        ({"return_path": "<>"}, True),
        ({"content_type": "multipart/report; report-type=disposition-notification"}, True),
        ({"feedback_id": "1:news"}, True),
        ({"x_auto_response_suppress": "OOF"}, False),
        ({"message_id": f"<{own_id('0' * 16, 'k', OWN)}>"}, True),
        ({"message_id": "<hermes.is.a.god@people.example>"}, False),
    ],
)
def test_what_no_person_wrote(fields: dict[str, str], is_automatic: bool) -> None:
    assert bool(why_automatic(head(**fields), ANN, OWN)) is is_automatic
    assert why_automatic(head(**fields), OWN, OWN)


# Heads


def test_a_head_is_read_to_its_end_and_no_further() -> None:
    fields = b"Subject: one\r\n two\r\n\tthree\r\nno field\r\nX-\xff: y\r\nTo:\xffx\r\n"
    raw = fields + b"\r\nFrom: a@b\r\n"
    found = read_head(raw)
    assert found.first("subject") == "one two three"
    assert not found.has("from") and found.first("to") == "\ufffdx" and found.is_whole
    assert not read_head(b"X: y\r\n" * 20_000).is_whole


def test_parameters_in_pieces_and_other_letters() -> None:
    value = (
        "attachment; filename*0*=utf-8''na%C3%AFve%20; filename*1=plan; filename*2*=%2Etxt;"
        ' size=1; NAME="a \\"b\\" c; d"'
    )
    kind, found = read_parameters(value)
    assert kind == "attachment" and found["filename"] == "naïve plan.txt"
    assert found["name"] == 'a "b" c; d' and found["size"] == "1"


def test_dates_and_ids() -> None:
    date = find_date("Thu, 19 Nov 2026 04:00:00 +0200")
    assert date is not None and date.hour == 2
    for bad in ("", "yesterday", "Thu, 99 Nov 2026 04:00:00", "x" * 1000, "1 Jan 99999 00:00"):
        assert find_date(bad) is None
    assert find_ids("<a@b> x <c@d> <> <e f>") == ["a@b", "c@d"]


@given(st.binary(max_size=400))
@example(b"From: =?utf-8?b?////?= <a@b>\n\n")
@example(b"Subject: =?x-unknown?q?=ff?= =?utf-8?q?=\n\n")
@example(b"Subject: =?utf-8?b?=?=\n\n")
@example(b"Content-Type: a/b; x*99*=y'z; x*=''%; x*0=\"\n\n")
@example(b'Content-Type: multipart/mixed; boundary="\n\n--\n\n--\n')
def test_any_bytes_are_a_mail(raw: bytes) -> None:
    found = read_head(raw)
    identify(Summary(1, len(raw), "", raw))
    find_date(found.first("date"))
    for _, value in found.fields:
        decode_words(value).encode()
        read_parameters(value)
    content = read_content(raw)
    content.text.encode()
    for attachment in content.attachments:
        attachment.read()


# Bodies


def mail() -> EmailMessage:
    made = EmailMessage(policy=policy.SMTP)
    made.set_content("the text\n")
    return made


def test_the_text_is_taken_and_else_the_page() -> None:
    both = mail()
    both.add_alternative("<p>the <b>page</b></p>", subtype="html")
    assert read_content(both.as_bytes()).text == "the text"
    page = EmailMessage(policy=policy.SMTP)
    page.set_content(
        "<style>x</style><p>Yes, <b>do</b></p><p style='display:none'>hidden</p>"
        "<blockquote>what I said</blockquote>",
        subtype="html",
    )
    assert read_content(page.as_bytes()).text == "Yes, do\n\n> what I said"


def test_files_signatures_and_what_is_encrypted() -> None:
    made = mail()
    made.add_attachment(b"\x00\xff" * 100, "application", "octet-stream", filename="a/b.bin")
    made.add_attachment("plain", subtype="plain", filename="notes.txt")
    made.add_attachment(b"sig", "application", "pgp-signature", filename="signature.asc")
    content = read_content(made.as_bytes())
    assert content.text == "the text" and not content.notes
    assert [file.name for file in content.attachments] == ["a/b.bin", "notes.txt"]
    assert content.attachments[0].read() == b"\x00\xff" * 100
    secret = b"Content-Type: multipart/encrypted; boundary=b\n\n--b\n\nx\n--b--\n"
    assert "encrypted" in read_content(secret).notes[0]


def test_a_mail_that_was_handed_on_is_a_file() -> None:
    made = mail()
    inner = mail()
    inner["Subject"] = "the inner one"
    made.add_attachment(inner)
    content = read_content(made.as_bytes())
    assert [file.name for file in content.attachments] == ["message.eml"]
    assert b"the inner one" in content.attachments[0].read()


def test_parts_without_end_and_within_each_other() -> None:
    deep = b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (depth, depth)
        for depth in range(300)
    )
    assert "parts within parts" in read_content(deep + b"\nx").notes[0]
    many = b"Content-Type: multipart/mixed; boundary=b\n\n" + b"--b\n\nx\n" * 1000
    content = read_content(many)
    assert content.text.count("x") == 200 and "more than 200" in content.notes[0]
    cut = b"Content-Type: multipart/mixed; boundary=b\n\nbefore\n--b\n\none\n--bc\n\ntwo"
    assert read_content(cut).text == "one\n--bc\n\ntwo"


@pytest.mark.parametrize(
    ("data", "charset", "text"),
    [
        (b"\xe4", "iso-8859-1", "ä"),
        ("ä".encode(), "", "ä"),
        ("ä".encode(), "us-ascii", "ä"),
        (b"a\x00\xff", "x-unknown", "a\ufffd"),
        (b"61", "hex", "61"),
        (b"a+2AA-b", "utf-7", "a?b"),
        (b"a-", "punycode", "a-"),
        (b"\\x41", "unicode_escape", "\\x41"),
    ],
)
def test_letters(data: bytes, charset: str, text: str) -> None:
    assert decode_text(data, charset) == text


def test_lines_that_were_broken_for_the_way() -> None:
    raw = b"Content-Type: text/plain; format=flowed\n\none \ntwo\n> three \n> four\n-- \nAnn"
    assert read_content(raw).text == "one two\n> three four\n-- \nAnn"


# What is quoted

FORWARDED = (
    "\n\n---------- Forwarded message ---------\nFrom: B\nDate: M\nSubject: x\nTo: A\n\nthe news"
)


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("Yes.\n\nOn Mon, 1 Jan 2026, Hermes wrote:\n> a\n> b\n", "Yes."),
        ("Yes.\nOn Mon, 1 Jan 2026,\nHermes <h@e>\nwrote:\n\n> a\n\n> b", "Yes."),
        ("Ja.\n\nAm 1.1.2026 schrieb Hermes:\n> a", "Ja."),
        ("> a\n\nNo, because\n\n> b\n\nof that", "> a\n\nNo, because\n\n> b\n\nof that"),
        ("> only this", "> only this"),
        ("Yes\n\n__________\nFrom: Hermes\nSent: Monday\nTo: Ann\nSubject: x\n\na", "Yes"),
        ("Ja\n\n**Von:** H <h@e>\n**Gesendet:** Montag\n**An:** Ann\n**Betreff:** x\n\na", "Ja"),
        ("Yes\n\n-----Original Message-----\nFrom: H\nSent: M\nTo: A\n\na", "Yes"),
        (f"See{FORWARDED}", f"See{FORWARDED}"),
        ("From: here\nI go on", "From: here\nI go on"),
        ("the list:\n> one", "the list:\n> one"),
    ],
)  # fmt: skip
def test_what_was_written_before_is_cut(text: str, rest: str) -> None:
    assert cut_quotes(text) == rest


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("1\n-- \nAnn\nDirector", "1"),
        ("1\n\nSent from my phone", "1"),
        ("1\n\nVon meinem iPhone gesendet", "1"),
        ("Sent from my phone", "Sent from my phone"),
        ("a\n---\nb", "a\n---\nb"),
        ("-- \nonly", "-- \nonly"),
    ],
)
def test_a_signature_is_cut(text: str, rest: str) -> None:
    assert cut_signature(text) == rest


@given(st.text(alphabet=">: \n-_Onwrote", max_size=120))
def test_nothing_is_cut_to_nothing(text: str) -> None:
    for cut in (cut_quotes, cut_signature):
        assert bool(cut(text)) is bool(text.strip())


def test_the_first_of_a_thread_is_read_with_its_subject_and_what_it_quotes() -> None:
    content = Content("Why?\n\nOn Monday, Hermes wrote:\n> the news")
    titled = head(subject="=?utf-8?q?Gr=C3=BC=C3=9Fe?=")
    assert text_of(titled, content, is_first=True).startswith("Subject: Grüße\n\nWhy?\n\nOn Monday")
    assert text_of(titled, content, is_first=False) == "Why?"
    assert text_of(titled, Content("!status\n-- \nAnn"), is_first=True) == "/status"
    assert text_of(head(subject="/status"), Content(""), is_first=True) == "/status"
    assert text_of(titled, Content("x", notes=["[n]"]), is_first=False) == "x\n[n]"


# Threads


def test_a_thread_is_found_by_its_beginning_or_by_our_last_mail() -> None:
    first = name_of("a@b")
    assert find_thread(head(), "a@b", OWN) == first
    ours = own_id(first, "key", OWN)
    assert find_thread(head(references=f"<a@b> <{ours}>"), "c@d", OWN) == first
    assert find_thread(head(in_reply_to=f"<{ours}>"), "c@d", OWN) == first
    assert find_thread(head(references="<a@b> <x@y>", in_reply_to="<x@y>"), "c@d", OWN) == first
    # Of another's domain it is no name of ours.
    theirs = ours.replace("test.example", "evil.example")
    assert find_thread(head(in_reply_to=f"<{theirs}>"), "c@d", OWN) == name_of(theirs)
    assert own_id(first, "key", OWN) == ours != own_id(first, "other", OWN)


def test_what_an_answer_refers_to_is_bounded() -> None:
    many = " ".join(f"<{number}@x>" for number in range(1000))
    found = references_of(head(references=many), "me@x")
    assert found[0] == "0@x" and found[-2:] == ["999@x", "me@x"] and len(found) == 12


@pytest.mark.parametrize(
    ("subject", "bare"),
    [("Re: AW: Re[2]: x", "x"), ("x Re: y", "x Re: y"), ("RE:", ""), ("Fwd: a", "a")],
)
def test_marks_of_answers_are_no_part_of_a_subject(subject: str, bare: str) -> None:
    assert bare_subject(subject) == bare


def test_threads_are_kept_the_last_ones_of_each_file(tmp_path: Path) -> None:
    threads = Threads(KeptFacts(tmp_path))
    for number in range(150):
        threads.note(ANN, f"a{number}", Thread("s", f"{number}@x", ["0@x"]))
    assert threads.find(ANN, "a0") is None and threads.find("eve@x", "a149") is None
    assert threads.find(ANN, "a149") == Thread("s", "149@x", ["0@x"])
    kept = tmp_path / "gateway" / "email-threads-a.json"
    kept.write_text('{"a1:ann@people.example": {"last": 1}}')
    assert threads.find(ANN, "a1") == Thread("", "1", [])


def test_a_place_is_of_one_account(tmp_path: Path) -> None:
    places = Places(KeptFacts(tmp_path))
    place = Place("me", 7, 3)
    for number in range(MOST_RECENT + 10):
        place.pass_by(4 + number, "19-Nov-2026", f"m{number}")
    places.write(place)
    assert places.read("me") == place and len(place.recent) == MOST_RECENT
    assert places.read("other") == Place("other")


# Mails of ours


def test_an_answer_cannot_say_anything_else_to_the_server() -> None:
    evil = "x\r\nBcc: victim@people.example\u2028\x00"
    thread = Thread(evil, "a@b", ["a@b", "c\u00e4@d"])
    raw = compose(OWN, evil, ANN, f"{evil}\n.\n\ud83d", "id@x", thread, [File(evil, b"data")])
    made = message_from_bytes(raw, policy=policy.default)
    assert made["Bcc"] is None and made["References"] == "<a@b>"
    head_of = raw.partition(b"\r\n\r\n")[0]
    assert b"\nBcc" not in head_of and b"Message-ID: <id@x>" in head_of
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))


def test_an_answer_has_no_letters_that_a_server_may_spoil() -> None:
    raw = compose("h@x.example", "Hermès", ANN, "äöü 😀", "id@x", Thread("Grüße", "a@b", ["a@b"]))
    assert raw.isascii()
    made = message_from_bytes(raw, policy=policy.default)
    assert made["Subject"] == "Re: Grüße" and "Hermès" in made["From"]


def test_a_long_answer_is_whole() -> None:
    text = "\n".join(f"**{number}** ä word " * 40 for number in range(300))
    raw = compose(OWN, "Hermes", ANN, text, "id@x", None)
    assert all(len(line) <= 998 for line in raw.split(b"\r\n"))
    body = message_from_bytes(raw, policy=policy.default).get_body(("plain",))  # type: ignore[arg-type, attr-defined]
    assert body.get_content().count("word") == 12_000


@pytest.mark.parametrize(
    ("markdown", "subject"),
    [
        ("# The **news**\n\nAll is well", "The news"),
        ("\n\n", ""),
        ("w" * 100, "w" * 69 + "…"),
        ("- one\n- two", "• one"),
    ],
)
def test_a_thread_of_ours_is_called_after_its_first_line(markdown: str, subject: str) -> None:
    assert subject_of(markdown) == subject


# The section


def test_the_section() -> None:
    given = {"address": "Hermes@Test.example", "password": "a-secret"}
    given["imap_host"] = "imap.test.example"
    settings = read_settings(given)
    assert (settings.imap.port, settings.imap.from_the_start) == (993, True)
    assert (settings.smtp.host, settings.smtp.port) == ("imap.test.example", 587)
    assert not settings.smtp.from_the_start and settings.smtp.tls is not None
    assert settings.address == settings.imap.user == OWN and settings.require_authentication
    assert "a-secret" not in repr(settings)
    plain = {**given, "smtp_host": "smtp.x:465", "tls": "false", "imap_host": "[::1]"}
    other = read_settings(plain)
    assert other.smtp.tls is None and (other.imap.host, other.imap.port) == ("::1", 143)
    known = read_settings({**given, "imap_host": "imap.gmail.com"})
    assert known.authserv_ids == ("mx.google.com",)
    with pytest.raises(MailError):
        read_settings({})


def test_setting_it_up_asks_for_what_it_needs(tmp_path: Path) -> None:
    answers = iter(["email", OWN, "imap.test.example", "", "mx.test.example", ANN])
    assert set_up(tmp_path, lambda _: next(answers), lambda _: "a-secret", lambda _: None) == 0
    written, problems = parse_dotenv((tmp_path / ".env").read_text())
    config = load_gateway_config(load_config(tmp_path, written)).platforms[Platform.EMAIL]
    assert not problems and config.enabled and config.allowed_users == (ANN,)
    settings = read_settings(config.extra)
    assert settings.authserv_ids == ("mx.test.example",) and settings.imap.password == "a-secret"
    assert redact("it is a-secret") != "it is a-secret"
    for wrong in (["email", "Hermes@Test.example"], ["email", OWN, "no server!"]):
        given = iter(wrong).__next__
        assert set_up(tmp_path, lambda _, g=given: g(), lambda _: "x", lambda _: None) == 1  # type: ignore[misc]


@given(st.text(max_size=30))
@example("a@b\n")
@example("a@b>")
@example("a@b, c@d")
def test_an_address_is_one_word(text: str) -> None:
    if is_address(text):
        assert text.count("@") == 1 and len(text.split()) == 1 and not set(text) & set('<>,;:"\r\n')
