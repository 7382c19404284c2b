"""Lines of IRC: read into parts, and built from them. Pure, and never failing on what comes in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

LONGEST_LINE = 512
"""In bytes, with the line's end, as the server shows it to others."""

_UNESCAPED = {":": ";", "s": " ", "\\": "\\", "r": "\r", "n": "\n"}
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)
_RFC1459 = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ[]\\~", "abcdefghijklmnopqrstuvwxyz{}|^")
_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")
_MARKS = re.compile(r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9A-Fa-f]{6})?|[\x00-\x1f\x7f]")
_MOST_USER, _MOST_HOST = 12, 64
"""What the server may put before our lines for others; it tells us only later, if at all."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the server's."""

    command: str
    params: tuple[str, ...] = ()
    prefix: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)

    def param(self, number: int) -> str:
        """A parameter; empty where there are fewer."""
        return self.params[number] if -len(self.params) <= number < len(self.params) else ""

    @property
    def nick(self) -> str:
        """Who wrote it."""
        return self.prefix.partition("!")[0]

    @property
    def is_from_person(self) -> bool:
        """Whether a person wrote it, and not a server."""
        return "!" in self.prefix


def parse_line(data: bytes) -> Line | None:
    """A line as it came; None if there is nothing in it."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    text = text.strip("\r\n").replace("\x00", "")
    tags: dict[str, str] = {}
    if text.startswith("@"):
        raw, _, text = text[1:].partition(" ")
        for pair in raw.split(";"):
            name, _, value = pair.partition("=")
            tags[name] = _ESCAPE.sub(lambda match: _UNESCAPED.get(match[1], match[1]), value)
    text = text.lstrip(" ")
    prefix = ""
    if text.startswith(":"):
        prefix, _, text = text[1:].partition(" ")
    head, colon, last = text.lstrip(" ").partition(" :")
    words = head.split()
    if not words:
        return None
    params = [*words[1:], last] if colon else words[1:]
    return Line(words[0].upper(), tuple(params), prefix, tags)


def fold(name: str, mapping: str = "rfc1459") -> str:
    """A nickname or channel as the server compares it."""
    return name.translate(_ASCII if mapping == "ascii" else _RFC1459)


def is_target(name: str) -> bool:
    """Whether a text can be written to: one word that says nothing else to the server."""
    return bool(name) and not re.search(r"[\x00-\x20\x7f,:!@]", name) and not name.startswith("$")


def is_channel(name: str) -> bool:
    """Whether a target is a channel."""
    return name[:1] in ("#", "&", "+")


def without_marks(text: str) -> str:
    """What somebody wrote without colours and other control characters."""
    return _MARKS.sub(lambda match: " " if match[0] == "\t" else "", text)


def room_for(nick: str, target: str) -> int:
    """How many bytes of text fit into one line to a target, as others are shown it."""
    before = f":{nick}!@ PRIVMSG {target} :\r\n"
    return LONGEST_LINE - len(before.encode()) - _MOST_USER - _MOST_HOST


def cut_line(text: str, room: int) -> list[str]:
    """A line in pieces of at most `room` bytes, cut at spaces where there are any."""
    pieces = []
    rest = text.encode()
    while len(rest) > room:
        cut = rest.rfind(b" ", room // 2, room + 1)
        end = cut if cut > 0 else room
        while end > 1 and rest[end] & 0xC0 == 0x80:  # not within a character
            end -= 1
        pieces.append(rest[:end].decode())
        rest = rest[end + (cut > 0) :]
    return [*pieces, rest.decode()] if rest or not pieces else pieces
