"""Asking Telegram for updates: the offset moves only when everything before it was taken.

Asking for the updates after a number is what acknowledges those before it. python-telegram-bot's
own updater asks on before they are dealt with, so its client is used here and its updater is not.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from hermes_state import StoreError

from .updates import ALLOWED_UPDATES, chat_of, update_id

if TYPE_CHECKING:
    from .adapter import TelegramAdapter

log = logging.getLogger(__name__)

POLL_SECONDS = 30
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
FAILURES_BEFORE_RECONNECT = 3
ATTEMPTS_AT_A_MESSAGE = 3


class Poller:
    """Fetches updates for one bot; it outlives connections, since the offset does."""

    def __init__(self, adapter: TelegramAdapter) -> None:
        self._adapter = adapter
        self._offset: int | None = None

    async def run(self) -> None:
        """Fetch until cancelled. Raises ConnectionError when the connection is to be made anew."""
        from telegram.error import NetworkError, RetryAfter, TelegramError

        from .errors import seconds

        failures = 0
        while True:
            try:
                updates = await self._get_updates()
                failures = 0
            except RetryAfter as error:
                await asyncio.sleep(seconds(error))
                continue
            except NetworkError as error:
                failures += 1
                if failures >= FAILURES_BEFORE_RECONNECT:
                    raise ConnectionError(f"Telegram is silent: {error.message}") from error
                await asyncio.sleep(FIRST_PAUSE)
                continue
            except TelegramError as error:  # another program polls with the token, or it is void
                raise ConnectionError(f"Telegram refuses: {error.message}") from error
            await self._take(updates)

    async def _get_updates(self) -> list[Any]:
        bot = self._adapter.bot
        if bot is None:
            raise ConnectionError("Telegram is not connected")
        wanted: dict[str, Any] = {"timeout": POLL_SECONDS, "allowed_updates": list(ALLOWED_UPDATES)}
        if self._offset is not None:
            wanted["offset"] = self._offset
        # The raw update is asked for: one that the library cannot read would block all others.
        # Names of methods may be written in any case; as written here the library lets us.
        updates: Any = await bot.do_api_request(
            "getupdates", api_kwargs=wanted, read_timeout=POLL_SECONDS + 15
        )
        return updates if isinstance(updates, list) else []

    async def _take(self, updates: list[Any]) -> None:
        """Hand updates in, each chat's in order; then they count as acknowledged."""
        chats: dict[str, list[Any]] = {}
        for update in updates:
            chats.setdefault(chat_of(update), []).append(update)
        await asyncio.gather(*(self._take_in_order(chat) for chat in chats.values()))
        numbers = [number for update in updates if (number := update_id(update)) is not None]
        if numbers:
            self._offset = max(numbers) + 1
        elif updates:
            await asyncio.sleep(FIRST_PAUSE)  # nothing that could be acknowledged

    async def _take_in_order(self, updates: list[Any]) -> None:
        for update in updates:
            pause = FIRST_PAUSE
            attempts = 0
            while True:
                try:
                    await self._adapter.accept(update)
                    break
                except Exception as error:
                    # While the store fails nothing is acknowledged; a fault that only this one
                    # message meets must not keep all others out.
                    attempts += 1
                    if attempts >= ATTEMPTS_AT_A_MESSAGE and not _is_passing(error):
                        log.exception("Update %s is given up", update_id(update))
                        break
                    log.warning("Update %s waits: %s", update_id(update), error)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, LONGEST_PAUSE)


def _is_passing(error: Exception) -> bool:
    """Whether the same message may be taken later."""
    return isinstance(error, StoreError | OSError) and not isinstance(error, ValueError)
