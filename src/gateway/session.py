"""Where a conversation is reached from, and which session a key is bound to.

A `SessionEntry` is what the gateway remembers about a key. The truth about which session a
conversation is in is the store's; an entry that points at a compressed or ended session heals
itself when it is used (`session_store`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from .config import Platform

if TYPE_CHECKING:
    from hermes_state import Person

_UNSAFE_ID = re.compile(r"[/\\\x00]|^\.|\.\.|^[A-Za-z]:")


@dataclass(slots=True)
class SessionSource:
    """Where a message came from."""

    platform: Platform
    chat_id: str = ""
    chat_name: str | None = None
    chat_type: str = "dm"
    """dm, group, channel or thread."""
    user_id: str | None = None
    user_name: str | None = None
    thread_id: str | None = None
    chat_topic: str | None = None
    user_id_alt: str | None = None
    chat_id_alt: str | None = None
    is_bot: bool = False
    scope_id: str | None = None
    parent_chat_id: str | None = None
    message_id: str | None = None
    role_authorized: bool = False
    profile: str | None = None
    auto_thread_created: bool = False
    auto_thread_initial_name: str | None = None
    delivered_via_upstream_relay: bool = False
    person: Person | None = field(default=None, compare=False)
    """Who the sender is, once that was looked up; not kept, since it may change."""
    doors: tuple[str, ...] = field(default=(), compare=False)
    """Every door of theirs, if that was looked up too; not kept either."""

    @property
    def guild_id(self) -> str | None:
        """The older name of `scope_id`."""
        return self.scope_id

    @property
    def door(self) -> str | None:
        """The account that it came from; None if the platform does not say."""
        account = self.user_id_alt or self.user_id
        return f"{self.platform.value}:{account}" if account else None

    @property
    def owner(self) -> str | None:
        """The id of the person whose history this is. Until they are looked up it is their door,
        which is the id of whoever has no other."""
        return self.person.id if self.person is not None else self.door

    @property
    def group(self) -> str | None:
        """The chat, if others read along in it ("telegram:-100")."""
        is_alone = self.chat_type in ("", "dm") or not self.chat_id
        return None if is_alone else f"{self.platform.value}:{self.chat_id}"

    def to_dict(self) -> dict[str, Any]:
        """As it is kept; what is empty is left out."""
        kept = {name: getattr(self, name) for name in _SOURCE_FIELDS}
        fields = {name: value for name, value in kept.items() if value not in (None, "", False)}
        fields["platform"] = self.platform.value
        if self.scope_id:
            fields["guild_id"] = self.scope_id
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionSource:
        """From what was kept; keys of other versions are passed over."""
        values = {name: value for name, value in data.items() if name in _SOURCE_FIELDS}
        values.setdefault("scope_id", data.get("guild_id"))
        values["platform"] = Platform.of(str(data["platform"]))
        return cls(**values)


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """The key a message's conversation is reached under, e.g. "agent:main:telegram:dm:42"."""
    name = profile or source.profile
    namespace = "agent:main" if name in (None, "", "default") else f"agent:{name}"
    participant = source.user_id_alt or source.user_id
    parts = [namespace, source.platform.value]
    if source.chat_type == "dm":
        parts.append("dm")
        if source.chat_id or participant:
            parts.append(str(source.chat_id or participant))
        if source.thread_id:
            parts.append(str(source.thread_id))
        return ":".join(parts)
    parts.append(source.chat_type)
    parts += [str(part) for part in (source.chat_id, source.thread_id) if part]
    alone = group_sessions_per_user and (not source.thread_id or thread_sessions_per_user)
    if alone and participant:
        parts.append(str(participant))
    return ":".join(parts)


@dataclass(slots=True)
class SessionEntry:
    """What the gateway remembers about a session key."""

    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    display_name: str | None = None
    platform: Platform | None = None
    chat_type: str = "dm"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    last_prompt_tokens: int = 0
    estimated_cost_usd: float = 0.0
    cost_status: str = "unknown"
    expiry_finalized: bool = False
    suspended: bool = False
    resume_pending: bool = False
    resume_reason: str | None = None
    last_resume_marked_at: datetime | None = None
    is_fresh_reset: bool = False
    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    model_override: dict[str, str] | None = None
    origin: SessionSource | None = None
    linked: bool | None = None
    """Whether other chats are (or were) in the same conversation on purpose, and see this one."""
    follows: bool | None = None
    """Whether the chat is shown what its person says elsewhere in the conversation it is in."""
    options: dict[str, str] | None = None
    """What a person set for the conversation, with that conversation's name (`chat_options`)."""
    wished_title: str | None = None
    """What the conversation is to be called once something is said in it."""
    finalize_failures: int = field(default=0, compare=False)
    """How often finalizing this session failed; not stored."""

    def to_dict(self, *, is_shared: bool = False) -> dict[str, Any]:
        """As it is kept in the store and in sessions.json: with times of this machine's zone, and
        where other machines read it too (`is_shared`) with which one that is."""
        fields: dict[str, Any] = {}
        if is_shared and (offset := self.updated_at.astimezone().utcoffset()) is not None:
            fields[_ZONE] = offset.total_seconds()
        for name in _ENTRY_FIELDS:
            value = getattr(self, name)
            if value is None and name in OPTIONAL:
                continue
            if isinstance(value, datetime):
                value = value.isoformat()
            elif isinstance(value, SessionSource):
                value = value.to_dict()
            elif isinstance(value, Platform):
                value = value.value
            fields[name] = value
        return fields

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SessionEntry:
        """From what was kept. Raises ValueError if the session id could name a path."""
        session_id = str(data["session_id"])
        if not session_id or _UNSAFE_ID.search(session_id):
            raise ValueError(f"{session_id!r} is not a session id")
        values = {name: value for name, value in data.items() if name in _ENTRY_FIELDS}
        # Older files have it under another name.
        values.setdefault("expiry_finalized", bool(data.get("memory_flushed", False)))
        for name in ("created_at", "updated_at", "last_resume_marked_at"):
            if values.get(name) is not None:
                values[name] = datetime.fromisoformat(str(values[name]))
        if data.get(_ZONE) is not None and "updated_at" in values:
            zone = timezone(timedelta(seconds=float(data[_ZONE])))
            here = values["updated_at"].replace(tzinfo=zone).astimezone()
            values["updated_at"] = here.replace(tzinfo=None)
        values.setdefault("created_at", datetime.now())
        values.setdefault("updated_at", values["created_at"])
        platform = values.get("platform")
        values["platform"] = _platform(platform)
        origin = values.get("origin")
        values["origin"] = _origin(origin) if isinstance(origin, Mapping) else None
        if not isinstance(values.get("options"), dict):
            values["options"] = None
        return cls(**values)


def _platform(name: Any) -> Platform | None:
    try:
        return Platform.of(str(name))
    except ValueError:
        return None


def _kept(kind: type, *left_out: str) -> dict[str, None]:
    """The names of the fields that are kept, in their order, to be looked up quickly."""
    return {field.name: None for field in dataclasses.fields(kind) if field.name not in left_out}


_SOURCE_FIELDS = _kept(SessionSource, "delivered_via_upstream_relay", "person", "doors")
_ENTRY_FIELDS = _kept(SessionEntry, "finalize_failures")
_ZONE = "utc_offset"
"""How many seconds the clock of whoever wrote `updated_at` is ahead of UTC."""
OPTIONAL = ("model_override", "origin", "linked", "follows", "options", "wished_title")
"""The fields that are kept only if they are not None."""


def _origin(data: Mapping[str, Any]) -> SessionSource | None:
    try:
        return SessionSource.from_dict(data)
    except (KeyError, TypeError, ValueError):
        return None  # of a platform this version does not know; the key still tells the chat
