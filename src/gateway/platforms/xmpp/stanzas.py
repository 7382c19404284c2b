"""The XML that is sent: messages, presence and requests, each by the extension that has it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from xml.etree import ElementTree as ET

from .formatting import clean

CLIENT = "jabber:client"
MUC = "http://jabber.org/protocol/muc"
MUC_USER = f"{MUC}#user"
OOB = "jabber:x:oob"
SID = "urn:xmpp:sid:0"
CORRECT = "urn:xmpp:message-correct:0"
RECEIPTS = "urn:xmpp:receipts"
STATES = "http://jabber.org/protocol/chatstates"
HINTS = "urn:xmpp:hints"
MAM = "urn:xmpp:mam:2"
RSM = "http://jabber.org/protocol/rsm"
FORMS = "jabber:x:data"
FORWARD = "urn:xmpp:forward:0"
DELAY = "urn:xmpp:delay"
UPLOAD = "urn:xmpp:http:upload:0"
DISCO_INFO = "http://jabber.org/protocol/disco#info"
DISCO_ITEMS = "http://jabber.org/protocol/disco#items"
PING = "urn:xmpp:ping"
OCCUPANT = "urn:xmpp:occupant-id:0"
REPLY = "urn:xmpp:reply:0"
FALLBACK = "urn:xmpp:fallback:0"
CONFERENCE = "jabber:x:conference"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"


def element(tag: str, space: str, text: str = "", **attributes: str) -> ET.Element:
    """An element of a namespace."""
    made = ET.Element(f"{{{space}}}{tag}", attributes)
    made.text = text or None
    return made


def message(
    to: str, kind: str, name: str, body: str, *, replaces: str = "", url: str = ""
) -> ET.Element:
    """A text for a chat or a room, under an id that it keeps in archives."""
    made = element("message", CLIENT, to=to, type=kind, id=name)
    made.append(element("body", CLIENT, clean(body)))
    made.append(element("origin-id", SID, id=name))
    made.append(element("store", HINTS))
    if kind == "chat":
        made.append(element("active", STATES))
    if replaces:
        made.append(element("replace", CORRECT, id=replaces))
    if url:
        out_of_band = element("x", OOB)
        out_of_band.append(element("url", OOB, url))
        made.append(out_of_band)
    return made


def composing(to: str) -> ET.Element:
    """The sign that an answer is being written."""
    made = element("message", CLIENT, to=to, type="chat")
    made.append(element("composing", STATES))
    made.append(element("no-store", HINTS))
    return made


def receipt(to: str, name: str) -> ET.Element:
    """That a message is stored."""
    made = element("message", CLIENT, to=to, type="chat")
    made.append(element("received", RECEIPTS, id=name))
    made.append(element("store", HINTS))
    return made


def presence(to: str = "", kind: str = "") -> ET.Element:
    """Being there, or not, or what is said to somebody's wish to see that."""
    attributes = {name: value for name, value in (("to", to), ("type", kind)) if value}
    return element("presence", CLIENT, **attributes)


def join(room: str, nick: str, password: str, since: datetime | None) -> ET.Element:
    """Entering a room; `since` asks for what was said there, where the room keeps no archive."""
    made = presence(f"{room}/{nick}")
    inside = element("x", MUC)
    history = {"since": stamp(since)} if since is not None else {"maxstanzas": "0"}
    inside.append(element("history", MUC, **history))
    if password:
        inside.append(element("password", MUC, password))
    made.append(inside)
    return made


def archive_query(query: str, fields: Mapping[str, str], page: Mapping[str, str]) -> ET.Element:
    """A page of an archive: `fields` say which messages, `page` where it begins and how long."""
    made = element("query", MAM, queryid=query)
    form = element("x", FORMS, type="submit")
    for name, value in {"FORM_TYPE": MAM, **fields}.items():
        field = element("field", FORMS, var=name)
        if name == "FORM_TYPE":
            field.set("type", "hidden")
        field.append(element("value", FORMS, value))
        form.append(field)
    made.append(form)
    paging = element("set", RSM)
    for name, value in page.items():
        paging.append(element(name, RSM, value))
    made.append(paging)
    return made


def upload_request(name: str, size: int, kind: str) -> ET.Element:
    """Asking for a place to put a file."""
    made = element("request", UPLOAD, filename=clean(name), size=str(size))
    made.set("content-type", kind)
    return made


def stamp(moment: datetime) -> str:
    """A moment, as XMPP writes it (XEP-0082)."""
    return f"{moment:%Y-%m-%dT%H:%M:%S}Z"
