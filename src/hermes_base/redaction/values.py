"""Whether what a secret's name is given is a secret: code, prose and placeholders are not.

`password: str`, `token = next_token()`, `credentials: same-origin` name secrets and hold none. What
is said about a value depends on its first characters only, so that long ones cost nothing more.
"""

from __future__ import annotations

import base64
import binascii
import re

from .table import Kind, name_kind, name_words

LONGEST_JUDGED = 200
"""Characters; nothing harmless that stands where a secret stands is longer."""
_SHORTEST_QUOTED = 4
_SHORTEST_BARE = 6
_SHORTEST_RANDOM = 16
_SHORTEST_NUMBER = 10
"""Digits; shorter numbers count something, unless they are passwords."""

_HARMLESS = frozenset(
    """
    str string bool boolean int integer none null nil true false undefined optional any object text
    bytes char varchar number float secretstr required missing invalid hidden include omit
    same-origin same_origin enabled disabled unknown empty unset default basic bearer digest yes no
    changed expired revoked valid prompt stdin keyring inherit never always todo placeholder
    redacted removed masked sensitive secure password passwd secret token apikey credentials
    header cookie query oauth oauth2 oidc client_credentials authorization_code refresh_token write
    read
    self this value data result response request payload input output example static dynamic
    private public protected readonly const function async await return lambda
""".split()  # noqa: SIM905 - words read better without quotes
)
_PLACEHOLDER = re.compile(
    r"\*|`|\$(?:[A-Za-z_{(\[]|$)|<|\{|\[|\(|%[A-Za-z_(]|@@|#\{|\.{3}|…|•|[xX]{3,}(?![A-Za-z0-9])"
    r"|(?:your|my|the|enter|insert|replace|change)[-_ ]|[A-Za-z]+://|!\w+ |&(?:str|'static|mut|\[)"
    r"|(?:env|vault|ssm|file|op|secretref|enc|valuefrom|arn|aws)[:\[(]|@[A-Za-z]+/",
    re.IGNORECASE,
)
_CALL = re.compile(r"(?:await )?(?:[A-Za-z_][\w]*(?:\?)?(?:\.|::|->))*[A-Za-z_]\w*[(\[{]")
_REFERENCE = re.compile(
    r"[A-Za-z_][A-Za-z_]*[0-9]{0,2}(?:(?:\?)?(?:\.|::|->)[A-Za-z_]+[0-9]{0,2})+;?"
)
_PATH = re.compile(r"(?:~|\.{1,2})?/(?:[a-z0-9_.@-]+/)*[a-z0-9_-]*(?:\.[a-z0-9.]+)?|[A-Za-z]:\\.*")
_FILE = re.compile(r"[\w./-]+\.(?:pem|key|crt|json|ya?ml|toml|txt|env|py|js|ts|go|rs|md|html?|ini)")
_COLOUR = re.compile(r"#[0-9A-Fa-f]{3,8}")
_LETTERS = re.compile(r"[A-Za-z_]+")
_WORDS = re.compile(r"_*[A-Za-z]+(?:[-_ ][A-Za-z]+)*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_RANDOM_TEXT = re.compile(r"[A-Za-z0-9+/_=.~:!@#$%^&*-]+")
_SEGMENT = re.compile(r"[A-Za-z0-9+=]+")
_ABOUT_SECRETS = re.compile(r"pass|token|secret|key|credential|code|auth|login", re.IGNORECASE)
_PROSE = re.compile(
    r"[A-Z][a-z']*(?: [a-z0-9',.-]+){2,}|[A-Za-z',]+(?: (?:[A-Za-z',-]+|[0-9]+))+[.?!:…]"
)


def is_secret_value(
    value: str,
    kind: Kind,
    name: str,
    *,
    is_quoted: bool = False,
    is_variable: bool = False,
    is_spaced: bool = False,
    follows: str = "",
) -> bool:
    """Whether `value`, given to `name`, is a secret.

    `is_variable`: it stands as in `DB_PASS=…`, where no code can stand. `is_spaced`: there are
    blanks around the sign before it. `follows` is what stands behind a value without quotes.
    """
    shortest = _SHORTEST_QUOTED if is_quoted or is_variable else _SHORTEST_BARE
    if len(value) < shortest or _PLACEHOLDER.match(value) or "***" in value:
        return False
    if len(value) > LONGEST_JUDGED:
        return kind == "plain" or " " not in value
    lowered = value.lower().rstrip(":.,;")
    if _COLOUR.fullmatch(value) or lowered in _HARMLESS or not lowered.strip("x.-_=#~ "):
        return False
    if kind == "random":
        return looks_random(value) or is_basic(value)
    if _PATH.fullmatch(value) or _FILE.fullmatch(value):
        return False
    if kind == "unlikely" or name_words(name)[-1:] in (("pwd",), ("pw",)):
        has_both = any(map(str.isdigit, value)) and any(map(str.isalpha, value))
        return has_both and "/" not in value
    if value.isdigit():
        return "pass" in name.lower() or len(value) >= _SHORTEST_NUMBER
    if " " in value:
        return not (_ABOUT_SECRETS.search(value) or _PROSE.fullmatch(value))
    if is_variable:
        return True
    if not is_quoted:
        return not _is_code(value, name, is_spaced, follows)
    return not (_LETTERS.fullmatch(value) and _names_itself(value, name))


def _is_code(value: str, name: str, is_spaced: bool, follows: str) -> bool:
    if _CALL.match(value) or _REFERENCE.fullmatch(value):
        return True
    if follows[:1] == "(" or (follows[:1] == "." and follows[1:2].isalpha()):
        return True
    if not _WORDS.fullmatch(value.rstrip(":.;,")):
        return bool(re.fullmatch(r"-?[0-9.]+[a-zA-Z%]{0,2}", value))
    rest = follows.split("\n", 1)[0]
    if name_words(name)[-1:] == ("token",):  # a real one has digits
        return True
    if _names_itself(value, name) or _is_label(value) or rest[:1] in tuple(",;)}]|&"):
        return True
    if re.match(r"[ \t]+[A-Za-z(]", rest):  # more words: a sentence
        return True
    return is_spaced and ("_" in value or len(value) < 8)


def _names_itself(value: str, name: str) -> bool:
    """`password = new_password`: a name, not a value."""
    words = name_words(value)
    return name_kind(value) == "plain" or bool({*words} & {*name_words(name)})


def _is_label(value: str) -> bool:
    """`password= Set-Cookie: …`: it names what comes next, masked already or not."""
    label = value.rstrip(":")
    if label.lower().endswith(("authorization", "bearer", "cookie")):
        return True
    return label != value and name_kind(label) is not None


def looks_random(value: str) -> bool:
    """Whether no person would write this: letters and digits in one long part."""
    if len(value) < _SHORTEST_RANDOM or not _RANDOM_TEXT.fullmatch(value):
        return False
    if _UUID.fullmatch(value) or _PATH.fullmatch(value):
        return False
    return any(_is_mixed(part) for part in _SEGMENT.findall(value))


def _is_mixed(part: str) -> bool:
    digits = sum(map(str.isdigit, part))
    return len(part) >= 10 and digits >= 2 and digits < len(part)


def is_basic(value: str) -> bool:
    """Whether this is a name and a password as HTTP and docker write them: base64 of `a:b`."""
    if len(value) < 8 or len(value) > LONGEST_JUDGED or len(value) % 4:
        return False
    try:
        plain = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return (
        0 < plain.find(b":") < len(plain) - 1 and plain.isascii() and plain.decode().isprintable()
    )
