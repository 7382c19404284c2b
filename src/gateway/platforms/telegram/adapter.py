"""Telegram: updates in, by polling or by webhook; the Bot API out."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agent.access import RESERVED
from hermes_base.certificates import certificates
from tools.extras import install_hint

from ...config import Platform, PlatformConfig
from ...splitting import utf16_length
from ..base import AdapterHost, Button, MessageEvent, OnMessage, PlatformAdapter
from ..last_look import look_before_sending
from ..lean_import import PASSPORT, import_without
from .manifest import MANIFEST
from .polling import Poller
from .sending import Sender
from .updates import (
    ALLOWED_UPDATES,
    Incoming,
    MalformedUpdateError,
    Me,
    read_update,
    update_id,
)

if TYPE_CHECKING:
    from telegram import Bot

    from .webhook import WebhookServer

log = logging.getLogger(__name__)

CONNECTIONS = 64
"""At once, for sending."""
MOST_COMMANDS = 100
"""In a menu."""


def catalog_of_menus() -> list[tuple[str, str]]:
    """The commands as Telegram takes them: no hyphens, and a sentence for each."""
    from agent.slash.table import catalog

    return [
        (command.name.replace("-", "_")[:32], (command.summary or command.name)[:256])
        for command in catalog("gateway")
    ]


def is_on(value: object) -> bool:
    """Whether a setting is on, written as YAML or in the environment."""
    return str(value).lower() not in ("false", "no", "off", "0")


class TelegramAdapter(PlatformAdapter):
    """A bot. Of its section are read: require_mention, reactions, reaction_answers, base_url,
    webhook_url, webhook_secret, webhook_host and webhook_port."""

    platform = Platform.TELEGRAM
    manifest = MANIFEST
    capabilities = MANIFEST.capabilities

    def __init__(self, config: PlatformConfig, host: AdapterHost | OnMessage) -> None:
        super().__init__(config, host)
        self.bot: Bot | None = None
        self.me = Me(0, "")
        self._poller = Poller(self)
        self._receiving = asyncio.Event()
        self._webhook: WebhookServer | None = None
        self._aside: set[asyncio.Task[None]] = set()
        self._sender = Sender(self)
        # Telegram calls any of the gateways behind one address.
        self.is_exclusive = not config.extra.get("webhook_url")

    @property
    def account(self) -> str:
        """The bot's id."""
        return self.config.token.partition(":")[0]

    # Connection

    async def connect(self) -> None:
        """Make the bot known to Telegram, and Telegram's way in known to it."""
        await self.disconnect()
        self.bot = bot = self._new_bot()
        from telegram.error import InvalidToken, TelegramError

        try:
            await bot.initialize()
            self.me = Me(bot.id, bot.username)
            if self.config.extra.get("webhook_url"):
                await self._open_webhook(bot)
            else:
                await bot.delete_webhook(drop_pending_updates=False)
        except InvalidToken as error:
            # Its own text has the token in it.
            raise ConnectionError("Telegram rejects the token: check TELEGRAM_BOT_TOKEN") from error
        except TelegramError as error:
            raise ConnectionError(f"Telegram cannot be reached: {error.message}") from error
        await self._register_commands(bot)

    def _new_bot(self) -> Bot:
        try:
            import_without("telegram", PASSPORT)
            from telegram import Bot
            from telegram.request import HTTPXRequest
        except ImportError as error:
            raise RuntimeError(
                f"Telegram needs python-telegram-bot. Run: {install_hint('telegram')}"
            ) from error
        if not self.config.token:
            raise RuntimeError("Telegram needs a token: set TELEGRAM_BOT_TOKEN")
        base = str(self.config.extra.get("base_url") or "https://api.telegram.org").rstrip("/")
        # A bot is made for every attempt to connect, and reads the certificates for each request.
        trust = {"verify": certificates()}
        request = HTTPXRequest(
            CONNECTIONS, read_timeout=20, write_timeout=20, connect_timeout=10, pool_timeout=60,
            media_write_timeout=120,
            httpx_kwargs={**trust, "event_hooks": {"request": [look_before_sending]}},
        )  # fmt: skip
        return Bot(
            self.config.token,
            base_url=f"{base}/bot",
            base_file_url=f"{base}/file/bot",
            request=request,
            get_updates_request=HTTPXRequest(connection_pool_size=1, httpx_kwargs=trust),
        )

    def _made_secret(self) -> str:
        """The same for every gateway of this bot: Telegram calls any of them."""
        return hashlib.sha256(f"webhook {self.config.token}".encode()).hexdigest()

    async def _open_webhook(self, bot: Bot) -> None:
        from .webhook import WebhookServer

        extra = self.config.extra
        url = str(extra["webhook_url"])
        secret = str(extra.get("webhook_secret") or self._made_secret())
        self._webhook = WebhookServer(urlsplit(url).path or "/", secret, self._knocked)
        self.webhook_port = await self._webhook.start(
            str(extra.get("webhook_host") or "127.0.0.1"), int(extra.get("webhook_port", 8443))
        )
        await bot.set_webhook(
            url, secret_token=secret, allowed_updates=list(ALLOWED_UPDATES),
            drop_pending_updates=False,
        )  # fmt: skip

    async def _knocked(self, update: Any) -> None:
        await self._receiving.wait()  # what an earlier run left comes first
        await self.accept(update)

    async def _register_commands(self, bot: Bot) -> None:
        """Show the commands of the shared table in the chats' menus: in groups those of
        administrators only to these."""
        from telegram import (
            BotCommandScopeAllChatAdministrators,
            BotCommandScopeAllGroupChats,
            BotCommandScopeAllPrivateChats,
            BotCommandScopeDefault,
        )
        from telegram.error import TelegramError

        every = [*catalog_of_menus(), ("last", "Show the last answer again")]
        for_all = [command for command in every if command[0].replace("_", "-") not in RESERVED]
        for scope, commands in (
            (BotCommandScopeDefault(), for_all),
            (BotCommandScopeAllPrivateChats(), every),
            (BotCommandScopeAllGroupChats(), for_all),
            (BotCommandScopeAllChatAdministrators(), every),
        ):
            try:
                await bot.set_my_commands(commands[:MOST_COMMANDS], scope=scope)
            except TelegramError as error:
                log.warning("The commands are not in Telegram's menu: %s", error.message)
                return

    async def disconnect(self) -> None:
        """Stop receiving, and free connections."""
        self._receiving.clear()
        for task in list(self._aside):
            task.cancel()
        if self._webhook is not None:
            await self._webhook.stop()
            self._webhook = None
        if self.bot is not None:
            bot, self.bot = self.bot, None
            await bot.shutdown()

    # Messages in

    async def run(self) -> None:
        """Receive until cancelled."""
        if self._webhook is not None:
            self._receiving.set()
            await asyncio.Event().wait()
        await self._poller.run()

    async def accept(self, update: Any) -> None:
        """Deal with one update; returns when it is stored or is nothing to us."""
        try:
            only_named = bool(self.config.extra.get("require_mention", True))
            incoming = read_update(
                update, self.me, require_mention=only_named, expected=self.host.expects
            )
        except MalformedUpdateError as error:
            log.warning("Update %s cannot be read: %s", update_id(update), error)
            return
        if incoming is None:
            return
        event = incoming.event
        if incoming.reaction is not None:
            await self._accept_reaction(incoming)
            return
        if event.button is not None:
            data = self._sender.button_data(event.button)
            if data is None:  # a button of an earlier run; nobody waits for it
                await self._settle_button(incoming)
                return
            event.button = event.text = data
        if incoming.attachments and await self._is_known(incoming):
            from .media import fetch_all

            with self.host.expecting(event.source):
                await fetch_all(self, incoming)
                await self.on_message(event)
        else:
            if incoming.attachments and not event.text:
                event.text = f"[{incoming.attachments[0].name}]"
            await self.on_message(event)
        if incoming.callback_id is not None:
            # Telegram need not wait for it.
            task = asyncio.ensure_future(self._settle_button(incoming))
            self._aside.add(task)
            task.add_done_callback(self._aside.discard)

    async def _accept_reaction(self, incoming: Incoming) -> None:
        """Take a thumb under a question as its answer; any other reaction says nothing."""
        event = incoming.event
        if not is_on(self.config.extra.get("reaction_answers", True)):
            return
        asked = str(event.reply_to)
        data = self._sender.answer_of(event.source.chat_id, asked, str(incoming.reaction))
        if data is None or not await self._is_known(incoming):
            return
        # A reaction does not say in which topic its message is.
        event.source.thread_id = self._sender.thread_of(event.source.chat_id, asked)
        event.button = event.text = data
        await self.on_message(event)
        await self._take_buttons(event)

    async def _take_buttons(self, event: MessageEvent) -> None:
        """Take the buttons under a question away that has its answer."""
        from telegram.error import TelegramError

        if self.bot is None:
            return
        try:
            await self.bot.edit_message_reply_markup(
                event.source.chat_id, int(str(event.reply_to)), reply_markup=None
            )
        except TelegramError as error:
            log.info("Buttons in %s stay as they are: %s", event.source.chat_id, error.message)

    async def _is_known(self, incoming: Incoming) -> bool:
        """Whether the sender may use the gateway: nobody else's files are fetched."""
        return await self.host.is_allowed(incoming.event.source)

    async def _settle_button(self, incoming: Incoming) -> None:
        """End the waiting sign on a pressed button, and take the buttons away."""
        from telegram.error import TelegramError

        bot, event = self.bot, incoming.event
        if bot is None or incoming.callback_id is None:
            return
        try:
            await bot.answer_callback_query(incoming.callback_id)
            if event.reply_to and await self._is_known(incoming):
                await bot.edit_message_reply_markup(
                    event.source.chat_id, int(event.reply_to), reply_markup=None
                )
        except TelegramError as error:
            log.info("A button in %s stays as it is: %s", event.source.chat_id, error.message)

    # Messages out

    async def send(
        self,
        chat_id: str,
        text: str,
        *,
        thread_id: str | None = None,
        reply_to: str | None = None,
        buttons: Sequence[Button] = (),
        key: str | None = None,
    ) -> str | None:
        """Show a text in a chat; returns Telegram's id for it. Raises SendError."""
        return await self._sender.send(chat_id, text, thread_id, reply_to, buttons)

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        """Replace the text of a message of ours."""
        await self._sender.edit(chat_id, message_id, text)

    async def typing(self, chat_id: str, thread_id: str | None = None) -> None:
        """Show that an answer is being made, for about five seconds."""
        await self._sender.typing(chat_id, thread_id)

    async def react(self, chat_id: str, message_id: str, emoji: str) -> None:
        """Put an emoji on a message."""
        await self._sender.react(chat_id, message_id, emoji)

    async def send_media(
        self, chat_id: str, path: str, *, caption: str = "", thread_id: str | None = None
    ) -> str | None:
        """Send a file: a picture, sound or film as such, anything else as a document."""
        return await self._sender.send_media(chat_id, path, caption, thread_id)

    measure = staticmethod(utf16_length)
    """Telegram counts UTF-16 units of the text that is shown."""
