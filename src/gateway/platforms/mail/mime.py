"""The body of a mail: its text, and what is attached.

Read in one pass for each level of parts, of which there may be few: the time grows with the length
of the mail and no faster, and nothing of it is copied before it is decoded. What is broken is read
as far as it goes.
"""

from __future__ import annotations

import binascii
import codecs
import mimetypes
import quopri
from dataclasses import dataclass, field
from functools import cached_property

from .headers import Head, decode_words, read_head, read_parameters

DEEPEST = 10
MOST_PARTS = 200
LONGEST_TEXT = 200_000
_SLOW = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})
"""Encodings of Python's that no mail is written in; some take long."""
_SIGNATURES = ("application/pgp-signature", "application/pkcs7-signature",
               "application/x-pkcs7-signature")  # fmt: skip
_ENCRYPTED = ("multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime")
ENCRYPTED = "[A part of this mail is encrypted, and cannot be read.]"
TOO_DEEP = "[This mail has more parts within parts than are read.]"
TOO_MANY = f"[This mail has more than {MOST_PARTS} parts; the others were not read.]"


@dataclass(slots=True)
class Attachment:
    """A file that came with a mail."""

    name: str
    kind: str
    source: bytes = field(repr=False)
    begin: int
    end: int
    encoding: str

    def read(self) -> bytes:
        """What is in it."""
        return _decode(self.source[self.begin : self.end], self.encoding)


@dataclass(slots=True)
class Content:
    """What a mail says."""

    text: str = ""
    attachments: list[Attachment] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was not read, for whoever wrote it."""


def read_content(raw: bytes) -> Content:
    """The content of a whole mail."""
    content = Content()
    reader = _Reader(raw, content)
    text = reader.text_of(0, len(raw), 0)
    if len(text) > LONGEST_TEXT:
        content.notes.append(
            f"[This mail is longer than {LONGEST_TEXT:,} characters; the rest was not read.]"
        )
        text = text[:LONGEST_TEXT]
    content.text = text.strip()
    return content


def decode_text(data: bytes, charset: str) -> str:
    """Bytes as text; what cannot be read in the charset they name is replaced."""
    try:
        found = codecs.lookup(charset.strip()[:40] or "utf-8")
        name = found.name if found._is_text_encoding else "utf-8"
    except (LookupError, ValueError, UnicodeError):
        name = "utf-8"
    if name.replace("_", "-") in _SLOW:
        name = "utf-8"
    if name == "ascii":
        name = "utf-8"  # much that is called so is not
    text = data.decode(name, "replace").replace("\x00", "")
    # Some encodings have halves of characters, which cannot be stored.
    return text.encode("utf-8", "replace").decode()


def _decode(data: bytes, encoding: str) -> bytes:
    if encoding == "base64":
        return _from_base64(data)
    if encoding == "quoted-printable":
        return quopri.decodestring(data)
    return data


def _from_base64(data: bytes) -> bytes:
    try:
        return binascii.a2b_base64(data)
    except binascii.Error:
        # Cut off, or with something behind its end: as much as is whole.
        letters = bytes(data.translate(None, b"\r\n\t ")).partition(b"=")[0]
        try:
            return binascii.a2b_base64(letters[: len(letters) // 4 * 4])
        except binascii.Error:
            return b""


@dataclass(slots=True)
class _Part:
    """One part: its head, and where its body is."""

    head: Head
    begin: int
    end: int

    @property
    def kind(self) -> tuple[str, dict[str, str]]:
        named, parameters = read_parameters(self.head.first("content-type"))
        is_sound = named.count("/") == 1 and not named.startswith("/")
        return named if is_sound else "text/plain", dict(parameters)

    @property
    def encoding(self) -> str:
        return self.head.first("content-transfer-encoding").lower().strip()


class _Reader:
    def __init__(self, raw: bytes, content: Content) -> None:
        self._raw = raw
        self._content = content
        self._parts = 0

    @cached_property
    def _noted(self) -> set[str]:
        return set()

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._content.notes.append(text)

    def text_of(self, begin: int, end: int, depth: int, default: str = "text/plain") -> str:
        """The text of what stands there, a mail or a part; files are put with the others."""
        part = self._part(begin, end)
        kind, parameters = part.kind if part.head.has("content-type") else (default, {})
        if kind in _ENCRYPTED:
            self._note(ENCRYPTED)
            return ""
        if kind.startswith("multipart/") and parameters.get("boundary"):
            if depth >= DEEPEST:
                self._note(TOO_DEEP)
                return ""
            return self._text_of_parts(part, kind, parameters["boundary"], depth)
        if kind in _SIGNATURES:
            return ""
        if kind not in ("text/plain", "text/html") or _is_file(part.head, parameters):
            self._attach(part, kind, parameters)
            return ""
        data = _decode(self._raw[part.begin : part.end], part.encoding)
        text = decode_text(data, parameters.get("charset", ""))
        if kind == "text/html":
            from tools.web.markdown import readable

            return readable(text, "").text.strip()
        text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        return (
            _unfold(text, parameters) if parameters.get("format", "").lower() == "flowed" else text
        )

    def _part(self, begin: int, end: int) -> _Part:
        """Where its head ends: at the first empty line."""
        raw = self._raw
        if raw.startswith((b"\n", b"\r\n"), begin, end):
            return _Part(Head(), begin, end)
        ends = [found + len(mark) for mark in (b"\r\n\r\n", b"\n\n")
                if (found := raw.find(mark, begin, end)) >= 0]  # fmt: skip
        body = min(ends) if ends else end
        return _Part(read_head(raw[begin : min(body, begin + 128 * 1024)]), body, end)

    def _text_of_parts(self, part: _Part, kind: str, boundary: str, depth: int) -> str:
        spans = self._spans(part, boundary.encode("utf-8", "replace"))
        default = "message/rfc822" if kind == "multipart/digest" else "text/plain"
        if kind == "multipart/alternative":
            return self._best_of(spans, depth)
        texts = []
        for begin, end in spans:
            self._parts += 1
            if self._parts > MOST_PARTS:
                self._note(TOO_MANY)
                break
            texts.append(self.text_of(begin, end, depth + 1, default))
        return "\n\n".join(filter(None, texts))

    def _best_of(self, spans: list[tuple[int, int]], depth: int) -> str:
        """Of several forms of one text the first, the plain one, unless that is empty."""
        found = ""
        for begin, end in spans[:8]:
            self._parts += 1
            text = self.text_of(begin, end, depth + 1)  # for its files too
            found = found or text
        return found

    def _spans(self, part: _Part, boundary: bytes) -> list[tuple[int, int]]:
        """Where the parts between the lines with a boundary are."""
        raw, mark = self._raw, b"--" + boundary
        spans: list[tuple[int, int]] = []
        begin, at = -1, part.begin
        while len(spans) <= MOST_PARTS and (found := raw.find(mark, at, part.end)) >= 0:
            at = found + len(mark)
            if found > part.begin and raw[found - 1] != 0x0A:
                continue
            line = raw.find(b"\n", at, part.end)
            line_end = part.end if line < 0 else line
            rest = raw[at : min(line_end, at + 200)].strip()
            if rest not in (b"", b"--"):
                continue
            if begin >= 0:
                stop = found - 1  # the end of the line before belongs to the boundary
                if stop > begin and raw[stop - 1] == 0x0D:
                    stop -= 1
                spans.append((begin, max(begin, stop)))
            begin = -1 if rest == b"--" else line_end + 1
            at = line_end
            if begin < 0:
                break
        if 0 <= begin < part.end:
            spans.append((begin, part.end))  # it was cut off
        return spans

    def _attach(self, part: _Part, kind: str, parameters: dict[str, str]) -> None:
        files = self._content.attachments
        disposition = read_parameters(part.head.first("content-disposition"))[1]
        name = decode_words(disposition.get("filename") or parameters.get("name") or "")
        if not name:
            ending = ".eml" if kind == "message/rfc822" else mimetypes.guess_extension(kind) or ""
            name = f"{kind.partition('/')[0] or 'file'}{ending}"
        if part.end > part.begin:
            files.append(Attachment(name, kind, self._raw, part.begin, part.end, part.encoding))


def _is_file(head: Head, parameters: dict[str, str]) -> bool:
    disposition, more = read_parameters(head.first("content-disposition"))
    return disposition == "attachment" or bool(more.get("filename") or parameters.get("name"))


def _unfold(text: str, parameters: dict[str, str]) -> str:
    """Lines that were broken for the way, whole again (RFC 3676)."""
    deletes = parameters.get("delsp", "").lower() == "yes"
    lines: list[str] = []
    goes_on = False
    depth = 0
    for line in text.split("\n"):
        bare = line.lstrip(">")
        quotes = len(line) - len(bare)
        bare = bare.removeprefix(" ")
        flows = bare.endswith(" ") and bare != "-- "
        bare = bare[:-1] if flows and deletes else bare
        if goes_on and quotes == depth and bare != "-- ":
            lines[-1] += bare
        else:
            lines.append(f"{'>' * quotes}{' ' if quotes else ''}{bare}")
        goes_on, depth = flows, quotes
    return "\n".join(line.rstrip() if line != "-- " else line for line in lines)
