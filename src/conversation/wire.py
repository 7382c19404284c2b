"""Events of a turn as lines of JSON and back, for a viewer in another process."""

from __future__ import annotations

import json
from typing import Any

from agent import events
from agent.model import Usage

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        events.TurnStarted,
        events.TextStreamed,
        events.ReasoningStreamed,
        events.StreamRestarted,
        events.ToolStarted,
        events.ToolProgressed,
        events.ToolFinished,
        events.ReplyFinished,
        events.Steered,
        events.Compressing,
        events.Compressed,
        events.Noticed,
        events.QuestionAsked,
        events.QuestionClosed,
        events.BackgroundFinished,
        events.NoteStored,
        events.TitleSet,
        events.ReviewFinished,
        events.TurnFinished,
    )
}
"""Every event that can be sent; a test compares it with `agent.events.Event`."""


def encode(number: int, event: events.Event) -> bytes:
    """One event, as a line."""
    fields = event._asdict()
    if isinstance(event, events.ReplyFinished):
        fields["usage"] = event.usage.as_dict()
    line = {"number": number, "event": type(event).__name__, "fields": fields}
    return json.dumps(line, ensure_ascii=True, default=str).encode() + b"\n"


def decode(line: bytes) -> tuple[int, events.Event | None]:
    """The event of a line, with its number; None if this version does not know the event."""
    given = json.loads(line)
    kind = KINDS.get(given["event"])
    if kind is None:
        return int(given["number"]), None
    fields = given["fields"]
    if kind is events.ReplyFinished:
        known = Usage().as_dict().keys() & fields["usage"].keys()
        fields["usage"] = Usage(**{name: fields["usage"][name] for name in known})
    known_fields = {name: fields[name] for name in kind._fields if name in fields}
    event: events.Event = kind(**known_fields)
    return int(given["number"]), event
