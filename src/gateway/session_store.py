"""Which session a chat is in: the routing table, and the rules by which a chat begins anew.

Entries live in the store's routing table; what is in memory is a cache that follows it
(`bindings`), so that several processes may serve the same chats. A decision about an entry is
retried if another process has bound its key to another session first. A key that points at a
session that was compressed elsewhere follows it to the tip; one whose session has ended begins
anew.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_state import StoreBusyError, is_owned

from .bindings import Bindings
from .config import GatewayConfig
from .session import SessionEntry, SessionSource, build_session_key

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

RESET_REASON = "session_reset"
MAX_ATTEMPTS = 100
"""How often something is decided again because another process was first."""

_LONE_SURROGATE = re.compile("[\\ud800-\\udfff]")


def sharing(
    entries: Mapping[str, SessionEntry], session_key: str, session_id: str
) -> list[SessionEntry]:
    """The entries of other keys that are bound to a session."""
    return [
        entry
        for key, entry in entries.items()
        if entry.session_id == session_id and key != session_key
    ]


def new_gateway_session_id() -> str:
    """An id for a session that begins now."""
    return f"{datetime.now():%Y%m%d_%H%M%S}_{os.urandom(4).hex()}"


class SessionStore:
    """Session keys and what they are bound to."""

    _is_on_server = False

    def __init__(
        self,
        db: SessionDB,
        config: GatewayConfig,
        *,
        home: Path | None = None,
        scope: str = "",
        is_busy: Callable[[str], bool] | None = None,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`is_busy(session_id)` says whether work in the background keeps a session from ending.
        `now` is the store's clock, by which other machines note when a chat was used."""
        self._db = db
        self._config = config
        self._home = home
        self._is_busy = is_busy or (lambda session_id: False)
        self._now = now or (lambda: datetime.fromtimestamp(db.clock))
        self._is_on_server = getattr(db, "is_on_server", False) is True
        self._lock = threading.RLock()
        self._bindings = Bindings(db, scope)

    @property
    def _entries(self) -> dict[str, SessionEntry]:
        """The entries by their keys, as the store has them now, or as they were last seen."""
        if self._must_not_wait():
            return dict(self._bindings.entries)
        with self._lock:
            self._ensure_loaded()
            return self._bindings.entries

    def _find(self, key: str) -> SessionEntry | None:
        if self._must_not_wait():
            return self._bindings.entries.get(key)
        with self._lock:
            return self._entries.get(key)

    def _must_not_wait(self) -> bool:
        """Whether this is an event loop, which a server must not hold up.

        Who only looks is told there what was last seen; whoever changes something calls from a
        thread (`AsyncSessionDB.at_hand`), and decides by what the store has.
        """
        return self._is_on_server and asyncio._get_running_loop() is not None

    def refresh(self) -> None:
        """See what other processes have changed."""
        with self._lock:
            self._ensure_loaded()

    # Finding a session

    def get_or_create_session(self, source: SessionSource, force_new: bool = False) -> SessionEntry:
        """The entry of the chat a message came from; a new one if it has none or begins anew."""
        key = self._generate_session_key(source)
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                entry = self._entries.get(key)
                if entry is None:
                    kept = self._add(key, source)
                elif force_new:
                    kept = self._replace(entry, source)
                else:
                    kept = self._continued(entry, source)
                if kept is None:
                    continue
                if entry is None:
                    return kept
                kept.updated_at = self._now()
                kept.origin = source
                if self._bindings.save(kept):
                    return kept
            raise StoreBusyError(f"Other processes keep changing what {key} is bound to.")

    def _add(self, key: str, source: SessionSource) -> SessionEntry | None:
        """Add an entry for a new chat; None if another process was first."""
        entry = self._recovered(key, source) or self._new_entry(key, source)
        return entry if self._bindings.create([entry]) else None

    def _continued(self, entry: SessionEntry, source: SessionSource) -> SessionEntry | None:
        """The entry as it goes on: healed, or replaced by a new one; None if that must wait."""
        if entry.suspended:
            return self._replace(entry, source, "suspended")
        reason = self._expired_because(entry)
        if reason is not None and not entry.resume_pending:
            # Chats that are linked stay in one conversation.
            linked = self.linked_with(entry.session_id, entry.session_key) if entry.linked else []
            return self._replace(entry, source, reason, along=linked)
        row = self._db.get_session(entry.session_id)
        if row is not None and row["end_reason"] is not None:
            tip = self._db.resolve_resume_session_id(entry.session_id)
            row = self._db.get_session(tip)
            if row is None or row["end_reason"] == RESET_REASON:
                return self._replace(entry, source)
            log.info("%s goes on in %s", entry.session_key, tip)
            self.follow(entry.session_id, tip)
            entry.session_id = tip
        entry.was_auto_reset = False
        entry.auto_reset_reason = None
        return entry

    def _recovered(self, key: str, source: SessionSource) -> SessionEntry | None:
        """An entry for a chat whose session the store still has open."""
        row = self._db.find_latest_gateway_session_for_peer(
            source=source.platform.value, session_key=key
        )
        if row is None or (source.person is not None and not is_owned(row, source.person.id)):
            return None  # none, or begun while its account was somebody else's
        entry = self._new_entry(key, source)
        entry.session_id = self._db.resolve_resume_session_id(row["id"])
        entry.is_fresh_reset = False
        return entry

    def _new_entry(self, key: str, source: SessionSource) -> SessionEntry:
        now = self._now()
        return SessionEntry(
            session_key=key,
            session_id=new_gateway_session_id(),
            created_at=now,
            updated_at=now,
            display_name=source.chat_name or source.user_name,
            platform=source.platform,
            chat_type=source.chat_type,
            origin=source,
        )

    def _replace(
        self,
        entry: SessionEntry,
        source: SessionSource | None,
        reason: str | None = None,
        along: Iterable[SessionEntry] = (),
        display_name: str | None = None,
    ) -> SessionEntry | None:
        """Bind a key, and those of the entries in `along`, to a new session.

        The old session is ended in the store, unless other chats stay in it. None if another
        process has bound the key to another session first.
        """
        others = [other.session_key for other in along]
        now = self._now()
        fresh = SessionEntry(
            session_key=entry.session_key,
            session_id=new_gateway_session_id(),
            created_at=now,
            updated_at=now,
            display_name=display_name or entry.display_name,
            platform=entry.platform,
            chat_type=entry.chat_type,
            is_fresh_reset=True,
            was_auto_reset=reason is not None,
            auto_reset_reason=reason,
            reset_had_activity=self._db.message_count(entry.session_id) > 0,
            model_override=None if reason else entry.model_override,
            origin=source or entry.origin,
            linked=True if others else None,
            follows=entry.follows,
            wished_title=entry.wished_title if reason else None,
        )
        return fresh if self._bindings.rebind(entry, fresh, others, RESET_REASON) else None

    # Changing what a key is bound to

    def reset_session(
        self, session_key: str, display_name: str | None = None
    ) -> SessionEntry | None:
        """Begin anew under a key; None if it is unknown."""
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                entry = self._entries.get(session_key)
                if entry is None:
                    return None
                fresh = self._replace(entry, None, display_name=display_name)
                if fresh is not None:
                    return fresh
            raise StoreBusyError(f"Other processes keep changing what {session_key} is bound to.")

    def switch_session(self, session_key: str, target_session_id: str) -> SessionEntry | None:
        """Bind a key to another conversation's tip; None if key or session is unknown."""
        with self._lock:
            if self._db.get_session(target_session_id) is None or session_key not in self._entries:
                return None
            tip = self._db.resolve_resume_session_id(target_session_id)
            self._db.reopen_session(tip)
            return self._change(
                session_key,
                session_id=tip,
                expiry_finalized=False,
                suspended=False,
                resume_pending=False,
                linked=None,
                updated_at=self._now(),
            )

    def follow(self, old_session_id: str, new_session_id: str) -> None:
        """A session goes on in another one: every key that is bound to it is so too."""
        if self._must_not_wait():  # a rotation has moved the rows itself
            self._bindings.follow_known(old_session_id, new_session_id)
            return
        with self._lock:
            if not self._bindings.is_loaded:
                self._ensure_loaded()
            if new_session_id != old_session_id:
                self._bindings.follow(old_session_id, new_session_id)

    def mark_linked(self, session_key: str) -> bool:
        """Let a chat see what is said in its conversation elsewhere, and the others see it."""
        return self._change(session_key, linked=True) is not None

    def set_follows(self, source: SessionSource, follows: bool) -> None:
        """Say whether a chat is shown what its person says elsewhere in the same conversation."""
        self._change(self.get_or_create_session(source).session_key, follows=follows or None)

    def linked_with(self, session_id: str, session_key: str) -> list[SessionEntry]:
        """The entries of other chats that see what is said in a session."""
        entries = self._entries
        linked = {key: entries[key] for key in list(self._bindings.linked) if key in entries}
        return sharing(linked, session_key, session_id)

    def linked_chats(self, session_id: str, session_key: str) -> list[dict[str, Any]]:
        """The addresses of other chats that see what is said in a session."""
        return [
            {
                "session_key": entry.session_key,
                "platform": entry.origin.platform.value,
                "chat_id": entry.origin.chat_id,
                "thread_id": entry.origin.thread_id,
            }
            for entry in self._shown(session_id, session_key)
            if entry.origin is not None
        ]

    def _shown(self, session_id: str, session_key: str) -> list[SessionEntry]:
        """The entries of other chats that see what is said in a session, or follow it."""
        entries, bindings = self._entries, self._bindings
        seeing = {
            key: entries[key] for key in bindings.linked | bindings.following if key in entries
        }
        return sharing(seeing, session_key, session_id)

    def update_session(self, session_key: str, last_prompt_tokens: int | None = None) -> None:
        """The session was used now."""
        facts: dict[str, Any] = {"updated_at": self._now()}
        if last_prompt_tokens is not None:
            facts["last_prompt_tokens"] = last_prompt_tokens
        self._change(session_key, **facts)

    def set_model_override(self, session_key: str, override: dict[str, Any] | None) -> None:
        """Use another model in this chat; credentials are never kept."""
        allowed = ("model", "provider", "base_url")
        kept = {name: str(override[name]) for name in allowed if override and override.get(name)}
        self._change(session_key, model_override=kept or None)

    def get_model_override(self, session_key: str) -> dict[str, str] | None:
        """The model this chat uses instead of the configured one."""
        entry = self._find(session_key)
        return dict(entry.model_override) if entry and entry.model_override else None

    def set_options(self, source: SessionSource, options: dict[str, str] | None) -> None:
        """Keep what a person set for a chat, which begins with it if nothing was said there."""
        self._change(self.get_or_create_session(source).session_key, options=options)

    def set_wished_title(self, session_key: str, title: str | None) -> None:
        """Keep what a conversation is to be called that has not begun."""
        self._change(session_key, wished_title=title)

    def suspend_session(self, session_key: str) -> bool:
        """Let the next message begin anew, e.g. after a session that keeps breaking restarts."""
        return self._change(session_key, suspended=True) is not None

    def mark_resume_pending(self, session_key: str, reason: str = "restart_timeout") -> bool:
        """Mark an interrupted turn to be continued."""
        marked = self._change(
            session_key,
            resume_pending=True,
            resume_reason=reason,
            last_resume_marked_at=self._now(),
        )
        return marked is not None

    def list_resume_pending(self) -> list[SessionEntry]:
        """The entries whose turn is to go on."""
        return [entry for entry in list(self._entries.values()) if entry.resume_pending]

    def clear_resume_pending(self, session_key: str) -> bool:
        """That is done."""
        return self._change(session_key, resume_pending=False, resume_reason=None) is not None

    def suspend_recently_active(self, max_age_seconds: int = 120) -> int:
        """After a crash: mark the sessions that were in use to be continued; returns how many."""
        edge = self._now() - timedelta(seconds=max_age_seconds)
        with self._lock:
            recent = [key for key, entry in self._entries.items() if entry.updated_at >= edge]
        return sum(self.mark_resume_pending(key, "restart_interrupted") for key in recent)

    def _change(self, session_key: str, **facts: Any) -> SessionEntry | None:
        """Set fields of a key's entry; None if the key is unknown."""
        with self._lock:
            for _ in range(MAX_ATTEMPTS):
                entry = self._entries.get(session_key)
                if entry is None:
                    return None
                for name, value in facts.items():
                    setattr(entry, name, value)
                if self._bindings.save(entry):
                    return entry
            raise StoreBusyError(f"Other processes keep changing what {session_key} is bound to.")

    # Expiry

    def _is_session_expired(self, entry: SessionEntry) -> bool:
        return self._expired_because(entry) is not None

    def _expired_because(self, entry: SessionEntry) -> str | None:
        platform = entry.platform.value if entry.platform else ""
        policy = self._config.policy_for(platform, entry.chat_type)
        reason = policy.expired_because(entry.updated_at, self._now())
        if reason is None or self._is_busy(entry.session_id):
            return None
        # A conversation is in use if it is in use from any of its keys, as each one's policy says.
        others = sharing(dict(self._bindings.entries), entry.session_key, entry.session_id)
        last = max(bound.updated_at for bound in (entry, *others))
        for bound in (entry, *others):
            platform = bound.platform.value if bound.platform else ""
            policy = self._config.policy_for(platform, bound.chat_type)
            if policy.expired_because(last, self._now()) is None:
                return None
        return reason

    def is_session_finalizable(self, entry: SessionEntry) -> bool:
        """Whether an expired session is still to be finalized."""
        return not entry.expiry_finalized and self._is_session_expired(entry)

    def set_expiry_finalized(
        self, entry: SessionEntry, *, clear_model_override: bool = True
    ) -> bool:
        """Mark an expired session as finalized, once.

        False, and nothing happens, if another process has used the entry since, has bound its key
        anew, or was first.
        """
        with self._lock:
            if entry.expiry_finalized:
                return False  # another was first, and this process has read so meanwhile
            model_override = entry.model_override
            entry.expiry_finalized = True
            if clear_model_override:
                entry.model_override = None
            try:
                if not self._bindings.save(entry, "updated_at", "expiry_finalized"):
                    return False
            except Exception:
                # Nothing was stored: the next round finds the entry as it was.
                entry.expiry_finalized, entry.model_override = False, model_override
                raise
        self._db.set_expiry_finalized(entry.session_id)
        self._db.end_session(entry.session_id, RESET_REASON)
        return True

    def prune_old_entries(self, max_age_days: int) -> int:
        """Forget keys that were not used for so long; their conversations stay."""
        edge = self._now() - timedelta(days=max_age_days)
        with self._lock:
            old = [key for key, entry in self._entries.items() if entry.updated_at < edge]
            return len(self._bindings.forget(old))

    # Looking

    def has_any_sessions(self) -> bool:
        """Whether any chat has ever written."""
        return bool(self._entries)

    def list_sessions(self, active_minutes: int | None = None) -> list[SessionEntry]:
        """The entries, most recently used first."""
        known = list(self._entries.values())
        entries = sorted(known, key=lambda entry: entry.updated_at, reverse=True)
        if active_minutes is None:
            return entries
        edge = self._now() - timedelta(minutes=active_minutes)
        return [entry for entry in entries if entry.updated_at >= edge]

    def list_bound(self, session_id: str) -> list[SessionEntry]:
        """The entries that are bound to a session: of one chat, or of several that are linked."""
        with self._lock:
            return [entry for entry in self._entries.values() if entry.session_id == session_id]

    def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        """The entry that is bound to a session."""
        with self._lock:
            return next((e for e in self._entries.values() if e.session_id == session_id), None)

    def peek_session_id(self, session_key: str) -> str | None:
        """The session a key is bound to, without using it."""
        entry = self._find(session_key)
        return entry.session_id if entry else None

    def entry(self, session_key: str) -> SessionEntry | None:
        """What is remembered about a key, without using it."""
        return self._find(session_key)

    def is_shared(self, session_key: str, session_id: str) -> bool:
        """Whether keys other than this one are bound to a session."""
        return bool(sharing(self._entries, session_key, session_id))

    def key_of(self, source: SessionSource) -> str:
        """The key that messages of a source come under."""
        return self._generate_session_key(source)

    def _generate_session_key(self, source: SessionSource) -> str:
        key = build_session_key(
            source,
            self._config.group_sessions_per_user,
            self._config.thread_sessions_per_user,
        )
        return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", key)  # as the store keeps it

    # Keeping

    def _ensure_loaded(self) -> None:
        """Know what the store has now."""
        is_first = not self._bindings.is_loaded
        self._bindings.refresh()
        if is_first and self._bindings.is_empty and self._home is not None:
            old = _legacy_entries(self._home / "sessions" / "sessions.json")
            if old:
                self._bindings.create(old)

    def _save(self) -> None:
        """Store every entry that has changed."""
        with self._lock:
            for entry in list(self._bindings.entries.values()):
                self._bindings.save(entry)


def _legacy_entries(path: Path) -> list[SessionEntry]:
    """The entries of an older version's file; keys that begin with _ are remarks."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        log.warning("%s cannot be read and is left out: %s", path, error)
        return []
    entries = []
    for key, fields in stored.items() if isinstance(stored, dict) else ():
        if key.startswith("_") or not isinstance(fields, dict):
            continue
        try:
            entries.append(SessionEntry.from_dict({**fields, "session_key": key}))
        except (ValueError, KeyError, TypeError) as error:
            log.warning("The entry of %s in %s is left out: %s", key, path, error)
    log.info("Took %d chats over from %s", len(entries), path)
    return entries
