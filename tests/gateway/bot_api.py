"""A Telegram of our own: the Bot API on loopback, as strict as the real one where it matters.

It keeps updates until they are confirmed by an offset, checks markup, lengths and names, shapes
its errors as Telegram does, records every call, and fails when it is told to.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import unquote

from .loopback import LoopbackServer, Request, Response, form_of

TOKEN = "123456:test-token"
BOT_ID = 123456
BOT_NAME = "hermes_bot"
_TAGS = {"b", "i", "s", "u", "code", "pre", "a", "blockquote", "tg-spoiler"}
_SCOPES = {"default", "all_private_chats", "all_group_chats", "all_chat_administrators"}
_REACTIONS = {"👀", "👍", "👎", "❤", "🔥", "🎉", "👌", "🤔"}


class ApiError(Exception):
    """An answer with ok: false."""

    def __init__(self, code: int, description: str, **parameters: Any) -> None:
        super().__init__(description)
        self.code, self.description, self.parameters = code, description, parameters


@dataclass
class Call:
    """A request as it came."""

    method: str
    params: dict[str, Any]
    files: dict[str, tuple[str, bytes]] = field(default_factory=dict)


@dataclass
class Sent:
    """A message of the bot as a chat shows it."""

    id: int
    chat_id: str
    text: str
    raw: str
    parse_mode: str | None
    thread_id: str | None = None
    buttons: list[dict[str, str]] = field(default_factory=list)
    reply_to: int | None = None
    kind: str = "text"
    file: tuple[str, bytes] | None = None
    versions: list[str] = field(default_factory=list)


@dataclass
class Fault:
    """What is to go wrong, how often, with which method (any if empty)."""

    kind: str
    """429, 502, 403, drop (before anything was done) or drop_after (when all was done)."""
    method: str = ""
    times: int = 1
    retry_after: float = 0.05


class _Markup(HTMLParser):
    """Telegram's HTML: known tags, closed in order, known entities."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in _TAGS:
            raise ApiError(
                400, f'Bad Request: can\'t parse entities: Unsupported start tag "{tag}"'
            )
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            raise ApiError(400, f"Bad Request: can't parse entities: Unexpected end tag {tag}")

    def handle_data(self, data: str) -> None:
        self.text += data


def shown_text(text: str, parse_mode: str | None) -> str:
    """What a chat shows of a text, or the error that Telegram would give."""
    if parse_mode == "HTML":
        if re.search(r"<(?!/?[a-z])", text):
            raise ApiError(400, "Bad Request: can't parse entities: Unsupported start tag")
        markup = _Markup()
        markup.feed(text)
        markup.close()
        if markup.open:
            raise ApiError(400, "Bad Request: can't parse entities: Can't find end tag")
        text = markup.text
    elif parse_mode:
        raise ApiError(400, "Bad Request: unsupported parse_mode")
    text = text.strip()
    if not text:
        raise ApiError(400, "Bad Request: message text is empty")
    if len(text.encode("utf-16-le")) // 2 > 4096:
        raise ApiError(400, "Bad Request: message is too long")
    return text


class BotApi(LoopbackServer):
    """The server. Use as `async with BotApi() as api`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.sent: list[Sent] = []
        self.faults: list[Fault] = []
        self.outage: str | None = None
        """A kind of fault that everything meets until it is None again."""
        self.refused = 0
        """How many requests met a fault."""
        self.blocked: set[str] = set()
        self.gone: set[str] = set()
        self.moved: dict[str, int] = {}
        self.closed_topics: set[str] = set()
        self.files: dict[str, bytes] = {}
        self.commands: list[dict[str, str]] = []
        self.menus: dict[str, list[dict[str, str]]] = {}
        """The commands of each scope, by its type."""
        self.webhook: dict[str, Any] = {}
        self.reactions: list[tuple[str, int, list[Any]]] = []
        self.answered: list[str] = []
        self.confirmed = 0
        """The offset up to which updates were confirmed."""
        self._updates: list[dict[str, Any]] = []
        self._queries: set[str] = set()
        self._numbers = itertools.count(1000)
        self._message_ids = itertools.count(1)
        self._changed = asyncio.Condition()
        self._polls = 0
        self._allowed: set[str] = set()

    # What people do

    async def say(self, text: str | None, *, chat_id: int = 42, **more: Any) -> dict[str, Any]:
        """A person writes; returns the update."""
        return await self.add(self.message(text, chat_id=chat_id, **more))

    def message(
        self,
        text: str | None = None,
        *,
        chat_id: int = 42,
        user_id: int = 42,
        chat_type: str = "private",
        kind: str = "message",
        message_id: int | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """An update with a message in it."""
        chat: dict[str, Any] = {"id": chat_id, "type": chat_type}
        chat |= {"first_name": "Ann"} if chat_type == "private" else {"title": "Friends"}
        message: dict[str, Any] = {
            "message_id": message_id or next(self._message_ids),
            "date": 1_700_000_000,
            "chat": chat,
        }
        if chat_type != "channel":
            message["from"] = {"id": user_id, "is_bot": False, "first_name": "Ann"}
        if text is not None:
            message["text"] = text
            found = re.finditer(r"@\w+|^/\w+(?:@\w+)?", text)
            message["entities"] = [
                {"type": "bot_command" if one[0][0] == "/" else "mention",
                 "offset": len(text[: one.start()].encode("utf-16-le")) // 2, "length": len(one[0])}
                for one in found
            ]  # fmt: skip
        return {"update_id": next(self._numbers), kind: {**message, **more}}

    async def press(
        self, sent: Sent, label: str, *, user_id: int = 42, chat_type: str = "private"
    ) -> None:
        """A person presses a button under a message of the bot."""
        data = next(one["callback_data"] for one in sent.buttons if one["text"] == label)
        query_id = f"q{next(self._numbers)}"
        self._queries.add(query_id)
        await self.add({
            "update_id": next(self._numbers),
            "callback_query": {
                "id": query_id, "data": data, "chat_instance": "1",
                "from": {"id": user_id, "is_bot": False, "first_name": "Ann"},
                "message": {
                    "message_id": sent.id, "date": 1_700_000_000,
                    "chat": {"id": int(sent.chat_id), "type": chat_type},
                },
            },
        })  # fmt: skip

    async def put_reaction(
        self, sent: Sent, emoji: str, *, user_id: int = 42, chat_type: str = "private",
        before: str | None = None,
    ) -> Any:  # fmt: skip
        """A person puts an emoji under a message, or takes the one away that was there ("").

        The service tells of it only to whoever asked for such updates; nothing says in which topic
        the message is.
        """
        shown = [[{"type": "emoji", "emoji": one}] if one else [] for one in (before, emoji)]
        return await self.add({
            "update_id": next(self._numbers),
            "message_reaction": {
                "chat": {"id": int(sent.chat_id), "type": chat_type}, "message_id": sent.id,
                "user": {"id": user_id, "is_bot": False, "first_name": "Ann"},
                "date": 1_700_000_000, "old_reaction": shown[0], "new_reaction": shown[1],
            },
        })  # fmt: skip

    async def add(self, *updates: Any) -> Any:
        """Updates wait to be fetched; the same may be added twice, or out of order."""
        async with self._changed:
            self._updates += updates
            self._changed.notify_all()
        return updates[-1]

    # What a test looks at

    def texts(self, chat_id: int = 42) -> list[str]:
        """What the bot's messages in a chat say."""
        return [one.text for one in self.sent if one.chat_id == str(chat_id)]

    def called(self, method: str) -> list[Call]:
        """The calls of a method."""
        return [one for one in self.calls if one.method == method.lower()]

    async def until(self, fits: Callable[[], bool], seconds: float = 30.0) -> None:
        """Wait until something is so, which a request of the bot may have brought about, or not."""
        async with asyncio.timeout(seconds), self._changed:
            while not fits():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), 0.05)

    async def wait_for(self, count: int, chat_id: int = 42, seconds: float = 30.0) -> list[str]:
        """Wait until a chat shows at least `count` messages of the bot."""
        await self.until(lambda: len(self.texts(chat_id)) >= count, seconds)
        return self.texts(chat_id)

    @property
    def waiting(self) -> int:
        """How many updates nobody has confirmed."""
        return len(self._updates)

    # Requests

    async def answer(self, request: Request) -> Response | None:
        """Deal with a request; None cuts the connection."""
        fault = self._fault(request.path.rpartition("/")[2].lower())
        response = None if fault == "drop" else await self._answer(request, fault)
        await self._notify()
        return None if fault == "drop_after" else response

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    def _fault(self, method: str) -> str | None:
        kind = self.outage
        self._retry_after = 0.05
        if kind is None:
            for one in self.faults:
                if one.times > 0 and one.method.lower() in ("", method):
                    one.times -= 1
                    kind, self._retry_after = one.kind, one.retry_after
                    break
        if kind is not None:
            self.refused += 1
        return kind

    async def _answer(self, request: Request, fault: str | None) -> Response:
        path = request.path
        if path.startswith(f"/file/bot{TOKEN}/"):
            data = self.files.get(unquote(path.rpartition("/")[2]))
            return Response(404, b"{}") if data is None else Response(200, data)
        try:
            if fault == "502":
                raise ApiError(502, "Bad Gateway")
            if fault == "403":
                raise ApiError(403, "Forbidden: bot was kicked from the group chat")
            if fault == "429":
                wait = self._retry_after
                raise ApiError(429, f"Too Many Requests: retry after {wait}", retry_after=wait)
            token, _, method = path.removeprefix("/bot").rpartition("/")
            if token != TOKEN:
                raise ApiError(401, "Unauthorized")
            call = Call(method.lower(), *form_of(request))
            self.calls.append(call)
            handler = getattr(self, f"_do_{call.method}", None)
            if handler is None:
                raise ApiError(404, "Not Found")
            result = handler(call)
            if asyncio.iscoroutine(result):
                result = await result
            return Response(200, json.dumps({"ok": True, "result": result}).encode())
        except ApiError as error:
            answer: dict[str, Any] = {
                "ok": False, "error_code": error.code, "description": error.description,
            }  # fmt: skip
            if error.parameters:
                answer["parameters"] = error.parameters
            return Response(error.code, json.dumps(answer).encode())

    # Methods

    def _do_getme(self, call: Call) -> Any:
        return {
            "id": BOT_ID, "is_bot": True, "first_name": "Hermes", "username": BOT_NAME,
            "can_join_groups": True, "can_read_all_group_messages": False,
            "supports_inline_queries": False,
        }  # fmt: skip

    async def _do_getupdates(self, call: Call) -> Any:
        if self.webhook.get("url"):
            raise ApiError(409, "Conflict: can't use getUpdates method while webhook is active")
        self._polls += 1
        mine = self._polls
        offset = int(call.params.get("offset") or 0)
        seconds = int(call.params.get("timeout") or 0)
        limit = int(call.params.get("limit") or 100)
        if "allowed_updates" in call.params:
            self._allowed = set(json.loads(call.params["allowed_updates"]))
        async with self._changed:
            self.confirmed = max(self.confirmed, offset)
            self._updates = [one for one in self._updates if one.get("update_id", offset) >= offset]
            self._changed.notify_all()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self._updates or self._polls != mine)
            except TimeoutError:
                return []
            self._updates = [one for one in self._updates if self._is_allowed(one)]
            if self._polls != mine:
                raise ApiError(409, "Conflict: terminated by other getUpdates request")
            return self._updates[:limit]

    def _is_allowed(self, update: dict[str, Any]) -> bool:
        """Reactions are told only to whoever has asked for them."""
        return "message_reaction" not in update or "message_reaction" in self._allowed

    def _do_deletewebhook(self, call: Call) -> Any:
        self.webhook = {}
        return True

    def _do_setwebhook(self, call: Call) -> Any:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,256}", call.params.get("secret_token", "x")):
            raise ApiError(400, "Bad Request: secret token contains unallowed characters")
        self.webhook = call.params
        return True

    def _do_setmycommands(self, call: Call) -> Any:
        commands = json.loads(call.params["commands"])
        for one in commands:
            if not re.fullmatch(r"[a-z0-9_]{1,32}", one["command"]) or not one["description"]:
                raise ApiError(400, "Bad Request: BOT_COMMAND_INVALID")
        if len(commands) > 100 or len({one["command"] for one in commands}) < len(commands):
            raise ApiError(400, "Bad Request: BOT_COMMANDS_TOO_MUCH")
        scope = json.loads(call.params.get("scope") or '{"type": "default"}')["type"]
        if scope not in _SCOPES:
            raise ApiError(400, "Bad Request: can't parse BotCommandScope")
        self.menus[scope] = commands
        if scope == "default":
            self.commands = commands
        return True

    def _chat(self, call: Call) -> str:
        chat_id = str(call.params["chat_id"])
        if chat_id in self.blocked:
            raise ApiError(403, "Forbidden: bot was blocked by the user")
        if chat_id in self.gone:
            raise ApiError(400, "Bad Request: chat not found")
        if chat_id in self.moved:
            raise ApiError(
                400, "Bad Request: group chat was upgraded to a supergroup chat",
                migrate_to_chat_id=self.moved[chat_id],
            )  # fmt: skip
        if call.params.get("message_thread_id") in self.closed_topics:
            raise ApiError(400, "Bad Request: message thread not found")
        return chat_id

    def _show(self, call: Call, text: str, **more: Any) -> Any:
        markup = json.loads(call.params.get("reply_markup") or "{}")
        buttons = [one for row in markup.get("inline_keyboard", []) for one in row]
        for one in buttons:
            if not 1 <= len(one["callback_data"].encode()) <= 64:
                raise ApiError(400, "Bad Request: BUTTON_DATA_INVALID")
        reply = json.loads(call.params.get("reply_parameters") or "{}").get("message_id")
        sent = Sent(
            next(self._message_ids), self._chat(call), text, call.params.get("text", ""),
            call.params.get("parse_mode"), call.params.get("message_thread_id"), buttons, reply,
            **more,
        )  # fmt: skip
        self.sent.append(sent)
        return self._as_message(sent)

    def _as_message(self, sent: Sent) -> dict[str, Any]:
        return {
            "message_id": sent.id, "date": 1_700_000_000, "text": sent.text,
            "chat": {"id": int(sent.chat_id), "type": "private"},
        }  # fmt: skip

    def _do_sendmessage(self, call: Call) -> Any:
        self._chat(call)
        return self._show(
            call, shown_text(call.params.get("text", ""), call.params.get("parse_mode"))
        )

    def _find(self, call: Call) -> Sent:
        for one in self.sent:
            if (one.chat_id, str(one.id)) == (self._chat(call), str(call.params["message_id"])):
                return one
        raise ApiError(400, "Bad Request: message to edit not found")

    def _do_editmessagetext(self, call: Call) -> Any:
        sent = self._find(call)
        text = shown_text(call.params.get("text", ""), call.params.get("parse_mode"))
        if text == sent.text:
            raise ApiError(400, "Bad Request: message is not modified: specified new message"
                                " content and reply markup are exactly the same")  # fmt: skip
        sent.versions.append(sent.text)
        sent.text, sent.raw = text, call.params["text"]
        sent.parse_mode = call.params.get("parse_mode")
        return self._as_message(sent)

    def _do_editmessagereplymarkup(self, call: Call) -> Any:
        sent = self._find(call)
        sent.buttons = []
        return self._as_message(sent)

    def _do_sendchataction(self, call: Call) -> Any:
        self._chat(call)
        return True

    def _do_setmessagereaction(self, call: Call) -> Any:
        reaction = json.loads(call.params.get("reaction") or "[]")
        if any(one.get("emoji") not in _REACTIONS for one in reaction):
            raise ApiError(400, "Bad Request: REACTION_INVALID")
        self.reactions.append((self._chat(call), int(call.params["message_id"]), reaction))
        return True

    def _do_answercallbackquery(self, call: Call) -> Any:
        query = call.params["callback_query_id"]
        if query not in self._queries:
            raise ApiError(400, "Bad Request: query is too old or query ID is invalid")
        self._queries.discard(query)
        self.answered.append(query)
        return True

    def _do_getfile(self, call: Call) -> Any:
        file_id = call.params["file_id"]
        if file_id not in self.files:
            raise ApiError(400, "Bad Request: invalid file_id")
        if len(self.files[file_id]) > 20 * 1024 * 1024:
            raise ApiError(400, "Bad Request: file is too big")
        return {
            "file_id": file_id,
            "file_unique_id": f"u{file_id}",
            "file_path": f"files/{file_id}",
        }

    def _upload(self, call: Call, kind: str) -> Any:
        self._chat(call)
        file = call.files.get(kind) or next(iter(call.files.values()))
        return self._show(call, call.params.get("caption", ""), kind=kind, file=file)

    def _do_sendphoto(self, call: Call) -> Any:
        if not next(iter(call.files.values()))[1].startswith((b"\x89PNG", b"\xff\xd8", b"RIFF")):
            raise ApiError(400, "Bad Request: IMAGE_PROCESS_FAILED")
        return self._upload(call, "photo")

    def _do_senddocument(self, call: Call) -> Any:
        return self._upload(call, "document")

    def _do_sendvoice(self, call: Call) -> Any:
        return self._upload(call, "voice")
