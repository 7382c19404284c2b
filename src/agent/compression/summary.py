"""The typed record of what was said earlier, and how it stands in a conversation.

A `Summary` is a list of short entries of a few kinds, each with the ids of the messages it comes
from. It is rendered as one user message that says what it is. The next compression reads it back
from there, so it needs no other memory: parsing what was rendered gives the same summary.

Only a message that carries `RECORD` in its `finish_reason` is read as a record. Text alone, which
anybody can write, is never enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agent.model import Message
from hermes_state import ROW_ID

KINDS = ("goal", "decision", "open", "fact", "note", "file")
"""What an entry can be, in the order in which they are shown. A note is something that nobody
judged: it sounded as if it might matter."""
HEADINGS = {
    "goal": "Goal:",
    "decision": "Decisions:",
    "open": "Open points:",
    "fact": "Facts:",
    "note": "Also said:",
    "file": "Files:",
}

LONGEST_TEXT = 240
"""Characters of an entry; what is longer is cut."""
MOST_ENTRIES = 160
MOST_ROWS = 3
"""Messages an entry points at: the first one and the newest ones."""

RECORD = "compression_record"
BRIDGE = "compression_bridge"
"""`finish_reason` of the messages that compression itself puts into a conversation."""

_BEGIN = (
    "[Record of earlier messages that were left out to save room. It is no request: do nothing"
    " because of it alone. #n names an original message; session_search(around_message_id=n)"
    " reads it."
)
_BRIDGES = {"assistant": "[Read.]", "user": "[Messages were left out here to save room.]"}
_END = "[End of the record.]"
_COVERED = re.compile(r"(?<!\d)(\d{1,15}) messages and (\d{1,15}) images left out so far\.\]")
_ROWS = re.compile(r" \[((?:#\d+ ?)+)\]$")
_POINTER = re.compile(r"\[\s*#[\d\s#,]*\]?")
_KIND_OF = {heading: kind for kind, heading in HEADINGS.items()}


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing worth knowing."""

    kind: str
    """One of KINDS."""
    text: str
    """One line."""
    rows: tuple[int, ...] = ()
    """The ids of the messages it comes from, oldest first."""

    @property
    def newest(self) -> int:
        """The latest message that speaks of it; 0 if unknown."""
        return self.rows[-1] if self.rows else 0

    def line(self) -> str:
        """The entry as it stands in the record."""
        pointers = " ".join(f"#{row}" for row in self.rows)
        return f"- {self.text} [{pointers}]" if pointers else f"- {self.text}"


@dataclass(frozen=True, slots=True)
class Summary:
    """What is known of the part of a conversation that is not shown any more."""

    entries: tuple[Entry, ...] = ()
    covered: int = 0
    """How many messages it stands for."""
    images: int = 0
    """How many pictures were among them."""

    def of_kind(self, kind: str) -> list[Entry]:
        """The entries of one kind."""
        return [entry for entry in self.entries if entry.kind == kind]

    def render(self) -> str:
        """The record as text; `parse` reads it back."""
        lines = [f"{_BEGIN} {self.covered} messages and {self.images} images left out so far.]"]
        for kind in KINDS:
            entries = self.of_kind(kind)
            if entries:
                lines += [HEADINGS[kind], *(entry.line() for entry in entries)]
        return "\n".join([*lines, _END])

    def message(self) -> Message:
        """The record as a message of the conversation."""
        return {"role": "user", "content": self.render(), "finish_reason": RECORD}


def bridge(role: str) -> Message:
    """A word between two messages of one role, so that roles alternate; `role` is the other."""
    return {"role": role, "content": _BRIDGES[role], "finish_reason": BRIDGE}


def is_record(message: Message) -> bool:
    """Whether compression wrote this message as its record."""
    return (
        message.get("role") == "user"
        and message.get("finish_reason") == RECORD
        and _first_text(message).startswith(_BEGIN)
    )


def behind_record(message: Message) -> Message | None:
    """What the user said in the same message after a record, where the two were made one."""
    text = _first_text(message).partition(f"\n{_END}")[2].strip()
    content = message.get("content")
    parts = content[1:] if isinstance(content, list) else []
    if not text and not parts:
        return None
    said = {name: value for name, value in message.items() if name != "finish_reason"}
    if not parts:
        return {**said, "content": text}
    return {**said, "content": [*([{"type": "text", "text": text}] if text else []), *parts]}


def _first_text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list) and content and isinstance(content[0], dict):
        content = content[0].get("text")
    return content if isinstance(content, str) else ""


def is_bridge(message: Message) -> bool:
    """Whether compression put this message in for the sake of the roles."""
    return message.get("finish_reason") == BRIDGE and message.get("content") == _BRIDGES.get(
        str(message.get("role"))
    )


def parse(message: Message) -> Summary:
    """The summary a record message holds; whatever else stands in it is passed over."""
    own_row = row_of(message)
    content = _first_text(message)
    covered = _COVERED.search(content)
    entries = []
    kind = ""
    for line in content.split("\n"):
        if line == _END:
            break
        if line in _KIND_OF:
            kind = _KIND_OF[line]
        elif kind and line.startswith("- "):
            pointers = _ROWS.search(line)
            rows = [int(row) for row in re.findall(r"\d+", pointers[1])] if pointers else []
            # A record points back: a later row was not there when it was written.
            rows = [row for row in rows if own_row is None or row < own_row]
            text = line[2 : pointers.start()] if pointers else line[2:]
            entry = make_entry(kind, text, rows)
            if entry is not None:
                entries.append(entry)
    return Summary(
        tuple(entries[:MOST_ENTRIES]),
        covered=int(covered[1]) if covered else 0,
        images=int(covered[2]) if covered else 0,
    )


def make_entry(kind: str, text: Any, rows: Iterable[int] = ()) -> Entry | None:
    """An entry within its bounds; None if there is nothing to say."""
    clean = one_line(text) if isinstance(text, str) else ""
    if kind not in KINDS or not clean:
        return None
    return Entry(kind, clean, few_rows(rows))


def one_line(text: str, limit: int = LONGEST_TEXT) -> str:
    """Text as it may stand in an entry: one bounded line, without pointers or frames."""
    text = _POINTER.sub("", text[: limit * 4])
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    text = text.replace("[Record of", "(Record of").replace("[End of", "(End of")
    text = text.lstrip("-*• ")
    if len(text) > limit:
        text = text[: limit - 1].rsplit(" ", 1)[0][: limit - 1] + "…"
    return text


def few_rows(rows: Iterable[int]) -> tuple[int, ...]:
    """The first and the newest of some message ids, in order."""
    known: Sequence[int] = sorted({row for row in rows if row > 0})
    return tuple(known if len(known) <= MOST_ROWS else [known[0], *known[1 - MOST_ROWS :]])


def row_of(message: Message) -> int | None:
    """The id a stored message carries; None for one that is not stored."""
    row = message.get(ROW_ID)
    return row if isinstance(row, int) and not isinstance(row, bool) and row > 0 else None
