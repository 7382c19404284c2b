"""Masking secrets in text that comes in pieces and is too long to be held as a whole.

What is recognised as a secret lies within a line, save for private keys, so whole lines are passed
on masked and the last, unfinished one waits. A line that is too long to wait for is cut where no
secret is: where masking both sides apart comes to the same as masking them together. However the
text is cut into pieces, the time it takes is linear.
"""

from __future__ import annotations

import re
from itertools import islice

from hermes_base.redaction import KEY_END, KEY_HEAD, redact

LONGEST_HELD = 65_536
"""Characters of an unfinished line that are held back."""
OVERLAP = 4_096
"""Characters behind a cut that are held back still."""
LONGEST_KEY = 32_768
"""Characters after the head of a private key that are taken for the key if it has no end."""

_TRIES = 8
_GAP = re.compile(r"[\s,;{}()<>|&]+")
_SECRET_END = re.compile(r"[\n\"']")


class Masker:
    """Text in, the same text without secrets out; at most a line later."""

    def __init__(self) -> None:
        self._held = ""
        self._pieces: list[str] = []
        """Short pieces that came since, not yet joined to what is held."""
        self._length = 0
        """Of the pieces."""
        self._key_left = 0
        """How much more may belong to a private key whose end has not come yet."""
        self._is_inside = False
        """Whether the text was cut within a secret, which goes on until its line or quote ends."""

    def feed(self, text: str, *, end: bool = False) -> str:
        """What can be passed on now; with `end`, all that is left."""
        if len(text) <= LONGEST_HELD:
            return self._feed_piece(text, end)
        pieces = range(0, len(text), LONGEST_HELD)
        done = [self._feed_piece(text[at : at + LONGEST_HELD], False) for at in pieces]
        return "".join((*done, self._feed_piece("", end)))

    def _feed_piece(self, text: str, end: bool) -> str:
        self._pieces.append(text)
        self._length += len(text)
        has_line_end = "\n" in text
        if not (end or has_line_end or len(self._held) + self._length > LONGEST_HELD):
            return ""
        self._held = "".join((self._held, *self._pieces))
        self._pieces, self._length = [], 0
        done = []
        if end:
            done.append(self._cut(len(self._held)))
        elif has_line_end:
            done.append(self._cut(self._held.rindex("\n") + 1))
        while len(self._held) > LONGEST_HELD:
            done.append(self._cut_long_line())
        return "".join(done)

    def _cut_long_line(self) -> str:
        held = self._held[: LONGEST_HELD + 1]
        edge = len(held) - OVERLAP
        gaps = (gap.end() for gap in islice(_GAP.finditer(held, edge - OVERLAP, edge), _TRIES))
        whole = redact(held)
        seams = (at for at in (*gaps, edge) if redact(held[:at]) + redact(held[at:]) == whole)
        seam = next(seams, None)
        masked = self._cut(edge if seam is None else seam)
        self._is_inside = self._is_inside or seam is None
        return masked

    def _cut(self, at: int) -> str:
        text, self._held = self._held[:at], self._held[at:]
        if self._is_inside:
            secret_end = _SECRET_END.search(text)
            if secret_end is None:
                return ""
            self._is_inside = False
            text = text[secret_end.start() :]
        done = []
        at, last_end = 0, _last_key_end(text)
        while at < len(text):
            if self._key_left:
                key_end = KEY_END.search(text, at, at + self._key_left) if at <= last_end else None
                taken = key_end.end() - at if key_end else min(len(text) - at, self._key_left)
                self._key_left = 0 if key_end else self._key_left - taken
                at += taken
            elif (body := _open_key(text, at, last_end)) is not None:
                done.append(redact(text[at:body]))
                self._key_left, at = LONGEST_KEY, body
            else:
                done.append(redact(text[at:]))
                break
        return "".join(done)


def _last_key_end(text: str) -> int:
    """Where the last end of a private key begins; -1 if there is none."""
    return max((end.start() for end in KEY_END.finditer(text)), default=-1)


def _open_key(text: str, at: int, last_end: int) -> int | None:
    """Where a private key begins whose end is not part of the text."""
    while head := KEY_HEAD.search(text, at):
        key_end = KEY_END.search(text, head.end()) if head.end() <= last_end else None
        if key_end is None:
            return head.end()
        at = key_end.end()
    return None
