"""Messages as they are on the wire, read. Pure: nothing here talks to a server.

What says nothing to the agent is None: errors, headlines, subjects, signs of writing, receipts,
what another client of the account sent or got, and what a server says in its own name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from xml.etree import ElementTree as ET

from .formatting import clean
from .stanzas import (
    CLIENT,
    CORRECT,
    DELAY,
    FALLBACK,
    MAM,
    MUC_USER,
    OCCUPANT,
    OOB,
    RECEIPTS,
    REPLY,
    SID,
)

SURE_ID = 8
"""Characters from which the sender's id for a message is taken to be no mere count."""
MOST_URLS = 10
_ENCRYPTED = (
    "{eu.siacs.conversations.axolotl}encrypted",
    "{urn:xmpp:omemo:2}encrypted",
    "{urn:xmpp:openpgp:0}openpgp",
    "{jabber:x:encrypted}x",
)
_OTR = re.compile(r"\?OTR[:?v]")
_CARBONS = "{urn:xmpp:carbons:2}"
_ME = re.compile(r"/me\s+")
_LINK = re.compile(r"(?:https?|aesgcm)://[^\s<>\"]{1,2000}")


@dataclass(slots=True)
class Said:
    """A message as it came, before it is known who its sender is."""

    chat: str
    """The person's address, or the room's."""
    sender: str
    """Who sent it: an address with a resource; in a room, its address with a nickname."""
    in_room: bool
    text: str
    own_id: str
    """What its sender calls it; empty if nothing."""
    archive_id: str
    """What the archive calls it that both of us trust; empty if there is none."""
    attribute_id: str
    """Its `id`, which receipts name."""
    when: datetime | None = None
    """When it was said, if that was not just now."""
    replaces: str = ""
    answers: str = ""
    """The id of the message it answers, and …"""
    answers_whom: str = ""
    """… who said that."""
    urls: list[str] = field(default_factory=list)
    """Files that came with it."""
    is_encrypted: bool = False
    wants_receipt: bool = False
    is_private: bool = False
    """Whether it was said to us alone in a room."""
    real_jid: str = ""
    """Who its sender is, as the archive of a room says."""
    occupant_id: str = ""

    @property
    def nick(self) -> str:
        """Under which name it was said in a room."""
        return self.sender.partition("/")[2]

    @property
    def name(self) -> str:
        """One name for one message, however often its sender sends it, and we are given it."""
        if is_sure(self.own_id):
            return self.own_id
        return f"archive:{self.archive_id}" if self.archive_id else ""


def is_sure(name: str) -> bool:
    """Whether a sender's name for a message will not be given to another, as a count is."""
    return len(name) >= SURE_ID


def read_message(
    xml: ET.Element, me: str, *, archived_as: str = "", when: datetime | None = None
) -> Said | None:
    """What a message says, if anything; `me` is our address. One from an archive comes with its id
    there, and when it was said."""
    kind, sender = xml.get("type", "normal"), xml.get("from", "")
    bare = sender.partition("/")[0]
    if kind not in ("normal", "chat", "groupchat") or "@" not in bare:
        return None
    if any(child.tag.startswith(_CARBONS) for child in xml):
        return None
    in_room = kind == "groupchat"
    if (in_room and "/" not in sender) or (not in_room and bare == me):
        return None  # the room itself, or another client of ours
    is_encrypted = any(xml.find(tag) is not None for tag in _ENCRYPTED)
    body = clean(_body(xml))
    is_encrypted = is_encrypted or bool(_OTR.match(body))
    urls = _urls(xml, body)
    text = _ME.sub("* ", body, count=1) if _ME.match(body) else body
    if not (text.strip() or is_encrypted or urls):
        return None
    origin, reply = xml.find(f"{{{SID}}}origin-id"), xml.find(f"{{{REPLY}}}reply")
    replace = xml.find(f"{{{CORRECT}}}replace")
    if when is None:
        when = _kept_since(xml, bare if in_room else me)
    occupant = xml.find(f"{{{OCCUPANT}}}occupant-id")
    attribute = clean(xml.get("id", ""))
    own_id = clean(origin.get("id", "")) if origin is not None else ""
    return Said(
        clean(bare),
        clean(sender),
        in_room,
        text.strip(),
        (own_id or attribute)[:200],
        archived_as or _stanza_id(xml, bare if in_room else me),
        attribute,
        when=when,
        replaces=clean(replace.get("id", "")) if replace is not None else "",
        answers=clean(reply.get("id", "")) if reply is not None else "",
        answers_whom=reply.get("to", "") if reply is not None else "",
        urls=urls,
        is_encrypted=is_encrypted,
        wants_receipt=xml.find(f"{{{RECEIPTS}}}request") is not None and bool(attribute),
        is_private=not in_room and xml.find(f"{{{MUC_USER}}}x") is not None,
        real_jid=real_jid(xml),
        occupant_id=clean(occupant.get("id", "")) if occupant is not None else "",
    )


def real_jid(xml: ET.Element) -> str:
    """Whom a room says to be behind a nickname; empty if it does not say, or says two things."""
    found = {
        item.get("jid", "").partition("/")[0] for item in xml.iterfind(f"{{{MUC_USER}}}x/*[@jid]")
        if item.tag == f"{{{MUC_USER}}}item"
    }  # fmt: skip
    return clean(found.pop()) if len(found) == 1 else ""


def read_archived(xml: ET.Element) -> tuple[str, datetime | None, ET.Element] | None:
    """A message as an archive gives it: its id there, when it was, and itself."""
    result = xml.find(f"{{{MAM}}}result")
    inside = result.find("{urn:xmpp:forward:0}forwarded") if result is not None else None
    message = inside.find(f"{{{CLIENT}}}message") if inside is not None else None
    if result is None or inside is None or message is None:
        return None
    delay = inside.find(f"{{{DELAY}}}delay")
    when = read_stamp(delay.get("stamp", "")) if delay is not None else None
    return clean(result.get("id", "")), when, message


def read_stamp(text: str) -> datetime | None:
    """A moment as XMPP writes it; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not 2000 <= moment.year <= 9000:
        return None  # no clock says so, and no time zone can be reckoned with
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def without_address(text: str, nick: str) -> str | None:
    """What is said to us in a room: "hermes: hello" is "hello"; None if it is for others."""
    name = re.escape(nick)
    match = re.match(rf"@?{name}(?:[:,]\s*|\s+|$)", text, re.IGNORECASE)
    if match is not None:
        return text[match.end() :].strip()
    is_named = re.search(rf"(?<![\w@])@{name}(?![\w-])", text, re.IGNORECASE)
    return text if is_named else None


def _kept_since(xml: ET.Element, by: str) -> datetime | None:
    """When a message was said that our server kept for us, or the room did; None for one that has
    come at once. What its sender says of that is nothing: a client may have waited itself."""
    keepers = (by, by.rpartition("@")[2]) if "@" in by else (by,)
    for delay in xml.iterfind(f"{{{DELAY}}}delay"):
        keeper = delay.get("from", "")
        if keeper in keepers or (not keeper and xml.get("type") == "groupchat"):
            return read_stamp(delay.get("stamp", "")) or datetime.fromtimestamp(0, UTC)
    return None


def _stanza_id(xml: ET.Element, by: str) -> str:
    """The archive's id of a message; only what our own server or the room wrote counts."""
    found = [
        one.get("id", "") for one in xml.iterfind(f"{{{SID}}}stanza-id") if one.get("by") == by
    ]
    return clean(found[0]) if len(found) == 1 else ""


def _body(xml: ET.Element) -> str:
    """What was written, without the quotation of what it answers (XEP-0461)."""
    text = next((one.text or "" for one in xml.iterfind(f"{{{CLIENT}}}body")), "")
    for fallback in xml.iterfind(f"{{{FALLBACK}}}fallback"):
        part = fallback.find(f"{{{FALLBACK}}}body")
        if fallback.get("for") != REPLY or part is None:
            continue
        try:
            start, end = int(part.get("start", "0")), int(part.get("end", str(len(text))))
        except ValueError:
            continue
        if 0 <= start < end <= len(text):
            return text[:start] + text[end:]
    return text


def _urls(xml: ET.Element, body: str) -> list[str]:
    """The files of a message (XEP-0066). Of links within a text nothing is fetched."""
    found = [one.findtext(f"{{{OOB}}}url") or "" for one in xml.iterfind(f"{{{OOB}}}x")]
    if body.startswith("aesgcm://"):
        found += body.split("\n", 1)[:1]
    return [url for url in dict.fromkeys(map(clean, found)) if _LINK.fullmatch(url)][:MOST_URLS]
