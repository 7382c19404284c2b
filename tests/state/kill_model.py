"""A plain model of the store for the kill test: what each operation must come to.

An operation is a tuple of plain values; `choose` makes one that fits the state, `perform` does it
to a SessionDB, `State.apply` does it to the model. `observe` reads a SessionDB as such a state.
"""

from __future__ import annotations

import copy
import json
import random
import re
from dataclasses import dataclass, field
from typing import Any

from hermes_state import SessionDB

from .raw import check_sound

Operation = tuple[Any, ...]
LIVE, COMPACTED = 1, 0


@dataclass
class Session:
    end_reason: str | None = None
    title: str | None = None
    parent: str | None = None
    continuation_of: str | None = None
    conversation: str = ""
    tokens: int = 0
    messages: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Role, content, number of tool calls, live or compacted."""

    def live(self) -> list[tuple[str, str, int, int]]:
        return [message for message in self.messages if message[3] == LIVE]


@dataclass
class State:
    sessions: dict[str, Session] = field(default_factory=dict)
    routes: dict[str, str] = field(default_factory=dict)

    def continuation(self, name: str) -> str | None:
        return next((k for k, s in self.sessions.items() if s.continuation_of == name), None)

    def next_title(self, title: str | None) -> str | None:
        if title is None:
            return None
        base = title.split(" #")[0]
        numbered = re.compile(re.escape(base) + r"(?: #(\d+))?$")
        found = [numbered.match(s.title) for s in self.sessions.values() if s.title]
        return f"{base} #{max(int(match[1] or 1) for match in found if match) + 1}"

    def after(self, operation: Operation) -> State:
        state = copy.deepcopy(self)
        state.apply(operation)
        return state

    def apply(self, operation: Operation) -> None:
        kind, name, *rest = operation
        getattr(self, f"_{kind}")(name, *rest)

    def _create(self, name: str) -> None:
        self.sessions[name] = Session(conversation=name)

    def _append(self, name: str, messages: list[tuple[str, str, int]]) -> None:
        self.sessions[name].messages += [(*message, LIVE) for message in messages]

    def _end(self, name: str, reason: str) -> None:
        self.sessions[name].end_reason = reason

    def _reopen(self, name: str) -> None:
        self.sessions[name].end_reason = None

    def _title(self, name: str, title: str) -> None:
        self.sessions[name].title = title

    def _route(self, name: str, key: str) -> None:
        self.routes[key] = name

    def _usage(self, name: str, tokens: int) -> None:
        self.sessions[name].tokens += tokens

    def _rotate(self, name: str, new: str, summary: str, unsaved: str, keep: int) -> None:
        parent = self.sessions[name]
        kept = parent.live()[-keep:]
        parent.messages.append(("assistant", unsaved, 0, LIVE))
        parent.end_reason = "compression"
        title = self.next_title(parent.title)
        self.sessions[new] = Session(
            title=title,
            parent=name,
            continuation_of=name,
            conversation=parent.conversation,
            messages=[("user", summary, 0, LIVE), *kept],
        )
        self.routes = {key: new if to == name else to for key, to in self.routes.items()}

    def _compact(self, name: str, summary: str, keep: int) -> None:
        session = self.sessions[name]
        kept = session.live()[-keep:]
        archived = [(*message[:3], COMPACTED) for message in session.messages]
        session.messages = [*archived, ("user", summary, 0, LIVE), *kept]

    def _branch(self, name: str, new: str) -> None:
        parent = self.sessions[name]
        self.sessions[new] = Session(
            title=self.next_title(parent.title),
            parent=name,
            conversation=new,
            messages=parent.live(),
        )

    def _delete(self, name: str) -> None:
        gone, continuation = self.sessions[name], self.continuation(name)
        for session in self.sessions.values():
            if session.parent == name:
                session.parent = None
        if continuation is not None:
            joined = gone.continuation_of is not None
            self.sessions[continuation].continuation_of = gone.continuation_of
            self.sessions[continuation].parent = gone.parent if joined else None
        del self.sessions[name]


_WEIGHTS = {
    "create": 1, "append": 12, "end": 1, "reopen": 1, "title": 2, "route": 2, "usage": 2,
    "rotate": 6, "compact": 3, "branch": 2,
}  # fmt: skip


def choose(chance: random.Random, state: State, unique: str) -> Operation:
    """An operation that can be done in this state; `unique` makes its ids and texts new."""
    live = [name for name, s in state.sessions.items() if s.end_reason is None]
    ended = [name for name, s in state.sessions.items() if s.end_reason == "cli_close"]
    if len(live) < 3:
        return ("create", f"s{unique}")
    name = chance.choice(live)
    kinds = dict(_WEIGHTS, delete=12 if len(state.sessions) > 60 else 1)
    kind = chance.choices(list(kinds), list(kinds.values()))[0]
    if kind == "append":
        texts = [f"{unique}.{n} ".ljust(chance.choice([20, 900, 6000]), "x") for n in range(4)]
        said = [(chance.choice(["user", "assistant"]), text, chance.randrange(3)) for text in texts]
        return ("append", name, said[: chance.randrange(1, 5)])
    if kind == "reopen":
        return ("reopen", chance.choice(ended)) if ended else ("end", name, "cli_close")
    if kind == "delete":
        # A tip that goes on from another is kept: without it the conversation would have no end.
        able = [
            one
            for one, session in state.sessions.items()
            if session.continuation_of is None or state.continuation(one)
        ]
        return ("delete", chance.choice(able)) if able else ("create", f"s{unique}")
    return {
        "create": ("create", f"s{unique}"),
        "end": ("end", name, "cli_close"),
        "title": ("title", name, f"Title {unique}"),
        "route": ("route", name, f"key {chance.randrange(5)}"),
        "usage": ("usage", name, chance.randrange(1, 100)),
        "rotate": ("rotate", name, f"s{unique}", f"sum {unique}", f"late {unique}", 2),
        "compact": ("compact", name, f"sum {unique}", 2),
        "branch": ("branch", name, f"s{unique}"),
    }[kind]


def _message(role: str, content: str, calls: int) -> dict[str, Any]:
    made = [{"id": f"c{n}", "function": {"name": "f", "arguments": "{}"}} for n in range(calls)]
    return {"role": role, "content": content, "tool_calls": made or None}


def perform(db: SessionDB, operation: Operation) -> None:
    """Do the operation, in one call of the store."""
    kind, name, *rest = operation
    if kind == "create":
        db.create_session(name, "cli")
    elif kind == "append":
        messages = [_message(*message) for message in rest[0]]
        if len(messages) == 1:
            db.append_message(name, **messages[0])
        else:
            db.append_messages(name, messages)
    elif kind == "end":
        db.end_session(name, rest[0])
    elif kind == "reopen":
        db.reopen_session(name)
    elif kind == "title":
        db.set_session_title(name, rest[0])
    elif kind == "route":
        db.save_gateway_routing_entry(rest[0], json.dumps({"session_id": name}))
    elif kind == "usage":
        db.update_token_counts(name, input_tokens=rest[0], model="m")
    elif kind == "rotate":
        new, summary, unsaved, keep = rest
        kept = db.get_messages_as_conversation(name)[-keep:]
        late = [_message("assistant", unsaved, 0)]
        db.rotate_session(name, new, [_message("user", summary, 0), *kept], unsaved=late)
    elif kind == "compact":
        kept = db.get_messages_as_conversation(name)[-rest[1] :]
        db.archive_and_compact(name, [_message("user", rest[0], 0), *kept])
    elif kind == "branch":
        db.branch_session(name, rest[0])
    else:
        db.delete_session(name)


def observe(db: SessionDB) -> State:
    """The store as a state; every counter is compared with what it counts."""
    state = State()
    for row in db.list_sessions_rich(limit=-1, include_children=True):
        messages = [
            (m["role"], m["content"], len(m["tool_calls"] or []), m["active"])
            for m in db.get_messages(row["id"], include_inactive=True)
        ]
        state.sessions[row["id"]] = session = Session(
            end_reason=row["end_reason"],
            title=row["title"],
            parent=row["parent_session_id"],
            continuation_of=row["continuation_of"],
            conversation=row["conversation_id"],
            tokens=row["input_tokens"],
            messages=messages,
        )
        assert row["message_count"] == len(session.live()), row["id"]
        assert row["tool_call_count"] == sum(m[2] for m in session.live()), row["id"]
    for key, entry in db.load_gateway_routing_entries().items():
        state.routes[key] = json.loads(entry)["session_id"]
    return state


def check_whole(db: SessionDB, state: State) -> None:
    """What must hold of any store, whatever was done to it."""
    check_sound(db)
    followed = [s.continuation_of for s in state.sessions.values() if s.continuation_of]
    assert len(followed) == len(set(followed)), "a parent has two continuations"
    compressed = {name for name, s in state.sessions.items() if s.end_reason == "compression"}
    assert set(followed) == compressed, "a compressed session is not continued, or another is"
    tips = [s.conversation for name, s in state.sessions.items() if name not in compressed]
    conversations = {s.conversation for s in state.sessions.values()}
    assert sorted(tips) == sorted(conversations), "a conversation has no tip, or two"
