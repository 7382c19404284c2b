"""Shapes of what is read of stored conversations, whether or not they are live."""

from __future__ import annotations

from typing import Any, TypedDict

from .shapes import Grant, WireMessage, WireSession


class Hello(TypedDict):
    """Who a client is, and what it may do."""

    person_id: str
    person: str
    role: str
    scope: str
    """full, or read for a device that may only look."""
    scopes: list[str]
    device_id: str
    version: str


class MessagesPage(TypedDict):
    """Some messages of a conversation, in order."""

    id: str
    """The session in which the conversation is now."""
    messages: list[WireMessage]
    older: bool
    newer: bool


class Watching(TypedDict):
    """That a client is told of changes of the list, with the list as it is."""

    sessions: list[WireSession]


class ChangedSessions(TypedDict):
    """Conversations that were changed, or are new, since a client was last told."""

    sessions: list[WireSession]


class InboxApproval(TypedDict):
    """An approval request, waiting or decided."""

    request_id: str
    session_id: str
    title: str
    source: str
    command: str
    description: str
    pattern_keys: list[str]
    created_at: float
    expires_at: float
    state: str
    choice: str
    how: str
    """What decided: person, timeout, granted, smart, …"""
    decided_by: str
    decided_at: float | None


class InboxQuestion(TypedDict):
    """A question of a running turn that waits for an answer."""

    session_id: str
    """The live session."""
    stored_session_id: str
    title: str
    type: str
    payload: dict[str, Any]


class WaitingMessage(TypedDict):
    """A message that no turn has begun with."""

    session_id: str
    title: str
    source: str
    text: str
    received_at: float


class Owed(TypedDict):
    """A delivery to a chat that is not done, or was given up."""

    id: str
    session_key: str
    platform: str
    state: str
    """pending, sending or failed."""
    attempts: int
    error: str
    """Why the last attempt failed."""
    created_at: float
    text: str
    may_be_missing: bool
    """Whether it was begun and nobody knows whether it arrived."""


class Inbox(TypedDict):
    """What needs a person, and what was decided."""

    needs: int
    approvals: list[InboxApproval]
    questions: list[InboxQuestion]
    waiting: list[WaitingMessage]
    owed: list[Owed]
    decided: list[InboxApproval]
    grants: list[Grant]


class Decided(TypedDict):
    """Whether it was this answer that counted."""

    decided: bool


class FamilyMember(TypedDict):
    """A session among those that hang together."""

    id: str
    parent: str | None
    relation: str
    """root, continuation, branch, delegate or child."""
    conversation_id: str | None
    title: str | None
    source: str
    model: str | None
    started_at: float
    ended_at: float | None
    end_reason: str | None
    message_count: int
    tokens: int
    cost_usd: float | None


class Family(TypedDict):
    """Everything that came of a conversation, parents before their children."""

    id: str
    members: list[FamilyMember]


class Turns(TypedDict):
    """Turns of a conversation, the newest first."""

    id: str
    turns: list[Any]
    """Each with message_id, text, began_at, ended_at, process, attempts, and steps: kind (model,
    tool, compression, …), name, began_at, seconds, first_token_seconds, tokens, cost, outcome."""


class DeviceInfo(TypedDict):
    """A browser that may come in."""

    id: str
    name: str
    person: str
    scope: str
    made_at: float
    used_at: float | None
    current: bool
    """Whether it is the one that asks."""


class Devices(TypedDict):
    """Browsers that may come in."""

    devices: list[DeviceInfo]


class DeviceCode(TypedDict):
    """A code that lets one browser in."""

    code: str


class Activity(TypedDict):
    """What was used when, and with what."""

    days_back: int
    by: str
    messages: dict[str, int]
    """By day."""
    spent: list[dict[str, Any]]
    """By day and group: calls, tokens, cost_usd."""
    counted: list[dict[str, Any]]
    """By day and group: messages of a person or a source, or uses of a tool."""
    names: dict[str, str]
    """Of the persons among the groups, by their ids."""
    times: list[dict[str, Any]]
    """What people sent, by weekday and hour."""
    tools: list[dict[str, Any]]
    """Each with name, uses, seconds (the median of its newest runs), and unknown: how many were
    lost in a crash."""
    sources: list[dict[str, Any]]


class DayConversation(TypedDict):
    """What a conversation used on a day."""

    id: str
    title: str
    source: str
    messages: int
    tools: int
    calls: int
    tokens: int
    cost_usd: float


class Day(TypedDict):
    """The conversations of a day."""

    day: str
    conversations: list[DayConversation]


class BackupPoint(TypedDict):
    """A point that can be gone back to."""

    number: int
    at: float
    bytes: int


class Proof(TypedDict):
    """The last time that a backup point was restored aside and everything was there."""

    number: int
    at: float


class SearchState(TypedDict):
    """How search is."""

    bytes: int
    unread: int | None
    """Messages that the next search reads first; null if the index is not there yet, or damaged."""


class Ailment(TypedDict):
    """Something wrong, or worth knowing."""

    problem: str
    advice: str
    fixable: bool
    """Whether `doctor.mend` puts it right."""
    hint: bool
    """Worth knowing; nothing is wrong."""


class ExaminedPart(TypedDict):
    """What the doctor found about a part."""

    name: str
    ailments: list[Ailment]
    fixed: list[str]
    """What was wrong before it was fixed just now."""


class Examined(TypedDict):
    """What the doctor found."""

    parts: list[ExaminedPart]


class Proven(TypedDict):
    """What a restored backup point held."""

    number: int
    messages: int
    damage: str
    """What is wrong with it; empty if nothing is."""


class Overview(TypedDict):
    """How the parts of Hermes are."""

    version: str
    gateway: dict[str, Any]
    waiting: int
    owed: int
    may_be_missing: int
    store: dict[str, Any]
    search: SearchState
    backups: list[BackupPoint]
    """The newest ones, the oldest of them first."""
    proof: Proof | None
    log: list[str]
