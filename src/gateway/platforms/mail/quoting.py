"""What a person wrote anew, without what their program put below: the mails before, a signature.

Only what stands at the end is cut. Somebody who answers between the lines of a quotation means it
to be read.
"""

from __future__ import annotations

import re

_QUOTE = re.compile(r"[ \t]{0,3}>")
_INTRODUCTION = re.compile(r"[^\n]{0,400}[:：][ \t*_]{0,4}")
_BEGINNING = re.compile(
    r"[ \t]{0,3}(?:on|am|le|el|il|op|den|em|dnia|w dniu|på|在|于|на)\b", re.IGNORECASE
)
_RULE = re.compile(r"[ \t]{0,3}(?:-{2,}+[^-\n]{1,60}-{2,}|_{5,}+|-{5,}+)[ \t]{0,3}")
_FIELD = re.compile(
    r"[ \t>*_]{0,6}(from|von|de|da|van|från|fra|od|от|发件人|差出人"
    r"|sent|date|gesendet|datum|envoyé|envoyé le|enviado|inviato|verzonden|skickat"
    r"|to|an|à|para|a|aan|till|til"
    r"|cc|subject|betreff|objet|asunto|assunto|oggetto|onderwerp|ämne|emne)"
    r"[ \t*_]{0,4}:[ \t*_]{0,4}(\S[^\n]{0,2000})?",
    re.IGNORECASE,
)
_MOBILE = re.compile(
    r"(?:sent from (?:my|mobile|outlook|yahoo|proton)|get outlook for|von meinem \S{1,30} gesendet"
    r"|gesendet (?:von|mit)|envoyé de|enviado desde)[^\n]{0,100}",
    re.IGNORECASE,
)
_FORWARDED = re.compile(
    r"[ \t]{0,3}-{2,}+ ?(?:forwarded|weitergeleitete|message transféré|mensaje reenviado)"
    r"[^\n]{0,60}",
    re.IGNORECASE,
)
MOST_FIELDS = 8
FEWEST_FIELDS = 3


def cut_quotes(text: str) -> str:
    """A text without the mails that are quoted at its end; as it is if nothing else is there."""
    lines = text.split("\n")
    kept = _before_trailing_quote(lines[: _before_header_block(lines)])
    rest = "\n".join(kept).strip()
    return rest or text.strip()


def cut_signature(text: str) -> str:
    """A text without a signature at its end."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.rstrip("\r") in ("-- ", "--") and number > 0:
            lines = lines[:number]
            break
    while lines and not lines[-1].strip():
        lines.pop()
    if len(lines) > 1 and _MOBILE.fullmatch(lines[-1].strip()):
        lines.pop()
    return "\n".join(lines).strip() or text.strip()


def _before_header_block(lines: list[str]) -> int:
    """Where a mail begins that is quoted below its own head, as Outlook does it."""
    number = 0
    while number < len(lines):
        if _FORWARDED.match(lines[number]):
            return len(lines)  # what is handed on is meant to be read
        fields = _count_fields(lines, number)
        if fields >= FEWEST_FIELDS:
            begin = number
            while begin > 0 and not lines[begin - 1].strip():
                begin -= 1
            if begin > 0 and _RULE.fullmatch(lines[begin - 1]):
                begin -= 1
            return (
                begin if begin < number or number == 0 or not lines[number - 1].strip() else number
            )
        number += max(1, fields)
    return len(lines)


def _count_fields(lines: list[str], number: int) -> int:
    """How many lines from here on are fields of a head; names of each kind count once."""
    names: set[str] = set()
    for line in lines[number : number + MOST_FIELDS]:
        field = _FIELD.fullmatch(line)
        if field is None or field[1].lower() in names:
            break
        names.add(field[1].lower())
    return len(names)


def _before_trailing_quote(lines: list[str]) -> list[str]:
    """The lines before a quotation that nothing follows, and before what introduces that."""
    end = len(lines)
    while end > 0 and not lines[end - 1].strip():
        end -= 1
    begin = end
    while begin > 0 and (_QUOTE.match(lines[begin - 1]) or not lines[begin - 1].strip()):
        begin -= 1
    if not any(_QUOTE.match(line) for line in lines[begin:end]):
        return lines
    # "On … wrote:" stands right above, on one line or broken into two or three.
    above = begin
    while above > 0 and not lines[above - 1].strip():
        above -= 1
    if above == 0 or not _INTRODUCTION.fullmatch(lines[above - 1]):
        return lines[:begin]
    for first in range(above - 1, max(-1, above - 4), -1):
        if _BEGINNING.match(lines[first]):
            return lines[:first]
    return lines[: above - 1]
