"""Shapes of what goes over the wire, and how stored rows become them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

if TYPE_CHECKING:
    from hermes_state import PersonView


class WireMessage(TypedDict, total=False):
    """A message as clients show it."""

    id: int | None
    role: str
    content: Any
    timestamp: float | None
    tool_calls: list[dict[str, Any]]
    tool_call_id: str
    tool_name: str
    outcome: str
    """Of a tool's result: "unknown" if its process died while it ran, and it may have taken effect
    or not."""
    reasoning: str
    note: str
    """Of a message that no person sent: compression (the record that stands for earlier messages),
    bridge, or background."""
    undone: bool
    """Whether it was taken back."""


class WaitingPrompt(TypedDict):
    """A message that was accepted and waits for its turn."""

    message_id: str
    """As its client knows it."""
    text: str


class SessionInfo(TypedDict):
    """What a front end shows about a session."""

    model: str
    provider: str
    cwd: str
    branch: str
    title: str
    running: bool
    reasoning_effort: str
    approval_mode: str
    mode: str
    """What the agent may do: plan, guarded or full."""
    yolo: bool
    """Whether dangerous commands run without asking."""
    folders: list[str]
    """The folders that were added to the conversation, besides its own."""
    stored_session_id: str
    version: str
    usage: dict[str, Any]
    """Tokens since the session is live."""
    skin: str
    config_warning: NotRequired[str]
    """What a person should know about the configuration; several sentences are lines."""


class Inflight(TypedDict):
    """The message that is being answered, and the answer so far."""

    user: str
    timestamp: float | None
    assistant: str
    streaming: bool
    recovered: bool
    """Whether the process that began with it died, and this one has taken it over."""


class PendingQuestion(TypedDict):
    """A question that waits for an answer, as the event that asked it."""

    type: str
    payload: dict[str, Any]


class Opened(TypedDict):
    """A live session and everything a client needs to show it."""

    session_id: str
    stored_session_id: str
    session_key: str
    message_count: int
    messages: list[WireMessage]
    older: bool
    """Whether there are messages before these; see conversation.messages."""
    waiting: list[WaitingPrompt]
    info: SessionInfo
    running: bool
    status: str
    """running, idle, or elsewhere: another process answers; its text comes as events if it runs on
    this machine or the store is on a server, and history.changed tells when it has ended."""
    inflight: Inflight | None
    pending: list[PendingQuestion]
    asked_elsewhere: list[str]
    """What the other process asks the person now and can only be answered there."""
    started_at: float
    latest_seq: int
    epoch: str


class Submitted(TypedDict):
    """What became of a message."""

    status: str
    """streaming, queued, steered, interrupting, or known if it was sent before."""


class Steered(TypedDict):
    """What became of a message to a running turn."""

    status: str
    """steered or queued."""
    text: str


class Status(TypedDict):
    """How it went, in a word."""

    status: str


class Resolved(TypedDict):
    """How many questions were answered."""

    resolved: int


class PendingApproval(TypedDict):
    """A pending approval request."""

    request_id: str
    command: str
    description: str
    pattern_keys: list[str]
    expires_at: float
    is_live: bool
    """Whether a turn waits for it; otherwise the answer counts when it is asked again."""


class PendingApprovals(TypedDict):
    """The pending approval requests of a conversation."""

    approvals: list[PendingApproval]


class Grant(TypedDict):
    """Something a tool may always do."""

    pattern_key: str
    description: str
    """The same, in words."""
    granted_by: str
    """Who allowed it; empty for whoever sits at the machine."""
    granted_at: float


class Grants(TypedDict):
    """What tools may always do."""

    grants: list[Grant]


class Revoked(TypedDict):
    """How many of them are asked about again."""

    revoked: int


class WireEvent(TypedDict):
    """An event, as in the notifications."""

    type: str
    session_id: str
    seq: int
    payload: NotRequired[dict[str, Any]]


class Missed(TypedDict):
    """What happened since a client last looked."""

    events: list[WireEvent]
    latest_seq: int
    truncated: bool
    epoch: str
    snapshot: Opened | None


class WireSession(TypedDict):
    """A stored conversation in a list."""

    id: str
    title: str | None
    preview: str
    started_at: float
    last_active: float | None
    message_count: int
    source: str
    model: str | None
    waiting: bool
    running: bool
    """Whether a turn runs in it, here or in another process."""


class SessionList(TypedDict):
    """Stored conversations."""

    sessions: list[WireSession]


class MostRecent(TypedDict):
    """The conversation that was used last; all null if there is none."""

    session_id: str | None
    title: str | None
    started_at: float | None
    source: str | None


class ActiveSession(TypedDict):
    """A live session in a list."""

    session_id: str
    session_key: str
    title: str
    running: bool
    started_at: float
    last_active: float
    current: bool


class ActiveSessions(TypedDict):
    """The live sessions of the server."""

    sessions: list[ActiveSession]


class Closed(TypedDict):
    """Whether there was something to close."""

    closed: bool


class Deleted(TypedDict):
    """Whether there was something to delete."""

    deleted: bool


_MESSAGE_KEYS = ("id", "timestamp", "tool_calls", "tool_call_id", "tool_name", "reasoning")


def message(stored: dict[str, Any]) -> WireMessage:
    """A stored message as clients get it."""
    shown: dict[str, Any] = {"role": stored["role"], "content": stored.get("content")}
    for name in _MESSAGE_KEYS:
        if stored.get(name) is not None:
            shown[name] = stored[name]
    if stored.get("effect_disposition") == "unknown":
        shown["outcome"] = "unknown"
    if (note := _note_of(stored)) is not None:
        shown["note"] = note
    if stored.get("active") == 0 and not stored.get("compacted"):
        shown["undone"] = True
    return shown  # type: ignore[return-value]


_NOTES = {"compression_record": "compression", "compression_bridge": "bridge"}


def _note_of(stored: dict[str, Any]) -> str | None:
    """What a message is that no person sent; None if somebody sent it, or a model."""
    reason = stored.get("finish_reason")
    return _NOTES.get(reason or "") or (
        "background" if reason and stored["role"] == "user" else None
    )


def stored_messages(here: PersonView, key: str) -> list[WireMessage]:
    """Everything that was said in a conversation, as clients get it; nothing for an unknown one."""
    if here.session(key) is None:
        return []
    return [message(stored) for stored in here.to_resume(key)[1]]


def session(row: dict[str, Any], *, running: bool = False) -> WireSession:
    """A row of a list of sessions."""
    return {
        "id": row["id"],
        "title": row.get("title"),
        "preview": str(row.get("preview") or ""),
        "started_at": row["started_at"],
        "last_active": row.get("last_active"),
        "message_count": int(row.get("message_count") or 0),
        "source": row["source"],
        "model": row.get("model"),
        "waiting": False,
        "running": running,
    }


def waiting_session(row: dict[str, Any]) -> WireSession:
    """A conversation of which only a waiting message is known yet."""
    content = row["content"]
    return {
        "id": row["session_id"],
        "title": None,
        "preview": content[:80] if isinstance(content, str) else "",
        "started_at": row["received_at"],
        "last_active": row["received_at"],
        "message_count": 0,
        "source": row["source"],
        "model": None,
        "waiting": True,
        "running": False,
    }
