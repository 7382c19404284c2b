"""Masking secrets in text that comes in pieces and is too long to be held as a whole.

What is recognised as a secret lies within a line, save for private keys, so whole lines are passed
on masked and the last, unfinished one waits. A line that is too long to wait for is cut where no
secret is: where masking both sides apart comes to the same as masking them together.
"""

from __future__ import annotations

import re
from itertools import islice

from hermes_state.redact import redact

LONGEST_HELD = 65_536
"""Characters of an unfinished line that are held back."""
OVERLAP = 4_096
"""Characters behind a cut that are held back still."""
LONGEST_KEY = 32_768
"""Characters after the head of a private key that are taken for the key if it has no end."""

_TRIES = 8
_KEY_HEAD = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_GAP = re.compile(r"[\s,;{}()<>|&]+")
_SECRET_END = re.compile(r"[\n\"']")


class Masker:
    """Text in, the same text without secrets out; at most a line later."""

    def __init__(self) -> None:
        self._held = ""
        self._key_left = 0
        """How much more may belong to a private key whose end has not come yet."""
        self._is_inside = False
        """Whether the text was cut within a secret, which goes on until its line or quote ends."""

    def feed(self, text: str, *, end: bool = False) -> str:
        """What can be passed on now; with `end`, all that is left."""
        self._held += text
        done = []
        if end:
            done.append(self._cut(len(self._held)))
        elif (line_end := text.rfind("\n")) >= 0:
            done.append(self._cut(len(self._held) - len(text) + line_end + 1))
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
            found = _SECRET_END.search(text)
            if found is None:
                return ""
            self._is_inside = False
            text = text[found.start() :]
        done = []
        while text:
            if self._key_left:
                key_end = _KEY_END.search(text, 0, self._key_left)
                taken = key_end.end() if key_end else min(len(text), self._key_left)
                self._key_left = 0 if key_end else self._key_left - taken
                text = text[taken:]
            elif (body := _open_key(text)) is not None:
                done.append(redact(text[:body]))
                self._key_left, text = LONGEST_KEY, text[body:]
            else:
                done.append(redact(text))
                break
        return "".join(done)


def _open_key(text: str) -> int | None:
    """Where a private key begins whose end is not part of the text."""
    at = 0
    while head := _KEY_HEAD.search(text, at):
        key_end = _KEY_END.search(text, head.end())
        if key_end is None:
            return head.end()
        at = key_end.end()
    return None
