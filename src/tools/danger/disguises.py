"""Characters that make a command look like another one."""

from __future__ import annotations

import re
import unicodedata

# ASCII, and the letters and signs of other scripts that look like it.
_LOOKALIKES = str.maketrans(
    {
        other: ascii
        for ascii, others in {
            "a": "аɑα", "b": "Ь", "c": "сϲ", "d": "ԁ", "e": "еҽ", "f": "ƒ", "g": "ɡ", "h": "һ",
            "i": "іɩι", "j": "ј", "k": "кκ", "l": "ӏǀ", "m": "м", "n": "ո", "o": "оοᴏ", "p": "рρ",
            "q": "ԛ", "r": "гʀ", "s": "ѕ", "t": "тτ", "u": "υ", "v": "ѵν", "w": "ԝ", "x": "хχ",
            "y": "уγ", "z": "ᴢ", "A": "АΑ", "B": "ВΒ", "C": "СϹ", "E": "ЕΕ", "H": "НΗ", "I": "ІΙ",
            "J": "Ј", "K": "КΚ", "M": "МΜ", "N": "Ν", "O": "ОΟ", "P": "РΡ", "R": "Ꭱ", "S": "Ѕ",
            "T": "ТΤ", "X": "ХΧ", "Y": "ҮΥ", "Z": "Ζ",
            "/": "∕⁄⧸╱⟋⼃〳", "-": "‐‑‒–—−", "*": "∗⁎⋆", ";": "︔;", "|": "∣", "'": "‘’‚‛′",
            '"': "“”„‟″", "~": "∼˜", ".": "․。", "$": "＄", "&": "＆", ">": "›", "<": "‹",
        }.items()
        for other in others
    }
)  # fmt: skip
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]"
)
_DIRECTION = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_HIDDEN = "\u00ad\u034f\u180e\u200b-\u200d\u2060-\u2064\ufeff\u3164\uffa0\U000e0000-\U000e007f"
_HIDDEN_IN_ASCII = re.compile(f"[!-~][{_HIDDEN}]|[{_HIDDEN}][!-~]")
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2028\u2029\x0b\x0c\x85]")


def plain(text: str) -> str:
    """The text as the eye may read it: lookalikes as ASCII, invisible characters gone."""
    text = text.replace("\r\n", "\n")
    if text.isascii() and not _CONTROL.search(text):
        return text
    text = _SPACES.sub(" ", _INVISIBLE.sub("", text))
    text = unicodedata.normalize("NFKC", text.translate(_LOOKALIKES)).translate(_LOOKALIKES)
    return _CONTROL.sub("", text.replace("\r", ""))


def disguises(text: str) -> list[str]:
    """What in a text could make people approve something else than what they read."""
    descriptions = []
    if _CONTROL.search(text):
        descriptions.append("Control characters hide what the command is")
    if _DIRECTION.search(text) or _HIDDEN_IN_ASCII.search(text):
        descriptions.append("Invisible characters hide what the command is")
    return descriptions
