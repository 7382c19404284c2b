"""A Telegram that several gateways may ask for messages, and that outlives them all.

Each replica has an address of its own here (`/r1/bot…`), so that it is known who polls and who
sends. As with the real one, a second poller ends the first one's request; both are written down.
Nothing that is sent is dropped for being there already.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from ...gateway.bot_api import TOKEN, ApiError, BotApi, Call
from ...gateway.loopback import Request, Response, form_of
from .history import History

LOOK_SECONDS = 0.02
"""How often it is looked whether whoever polls has gone away."""


class Telegram(BotApi):
    """The server, and the chats that it shows."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history
        self._waiting: dict[int, dict[str, Any]] = {}
        """Updates that nobody has confirmed, by their number."""
        self._readers: dict[asyncio.Task[Any] | None, asyncio.StreamReader] = {}
        """By the task that serves a connection."""
        self.changed: dict[str, asyncio.Event] = {}
        """Set when something is shown in a chat."""

    async def tell(self, chat: str, name: str) -> None:
        """A person writes."""
        number = int(chat.removeprefix("c"))
        update = self.message(name, chat_id=number, user_id=number)
        self._history.say(chat, name)
        async with self._changed:
            self._waiting[update["update_id"]] = update
            self._changed.notify_all()

    @property
    def waiting(self) -> int:
        """How many updates nobody has confirmed."""
        return len(self._waiting)

    async def answer(self, request: Request) -> Response | None:
        """Deal with a request of one replica."""
        _, replica, bot, method = request.path.split("/")
        try:
            if bot != f"bot{TOKEN}":
                raise ApiError(401, "Unauthorized")
            call = Call(method.lower(), *form_of(request))
            result = await self._do(replica, call)
        except ApiError as error:
            body = {"ok": False, "error_code": error.code, "description": error.description}
            return Response(error.code, json.dumps(body).encode())
        return Response(200, json.dumps({"ok": True, "result": result}).encode())

    async def _do(self, replica: str, call: Call) -> Any:
        if call.method == "getupdates":
            return await self._poll(replica, call)
        if call.method == "sendmessage":
            message = self._do_sendmessage(call)
            chat = f"c{message['chat']['id']}"
            self.sent.clear()
            self._history.show(chat, message["text"], replica)
            if chat in self.changed:
                self.changed[chat].set()
            return message
        handler = getattr(self, f"_do_{call.method}", None)
        if handler is None:
            raise ApiError(404, "Not Found")
        return handler(call)

    def _do_setmessagereaction(self, call: Call) -> Any:
        return True  # a sign that a message was seen is no promise

    async def _poll(self, replica: str, call: Call) -> list[dict[str, Any]]:
        offset = int(call.params.get("offset") or 0)
        deadline = asyncio.get_running_loop().time() + int(call.params.get("timeout") or 0)
        self._polls += 1
        mine = self._polls
        connection = asyncio.current_task()
        with self._history.poll(replica):
            async with self._changed:
                for number in [number for number in self._waiting if number < offset]:
                    del self._waiting[number]
                self._changed.notify_all()
            while not self._waiting and self._polls == mine:
                if asyncio.get_running_loop().time() > deadline:
                    return []
                if self._readers[connection].at_eof():
                    raise ConnectionResetError(f"{replica} has gone away")
                await asyncio.sleep(LOOK_SECONDS)
        if self._polls != mine:
            raise ApiError(409, "Conflict: terminated by other getUpdates request")
        return [self._waiting[number] for number in sorted(self._waiting)[:100]]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        self._readers[task] = reader
        try:
            await super()._serve(reader, writer)
        finally:
            del self._readers[task]
