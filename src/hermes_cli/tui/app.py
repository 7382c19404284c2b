"""The application: the connection to the server, the screens, the themes, and leaving."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from tui_gateway.client import Client, ConnectionLostError, Event, RpcFailedError

from .chat_screen import ChatScreen
from .settings import InputHistory, Settings
from .themes import DEFAULT, NAMES, THEMES

log = logging.getLogger(__name__)

AGAIN_SECONDS = 3.0
"""Within this time a second Ctrl-C leaves."""
USAGE_ERROR = 2


class Opening(NamedTuple):
    """Which conversation the interface begins with."""

    resume: str | None = None
    """An id, the beginning of one, or a title."""
    continue_last: bool = False
    model: str | None = None
    mode: str | None = None
    folders: tuple[str, ...] = ()
    """Folders that are added to it."""


class HermesApp(App[int]):
    """The terminal interface."""

    TITLE = "Hermes"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "leave_or_copy", "Leave (twice)", priority=True, show=False),
        Binding("ctrl+q", "leave", "Leave", priority=True, show=False),
        Binding("ctrl+d", "leave_if_empty", show=False, priority=True),
    ]

    CSS = """
    OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    OptionList > .option-list--option-highlighted {
        background: $primary 20%; color: $foreground; text-style: bold;
    }
    VerticalScroll, OptionList, TextArea, Tree {
        scrollbar-size-vertical: 1; scrollbar-background: $surface; scrollbar-color: $panel;
        scrollbar-background-hover: $surface; scrollbar-color-hover: $primary;
    }
    """

    def __init__(self, client: Client, home: Path, opening: Opening | None = None) -> None:
        super().__init__()
        self.client = client
        self.home = home
        self._opening = opening or Opening()
        self.settings = Settings(home)
        self.history = InputHistory(home)
        self._last_ctrl_c = 0.0
        self._reopening = asyncio.Lock()
        self._early: list[events.Event] | None = []
        self.last_words: Any = lambda: ""
        """What the server said on standard error before it went."""
        for theme in THEMES:
            self.register_theme(theme)
        chosen = self.settings.get("theme", DEFAULT)
        self.theme = chosen if chosen in self.available_themes else DEFAULT

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """For the themes that come with Textual."""
        return {"muted": "#8a8f98"}

    def get_default_screen(self) -> Screen[None]:
        """The conversation."""
        self.chat = ChatScreen()
        return self.chat

    async def on_event(self, event: events.Event) -> None:
        """Buffer keys until there is an input; drop keys typed before a dialog could be read."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            if self._early is not None:
                self._early.append(event)
                return
            is_ctrl_c = isinstance(event, events.Key) and event.key == "ctrl+c"
            if not is_ctrl_c and not getattr(self.screen, "is_ready", True):
                return
        await super().on_event(event)

    def on_mount(self) -> None:
        """Connect once the first frame is drawn."""
        self.call_after_refresh(self._start)

    def _start(self) -> None:
        gc.enable()  # off while everything was imported (see `start`)
        self.chat.prepare()
        early, self._early = self._early or [], None
        for event in early:
            self.post_message(event)
        self.run_worker(self._listen(), group="events")

    # The server

    async def _listen(self) -> None:
        if not self.client.is_connected:
            try:
                await self.client.connect()
            except OSError as error:
                self.exit(1, message=f"hermes: the session server cannot be started: {error}")
                return
        self.run_worker(self._open(), group="open")
        async for event in self.client.events():
            try:
                await self._take(event)
            except (RpcFailedError, ConnectionLostError) as error:
                log.warning("Not drawn: %s: %s", event.type, error)
            except Exception:
                # One event that cannot be drawn must not end the interface; the rest is shown.
                log.exception("Not drawn: %s", event.type)

    async def _take(self, event: Event) -> None:
        if event.type == "connection.lost":
            words = self.last_words()
            log.warning("The server stopped. %s", words)
            if words:
                self.notify(words, title="The server stopped", severity="error", markup=False)
            self.chat.connection_lost()
        elif event.type == "connection.restored":
            self.chat.connection_restored()
        else:
            await self.chat.take(event)

    async def _open(self) -> None:
        """Open the conversation that was asked for."""
        while True:
            try:
                opened = await self._opened()
                break
            except ConnectionLostError:
                if not self.client.is_connected:
                    continue  # waits for the next connection
            except RpcFailedError as error:
                self.exit(USAGE_ERROR, message=f"hermes: {error}")
                return
        await self._follow_configuration()
        await self.chat.show(self.client, opened)

    async def _follow_configuration(self) -> None:
        """Take what the person has not chosen here from config.yaml."""
        if self.settings.has("show_reasoning"):
            return
        try:
            setting = await self.client.request("config.get", key="display.show_reasoning")
        except (RpcFailedError, ConnectionLostError) as error:
            log.warning("Could not read display.show_reasoning: %s", error)
            return
        if not self.settings.has("show_reasoning"):
            self.chat.turn.show_reasoning = bool(setting.get("value"))

    async def _opened(self) -> Any:
        opened = await self._resumed_or_new()
        for folder in self._opening.folders:
            await self.client.request(
                "session.folders.add", session_id=opened["session_id"], path=folder
            )
        return opened

    async def _resumed_or_new(self) -> Any:
        wanted = self._opening.resume
        columns = self.size.width
        if wanted is None and self._opening.continue_last:
            wanted = (await self.client.request("session.most_recent"))["session_id"]
            if wanted is None:
                self.notify("There is no conversation to continue yet; this is a new one.")
        if wanted is not None:
            opened = await self.client.resume(wanted, cols=columns)
            if self._opening.model:
                await self.client.request(
                    "config.set", key="model", value=self._opening.model,
                    session_id=opened["session_id"],
                )  # fmt: skip
            if self._opening.mode:
                done = await self.client.request(
                    "session.mode.set", session_id=opened["session_id"], mode=self._opening.mode
                )
                opened["info"]["mode"] = done["mode"]
            return opened
        return await self.client.create(
            cols=columns,
            cwd=str(Path.cwd()),
            model=self._opening.model,
            **({"mode": self._opening.mode} if self._opening.mode else {}),
        )

    async def go_to(self, session: str) -> None:
        """Show another conversation; one with a running turn goes on behind it."""
        before, was_running = self.chat.sid, self.chat.turn.is_running
        try:
            opened = await self.client.resume(session, cols=self.size.width)
            self.chat.waiting.clear_all()
            await self.chat.show(self.client, opened)
            if before and before != opened["session_id"] and not was_running:
                await self.client.close_session(before)
        except (RpcFailedError, ConnectionLostError) as error:
            self.notify(str(error), severity="error")

    async def reopen(self, gone: str) -> None:
        """A live session has ended: reopen its conversation, or begin a new one."""
        async with self._reopening:
            if self.chat.sid != gone:
                return  # another caller has reopened it already
            try:
                opened = await self.client.resume(self.chat.key, cols=self.size.width)
            except RpcFailedError:  # nothing was said in it
                opened = await self.client.create(cols=self.size.width, cwd=str(Path.cwd()))
            await self.chat.show(self.client, opened)

    # Screens

    def action_help(self) -> None:
        """Show every key and command."""
        from .help_screen import HelpScreen

        self.push_screen(HelpScreen(self.client))

    def action_sessions(self) -> None:
        """Choose a conversation."""
        from .session_picker import SessionPicker

        def chosen(session: str | None) -> None:
            if session is not None:
                self.run_worker(self.go_to(session), group="open", exclusive=True)

        self.push_screen(SessionPicker(self.client, self.home, self.chat.key), chosen)

    def action_copy_answer(self) -> None:
        """Choose an answer or a block of code to copy."""
        from .copy_screen import CopyScreen, copyable

        choices = copyable(self.chat.transcript.answers())
        if not choices:
            self.notify("There is no answer to copy yet.")
            return

        def chosen(text: str | None) -> None:
            if text is not None:
                self.copy(text)

        self.push_screen(CopyScreen(choices), chosen)

    def copy(self, text: str) -> None:
        """Put text on the clipboard, by way of the terminal."""
        self.copy_to_clipboard(text)
        self.notify(f"Copied {len(text):,} characters.", timeout=2)

    # Themes

    def action_next_theme(self) -> None:
        """Take the next of our themes."""
        at = NAMES.index(self.theme) if self.theme in NAMES else -1
        self.use_theme(NAMES[(at + 1) % len(NAMES)])

    def use_theme(self, name: str) -> None:
        """Take a theme by its name, and keep it; without a name say which there are."""
        if name not in self.available_themes:
            others = ", ".join(sorted(set(self.available_themes) - set(NAMES)))
            known = f"Themes: {', '.join(NAMES)}; also {others}"
            self.notify(known if not name else f"There is no theme {name!r}. {known}", markup=False)
            return
        self.theme = name
        self.settings.set("theme", name)
        self.notify(f"Theme: {name}", timeout=2)

    # Leaving

    def action_leave_or_copy(self) -> None:
        """Ctrl-C: copy what is selected; else the second one within a moment leaves."""
        selected = self.screen.get_selected_text() or self.chat.composer.selected_text
        if selected:
            self.copy(selected)
            self.screen.clear_selection()
            self.chat.composer.move_cursor(self.chat.composer.cursor_location)
            return
        now = time.monotonic()
        if now - self._last_ctrl_c < AGAIN_SECONDS:
            self.leave()
            return
        self._last_ctrl_c = now
        if self.screen is self.chat and self.chat.composer.text:
            self.chat.composer.clear_all()
        self.notify("Ctrl-C again leaves; Esc stops the answer.", timeout=AGAIN_SECONDS)

    def action_leave(self) -> None:
        """Leave."""
        self.leave()

    def action_leave_if_empty(self) -> None:
        """Ctrl-D: leave, unless something is being written."""
        if self.screen is not self.chat:
            return
        if self.chat.composer.text:
            self.chat.composer.action_delete_right()
        else:
            self.leave()

    def leave(self, code: int = 0) -> None:
        """Leave; the server stores what runs and ends the session."""
        self.exit(code)
