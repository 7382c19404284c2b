"""What is said in a conversation, shown in the chats that are linked to it or follow it.

The texts are deliveries of the store's outbox, each under a name of its own. The gateway sends
them, whichever process wrote them, and looks at that moment whether the chat may still see them.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError
from tools.fences import fenced

from .patience import retry_until_stored

if TYPE_CHECKING:
    from agent.events import QuestionAsked
    from hermes_state import AsyncSessionDB, SessionDB

    from .door import Origin

log = logging.getLogger(__name__)

MIRRORED = "say:mirror:"
"""What the names of these deliveries begin with."""

SHOWN = 12_000
"""Characters of a message that other chats are shown."""


Address = Mapping[str, Any]
"""Of a chat: session_key, platform, chat_id, thread_id."""

Linked = Callable[[str, str], Iterable[Address]]
"""The chats that are linked to a session's conversation, but for the one with a key."""


class LinkedChats:
    """The linked chats of a store, read again when its bindings have changed; for threads."""

    def __init__(self, db: SessionDB) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._version: int | None = None
        self._chats: dict[str, tuple[str, Address]] = {}

    def __call__(self, session_id: str, key: str) -> list[Address]:
        """See `Linked`."""
        with self._lock:
            changes = self._db.list_binding_changes(self._version)
            # A store that stands in for a real one may answer anything.
            if changes is not None and isinstance(changes.changed, dict):
                self._apply(changes)
            linked = list(self._chats.values())
        return [
            chat for bound, chat in linked if bound == session_id and chat["session_key"] != key
        ]

    def _apply(self, changes: Any) -> None:
        self._version = changes.version
        for key, binding in changes.changed.items():
            self._chats.pop(key, None)
            if '"linked"' in binding.entry_json or '"follows"' in binding.entry_json:
                entry = json.loads(binding.entry_json)
                origin = entry.get("origin") or {}
                is_shown = entry.get("linked") or entry.get("follows")
                if is_shown and origin.get("chat_id"):
                    names = ("platform", "chat_id", "thread_id")
                    chat = {"session_key": key, **{name: origin.get(name) for name in names}}
                    self._chats[key] = (entry["session_id"], chat)
        if changes.keys is not None:
            self._chats = {key: chat for key, chat in self._chats.items() if key in changes.keys}


class Mirror:
    """Shows the linked chats of conversations what is asked and answered elsewhere in them."""

    def __init__(
        self,
        db: AsyncSessionDB,
        linked: Linked,
        spawn: Callable[[Coroutine[Any, Any, object]], object],
        send: Callable[[str], object] = lambda key: None,
    ) -> None:
        """`send` has what a chat is owed sent now; where nobody can, the gateway finds it."""
        self._db, self._linked, self._spawn, self._send = db, linked, spawn, send

    async def question(
        self, key: str, session_id: str, origin: Origin, name: str, text: str
    ) -> None:
        """Show what was asked; `name` is the message's, under which it is shown once."""
        await self._show(key, session_id, f"{name}:asked", f"💬 {_who(origin)}: {text[:SHOWN]}")

    async def answer(self, key: str, session_id: str, name: str, text: str) -> None:
        """Show what was answered, if anything was."""
        if text:
            await self._show(key, session_id, f"{name}:answered", f"🤖 {text[:SHOWN]}")

    async def asked(self, key: str, session_id: str, question: QuestionAsked) -> None:
        """Show what the turn asks the person, which is answered in any of these chats."""
        text = _question(question, self._db.sync.clock)
        await self._show(key, session_id, f"{question.request_id}:asked", text)

    async def _show(self, key: str, session_id: str, name: str, text: str) -> None:
        try:
            chats = list(await self._db.at_hand(self._linked, session_id, key))
        except StoreError as error:
            log.warning("Which chats are linked to %s is not known now: %s", session_id, error)
            return
        for chat in chats:
            try:
                await self._add(chat, name, text)
            except StoreError as error:
                log.warning("%s is shown what was said later: %s", chat["session_key"], error)
                self._spawn(self._add_when_possible(chat, name, text))

    async def _add_when_possible(self, chat: Address, name: str, text: str) -> None:
        await retry_until_stored(
            lambda: self._add(chat, name, text), "What a linked chat is shown", is_repeatable=True
        )

    async def _add(self, chat: Address, name: str, text: str) -> None:
        await self._db.add_delivery(f"{MIRRORED}{name}:{chat['session_key']}", text, **chat)
        self._send(chat["session_key"])


def _question(question: QuestionAsked, now: float) -> str:
    where = f"asked in {question.platform}"
    if question.kind == "approval" and question.answerable:
        longer = ", /approve session, /approve always" if "always" in question.choices else ""
        minutes = max(1, round((question.expires_at - now) / 60))
        return (
            f"🔐 May I do this? ({where})\n{fenced(question.subject)}\n{question.text}\n"
            f"/approve{longer} or /deny (within {minutes} min)"
        )
    numbered = enumerate(question.choices, 1)
    choices = "".join(f"\n{number}. {choice}" for number, choice in numbered)
    how = "/answer TEXT answers it here" if question.answerable else "and answered there"
    return f"❓ {question.text[:SHOWN]}{choices}\n({where}; {how})"


def _who(origin: Origin) -> str:
    if origin.chat_id is None:
        return "At the computer"
    return f"{origin.user_name or origin.user_id or 'Somebody'} ({origin.platform})"
