"""Where secrets stand: behind their names, in URLs, headers, command lines and files of their own.

A place begins at a word that can be found quickly (`place_starts`); `secret_span` looks at what is
around it and says what is to be masked. What is looked at beyond a start is bounded, or ends at the
next start, or is remembered for the next one (`NextFinder`): time stays linear in hostile text.
"""

from __future__ import annotations

import re
from functools import cache

from .table import ANCHORS, Kind, name_kind
from .values import LONGEST_JUDGED, is_secret_value

Span = tuple[int, int]

_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_LONGEST_BEFORE = 40
_SIGNS = r"""(?:\\{0,3}["'`])?\]?[ \t]{0,32}(?:[=:>,?]|[ \t]|value)"""

_SIGN = re.compile(
    r"""
    (?P<close>(?:\\{0,3}["'`])?\]?)
    (?P<before>[ \t]*+)
    (?P<sign>
        ,?[ \t]{0,16}\\{0,3}["']?value\\{0,3}["']?[ \t]{0,16}[:=]
      | :[ \t]{0,16}(?:&?(?:'static[ \t]{1,4})?str|string|bytes|secretstr|optional\[str\]
            |str[ \t]{0,4}\|[ \t]{0,4}none)[ \t]{0,16}=(?!=)
      | =>|:=|\?=|==?|:(?!:)|>|,|(?<=[ \t])
    )
    (?P<after>[ \t]*+)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTE = re.compile(r"""(?:[bfru]{1,2}(?=["']))?\\{0,3}(["'`])""", re.IGNORECASE)
_BARE_PART = r"""(?:[^\s"',;&<>|)}\]`\\]|\\(?![nrt"'\\]))"""
_BARE_START = re.compile(rf"{_BARE_PART}{{0,{LONGEST_JUDGED + 1}}}+")
_BARE = re.compile(rf"{_BARE_PART}*+")
_XML_START = re.compile(rf"[^<\n]{{4,{LONGEST_JUDGED + 1}}}+")
_XML_VALUE = re.compile(r"[^<\n]*+")
_KEY_OF = re.compile(r"\b(api|access|secret|auth|master|encryption)[ ]\Z", re.IGNORECASE)
_DEFINE = re.compile(r"define[ \t]{0,4}\([ \t]{0,4}[\"']\Z", re.IGNORECASE)

# Each alternative has exactly one named group: what goes. All that is read before it is bounded.
_PLACES = r"""
    cookie(?:\\{0,3}["'])?[ \t]{0,16}[:= ][ \t]{0,16}["']?
        (?P<cookies>(?!\*\*\*)[^\s"'=:;,]{1,80}=[^\n"']{4,})
  | authorization(?:\\{0,3}["'])?[ \t]{0,16}[:=][ \t]{0,16}(?:\\{0,3}["'])?
        (?:(?:bearer|basic|token|digest|bot|apikey|negotiate|splunk|genie|sso-key)[ \t]{1,4})?
        (?P<header>(?!(?:bearer|basic|token|digest|bot|enabled|disabled|required|optional|none|null
            |true|false|string|str|aws4-hmac-sha256|bool)\b|[$<{(\[])[^\s"',;*\\]{6,})
  | bearer[ \t]{1,8}(?P<bearer>[A-Za-z0-9._~+/=-]{16,})
  | ://[^\s/:@"'<>]{0,128}:(?P<userinfo>(?![$<{(*])[^\s/@"'<>]+)@
  | ://(?P<user>(?=[A-Za-z_-]{0,200}[0-9])[A-Za-z0-9_-]{20,200})@
  | (?:api/webhooks/[0-9]{1,24}/|hooks\.slack\.com/(?:services|workflows|triggers)/
        |office\.com/webhook[a-z0-9]{0,4}/|hooks\.zapier\.com/hooks/catch/|/with/key/
        |hook\.[a-z0-9]{2,4}\.make\.com/)(?P<hook>[A-Za-z0-9_/@.-]{16,})
  | [?&\#;](?:key|sig|signature|code|auth|sas|otp|x-amz-signature|x-amz-credential
        |x-amz-security-token|x-goog-signature|x-goog-credential)=
        (?P<query>(?=[^\s"'<>&\#]{0,40}[0-9])[^\s"'<>&\#]{6,})
  | signature=(?P<sigv4>[0-9a-f]{64})\b
  | \$(?:1|2[abxy]|5|6|7|y|apr1|argon2(?:id|i|d)|scrypt|pbkdf2[a-z0-9-]{0,12}|sha1|p|s|h)\$
        (?P<hash>[./A-Za-z0-9,=$+-]{20,})
  | (?:\{(?:s?sha(?:256|512)?|s?md5|crypt)\}|pbkdf2_sha[0-9]{1,3}\$[0-9]{1,9}\$)
        (?P<digest>[A-Za-z0-9+/=$.]{20,})
  | "(?:d|p|q|dp|dq|qi|k)\\{0,3}"[ \t]{0,8}:[ \t]{0,8}\\{0,3}"(?P<jwk>[A-Za-z0-9_-]{40,})\\{0,3}"
  | /t/(?P<conda>[a-z]{2}-[0-9a-f]{8}-[0-9a-f-]{27})
  | bundle_[a-z0-9_]{2,80}:[ \t]{1,4}["']?[^\s"':/]{1,64}:(?P<bundle>[^\s"'/]{4,})
  | npmauthident["']?[ \t]{0,4}:[ \t]{0,4}["']?(?P<ident>(?![$<{*])[^\s"']{4,})
  | sha256~(?P<openshift>[A-Za-z0-9_-]{40,})
  | (?:fm2_|fm1[ar]_)(?P<wide>[A-Za-z0-9+/=_,-]{40,})
  | sshpass[ \t]{1,8}-p[ \t]{0,8}["']?(?P<sshpass>(?![$<-])[^\s"']{4,})
  | redis-cli\b[^\n|;&]{0,120}?[ \t](?-i:-a)[ \t]{1,8}["']?(?P<redis>(?![$<-])[^\s"']{4,})
  | ldap[a-z]{1,10}\b[^\n|;&]{0,160}?[ \t](?-i:-w)[ \t]{0,8}["']?(?P<ldap>(?![$<-])[^\s"']{4,})
  | (?:(?:docker|podman|nerdctl|az|oc|helm[ \t]registry|cf)[ \t]login|mongo[a-z]{0,8})\b
        [^\n|;&]{0,160}?[ \t](?-i:-p)[ \t]{1,8}["']?
        (?P<login>(?![$<-]|[0-9]{1,5}\b)[^\s"']{4,})
  | (?:mysql|mariadb)[a-z]{0,8}\b[^\n|;&]{0,120}?[ \t](?-i:-p)
        (?P<mysql>(?![$<"'-]|[0-9]{1,5}[:\s])[^\s"']{4,})
  | htpasswd[ \t]{1,4}-[a-z]{0,6}b[a-z]{0,6}[ \t]{1,4}(?:[^\s]{1,128}[ \t]{1,4}){2}["']?
        (?P<htpasswd>(?![$<-])[^\s"']{4,})
  | (?:zip|7z[ar]?|unrar|rar)\b[^\n|;&]{0,80}?[ \t](?-i:-[pP])[ \t]?["']?
        (?P<archive>(?![$<-])(?=[^\s"']{0,40}[0-9])[^\s"']{6,})
  | identified[ \t]{1,4}(?:with[ \t]{1,4}[a-z0-9_]{1,32}[ \t]{1,4})?by[ \t]{1,4}
        (?:password[ \t]{1,4})?["'](?P<sql>(?![*$<%?:])[^"'\n]{4,})["']
  | (?:login|user|account)[ \t]{1,4}[^\s]{1,128}[ \t]{1,4}password[ \t]{1,4}["']?
        (?P<netrc>(?![$<*{])[^\s"']{4,})
  | (?<![^\n])[ \t]{0,16}password[ \t]{1,8}
        (?P<netrc_line>(?![$<*{=:])[^\s"']{4,256})[ \t]{0,8}(?=\r?\n|\Z)
  | (?:sqlplus[ \t]{1,4}(?:-[a-z]{1,4}[ \t]{1,4})?|thin:)[a-z0-9_$\#]{1,64}/
        (?P<oracle>(?![$<{*])[^\s@"']{3,128})@
  | (?:configure[ \t]set|config[ \t]set|env|setenv|set[ \t]-[a-z]{1,4}|--build-arg)
        [ \t]{1,4}(?P<set>[A-Za-z0-9_./:-]{2,80}[ \t]{1,4}["']?[^\s"'=:]{6,})
"""
_PLACE = re.compile(_PLACES, re.VERBOSE | re.IGNORECASE)
_SET = re.compile(r"([A-Za-z0-9_./:-]{2,80})[ \t]{1,4}[\"']?")
_NOT_A_DATABASE = re.compile(r"[0-9]*")

_WORDS = (
    r"cookie|authorization|bearer(?=[ \t])|://|api/webhooks|hooks\.slack|office\.com/webhook"
    r"|hooks\.zapier|/with/key/|hook\.[a-z0-9]{2,4}\.make"
    r"|[?&#;](?:key|sig|signature|code|auth|sas|otp|x-amz-[a-z-]{8,16}|x-goog-[a-z-]{8,12})="
    r"|signature=(?=[0-9a-f]{64})"
    r"|\$(?:[1-7shpy]|2[abxy]|apr1|argon2|scrypt|pbkdf2|sha1)[a-z0-9-]{0,12}\$"
    r"|\{(?:s?sha(?:256|512)?|s?md5|crypt)\}|pbkdf2_sha"
    r"|\"(?:[dpqk]|dp|dq|qi)\\{0,3}\"(?=[ \t]{0,8}:)"
    r"|/t/(?=[a-z]{2}-[0-9a-f]{8}-)|bundle_(?=[a-z0-9_]{2,80}:[ \t])|npmauthident"
    r"|sha256~|fm2_|fm1[ar]_|sshpass|redis-cli|ldap"
    r"|(?:docker|podman|nerdctl|az|oc|registry|cf)[ \t]login"
    r"|mongo|mysql|mariadb|htpasswd|7z|zip|rar|identified|login(?=[ \t])"
    r"|(?<![^\n])[ \t]{0,16}password(?=[ \t]{1,8}[^\s=:])"
    r"|sqlplus|thin:|configure[ \t]set|config[ \t]set|\benv(?=[ \t])|setenv"
    r"|\bset(?=[ \t]-)|--build-arg"
)
_BEHIND = r"@(?:tcp|unix)\(|q~|:(?:[0-9]{4,5}|\*):"
_GO_DSN = re.compile(r"[\w.-]{1,40}:([^\s@\"':/]{3,60})\Z")
_AZURE = re.compile(r"(?<![A-Za-z0-9_~.-])[A-Za-z0-9_~.]{3}[0-9]\Z")
_AZURE_REST = re.compile(r"[A-Za-z0-9_~.-]{31,40}")
_PGPASS = re.compile(r"[^\s:/]{1,64}:[^\s:/]{1,64}:([^\s:]{4,128})(?=[ \t]{0,8}(?:\r?\n|\Z))")
_HOST = re.compile(r"(?:\A|\n)[ \t]{0,8}[^\s:/\"']{1,100}\Z")
_CLIENT = re.compile(r"(?:curl|wget|https?|xh)(?:\.exe)?[ \t]", re.IGNORECASE)
_USER = re.compile(
    r"""(?:-u|--user|--proxy-user|-U|--auth|-a)[ \t=]{0,4}["']?[^\s"':/]{1,100}:"""
    r"""((?![$<{*])[^\s"']{3,})"""
)


class NextFinder:
    """Where a character comes next, looked up once for all that ask before it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[str, Span] = {}

    def __call__(self, character: str, at: int) -> int:
        """Its position at or after `at`; the length of the text if it does not come."""
        start, place = self._known.get(character, (0, -1))
        if not start <= at <= place:
            place = self._text.find(character, at)
            place = len(self._text) if place < 0 else place
            self._known[character] = (at, place)
        return place


@cache
def place_starts() -> re.Pattern[str]:
    """Where a secret may stand, in lower-case text; no match is longer than 128 characters."""
    return re.compile(
        rf"(?P<place>{_WORDS})|(?P<behind>{_BEHIND})"
        r"|(?P<user>[ \t](?:-u|--user|--proxy-user|--auth|-a)[ \t=])"
        rf"|(?:{ANCHORS})[a-z0-9_-]{{0,48}}+(?={_SIGNS})"
    )


def secret_span(text: str, start: re.Match[str], find: NextFinder) -> Span | None:
    """What is to be masked at a start; None if it is nothing."""
    at = start.start()
    match start.lastgroup:
        case "place":
            return _known_place(text, at)
        case "behind":
            return _behind(text, at, start.end())
        case "user":
            user = _USER.match(text, at + 1)
            is_client = user and _CLIENT.search(text, max(0, at - 300), at + 1)
            return user.span(1) if user and is_client else None
    return _named(text, at, start.end(), find)


def _known_place(text: str, at: int) -> Span | None:
    match = _PLACE.match(text, at)
    if match is None or match.lastgroup is None:
        return None
    if match.lastgroup != "set":
        return match.span(match.lastgroup)
    begin, end = match.span("set")
    assigned = _SET.match(text, begin, end)
    kind = name_kind(assigned[1]) if assigned else None
    if assigned is None or kind is None:
        return None
    value = text[assigned.end() : min(end, assigned.end() + LONGEST_JUDGED + 1)]
    is_secret = is_secret_value(value, kind, assigned[1], is_variable=True)
    return (assigned.end(), end) if is_secret else None


def _behind(text: str, at: int, end: int) -> Span | None:
    """Places that are known by what stands behind or within the secret."""
    if text[at] == "@":
        match = _GO_DSN.search(text, max(0, at - 101), at)
        return match.span(1) if match else None
    if text[at] in "qQ":
        head, rest = _AZURE.search(text, max(0, at - 5), at), _AZURE_REST.match(text, end)
        return (head.start(), rest.end()) if head and rest and text[at] == "Q" else None
    match = _PGPASS.match(text, end)
    if match is None or _NOT_A_DATABASE.fullmatch(match[0].split(":", 1)[0]):
        return None
    return match.span(1) if _HOST.search(text[max(0, at - 110) : at]) else None


def _named(text: str, at: int, end: int, find: NextFinder) -> Span | None:
    """A value behind a name of a secret."""
    left = text[max(0, at - _LONGEST_BEFORE) : at]
    begin = at - len(left) + len(left.rstrip(_NAME_CHARACTERS))
    name = text[begin:end]
    if name.lower() == "key" and (word := _KEY_OF.search(text[max(0, begin - 16) : begin])):
        name, begin = f"{word[1]}_{name}", begin - len(word[0])
    kind = name_kind(name)
    sign = _SIGN.match(text, end) if kind is not None else None
    if kind is None or sign is None:
        return None
    meant = _kind_behind(text, begin, name, kind, sign)
    if meant is None:
        return None
    if sign["sign"] == ">":
        return _xml_value(text, name, meant, sign.end())
    return _value(text, name, meant, sign, find)


def _xml_value(text: str, name: str, kind: Kind, at: int) -> Span | None:
    short = _XML_START.match(text, at)
    if short is None or not is_secret_value(short[0], kind, name, is_quoted=True):
        return None
    whole = _XML_VALUE.match(text, at)
    assert whole is not None, "it may be empty"
    return whole.span()


def _kind_behind(text: str, begin: int, name: str, kind: Kind, sign: re.Match[str]) -> Kind | None:
    """How sure a name is, given the sign behind it; None if that is no assignment."""
    match sign["sign"]:
        case ">":
            return kind if text[begin - 1 : begin] in ("<", ":") and not sign["close"] else None
        case "":
            is_option = name.startswith("-")
            is_sql = text[sign.end() : sign.end() + 1] == "'" and "pass" in name.lower()
            next_word = text[sign.end() : sign.end() + 1]
            return kind if (is_option and next_word not in ("-", "=", "")) or is_sql else None
        case ",":
            if not sign["close"] or text[sign.end() : sign.end() + 1] not in ("'", '"'):
                return None
            is_definition = _DEFINE.search(text[max(0, begin - 20) : begin])
            return kind if is_definition else "random"
        case "==":
            return "random"
    return None if "value" in sign["sign"] and not sign["close"] else kind


def _value(text: str, name: str, kind: Kind, sign: re.Match[str], find: NextFinder) -> Span | None:
    begin = sign.end()
    quote = _QUOTE.match(text, begin)
    if quote is not None:
        begin = quote.end()
        closing = find(quote[1], begin)
        if closing < find("\n", begin) and closing < len(text):
            end = closing
            while end > begin and text[end - 1] == "\\":
                end -= 1
            value = text[begin : min(end, begin + LONGEST_JUDGED + 1)]
            return (begin, end) if is_secret_value(value, kind, name, is_quoted=True) else None
    short = _BARE_START.match(text, begin)
    assert short is not None, "it may be empty"
    is_tight = not sign["before"] and not sign["after"]
    letters = name.strip("-")
    is_secret = is_secret_value(
        short[0],
        kind,
        name,
        is_quoted=quote is not None,
        is_variable=sign["sign"] == "=" and is_tight and letters.isupper() and len(letters) > 2,
        is_spaced=not is_tight,
        follows=text[short.end() : short.end() + 80],
    )
    if not is_secret:
        return None
    whole = _BARE.match(text, begin)
    assert whole is not None, "it may be empty"
    return whole.span()
