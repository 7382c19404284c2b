"""The routing entries of a gateway, as the store has them.

The store is the truth; what is kept here is a cache that the table's version guards, so that two
gateways on one store see each other's changes. A change writes the fields that differ from what the
store was last known to have, and only while the key is bound to the session it was bound to then.

Not thread-safe: its owner (`SessionStore`) holds a lock.
"""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from .session import OPTIONAL, SessionEntry

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Known:
    """A row as it was last seen."""

    version: int
    fields: dict[str, Any]


class Bindings:
    """Session keys and their entries."""

    def __init__(self, db: SessionDB, scope: str = "") -> None:
        self._db = db
        self._scope = scope
        self.entries: dict[str, SessionEntry] = {}
        """What each key is bound to. A holder of an entry sees later changes of its fields; once
        its key is bound to another session, another entry stands here."""
        self.linked: set[str] = set()
        """The keys whose entries are linked."""
        self.following: set[str] = set()
        """The keys of chats that are shown what their person says elsewhere."""
        self._known: dict[str, _Known] = {}
        self._unreadable: dict[str, int] = {}
        """The versions of rows that are no entries."""
        self._version: int | None = None

    def _fields(self, entry: SessionEntry) -> dict[str, Any]:
        return entry.to_dict(is_shared=getattr(self._db, "is_on_server", False) is True)

    @property
    def is_loaded(self) -> bool:
        """Whether the store was ever asked."""
        return self._version is not None

    @property
    def is_empty(self) -> bool:
        """Whether the store has no row of this scope."""
        return not self._known and not self._unreadable

    def refresh(self) -> None:
        """Take over what other processes (and rotations of this one) have changed.

        A store that cannot be read now leaves the entries as they were: a session id that is too
        old resolves to its tip when it is used, and what is to be written says what is wrong.
        """
        try:
            changes = self._db.list_binding_changes(self._version, scope=self._scope)
        except StoreError as error:
            if not self.is_loaded:
                raise
            log.warning("Could not refresh the chats' bindings: %s", error)
            return
        if changes is None:
            return
        for key, binding in changes.changed.items():
            self._merge(key, binding.version, binding.entry_json)
        if changes.keys is not None:
            for key in (self._known.keys() | self._unreadable.keys()) - changes.keys:
                self._drop(key)
        self._version = changes.version

    def create(self, entries: Iterable[SessionEntry]) -> list[str]:
        """Store new entries; returns the keys of those whose key had none in the meantime."""
        new = {entry.session_key: entry for entry in entries}
        unreadable = {key: self._unreadable[key] for key in new if key in self._unreadable}
        if unreadable:  # nothing in them that could be lost
            self._db.forget_bindings(unreadable, scope=self._scope)
        fields = {key: self._fields(entry) for key, entry in new.items()}
        added = self._db.create_bindings(fields, scope=self._scope)
        for key, version in added.items():
            self.entries[key] = new[key]
            self._note_own(key, version, fields[key])
        self.refresh()
        return list(added)

    def save(self, entry: SessionEntry, *expected: str) -> bool:
        """Store the fields of an entry that have changed.

        False, and nothing is stored, if its key is bound to another session by now, or if one of
        the fields that `expected` names was changed by somebody else; the entry then has the
        fields of the store again.
        """
        key = entry.session_key
        known = self._known.get(key)
        if known is None or self.entries.get(key) is not entry:
            return False
        fields = self._fields(entry)
        changed = {name: fact for name, fact in fields.items() if known.fields.get(name) != fact}
        removed = [name for name in OPTIONAL if name in known.fields and name not in fields]
        if not changed and not removed:
            return True
        version = self._db.update_binding(
            key,
            changed,
            removed=removed,
            expected={name: known.fields.get(name) for name in ("session_id", *expected)},
            scope=self._scope,
        )
        if version is not None:
            after = {name: known.fields[name] for name in known.fields if name not in removed}
            self._note_own(key, version, after | changed)
            return True
        self.refresh()
        if self.entries.get(key) is entry:
            kept = SessionEntry.from_dict({**self._known[key].fields, "session_key": key})
            for name in (*changed, *removed):
                if hasattr(entry, name):
                    setattr(entry, name, getattr(kept, name))
        return False

    def rebind(
        self, old: SessionEntry, fresh: SessionEntry, along: Iterable[str], end_reason: str
    ) -> bool:
        """Put `fresh` in the place of `old`, and the keys in `along` into the same session.

        The session they leave is ended, unless other keys stay in it. False, and nothing is
        changed, if another process has bound the key to another session first.
        """
        along = list(along)
        if not self._db.rebind_key(
            old.session_key,
            self._fields(fresh),
            instead_of=old.session_id,
            along=along,
            end_reason=end_reason,
            scope=self._scope,
        ):
            self.refresh()
            return False
        self.entries[old.session_key] = fresh
        for key in along:
            other = self.entries.get(key)
            if other is not None and other.session_id == old.session_id:
                other.session_id, other.expiry_finalized = fresh.session_id, False
        self.refresh()
        return True

    def follow(self, old_session_id: str, new_session_id: str) -> None:
        """Bind every key of a session to the one it goes on in."""
        self.follow_known(old_session_id, new_session_id)
        self.refresh()
        # A rotation moves them in its own transaction; what older versions left needs this.
        if any(row.fields.get("session_id") == old_session_id for row in self._known.values()):
            self._db.move_bindings(old_session_id, new_session_id)
            self.refresh()

    def follow_known(self, old_session_id: str, new_session_id: str) -> None:
        """Let the entries follow that are known here."""
        for entry in list(self.entries.values()):
            if entry.session_id == old_session_id:
                # Before the next refresh, so that it stays the entry of its key.
                entry.session_id = new_session_id

    def forget(self, keys: Iterable[str]) -> list[str]:
        """Remove entries that nobody has changed meanwhile; returns the keys of those removed."""
        seen = {key: self._known[key].version for key in keys if key in self._known}
        if not seen:
            return []
        forgotten = self._db.forget_bindings(seen, scope=self._scope)
        self.refresh()
        return forgotten

    def _note_own(self, key: str, version: int, fields: dict[str, Any]) -> None:
        """Note a row that was written here as known, unless another process wrote meanwhile.

        Then the row may hold more than that, and the next refresh reads it.
        """
        if self._version is not None and version == self._version + 1:
            self._version = version
            self._know(key, version, fields)

    def _know(self, key: str, version: int, fields: dict[str, Any]) -> None:
        self._known[key] = _Known(version, fields)
        self._unreadable.pop(key, None)
        entry = self.entries[key]
        (self.linked.add if entry.linked else self.linked.discard)(key)
        (self.following.add if entry.follows else self.following.discard)(key)

    def _merge(self, key: str, version: int, text: str) -> None:
        try:
            fields = json.loads(text)
            theirs = SessionEntry.from_dict({**fields, "session_key": key})
        except (ValueError, KeyError, TypeError) as error:
            # One row that cannot be read must not cost the other chats theirs.
            log.warning("The routing entry of %s is left out: %s", key, error)
            self._drop(key)
            self._unreadable[key] = version
            return
        known = self._known.get(key)
        ours = self.entries.get(key)
        if ours is None or ours.session_id != theirs.session_id:
            self.entries[key] = theirs
        elif known is not None:
            _take_over(ours, theirs, known.fields, fields)
        self._know(key, version, fields)

    def _drop(self, key: str) -> None:
        self.entries.pop(key, None)
        self._known.pop(key, None)
        self._unreadable.pop(key, None)
        self.linked.discard(key)
        self.following.discard(key)


def _take_over(
    ours: SessionEntry, theirs: SessionEntry, before: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Give an entry the fields that somebody else has changed."""
    mine = ours.to_dict()
    for name in before.keys() | now.keys():
        if before.get(name) != now.get(name) != mine.get(name) and hasattr(ours, name):
            setattr(ours, name, getattr(theirs, name))
