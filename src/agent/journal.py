"""The conversation as the engine sees it: every step on disk before it is acted on.

The store is the truth; the list kept here is a copy, refreshed whenever the session's version shows
another writer. The steps of a turn are written under its lease: once another process has taken the
turn over, this one can write nothing more. Without a store, the conversation lives in memory only.
"""

from __future__ import annotations

import asyncio
import functools
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hermes_base.clock import elapsed
from hermes_state import (
    INBOX_ID,
    OUTBOX,
    ROW_ID,
    AsyncSessionDB,
    Lease,
    LeaseLostError,
    Recorded,
    SessionDB,
    Started,
    TakenTurn,
    at_hand,
)
from hermes_state.history import repair_message_sequence

from .call_costs import EndedCall, SpendsFor
from .heartbeat import heart
from .ids import new_session_id
from .model import Message
from .rotation import Rotation, RotationHolders

_Live = tuple[str, list[Message], int]
"""The session in which a conversation is, its live messages, and the version they are of."""

Look = tuple[Mapping[str, Any] | None, _Live | None]
"""A session's row, and its live messages if our copy is not current."""


class Journal:
    """Reads and writes one conversation."""

    def __init__(
        self,
        db: SessionDB | None,
        session_id: str,
        *,
        source: str,
        facts: Mapping[str, Any] | None = None,
        lease_lost: Callable[[], object] = lambda: None,
    ) -> None:
        """`lease_lost` is called, from any thread, when another process has the running turn."""
        self.holders = RotationHolders()
        """Those who hold the session's id, called after a compression."""
        self._db = db
        self._async_db = AsyncSessionDB(db) if db is not None else None
        self.session_id = session_id
        self.source = source
        self.facts: dict[str, Any] = dict(facts or {})
        """What the session's row is created with: model, owner, system prompt, …"""
        self.messages: list[Message] = []
        """The live messages; never changed in place once handed out, only extended."""
        self.works_for: SpendsFor | None = None
        """Whose the model calls of a sub-agent are."""
        self.job: str | None = None
        """The scheduled job that the calls are for."""
        self._version: int | None = None
        """As it was last seen; None if there is no row yet."""
        self.seen_conversation: str | None = None
        """The conversation's id, once it is known to have a row."""
        self._lease: Lease | None = None
        self._given_up: Lease | None = None
        """The lease of a turn that ended here while its end could not be stored."""
        self._lease_lost = lease_lost
        self._is_lost = False
        self._writing = asyncio.Lock()

    def move_to(self, session_id: str) -> None:
        """Read and write another conversation from now on."""
        self.session_id, self.messages, self._version = session_id, [], None
        self.seen_conversation = None
        self.facts.pop("system_prompt", None)

    async def refresh(self) -> None:
        """Load the conversation's tip, unless our copy is current."""
        if self._db is not None:
            self.take_in(*await at_hand(self._db, self.look))

    def refresh_blocking(self) -> None:
        """The same for ordinary code."""
        if self._db is not None:
            self.take_in(*self.look())

    def look(self) -> Look:
        """What the store has now, for `take_in`; from any thread."""
        session_id, version = self.session_id, self._version
        session = self._db.get_session(session_id) if self._db is not None else None
        if session is None or self._db is None:
            return None, None
        is_current = session["version"] == version and session["end_reason"] != "compression"
        return session, None if is_current else self._db.load_live(session_id)

    def take_in(self, session: Mapping[str, Any] | None, view: _Live | None) -> None:
        """Update our copy with what `look` has read."""
        if session is None:
            if self._version is not None:  # the session was deleted: begin anew
                self.messages, self._version, self.seen_conversation = [], None, None
            return
        self.seen_conversation = str(session["conversation_id"])
        if view is not None:
            session_id, self.messages, self._version = view
            self._follow(session_id)

    def _follow(self, session_id: str) -> None:
        """Follow the conversation to its tip; if that is another session, notify its holders.

        A rotation of this agent's own was announced before (`compact`), so this one was made
        elsewhere.
        """
        old_id, self.session_id = self.session_id, session_id
        if session_id != old_id:
            self._tell(old_id, elsewhere=True)

    def _tell(self, old_id: str, *, elsewhere: bool = False) -> None:
        self.holders.tell(
            Rotation(
                old_id,
                self.session_id,
                self.seen_conversation or old_id,
                in_place=self.session_id == old_id,
                in_turn=self._lease is not None,
                elsewhere=elsewhere,
            )
        )

    def conversation_id(self) -> str:
        """The conversation's one id for life."""
        return self.known_conversation() or self.session_id

    def known_conversation(self) -> str | None:
        """The same; None if the session has no row yet."""
        session = self._db.get_session(self.session_id) if self._db is not None else None
        return str(session["conversation_id"]) if session else None

    def ensure_session(self) -> None:
        """Create the session's row if it has none."""
        if self._db is not None and self._db.get_session(self.session_id) is None:
            self._db.create_session(self.session_id, self.source, **self.facts)

    @property
    def spends_for(self) -> SpendsFor:
        """Whose the model calls are."""
        return self.works_for or SpendsFor(self.facts.get("session_key"), None, self.job)

    @property
    def lease(self) -> Lease | None:
        """Of the running turn."""
        return self._lease

    def _clock(self) -> float:
        return time.time() if self._db is None else self._db.clock

    # A turn

    async def begin(self, message: Message, deliver_to: Mapping[str, Any] | None = None) -> None:
        """Store the user's message at the tip and take the lease; close an abandoned turn first.

        Raises ConversationBusyError while another turn runs in the conversation.
        """
        message = {"timestamp": self._clock(), **message}
        if self._async_db is None:
            self.messages.append(message)
            return
        self._writing = asyncio.Lock()  # of this turn's event loop
        since = elapsed()
        recorded = await self._async_db.begin_turn(
            self.session_id,
            message,
            source=self.source,
            facts=self.facts,
            seen_version=self._version,
            leased=True,
            given_up=self._given_up,
            deliver_to=deliver_to,
        )
        self._given_up = None
        self._hold(recorded.lease, since)
        await self._wrote(recorded, [message])

    async def take_up(self, taken: TakenTurn) -> None:
        """Continue a turn that was taken over."""
        self._writing = asyncio.Lock()
        if taken.lease.conversation_id != await at_hand(self._db, self.conversation_id):
            self.session_id = taken.session_id  # another conversation than before
        self._version = None
        self._hold(taken.lease)
        self._follow(taken.session_id)
        await self.refresh()

    async def record(
        self,
        messages: list[Message],
        *,
        call: EndedCall | None = None,
        starts: Iterable[Started] = (),
        ends: bool = False,
    ) -> list[Message]:
        """Store the next messages of the turn and the model call that led to them, before the tools
        in `starts` run.

        Returns those that were stored: one of the inbox that its sender has taken back is not.
        `ends` says that it is the turn's last step. Raises LeaseLostError if the turn is not ours
        any more.
        """
        now = self._clock()
        messages = [{"timestamp": now, **message} for message in messages]
        if self._async_db is None:
            self.messages.extend(messages)
            return messages
        async with self._writing:
            self._require_lease()
            recorded = await self._async_db.record_step(
                self.session_id,
                messages,
                call.step_usage() if call is not None and call.outcome == "complete" else None,
                self._version,
                lease=self._lease,
                starts=starts,
                ends=ends,
                call=None if call is None else call.row(self.spends_for),
            )
            if ends:
                self._let_go()
            if recorded.left_out:
                messages = [
                    stored for stored in messages if stored.get(INBOX_ID) not in recorded.left_out
                ]
            await self._wrote(recorded, messages)
            return messages

    async def end(self) -> None:
        """End the turn if its last step has not; what it left open is closed."""
        if self._async_db is None or self._lease is None:
            return
        if self._is_lost:
            self._let_go()  # the process that has taken it, or finds it abandoned, ends it
            return
        lease = self._given_up = self._lease
        self._let_go()  # whatever happens now: without a heartbeat the lease expires
        await self._async_db.end_turn(lease)
        self._given_up = None

    async def begin_with_notes(self, deliver_to: Mapping[str, Any] | None = None) -> bool:
        """Take the turn with the notes that wait for the conversation; False if there are none.

        Raises ConversationBusyError while another turn runs in the conversation.
        """
        if self._async_db is None:
            return False
        self._writing = asyncio.Lock()
        since = elapsed()
        recorded = await self._async_db.begin_noted_turn(
            self.session_id,
            source=self.source,
            facts=self.facts,
            given_up=self._given_up,
            deliver_to=deliver_to,
        )
        if recorded is None:
            return False
        self._given_up = None
        self._hold(recorded.lease, since)
        await self._wrote(recorded, [])
        return True

    async def deliver_notes(self) -> list[Message]:
        """Store the notes that wait for the conversation as its next messages; returns those."""
        if self._async_db is None:
            return []
        async with self._writing:
            self._require_lease()
            recorded = await self._async_db.deliver_results(self.session_id, self._lease)
            if recorded is None:
                return []
            self._version = None
            self._follow(recorded.session_id)
            await self.refresh()
        return [message for message in self.messages if message[ROW_ID] in recorded.ids]

    async def persist(self, messages: Iterable[Message]) -> None:
        """Store those of `messages` that are not stored yet."""
        recorded = await at_hand(self._db, self._append_missing, list(messages))
        if recorded is not None:
            self._version = None
            self._follow(recorded.session_id)
            await self.refresh()

    def persist_blocking(self, messages: Iterable[Message]) -> None:
        """The same for ordinary code, with what others have written before."""
        self.refresh_blocking()
        recorded = self._append_missing(messages)
        if recorded is not None:
            self._version = None
            self._follow(recorded.session_id)
            self.refresh_blocking()

    def _append_missing(self, messages: Iterable[Message]) -> Recorded | None:
        if self._db is None:
            return None
        return self._db.append_missing(
            self.session_id, messages, source=self.source, facts=self.facts
        )

    # Compression

    def goes_on_from(self, session_id: str, seen: list[Message]) -> bool:
        """Whether the conversation is still in that session and begins with what was seen."""
        if self._db is None:
            return self.messages[: len(seen)] == seen
        ids = [message[ROW_ID] for message in self.messages[: len(seen)]]
        return self.session_id == session_id and ids == [message[ROW_ID] for message in seen]

    async def compact(
        self, messages: list[Message], seen: list[Message], *, in_place: bool
    ) -> bool:
        """Let `messages` stand for `seen`, the live messages they were made of.

        Messages added since are kept behind them, and all holders of the session's id are notified.
        False if another process was first; in either case the journal follows the conversation's
        tip.
        """
        old_id = self.session_id
        if self._db is None:
            self.messages = [*messages, *self.messages[len(seen) :]]
            self._tell(old_id)
            return True
        outcome = await at_hand(
            self._db,
            self._db.compact_seen,
            self.session_id,
            [message[ROW_ID] for message in seen],
            messages,
            None if in_place else new_session_id(),
            lease=self._lease,
        )
        self._version = None
        if outcome.created:
            self.session_id = outcome.session_id
            self._tell(old_id)
        await self.refresh()
        return outcome.created

    def history(self) -> list[Message]:
        """What the model is sent: the live messages, made valid."""
        return repair_message_sequence(self.messages)

    @property
    def fence(self) -> int:
        """The number of the running turn's lease; 0 without one."""
        return 0 if self._lease is None else self._lease.fence

    def _hold(self, lease: Lease | None, since: float | None = None) -> None:
        self._lease = lease
        if self._db is not None and lease is not None:
            self.seen_conversation = lease.conversation_id
            self._is_lost = False
            heart.begin(self._db, lease, functools.partial(self._lose, lease), since)

    def _lose(self, lease: Lease) -> None:
        """Another process has, or may have, taken the turn over: stop writing."""
        if lease == self._lease:
            self._is_lost = True
            self._lease_lost()

    def _require_lease(self) -> None:
        if self._is_lost and self._lease is not None:
            raise LeaseLostError(self._lease.conversation_id)

    async def require_turn(self) -> None:
        """Before an irreversible action: raise LeaseLostError if another process has, or may have,
        taken the turn over. So a process that was suspended or disconnected for longer than its
        lease does nothing more.
        """
        self._require_lease()
        db, lease = self._db, self._lease
        if db is None or lease is None or heart.is_sure(db, lease):
            return
        # Where the store is a file, a process that could not beat may still hold the turn: ask the
        # store.
        turn = None if db.is_on_server else db.get_turn(lease.conversation_id)
        if turn is None or (turn["fence"], turn["owner"]) != lease[1:]:
            heart.give_up(db, lease)
            self._lose(lease)
            raise LeaseLostError(lease.conversation_id)

    def _let_go(self) -> None:
        if self._db is not None and self._lease is not None:
            heart.end(self._db, self._lease)
        self._lease = None

    async def _wrote(self, recorded: Recorded, messages: list[Message]) -> None:
        if recorded.others_wrote:
            self._version = None
            self._follow(recorded.session_id)
            await self.refresh()
            return
        for message, message_id in zip(messages, recorded.ids, strict=True):
            message[ROW_ID] = message_id
            message.pop(INBOX_ID, None)
            message.pop(OUTBOX, None)
        self.messages.extend(messages)
        self._version = recorded.version
        self._follow(recorded.session_id)
