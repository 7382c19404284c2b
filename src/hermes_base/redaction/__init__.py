"""Taking secrets out of text before it reaches a log, an export or a screen.

Three nets, cheapest first: values registered at run time (exact), tokens whose format is public
knowledge (`table`), and whatever stands where a secret stands (`places`:
`password=…`, `Authorization: …`, a URL's user info). What is recognisable and harmless stays:
`sk-ant-***`, `password=***`. Redacting twice changes nothing.

The text is foreign, so every net takes linear time: what a pattern may read beyond its start is
bounded, or cannot contain a further start, or is remembered for the next start (`_mask_run`). Long
text is worked on in blocks, between which other threads get their turn.

The module stands alone, beneath everything that shows, logs, keeps or exports text.
"""

from __future__ import annotations

import json
import re
import threading
from functools import cache
from typing import Any
from urllib.parse import quote

from .places import NextFinder, place_starts, secret_span
from .table import FORMS, PREFIXES, name_kind
from .values import is_secret_value

MASK = "***"
_BLOCK = 65_536
"""Characters of long text that are searched without a break."""
_LONGEST_START = 128
"""No less than what a net looks at to see that something begins: the searches of blocks overlap."""
_SHORTEST = 8
"""Shorter registered values would blot out ordinary words."""

_registered: tuple[str, ...] = ()
"""Longest first, so that a value that contains another goes as a whole."""
_registering = threading.Lock()


def register_secret(value: str | None) -> None:
    """Have `redact` hide this value wherever it appears. Values under 8 characters are ignored."""
    global _registered
    value = (value or "").strip()
    if len(value) < _SHORTEST or value in _registered:
        return
    with _registering:
        values = {*_registered, value, quote(value, safe="")}
        _registered = tuple(sorted(values, key=len, reverse=True))


def redact(text: str) -> str:
    """`text` with every secret in it replaced by `***`."""
    for value in _registered:
        if value in text:
            text = text.replace(value, MASK)
    if "PRIVATE KEY" not in text:
        return _redact_between_keys(text)
    # A private key separates what stands before and after it as the end of a line does.
    cleaned: list[str] = []
    done = 0
    for key in PRIVATE_KEY.finditer(text):
        cleaned += (_redact_between_keys(text[done : key.end(1)]), MASK)
        done = key.end()
    return "".join((*cleaned, _redact_between_keys(text[done:])))


def redact_value(value: Any, keep: frozenset[str] = frozenset()) -> Any:
    """A value of the kinds JSON has, with the secrets in its texts replaced by `***`.

    A text that is JSON itself stays valid JSON, and what is called `password` is one wherever it
    stands. `keep` names entries that are left as they are: ids, signatures.
    """
    if isinstance(value, str):
        return _redacted_text(value)
    if isinstance(value, dict):
        return _redacted_object(value, keep)
    if isinstance(value, (list, tuple)):
        return [redact_value(item, keep) for item in value]
    return value


def _redacted_name(name: Any) -> Any:
    return redact(name) if isinstance(name, str) and len(name) > _LONGEST_NAME else name


def _redacted_object(value: dict[Any, Any], keep: frozenset[str]) -> dict[Any, Any]:
    """Each entry goes by what it is called in truth, before masking and after it.

    In {"name": "DB_PASS", "value": …} that is not "value", and in a key for signing not "d". A
    token for a name, `secret_A1b2…`, says what it holds only once it is masked: `secret_***`.
    """
    label = "name" if "name" in value else "key"
    named = value.get(label)
    # Once for both uses: within a text of JSON within another, each level would double the work.
    masked = redact_value(named, keep)
    is_key = "kty" in value
    cleaned: dict[Any, Any] = {}
    for name, item in value.items():
        names = (name, _redacted_name(name))
        if is_key and name in _PRIVATE_PARTS:
            aliases: tuple[Any, ...] = ("private_key",)
        else:
            aliases = (named, masked) if name == "value" and isinstance(named, str) else names
        if name in keep:
            cleaned[names[1]] = item
        else:
            cleaned[names[1]] = masked if name == label else _redacted_entry(aliases, item, keep)
    return cleaned


def _redacted_entry(names: tuple[Any, ...], value: Any, keep: frozenset[str]) -> Any:
    if isinstance(value, str) and any(
        isinstance(name, str) and _is_secret_entry(name, value) for name in names
    ):
        return MASK
    return redact_value(value, keep)


def _is_secret_entry(name: str, value: str) -> bool:
    if name.lower().endswith(("authorization", "cookie")):
        return len(value) >= _SHORTEST_NAMED and value[0] not in _PLACEHOLDERS
    kind = name_kind(name)
    return kind is not None and is_secret_value(value, kind, name, is_quoted=True)


def _redacted_text(text: str) -> str:
    if _BLOB.fullmatch(text):
        return text  # an image, in which a match would be an accident and ruin it
    if text[:1] in ("{", "["):
        # Masking what only looks like the end of a value could take a quote of the JSON along.
        try:
            parsed = json.loads(text)
            cleaned = redact_value(parsed)
            return text if cleaned == parsed else json.dumps(cleaned, ensure_ascii=False)
        except (ValueError, RecursionError):
            return redact(text)
    return redact(text)


_LONGEST_NAME = 14
"""Characters; no token is shorter than what is longer than this."""
_SHORTEST_NAMED = 4
_PRIVATE_PARTS = frozenset({"d", "p", "q", "dp", "dq", "qi", "k"})
"""Members of a JSON Web Key that nobody else may know."""
_PLACEHOLDERS = "*$<{[("
_BLOB = re.compile(r"(?:data:[A-Za-z0-9/+.;=-]*;base64,)?[A-Za-z0-9+/]{512,}={0,2}")


_KEY_WORDS = r"(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
KEY_HEAD = re.compile(rf"-----BEGIN {_KEY_WORDS}(?!\*\*\*)")
"""Where a private key begins; not where one was masked before."""
KEY_END = re.compile(rf"-----END {_KEY_WORDS}")
PRIVATE_KEY = re.compile(rf"({KEY_HEAD.pattern}).*?(?:{KEY_END.pattern}|\Z)", re.DOTALL)

# Every token of a known form lies within such a run, and most text has few of them.
_LONG_RUN = re.compile(r"(?<![A-Za-z0-9_.:-])[A-Za-z0-9_.:-]{15,}+")
_NOT_IN_A_RUN = re.compile(r"[^A-Za-z0-9_.:-]")
_WITHOUT_DIGIT = re.compile(r"[A-Za-z_-]*+")
_TOKEN_PART = re.compile(r"[A-Za-z0-9_-]*+")
_TOKEN_REST = re.compile(r"[A-Za-z0-9_.-]*+")
_JWT_REST = re.compile(r"\.[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_.-]*+)?")


@cache
def _tokens() -> re.Pattern[str]:
    """Secrets that are known by their own form, as far as a bounded look tells.

    A `prefix` and the start of a `jwt` are candidates; a `bot` token may go on: see `_mask_run`.
    """
    by_length: dict[int, list[str]] = {}
    for prefix, shortest in PREFIXES.items():
        by_length.setdefault(shortest, []).append(re.escape(prefix))
    prefixed = "|".join(
        rf"(?:{'|'.join(sorted(prefixes, key=len, reverse=True))})(?=[A-Za-z0-9_-]{{{shortest}}})"
        for shortest, prefixes in sorted(by_length.items())
    )
    return re.compile(
        rf"""\b(?:
            (?P<prefix>{prefixed})
          | (?P<jwt>eyJ)(?=[A-Za-z0-9_-]{{8}})
          | {FORMS}
          | [MNO][A-Za-z0-9_-]{{23,25}}\.[A-Za-z0-9_-]{{6}}\.(?P<bot>[A-Za-z0-9_-]{{27}})
        )
        | (?<![0-9])[0-9]{{8,10}}:[A-Za-z0-9_-]{{35}}(?![A-Za-z0-9_-])""",
        re.VERBOSE,
    )


def _redact_between_keys(text: str) -> str:
    return _without_places(_without_tokens(text))


def _without_tokens(text: str) -> str:
    cleaned: list[str] = []
    at = 0
    while at < len(text):
        edge = _NOT_IN_A_RUN.search(text, at + _BLOCK)
        end = edge.end() if edge else len(text)
        cleaned.append(_LONG_RUN.sub(_mask_run, text[at:end]))
        at = end
    return "".join(cleaned)


def _without_places(text: str) -> str:
    # The one letter that is longer in lower case; positions must carry over.
    lowered = text.replace("İ", "i").lower()
    cleaned: list[str] = []
    done = 0
    find = NextFinder(text)
    at = 0
    while at < len(text):
        block_end = at + _BLOCK
        start = place_starts().search(lowered, at, block_end + _LONGEST_START)
        if start is None or start.start() >= block_end:
            at = block_end
            continue
        span = secret_span(text, start, find)
        # A name that is none of a secret's may have a header's in it: KEY-----Authorization.
        at = start.start() + 1
        if span is not None and span[0] >= done:
            cleaned += (text[done : span[0]], MASK)
            done = span[1]
            at = max(at, done)
    return "".join((*cleaned, text[done:])) if cleaned else text


def _mask_run(match: re.Match[str]) -> str:
    """The run without its tokens.

    Where the letters without a digit end, and where the first part of a JWT ends, is the same for
    every candidate before that end. Both are looked up once per end, not once per candidate.
    """
    run = match[0]
    find = _tokens().search
    cleaned: list[str] = []
    done = at = 0
    digits_from = part_end = -1
    while at < len(run):
        block_end = at + _BLOCK
        start = find(run, at, block_end + _LONGEST_START)
        if start is None or start.start() >= block_end:
            at = block_end
            continue
        at = start.end()
        if start.lastgroup == "prefix":
            if digits_from < at:
                digits_from = _end(_WITHOUT_DIGIT, run, at)
            if not run[digits_from : digits_from + 1].isdigit():
                continue  # a name in words, such as npm_config_something_long
            kept, at = at, _end(_TOKEN_REST, run, digits_from)
        elif start.lastgroup == "jwt":
            if part_end < at:
                part_end = _end(_TOKEN_PART, run, at)
            rest = _JWT_REST.match(run, part_end)
            if rest is None:
                continue
            kept, at = start.start(), rest.end()
        else:
            kept = start.start()
            if start.lastgroup == "bot":
                at = _end(_TOKEN_PART, run, at)
        cleaned += (run[done:kept], MASK)
        done = at
    return "".join((*cleaned, run[done:])) if cleaned else run


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
