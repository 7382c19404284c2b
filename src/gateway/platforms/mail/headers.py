"""The head of a mail: its fields, whatever they contain.

Strangers write these, so nothing here can fail, and nothing takes longer than the head is long: it
is read up to a limit, and each value up to one of its own.
"""

from __future__ import annotations

import contextlib
import email.errors
import email.header
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from .settings import is_address

MOST_BYTES = 64 * 1024
MOST_FIELDS = 500
LONGEST_VALUE = 16 * 1024
LONGEST_SHOWN = 1000
"""Characters of a subject or a name."""
_ID = re.compile(r"<([^<>\s]{1,250})>")
_IN_BRACKETS = re.compile(r"([^<>]{0,1000})<([^<>\s]{1,320})>\s*+")
_BARE = re.compile(r"\s*+([^\s<>()]{1,320})\s*+(?:\([^()]{0,200}\)\s*+)?")
_QUOTED_NAME = re.compile(r'\s*+"((?:[^"\\]++|\\.)*+)"\s*+')
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")
_PARAMETER = re.compile(r';\s*+([^\s=;"]{1,60})\s*+=\s*+("(?:[^"\\]++|\\.)*+"?+|[^;]*+)')
_SECTION = re.compile(r"([^*]+)(?:\*(\d{1,2}))?(\*)?")


@dataclass(frozen=True, slots=True)
class Head:
    """The fields of a head, or of a part of a mail, in their order."""

    fields: tuple[tuple[str, str], ...] = ()
    is_whole: bool = True
    """False if there was more than is read."""

    def first(self, name: str) -> str:
        """The topmost field of a name; empty if there is none."""
        return next((value for known, value in self.fields if known == name), "")

    def all(self, name: str) -> list[str]:
        """Every field of a name, topmost first."""
        return [value for known, value in self.fields if known == name]

    def has(self, name: str) -> bool:
        """Whether there is such a field."""
        return any(known == name for known, _ in self.fields)


def read_head(raw: bytes) -> Head:
    """The fields of a head; what is no field is passed over."""
    lines: list[list[str]] = []
    for line in raw[:MOST_BYTES].decode("utf-8", "replace").replace("\r\n", "\n").split("\n"):
        if not line:
            break
        if line[0] in " \t" and lines:
            lines[-1].append(line)
        else:
            lines.append([line])
    fields = []
    for pieces in lines[:MOST_FIELDS]:
        name, colon, value = "".join(pieces).partition(":")
        if colon and name.strip() and name.isascii():
            shown = _CONTROL.sub(" ", value[:LONGEST_VALUE]).strip()
            fields.append((name.strip().lower(), shown))
    return Head(tuple(fields), len(raw) <= MOST_BYTES and len(lines) <= MOST_FIELDS)


def decode_words(value: str) -> str:
    """A value as it is shown: encoded words (RFC 2047) read, without control characters."""
    short = value[:LONGEST_SHOWN]
    with contextlib.suppress(ValueError, LookupError, email.errors.HeaderParseError):
        if "=?" in short:
            pieces = [
                _text(piece, charset) if isinstance(piece, bytes) else piece
                for piece, charset in email.header.decode_header(short)
            ]
            short = "".join(pieces)
    return clean(short).strip()


def _text(piece: bytes, charset: str | None) -> str:
    from .mime import decode_text

    return decode_text(piece, charset or "ascii")


def clean(text: str) -> str:
    """Text of one line that can be stored: whole characters, nothing that moves a cursor."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _CONTROL.sub(" ", whole)


def find_sender(head: Head) -> tuple[str, str] | None:
    """Who wrote a mail: the address, in small letters, and the name; None if that is not one."""
    given = head.all("from")
    if len(given) != 1:
        return None  # several are an attempt to be read differently by different readers
    value = given[0]
    name = ""
    if quoted := _QUOTED_NAME.match(value):
        name, value = quoted[1].replace("\\", ""), value[quoted.end() :]
    if match := _IN_BRACKETS.fullmatch(value):
        name, address = name or match[1], match[2]
    elif not name and (match := _BARE.fullmatch(value)):
        address = match[1]
    else:
        return None
    address = address.lower()
    return (address, decode_words(name)[:128]) if is_address(address) else None


def find_ids(value: str) -> list[str]:
    """The Message-IDs that a field names, without their brackets."""
    return _ID.findall(value)


def find_date(value: str) -> datetime | None:
    """When a mail was written, as it says itself."""
    try:
        date = parsedate_to_datetime(value[:200])
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def read_parameters(value: str) -> tuple[str, Mapping[str, str]]:
    """What a field says before its first semicolon, in small letters, and its parameters; those
    that are continued or encoded (RFC 2231) are put together."""
    short = value[:LONGEST_VALUE]
    main = short.partition(";")[0].strip().lower()
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, tuple[str, bool]]] = {}
    for match in _PARAMETER.finditer(short):
        name, given = match[1].lower(), match[2].strip()
        if given.startswith('"'):
            given = re.sub(r"\\(.)", r"\1", given[1:].removesuffix('"'))
        section = _SECTION.fullmatch(name)
        if section is None or (section[2] is None and section[3] is None):
            plain.setdefault(name, given)
        else:
            known = pieces.setdefault(section[1], {})
            known.setdefault(int(section[2] or 0), (given, bool(section[3])))
    for name, numbered in pieces.items():
        plain[name] = _continued([numbered[number] for number in sorted(numbered)])
    return main, plain


def _continued(pieces: list[tuple[str, bool]]) -> str:
    """A parameter that came in pieces; the first says in which characters it is encoded."""
    from urllib.parse import unquote_to_bytes

    from .mime import decode_text

    charset, data = "utf-8", b""
    for number, (piece, is_encoded) in enumerate(pieces):
        if number == 0 and is_encoded and piece.count("'") >= 2:
            named, _, piece = piece.split("'", 2)
            charset = named or charset
        data += unquote_to_bytes(piece) if is_encoded else piece.encode("utf-8", "replace")
    return decode_text(data, charset)
