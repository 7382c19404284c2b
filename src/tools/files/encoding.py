"""Bytes as text and back, without loss: encoding, byte order mark and line ends are kept.

Text here has its line ends as they are in the file, and a line ends at "\\n" and nowhere else, so
that line numbers mean the same to every tool.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass

SNIFFED = 64 * 1024
"""How much of a file is looked at to tell text from binary."""

_MARKS = (  # the longer ones first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8", "UTF-8 with a byte order mark"),
    (codecs.BOM_UTF32_LE, "utf-32-le", "UTF-32"),
    (codecs.BOM_UTF32_BE, "utf-32-be", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16-be", "UTF-16"),
)
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b\b"))

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "PNG image"),
    (b"\xff\xd8\xff", "JPEG image"),
    (b"GIF87a", "GIF image"),
    (b"GIF89a", "GIF image"),
    (b"II*\0", "TIFF image"),
    (b"MM\0*", "TIFF image"),
    (b"%PDF-", "PDF document"),
    (b"PK\x03\x04", "ZIP archive (also the form of docx, xlsx, jar and wheel files)"),
    (b"PK\x05\x06", "empty ZIP archive"),
    (b"\x1f\x8b", "gzip-compressed data"),
    (b"BZh", "bzip2-compressed data"),
    (b"\xfd7zXZ\0", "xz-compressed data"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed data"),
    (b"7z\xbc\xaf\x27\x1c", "7-Zip archive"),
    (b"Rar!\x1a\x07", "RAR archive"),
    (b"\x7fELF", "ELF program or library"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O program"),
    (b"\xcf\xfa\xed\xfe", "Mach-O program"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"\0asm", "WebAssembly module"),
    (b"OggS", "Ogg audio or video"),
    (b"ID3", "MP3 audio"),
    (b"fLaC", "FLAC audio"),
    (b"\x1a\x45\xdf\xa3", "Matroska or WebM video"),
    (b"wOF2", "WOFF2 font"),
    (b"\0\x01\0\0\0", "TrueType font"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "old Microsoft Office document"),
    (b"GGUF", "GGUF model"),
    (b"\x80\x04\x95", "Python pickle"),
)
_TEXT_LIKE = (b"BZh", b"ID3", b"OggS", b"GGUF", b"wOF2")
"""Marks that ordinary text may begin with: they count only if the rest is binary too."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file's text is written down."""

    codec: str
    label: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """The text as bytes of this encoding; UnicodeEncodeError if it cannot hold it."""
        return self.mark + text.encode(self.codec)

    def decode(self, data: bytes) -> str:
        """The exact text of bytes in this encoding; UnicodeDecodeError if they are not."""
        return data[len(self.mark) :].decode(self.codec)


UTF8 = Encoding("utf-8", "UTF-8")
LATIN1 = Encoding("latin-1", "Latin-1 (it is not valid UTF-8)")


def encoding_of(head: bytes, *, whole: bool) -> Encoding | None:
    """The encoding of a file that begins like this, or None if it is binary.

    `whole` says that `head` is all of the file; else a character may be cut at its end.
    """
    for mark, codec, label in _MARKS:
        if head.startswith(mark):
            return _if_valid(Encoding(codec, label, mark), head, whole)
    if kind_of(head) or b"\0" in head[:SNIFFED]:
        return None
    if _if_valid(UTF8, head, whole):
        return UTF8
    sample = head[:SNIFFED]
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return None if controls * 50 > len(sample) else LATIN1


def _if_valid(encoding: Encoding, head: bytes, whole: bool) -> Encoding | None:
    decoder = codecs.getincrementaldecoder(encoding.codec)()
    try:
        decoder.decode(head[len(encoding.mark) :], final=whole)
    except UnicodeDecodeError:
        return None
    return encoding


def kind_of(head: bytes) -> str | None:
    """What a binary file is, by its first bytes, or None if they are not known."""
    if head[:4] == b"RIFF":
        return {b"WEBP": "WebP image", b"WAVE": "WAV audio", b"AVI ": "AVI video"}.get(head[8:12])
    if head[4:8] == b"ftyp":
        return "MP4, QuickTime, HEIC or AVIF media"
    if head[257:262] == b"ustar":
        return "tar archive"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            looks_binary = magic not in _TEXT_LIKE or b"\0" in head[:SNIFFED]
            return kind if looks_binary else None
    return None


def newline_of(text: str) -> str:
    """The line end that most lines of a text have."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def split_lines(text: str) -> list[str]:
    """The lines of a text with their ends; only a newline ends a line."""
    lines = text.split("\n")
    last = lines.pop()
    whole = [line + "\n" for line in lines]
    return [*whole, last] if last else whole


def count_lines(text: str) -> int:
    """How many lines a text has; a last line without its end counts."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def size_in_words(size: int) -> str:
    """A file size for people."""
    if size < 10_000:
        return f"{size:,} bytes"
    power = min((len(str(size)) - 1) // 3, 4)
    return f"{size / 1_000**power:,.1f} {('', 'kB', 'MB', 'GB', 'TB')[power]}"
