"""Looking through text that others wrote for orders to the model before it enters a prompt.

A file from a cloned repository, a downloaded skill or an old memory is data. This finds what gives
away an attempt to make it more: hidden characters, orders to drop earlier instructions, forged chat
markup, and commands that send secrets away. It is a net for the known tricks, not a proof of
innocence; what passes is still presented to the model as the words of a file.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

# Emoji flags of regions are spelled with tag characters, and are the one honest use of them.
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]+\U000e007f")
_HIDDEN = re.compile("[\u200b\u2060-\u2064\ufeff\u180e\U000e0000-\U000e007f]")
# The joiners belong to many scripts and to emoji; between ASCII characters they only hide.
_JOINER = re.compile("[\x00-\x7f][\u200c\u200d]+[\x00-\x7f]")
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_FORMATTING = re.compile(r"[*_`~#>\"'“”‘’,;()\[\]]+")

# Each pattern asks for the words of an order to the model, not merely for words about models,
# rules or users: a file that is left out by mistake is a loss too. Every gap is bounded, so that
# no file can make the search slow.
_EARLIER = r"(?:previous|prior|above|earlier|preceding|foregoing|system)"
_ORDERS = r"(?:instruction|prompt|rule|guideline|direction|directive|message)s?\b"
_DROP = r"(?:ignore|disregard|forget|override|bypass|(?:do not|don t|never) (?:follow|obey))"
_IN_WORDS = {
    "tells the model to drop its earlier instructions": (
        rf"\b{_DROP} (?:\w+ ){{0,4}}?{_EARLIER} (?:(?:system|safety|security|user|developer) )?"
        rf"{_ORDERS}"
        r"|\b(?:ignore|disregard|forget) (?:everything|all|anything) (?:\w+ ){0,3}?"
        r"(?:above|before this|previously|so far)\b"
    ),
    "tries to give the model another role": (
        r"\byou are (?:now|no longer) (?:\w+ ){0,3}?(?:dan\b|jailbroken|unrestricted|unfiltered"
        r"|in developer mode|bound by|free of|free from)"
        r"|\b(?:new|updated|real|actual) system (?:prompt|message|instruction)s? ?:"
        r"|\bpretend (?:that )?you (?:have|had) no (?:rules|restrictions|guidelines)"
    ),
    "asks for the model's own instructions": (
        r"\b(?:reveal|print|repeat|output|leak|send) (?:me )?your (?:\w+ ){0,2}?"
        r"(?:system prompt|system message|hidden instructions)"
    ),
    "tells the model to deceive the user": (
        r"\b(?:do not|don t|never) (?:tell|inform) the user (?:about|that|of) "
        r"(?:this|these|it|you|your)\b"
        r"|\bwithout (?:telling|informing|alerting|notifying) the user\b"
        r"|\bkeep (?:this|it|that) (?:a )?secret from the user\b"
    ),
}
_CHAT_MARKUP = (
    r"<\|im_start\|>\s{0,9}(?:system|user|assistant)\b|<\|(?:system|assistant)\|>|<<SYS>>"
)

_SENDER = r"\b(?:curl|wget|nc|ncat|netcat|socat|telnet|invoke-webrequest|iwr)\b"
_PRIVATE = (
    r"(?:\.env\b|\.ssh/|id_(?:rsa|ed25519|ecdsa)|\.aws/credentials|\.netrc|\.pgpass|\.npmrc"
    r"|/etc/(?:passwd|shadow)|auth\.json|\.kube/config|\.git-credentials)"
)
# A secret in a header is how an API is used; one in an address or a body is being sent away.
_SENT = (
    r"(?:[?&=/]|\s(?:-d|-F|--data\S{0,12}|--form|--post-data)\s{1,9}[\"']?)\S{0,80}?"
    r"\$\{?[A-Za-z0-9_]{0,40}(?:key|token|secret|passw|credential)"
    rf"|(?:@|<\(?|\$\(|\s-T)\s{{0,9}}(?:cat\s)?\S{{0,80}}?{_PRIVATE}"
)


def suspicion(text: str) -> str | None:
    """Why `text` should not enter a prompt, as the end of a sentence, or None if nothing shows."""
    if not text.isascii():
        visible = _FLAG.sub("", text.removeprefix("\ufeff"))
        hidden = _HIDDEN.search(visible) or _JOINER.search(visible)
        if hidden:
            return f"contains invisible characters ({_code_points(hidden[0])})"
        reordering = _REORDERING.search(visible)
        if reordering:
            return f"contains characters that reorder text ({_code_points(reordering[0])})"
        text = unicodedata.normalize("NFKC", text)
    # Markdown, line breaks and doubled blanks must not pull the words of an order apart.
    words = " ".join(_FORMATTING.sub(" ", text).split())
    for reason, pattern in _in_words():
        if pattern.search(words):
            return reason
    if _pattern(_CHAT_MARKUP).search(text):
        return "imitates the markup of a chat"
    if any(_sends_secrets(line) for line in text.splitlines()):
        return "contains a command that sends secrets away"
    return None


def _sends_secrets(line: str) -> bool:
    sender = _pattern(_SENDER).search(line)
    if sender is None:
        return False
    if _pattern(_SENT).search(line, sender.end()):
        return True
    if line.lstrip().startswith("|"):
        return False  # a row of a table, in which bars are no pipes
    private = _pattern(rf"{_PRIVATE}|\b(?:printenv|env)\b").search(line)
    pipe = line.find("|", private.end()) if private else -1
    return pipe >= 0 and _pattern(_SENDER).search(line, pipe) is not None


@cache
def _in_words() -> list[tuple[str, re.Pattern[str]]]:
    return [(reason, _pattern(pattern)) for reason, pattern in _IN_WORDS.items()]


@cache
def _pattern(source: str) -> re.Pattern[str]:
    return re.compile(source, re.IGNORECASE)


def _code_points(found: str) -> str:
    return ", ".join(f"U+{ord(c):04X}" for c in sorted(set(found)) if not c.isascii())
