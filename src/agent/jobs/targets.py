"""Where the answers of jobs go: a chat as the outbox names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import JobError, person_of

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import SessionDB

    from .job import Job


def address_of(config: Config, db: SessionDB, job: Job) -> Mapping[str, Any] | None:
    """The chat that a job's answer goes to; None if it goes nowhere."""
    settings = job.settings
    if settings.deliver == "chat":
        return settings.to
    return home_chat(config, db, job.user_id) if settings.deliver == "home" else None


def group_of(address: Mapping[str, Any] | None) -> str | None:
    """The chat that a job answers in, if others read along there; None if nobody does."""
    if address is None:
        return None
    kind = str(address["session_key"]).split(":")[3:4]
    return None if kind in ([], ["dm"]) else f"{address['platform']}:{address['chat_id']}"


def home_chat(config: Config, db: SessionDB, user_id: str | None) -> Mapping[str, Any] | None:
    """The home chat of a job's owner; None if they have none.

    Home chats are the operator's, unless it is the chat of somebody's own account.
    """
    owner = person_of(user_id)
    for platform, section in config.section("platforms").items():
        kept = db.get_meta(f"home_chat:{platform}")
        source = _read(kept) if kept else _configured(section)
        if not source or not source.get("chat_id"):
            continue
        if user_id is not None and not _is_of(db, str(platform), source, owner):
            continue
        return _address(str(platform), source)
    return None


def parse_target(config: Config, db: SessionDB, text: str) -> tuple[str, dict[str, Any]]:
    """What "home", "none", "telegram" or "telegram:42" stands for: `deliver` and `to`."""
    wanted = text.strip()
    if wanted.lower() in ("none", "home", "local", "origin"):
        return {"local": "none", "origin": "home"}.get(wanted.lower(), wanted.lower()), {}
    platform, _, chat = wanted.partition(":")
    platforms = config.section("platforms")
    if platform not in platforms:
        known = ", ".join(map(str, platforms)) or "none is configured"
        raise JobError(f"There is no platform {platform!r} here ({known}).")
    if not chat:
        kept = db.get_meta(f"home_chat:{platform}")
        source = _read(kept) if kept else _configured(platforms[platform])
        if not source or not source.get("chat_id"):
            raise JobError(
                f"{platform} has no home chat; say /sethome in it, or name a chat:"
                f" {platform}:CHAT_ID"
            )
        return "chat", _address(platform, source)
    chat_id, _, thread = chat.partition(":")
    return "chat", _address(platform, {"chat_id": chat_id, "thread_id": thread or None})


def _read(kept: str) -> Mapping[str, Any] | None:
    try:
        source = json.loads(kept)
    except ValueError:
        return None
    return source if isinstance(source, dict) else None


def _configured(section: Any) -> Mapping[str, Any] | None:
    given = section.get("home_channel") if isinstance(section, Mapping) else None
    if not given:
        return None
    return given if isinstance(given, Mapping) else {"chat_id": str(given)}


def _is_of(db: SessionDB, platform: str, source: Mapping[str, Any], owner: str) -> bool:
    account = source.get("user_id_alt") or source.get("user_id")
    person = db.find_person(f"{platform}:{account}") if account else None
    return (person.id if person is not None else f"{platform}:{account}") == owner


def _address(platform: str, source: Mapping[str, Any]) -> dict[str, Any]:
    chat_id, thread = str(source["chat_id"]), source.get("thread_id")
    kind = str(source.get("chat_type") or "dm")
    parts = ["agent:main", platform, kind, chat_id, *([str(thread)] if thread else [])]
    return {
        "session_key": ":".join(parts),
        "platform": platform,
        "chat_id": chat_id,
        "thread_id": thread,
    }
