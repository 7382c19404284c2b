"""Whether a mail is from whom it says: what our own server found out, and nobody else's word.

A server writes `Authentication-Results` (RFC 8601) above what came from outside. Only the topmost
of these fields is read, and only if it bears the name of a server that was configured: anybody can
write one into a mail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .headers import LONGEST_VALUE, Head

FIELD = "authentication-results"


@dataclass(slots=True)
class Method:
    """What one check found: "dkim", "pass", and of what."""

    name: str
    result: str
    properties: dict[str, str] = field(default_factory=dict)


def why_not_proved(head: Head, address: str, authserv_ids: Sequence[str]) -> str:
    """Why a sender is not proved; empty if they are."""
    given = head.all(FIELD)
    if not given:
        return "the server says nothing of who wrote it"
    name, methods = read_results(given[0])
    if not any(_is_named(name, known) for known in authserv_ids):
        return f"{name or 'nobody'} speaks for it, who is not authserv_id"
    domain = address.rpartition("@")[2]
    dmarc = [method for method in methods if method.name == "dmarc"]
    if any(method.result not in ("pass", "none", "bestguesspass") for method in dmarc):
        return f"DMARC: {dmarc[0].result}"
    if any(_proves(method, address, domain) for method in methods):
        return ""
    found = ", ".join(f"{method.name} {method.result}" for method in methods[:6])
    return f"nothing proves {domain} ({found or 'nothing was checked'})"


def name_of_server(head: Head) -> str:
    """Who wrote the topmost results; empty if there are none."""
    given = head.all(FIELD)
    return read_results(given[0])[0] if given else ""


def _proves(method: Method, address: str, domain: str) -> bool:
    if method.result != "pass":
        return False
    found = method.properties
    if method.name == "dmarc":
        return found.get("header.from", "").rpartition("@")[2] == domain
    if method.name == "dkim":
        signed = found.get("header.d") or found.get("header.i", "").rpartition("@")[2]
        return _covers(signed, domain)
    if method.name == "spf":
        return _covers(found.get("smtp.mailfrom", "").rpartition("@")[2], domain)
    # Somebody who logged in to our own server.
    return method.name == "auth" and found.get("smtp.auth") == address


def _covers(proved: str, domain: str) -> bool:
    """Whether what is proved of a domain holds for another: itself, and those below it. Not those
    above: whoever has a name below a shared domain does not speak for that."""
    return "." in proved and (domain == proved or domain.endswith(f".{proved}"))


def _is_named(name: str, known: str) -> bool:
    if known.startswith("*."):
        return name.endswith(known[1:]) and len(name) > len(known) - 1
    return name == known


def read_results(value: str) -> tuple[str, list[Method]]:
    """The name of the server, and what it checked; all in small letters."""
    statements = list(_statements(value[:LONGEST_VALUE].lower()))
    if not statements or not statements[0]:
        return "", []
    methods = []
    for words in statements[1:]:
        name, equals, result = words[0].partition("=") if words else ("", "", "")
        if not equals:
            continue
        method = Method(name.partition("/")[0], result)
        for word in words[1:]:
            key, equals, said = word.partition("=")
            if equals:
                method.properties.setdefault(key, said)
        methods.append(method)
    return statements[0][0], methods


def _statements(value: str) -> Iterator[list[str]]:
    """The words of each statement. Comments are left out, and what stands in quotes is one word:
    senders choose some of it, and must not be able to end a statement."""
    words: list[str] = []
    word: list[str] = []
    depth, in_quotes, is_escaped = 0, False, False
    after_equals = False

    def end_word() -> None:
        nonlocal after_equals
        if word:
            words.append("".join(word))
            word.clear()
        after_equals = False

    for letter in value:
        if is_escaped:
            is_escaped = False
            if not depth:
                word.append(letter)
        elif letter == "\\" and (in_quotes or depth):
            is_escaped = True
        elif in_quotes:
            if letter == '"':
                in_quotes = False
            else:
                word.append(letter)
        elif depth:
            depth += {"(": 1, ")": -1}.get(letter, 0)
        elif letter == '"':
            in_quotes, after_equals = True, False
        elif letter == "(":
            depth = 1
        elif letter == ";":
            end_word()
            yield words
            words = []
        elif letter.isspace():
            # Blanks may stand around the sign: "dkim = pass".
            if not after_equals:
                after_equals = bool(word) and word[-1] == "="
                if not after_equals:
                    end_word()
        elif letter == "=" and not word and words:
            word[:] = [*words.pop(), "="]
            after_equals = True
        else:
            after_equals = letter == "="
            word.append(letter)
    end_word()
    yield words
