"""Rooms: which we are in, and who is behind the nicknames there.

A nickname says nothing: whoever takes it next has it. So a person in a room is known by their
address, which a room shows to everybody or to nobody (XEP-0045), or else by the id that it gives
each of them (XEP-0421), which is theirs in this room alone. Whoever is known by neither is nobody.

A room says who somebody is, so it must be trusted as the server is: only rooms are entered that the
configuration names, and into which somebody who may talk invites on our own server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from xml.etree import ElementTree as ET

from . import stanzas
from .client import BrokenError, Client, RefusedError, refusal_in
from .messages import Said, real_jid
from .stanzas import CLIENT, MUC_USER, OCCUPANT

log = logging.getLogger(__name__)

ENTER_SECONDS = 20.0
MOST_NICKS = 5
MOST_SHOWN = 500
_OURS = "110"
_RENAMED = "303"


@dataclass(frozen=True, slots=True)
class Occupant:
    """Who has a nickname just now."""

    jid: str = ""
    id: str = ""


@dataclass(slots=True)
class Room:
    """A room that we are to be in."""

    jid: str
    wanted: str
    """Our nickname."""
    password: str = field(default="", repr=False)
    nick: str = ""
    """The nickname that we have; empty while we are not there."""
    occupants: dict[str, Occupant] = field(default_factory=dict)
    has_archive: bool = False
    shows_jids: bool = False
    gives_ids: bool = False
    shown: dict[str, None] = field(default_factory=dict)
    """What we have said there, as the room has told us again, by its name."""
    present: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while we are there."""
    entering: asyncio.Future[None] | None = None

    def identify(self, said: Said, *, archived: bool) -> str:
        """Who said something: their address, or what they are called here; empty if that is not
        known. To be asked in the moment in which it came."""
        if archived:
            if self.shows_jids and said.real_jid:
                return said.real_jid
            present = [one for one in self.occupants.values() if one.id == said.occupant_id]
            known = Occupant(id=said.occupant_id)
            known = present[0] if said.occupant_id and present else known
        else:
            known = self.occupants.get(said.nick, Occupant())
        if known.jid:
            return known.jid
        return f"{self.jid}#{known.id}" if known.id and self.gives_ids else ""

    def note_shown(self, name: str) -> None:
        """The room has told us what we said."""
        self.shown[name] = None
        while len(self.shown) > MOST_SHOWN:
            del self.shown[next(iter(self.shown))]

    def on_presence(self, xml: ET.Element) -> None:
        """Somebody comes, changes or leaves."""
        nick = xml.get("from", "").partition("/")[2]
        kind = xml.get("type", "")
        if kind == "error":
            if self.entering is not None and not self.entering.done():
                self.entering.set_exception(refusal_in(xml))
            return
        codes = {one.get("code") for one in xml.iterfind(f"{{{MUC_USER}}}x/{{{MUC_USER}}}status")}
        is_ours = _OURS in codes or (nick == self.nick and bool(nick))
        if kind == "unavailable":
            self.occupants.pop(nick, None)
            if is_ours:
                self.nick = self._renamed_to(xml) if _RENAMED in codes else ""
                if not self.nick:
                    self.leave()
                    log.warning("We are not in %s any more", self.jid)
            return
        if kind:
            return
        identity = xml.find(f"{{{OCCUPANT}}}occupant-id")
        given = identity.get("id", "") if identity is not None else ""
        self.occupants[nick] = Occupant(real_jid(xml), given)
        if is_ours:
            self.nick = nick
            self.present.set()
            if self.entering is not None and not self.entering.done():
                self.entering.set_result(None)

    def _renamed_to(self, xml: ET.Element) -> str:
        item = xml.find(f"{{{MUC_USER}}}x/{{{MUC_USER}}}item")
        return item.get("nick", "") if item is not None else ""

    def leave(self) -> None:
        """We are not there any more."""
        self.nick = ""
        self.present.clear()
        self.occupants.clear()


class Rooms:
    """The rooms of one account."""

    def __init__(self, configured: Iterable[str], nick: str) -> None:
        self._nick = nick
        self._rooms: dict[str, Room] = {}
        for line in configured:
            jid, _, password = line.strip().partition(" ")
            if "@" not in jid or "/" in jid:
                log.error("platforms.xmpp.rooms: %r is no room: room@rooms.example.org", jid)
                continue
            self.add(jid.lower(), password.strip())

    def add(self, jid: str, password: str = "") -> Room:
        """A room that we are to be in from now on."""
        return self._rooms.setdefault(jid, Room(jid, self._nick, password))

    def drop(self, jid: str) -> None:
        """We are not to be in a room any more."""
        self._rooms.pop(jid, None)

    def get(self, jid: str) -> Room | None:
        """The room with this address."""
        return self._rooms.get(jid)

    def __iter__(self) -> Iterator[Room]:
        return iter(list(self._rooms.values()))

    def leave(self) -> None:
        """The connection is gone."""
        for room in self._rooms.values():
            room.leave()

    async def look(self, client: Client, room: Room) -> bool:
        """Find out what a room can do; False if there is none. Raises BrokenError."""
        try:
            features = await client.features(room.jid)
        except RefusedError as error:
            log.warning("The room %s cannot be entered: %s", room.jid, error)
            return False
        room.has_archive = stanzas.MAM in features
        room.shows_jids = "muc_nonanonymous" in features
        room.gives_ids = OCCUPANT in features
        return True

    async def enter(self, client: Client, room: Room, since: datetime | None) -> bool:
        """Enter a room; False if it does not let us in. Raises BrokenError."""
        room.occupants.clear()
        nick = room.wanted
        for _ in range(MOST_NICKS):
            room.entering = asyncio.get_running_loop().create_future()
            history = None if room.has_archive else since
            client.post(stanzas.join(room.jid, nick, room.password, history))
            try:
                async with asyncio.timeout(ENTER_SECONDS):
                    await room.entering
                return True
            except RefusedError as error:
                if error.condition != "conflict":
                    log.warning("The room %s does not let us in: %s", room.jid, error)
                    return False
                nick += "_"
            except TimeoutError as error:
                raise BrokenError(f"{room.jid} does not answer") from error
            finally:
                room.entering = None
        log.warning("All our nicknames are taken in %s", room.jid)
        return False


def invitation(xml: ET.Element) -> tuple[str, str, str] | None:
    """An invitation: the room, who invites, and the room's password.

    Only one that comes from a person themselves (XEP-0249), or from a room (XEP-0045), which says
    who it was.
    """
    sender = xml.get("from", "").partition("/")[0]
    if xml.get("type", "normal") in ("error", "groupchat"):
        return None
    direct = xml.find(f"{{{stanzas.CONFERENCE}}}x")
    mediated = xml.find(f"{{{MUC_USER}}}x/{{{MUC_USER}}}invite")
    if mediated is not None:
        inviter = mediated.get("from", "").partition("/")[0]
        password = xml.findtext(f"{{{MUC_USER}}}x/{{{MUC_USER}}}password") or ""
        return sender, inviter, password
    if direct is not None and xml.find(f"{{{CLIENT}}}body") is None:
        return direct.get("jid", "").partition("/")[0], sender, direct.get("password", "")
    return None
