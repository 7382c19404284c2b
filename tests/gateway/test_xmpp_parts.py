"""XMPP's pure parts: what a stanza says, where files may lie, how far was read, how texts look."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.platforms.xmpp.formatting import format_message
from gateway.platforms.xmpp.media import is_allowed
from gateway.platforms.xmpp.messages import read_message, read_stamp
from gateway.platforms.xmpp.place import Mark, Place, Progress, read_place
from gateway.platforms.xmpp.rooms import Room
from gateway.platforms.xmpp.stanzas import message

ME, ANN = "hermes@example.org", "ann@example.org"


def stanza(inside: str, **attributes: str) -> ET.Element:
    """A message of Ann's."""
    given = {"from": f"{ANN}/phone", "type": "chat", "id": "0123456789", **attributes}
    named = " ".join(f'{name}="{value}"' for name, value in given.items())
    return ET.fromstring(f'<message xmlns="jabber:client" {named}>{inside}</message>')


@pytest.mark.parametrize(
    ("inside", "attributes"),
    [
        ("<body>x</body>", {"type": "error"}),
        ("<body>x</body>", {"type": "headline"}),
        ("<body>x</body>", {"from": "example.org"}),
        ("<body>x</body>", {"from": f"{ME}/other"}),
        ("<body>x</body>", {"from": "room@rooms.example.org", "type": "groupchat"}),
        ("<subject>x</subject>", {"from": "room@rooms.example.org/ann", "type": "groupchat"}),
        ("<sent xmlns='urn:xmpp:carbons:2'/><body>x</body>", {}),
        ("<active xmlns='http://jabber.org/protocol/chatstates'/>", {}),
        ("<body> </body>", {}),
    ],
)
def test_what_says_nothing(inside: str, attributes: dict[str, str]) -> None:
    assert read_message(stanza(inside, **attributes), ME) is None


def test_ids_are_believed_of_whoever_gives_them() -> None:
    ours = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{ME}' id='of the archive'/>"
    theirs = f"<stanza-id xmlns='urn:xmpp:sid:0' by='{ANN}' id='forged'/>"
    said = read_message(stanza(f"<body>x</body>{ours}{theirs}", id="7"), ME)
    assert said is not None and said.archive_id == "of the archive"
    assert said.name == "archive:of the archive", "a count is no name"
    said = read_message(stanza("<body>x</body>"), ME)
    assert said is not None and said.name == "0123456789" and said.archive_id == ""


def test_only_our_server_says_that_it_kept_something() -> None:
    for keeper, is_kept in (("example.org", True), (ME, True), (ANN, False), ("", False)):
        since = f"<delay xmlns='urn:xmpp:delay' from='{keeper}' stamp='2026-01-01T00:00:00Z'/>"
        said = read_message(stanza(f"<body>x</body>{since}"), ME)
        assert said is not None and (said.when is not None) is is_kept, keeper


@given(
    st.text(), st.text(), st.sampled_from(["start", "end", "stamp"]),
    st.one_of(st.text(), st.integers().map(str), st.datetimes().map(lambda at: at.isoformat())),
)  # fmt: skip
def test_whatever_is_written_is_read(body: str, name: str, where: str, value: str) -> None:
    xml = stanza("<body/><origin-id xmlns='urn:xmpp:sid:0'/>")
    xml[0].text = body
    xml[1].set("id", name)
    fallback = ET.SubElement(xml, "{urn:xmpp:fallback:0}fallback", {"for": "urn:xmpp:reply:0"})
    ET.SubElement(fallback, "{urn:xmpp:fallback:0}body", {where: value})
    ET.SubElement(xml, "{urn:xmpp:delay}delay", {"from": ME, "stamp": value})
    said = read_message(xml, ME)
    assert said is None or (said.chat == ANN and "\x00" not in said.text + said.own_id)
    # What is sent is XML that a server takes, whatever it says.
    sent = ET.tostring(message(ANN, "chat", "n", format_message(body or "x")), encoding="unicode")
    assert ET.fromstring(sent).findtext("{jabber:client}body")


def test_a_moment_that_no_clock_shows_is_none() -> None:
    assert read_stamp("0001-01-01T00:00:00+23:59") is None
    assert read_stamp("yesterday") is None
    assert str(read_stamp("2026-01-02T03:04:05Z")) == "2026-01-02 03:04:05+00:00"


@pytest.mark.parametrize(
    ("url", "may_be"),
    [
        ("https://example.org/a", True),
        ("https://files.example.org/a", True),
        ("http://example.org/a", False),
        ("https://example.org.evil.net/a", False),
        ("https://evilexample.org/a", False),
        ("https://ann@example.org/a", False),
        ("https://127.0.0.1/a", False),
        ("https://[::1]/a", False),
        ("https://listed.net/a", True),
        ("https://listed.net:8443/a", False),
        ("http://listed.net/a", False),
        ("http://inside:5280/a", True),
        ("http://inside:5281/a", False),
        ("ftp://example.org/a", False),
        ("https://example.org:port/a", False),
    ],
)
def test_where_a_file_may_lie(url: str, may_be: bool) -> None:
    assert is_allowed(url, ANN, ["listed.net", "inside:5280"]) is may_be
    assert not is_allowed(url, "", []), "whose server that is, is not known"


def test_the_place_moves_past_what_is_stored_and_no_further() -> None:
    progress = Progress()
    one, two, three = (progress.begin(name, 1) for name in ("one", "two", "three"))
    assert progress.finish(two) is None
    assert progress.finish(one) == Mark("two", 1)
    assert progress.finish(three) == Mark("three", 1)


def test_a_place_that_cannot_be_read_is_begun_anew() -> None:
    place = Place(ME, {ME: Mark("x", 1)}, ["room@rooms.example.org"])
    assert read_place(ME, place.facts()) == place
    assert read_place(ANN, place.facts()) == Place(ANN)
    for broken in (
        {"account": ME},
        {**place.facts(), "archives": {ME: 1}},
        {"account": ME, "archives": []},
    ):
        assert read_place(ME, broken) == Place(ME)


def test_who_is_behind_a_nickname_is_who_the_room_says_just_now() -> None:
    room = Room("room@rooms.example.org", "hermes", shows_jids=True)

    def presence(nick: str, jid: str = "", kind: str = "") -> ET.Element:
        item = f"<item jid='{jid}/phone' role='participant'/>" if jid else "<item role='none'/>"
        kind = f"type='{kind}'" if kind else ""
        return ET.fromstring(
            f"<presence xmlns='jabber:client' from='{room.jid}/{nick}' {kind}>"
            f"<x xmlns='http://jabber.org/protocol/muc#user'>{item}</x></presence>"
        )

    forged = f"<x xmlns='http://jabber.org/protocol/muc#user'><item jid='{ANN}'/></x>"
    xml = stanza(f"<body>x</body>{forged}", type="groupchat", **{"from": f"{room.jid}/ann"})
    said = read_message(xml, ME)
    assert said is not None
    assert room.identify(said, archived=False) == "", "nobody is there of that name"
    room.on_presence(presence("ann", ANN))
    assert room.identify(said, archived=False) == ANN
    room.on_presence(presence("ann", kind="unavailable"))
    room.on_presence(presence("ann", "eve@example.org"))
    assert room.identify(said, archived=False) == "eve@example.org"
    room.shows_jids = False
    assert room.identify(said, archived=True) == "", "such an archive has what people wrote"
