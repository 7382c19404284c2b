"""Taking secrets out of text before it reaches a log, an export or a screen.

Three nets, cheapest first: values registered at run time (exact), tokens whose format is public
knowledge, and whatever stands where a secret stands (`password=…`, `Authorization: …`, a URL's
user info). What is recognisable and harmless stays: `sk-ant-***`, `password=***`. Redacting twice
changes nothing.

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

# Prefix and the shortest rest that is surely a token, for rests of letters, digits, "_" and "-".
_PREFIXES = {
    # Models
    "sk-ant-": 16, "sk-proj-": 16, "sk-svcacct-": 16, "sk-admin-": 16, "sk-or-v1-": 16,
    "sk-lf-": 16, "sk-": 20, "AIza": 30, "AQ.": 30, "hf_": 20, "gsk_": 20, "xai-": 20, "r8_": 20,
    "pplx-": 20, "nvapi-": 20, "csk-": 20, "fw_": 20, "tgp_v1_": 20, "voyage-": 30,
    # Code hosts and package registries
    "ghp_": 20, "gho_": 20, "ghu_": 20, "ghs_": 20, "ghr_": 20, "github_pat_": 20, "glpat-": 16,
    "gldt-": 16, "glrt-": 16, "glptt-": 16, "npm_": 20, "pypi-": 16, "dckr_pat_": 16,
    "rubygems_": 20, "ATATT3": 20, "ATBB": 20,
    # Chat and mail
    "xoxb-": 10, "xoxp-": 10, "xoxa-": 10, "xoxr-": 10, "xoxs-": 10, "xoxe-": 10, "xoxc-": 10,
    "xoxd-": 10, "xapp-": 10, "SG.": 20, "key-": 32, "syt_": 20,
    # Payment and commerce
    "sk_live_": 10, "sk_test_": 10, "rk_live_": 10, "rk_test_": 10, "pk_live_": 10, "whsec_": 16,
    "sq0atp-": 20, "sq0csp-": 20, "shpat_": 20, "shpss_": 20, "shpca_": 20, "shppa_": 20,
    # Clouds and services
    "dop_v1_": 20, "doo_v1_": 20, "ya29.": 20, "GOCSPX-": 20, "glsa_": 20, "sntrys_": 20,
    "sntryu_": 20, "lin_api_": 20, "figd_": 20, "ntn_": 20, "PMAK-": 20, "dapi": 32, "hvs.": 20,
    "hvb.": 20, "NRAK-": 20, "tvly-": 16, "fc-": 32, "exa_": 20, "sbp_": 20, "vcp_": 20,
    "tskey-": 16, "AGE-SECRET-KEY-": 20, "EAACEdEose0cBA": 10, "phc_": 20, "pat-na1-": 20,
}  # fmt: skip

# What a secret is called. A bare "key" is not among them: session_key=… belongs in a log.
_SECRET_NAMES = (
    r"passw(?:or)?d|passwd|passphrase|secret(?:[_-]?(?:access[_-]?)?key)?|token|credentials?"
    r"|api[_-]?key|auth[_-]?key|access[_-]?key|private[_-]?key|account[_-]?key|signing[_-]?key"
    r"|master[_-]?key|client[_-]?key|encryption[_-]?key"
    r"|\?(?:key|sig|signature|code)(?==)|&(?:key|sig|signature|code)(?==)"
)


def register_secret(value: str | None) -> None:
    """Have `redact` hide this value wherever it appears. Values under 8 characters are ignored."""
    global _registered
    value = (value or "").strip()
    if len(value) < _SHORTEST or value in _registered:
        return
    from urllib.parse import quote

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
        return {
            _redacted_name(name): item if name in keep else _redacted_entry(name, item, keep)
            for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [redact_value(item, keep) for item in value]
    return value


def _redacted_name(name: Any) -> Any:
    return redact(name) if isinstance(name, str) and len(name) > _LONGEST_NAME else name


def _redacted_entry(name: Any, value: Any, keep: frozenset[str]) -> Any:
    is_secret = isinstance(name, str) and isinstance(value, str) and _secret_entry().search(name)
    if is_secret and len(value) >= _SHORTEST_NAMED and value[0] not in _PLACEHOLDERS:
        return MASK
    return redact_value(value, keep)


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
_PLACEHOLDERS = "*$<{[("
_BLOB = re.compile(r"(?:data:[A-Za-z0-9/+.;=-]*;base64,)?[A-Za-z0-9+/]{512,}={0,2}")


@cache
def _secret_entry() -> re.Pattern[str]:
    """The name of an entry that holds a secret."""
    return re.compile(rf"(?:{_SECRET_NAMES}|authorization|cookie)$", re.IGNORECASE)


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
    for prefix, shortest in _PREFIXES.items():
        by_length.setdefault(shortest, []).append(re.escape(prefix))
    prefixed = "|".join(
        rf"(?:{'|'.join(sorted(prefixes, key=len, reverse=True))})(?=[A-Za-z0-9_-]{{{shortest}}})"
        for shortest, prefixes in sorted(by_length.items())
    )
    return re.compile(
        rf"""\b(?:
            (?P<prefix>{prefixed})
          | (?P<jwt>eyJ)(?=[A-Za-z0-9_-]{{8}})
          | (?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{{16}}\b
          | SK[0-9a-f]{{32}}\b
          | [MNO][A-Za-z0-9_-]{{23,25}}\.[A-Za-z0-9_-]{{6}}\.(?P<bot>[A-Za-z0-9_-]{{27}})
        )
        | (?<![0-9])[0-9]{{8,10}}:[A-Za-z0-9_-]{{35}}(?![A-Za-z0-9_-])""",
        re.VERBOSE,
    )


@cache
def _assignments() -> re.Pattern[str]:
    """Secrets that are known by what stands before them; the named group is what goes."""
    return re.compile(
        rf"""
        (?:{_SECRET_NAMES})
            (?:\\?["'])?[ \t]*(?:=>|:=|=|:)[ \t]*+
            (?!(?:str|string|bool|int|none|null|nil|true|false|undefined|optional)\b|[$<*{{\[(])
            (?:\\?"(?P<double>(?!\*\*\*)[^"\n]{{4,}}?)\\?"
              |'(?P<single>(?!\*\*\*)[^'\n]{{4,}})'
              |(?P<bare>(?!["'\\])[^\s"',;&<>|)}}\]]{{6,}}))
      | cookie(?:\\?["'])?[ \t]*+:[ \t]*+["']?(?P<cookies>(?!\*\*\*)[^\n"']{{4,}})
      | \bauthorization(?:\\?["'])?[ \t]*[:=][ \t]*+["']?
            (?:(?:bearer|basic|token|digest|bot)[ \t]+)?
            (?P<header>(?!(?:bearer|basic|token|digest|bot)\b)[^\s"',;*]{{6,}})
      | \bbearer[ \t]+(?P<bearer>[A-Za-z0-9._~+/=-]{{16,}})
      | ://[^\s/:@"'<>]*:(?P<userinfo>[^\s/@"'<>]+)@
      | (?:api/webhooks/[0-9]+/|hooks\.slack\.com/services/)(?P<hook>[A-Za-z0-9_/-]{{16,}})
        """,
        re.VERBOSE | re.IGNORECASE,
    )


@cache
def _assignment_starts() -> re.Pattern[str]:
    """Where an assignment may begin, in lower-case text. Each alternative begins with a letter of
    its own, which makes this several times faster than `_assignments()`."""
    return re.compile(rf"{_SECRET_NAMES}|cookie|authorization|bearer|://|api/webhooks|hooks\.slack")


def _redact_between_keys(text: str) -> str:
    return _without_assignments(_without_tokens(text))


def _without_tokens(text: str) -> str:
    cleaned: list[str] = []
    at = 0
    while at < len(text):
        edge = _NOT_IN_A_RUN.search(text, at + _BLOCK)
        end = edge.end() if edge else len(text)
        cleaned.append(_LONG_RUN.sub(_mask_run, text[at:end]))
        at = end
    return "".join(cleaned)


def _without_assignments(text: str) -> str:
    # The one letter that is longer in lower case; positions must carry over.
    lowered = text.replace("İ", "i").lower()
    cleaned: list[str] = []
    done = 0
    match_at = _assignments().match
    for block in range(0, len(text), _BLOCK):
        end = block + _BLOCK
        for start in _assignment_starts().finditer(lowered, max(block, done), end + _LONGEST_START):
            if start.start() >= end:
                break
            if start.start() >= done and (found := match_at(text, start.start())):
                cleaned += (text[done : found.start()], _mask_assignment(found))
                done = found.end()
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
        found = find(run, at, block_end + _LONGEST_START)
        if found is None or found.start() >= block_end:
            at = block_end
            continue
        at = found.end()
        if found.lastgroup == "prefix":
            if digits_from < at:
                digits_from = _end(_WITHOUT_DIGIT, run, at)
            if not run[digits_from : digits_from + 1].isdigit():
                continue  # a name in words, such as npm_config_something_long
            kept, at = at, _end(_TOKEN_REST, run, digits_from)
        elif found.lastgroup == "jwt":
            if part_end < at:
                part_end = _end(_TOKEN_PART, run, at)
            rest = _JWT_REST.match(run, part_end)
            if rest is None:
                continue
            kept, at = found.start(), rest.end()
        else:
            kept = found.start()
            if found.lastgroup == "bot":
                at = _end(_TOKEN_PART, run, at)
        cleaned += (run[done:kept], MASK)
        done = at
    return "".join((*cleaned, run[done:])) if cleaned else run


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _mask_assignment(match: re.Match[str]) -> str:
    assert match.lastgroup is not None  # every alternative has exactly one named group
    start, end = match.span(match.lastgroup)
    whole = match.start()
    return match[0][: start - whole] + MASK + match[0][end - whole :]
