"""Threads: which mail belongs to which conversation, and what an answer in one refers to.

A thread is named after the mail it began with. Our own Message-IDs carry that name, so that a
program that forgets the beginning and only refers to our last mail still finds its thread. The name
is no secret: a conversation is that of a thread and a person, so naming another's thread begins a
conversation of one's own.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..kept import KeptFacts
from .automatic import OURS, is_ours
from .headers import Head, find_ids

MOST_IN_FILE = 100
"""Threads that are remembered in each of sixteen files."""
MOST_REFERENCES = 12
LONGEST_SUBJECT = 200
_OWN_ID = re.compile(re.escape(OURS) + r"([0-9a-f]{16})\.[0-9a-f]{24}")
_NAME = re.compile(r"[0-9a-f]{16}")
_REPLY = re.compile(
    r"(?:re|aw|sv|vs|antw|antwort|rif|odp|wg|fwd?|tr|rv)(?:\[\d{1,3}\])?[:：]\s*+", re.I
)


@dataclass(slots=True)
class Thread:
    """What an answer refers to."""

    subject: str = ""
    last: str = ""
    """The Message-ID of the person's last mail in it."""
    references: list[str] = field(default_factory=list)


def name_of(message_id: str) -> str:
    """How a thread is called that begins with this mail."""
    return hashlib.sha256(message_id.encode("utf-8", "replace")).hexdigest()[:16]


def is_name(text: str) -> bool:
    """Whether a text is the name of a thread."""
    return bool(_NAME.fullmatch(text))


def own_id(thread: str, key: str, own: str) -> str:
    """The Message-ID of a mail of ours: the same for the same text, however often it is sent."""
    unique = hashlib.sha256(f"{own}\0{key}".encode()).hexdigest()[:24]
    return f"{OURS}{thread}.{unique}@{own.rpartition('@')[2]}"


def find_thread(head: Head, message_id: str, own: str) -> str:
    """The thread that a mail belongs to."""
    named = [*find_ids(head.first("references")), *find_ids(head.first("in-reply-to"))[:1]]
    for known in reversed(named):
        match = _OWN_ID.fullmatch(known.rpartition("@")[0])
        if match is not None and is_ours(known, own):
            return match[1]
    return name_of(named[0] if named else message_id)


def references_of(head: Head, message_id: str) -> list[str]:
    """What an answer to a mail refers to: the beginning, and the latest."""
    named = find_ids(head.first("references")) or find_ids(head.first("in-reply-to"))[:1]
    named = [known for known in named if known != message_id]
    if len(named) >= MOST_REFERENCES:
        named = [named[0], *named[-(MOST_REFERENCES - 2) :]]
    return [*named, message_id]


def bare_subject(subject: str) -> str:
    """A subject without the marks of answers before it."""
    rest = subject.strip()
    while match := _REPLY.match(rest):
        rest = rest[match.end() :]
    return rest[:LONGEST_SUBJECT].strip()


class Threads:
    """The threads of a mailbox, of each person: the last ones of each of sixteen files."""

    def __init__(self, facts: KeptFacts) -> None:
        self._facts = facts

    def find(self, person: str, name: str) -> Thread | None:
        """What is known of a thread; for threads of the interpreter."""
        known = self._facts.read(_file(name)).get(_key(person, name))
        return _read(known) if isinstance(known, Mapping) else None

    def note(self, person: str, name: str, thread: Thread) -> None:
        """Keep what an answer will refer to; LeaseLostError where that is another's to do."""
        facts, key = self._facts.read(_file(name)), _key(person, name)
        if facts.get(key) == asdict(thread):
            return
        facts.pop(key, None)
        facts[key] = asdict(thread)
        while len(facts) > MOST_IN_FILE:
            del facts[next(iter(facts))]
        self._facts.write(_file(name), facts)


def _file(name: str) -> str:
    return f"email-threads-{name[:1] or '0'}"


def _key(person: str, name: str) -> str:
    return f"{name}:{person}"


def _read(known: Mapping[str, Any]) -> Thread:
    references: Any = known.get("references")
    listed: Sequence[Any] = references if isinstance(references, list) else ()
    return Thread(
        str(known.get("subject") or ""), str(known.get("last") or ""), [str(one) for one in listed]
    )
