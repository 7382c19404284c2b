"""The main screen: the conversation, what waits, the input and the status line."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key
from textual.screen import Screen

from conversation.abandoned import GOING_ON
from tui_gateway.client import Client, ConnectionLostError, Event, RpcFailedError
from tui_gateway.rpc import SESSION_NOT_FOUND

from .blocks import Notice, UserMessage, Welcome
from .commands import Commands
from .completing import candidates_for
from .completions import Completions
from .composer import Composer
from .questions import KINDS, Questions
from .status_line import StatusLine
from .transcript import Transcript
from .waiting import Message, Waiting

if TYPE_CHECKING:
    from tui_gateway.shapes import Opened

    from .app import HermesApp

log = logging.getLogger(__name__)


class ChatScreen(Screen[None]):
    """One conversation at a time; others may go on behind it."""

    DEFAULT_CSS = """
    ChatScreen { background: $background; color: $foreground; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "Stop the answer"),
        Binding("f1", "app.help", "Help"),
        Binding("f2,ctrl+s", "app.sessions", "Conversations"),
        Binding("f3", "app.next_theme", "Theme"),
        Binding("f4,ctrl+g", "app.copy_answer", "Copy"),
        Binding("ctrl+o", "fold_all", "Fold cards"),
        Binding("ctrl+r", "reasoning", "Reasoning"),
        Binding("ctrl+n", "new", "New conversation"),
        Binding("shift+tab", "next_mode", "Plan or guarded", priority=True),
        Binding("ctrl+up", "app.focus_previous", "Cards", show=False, priority=True),
        Binding("ctrl+down", "app.focus_next", "Cards", show=False, priority=True),
        Binding("pageup", "scroll(-1)", "Scroll", show=False, priority=True),
        Binding("pagedown", "scroll(1)", "Scroll", show=False, priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.sid = ""
        """The live id of the conversation; empty until it is open."""
        self.key = ""
        """Where it is stored."""
        self.has_messages = False
        self._drawn_seq = 0
        """The sequence number of the newest event that is drawn already."""
        self._drawing = asyncio.Lock()
        self._drawn_by: asyncio.Task[Any] | None = None
        self._client: Client | None = None
        self._is_open = asyncio.Event()
        self.is_switched = asyncio.Event()
        """Set when the conversation that the server switched to has been drawn."""
        self._sending = asyncio.Lock()
        self._commands = Commands(self)
        self._config_warning = ""

    @property
    def hermes(self) -> HermesApp:
        """The application."""
        return cast("HermesApp", self.app)

    @property
    def client(self) -> Client:
        """The connection; there is one once the conversation is open."""
        assert self._client is not None
        return self._client

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        completions = Completions()
        self.transcript, self.waiting, self.status = Transcript(), Waiting(), StatusLine()
        self.composer = Composer(self.hermes.history, completions)
        self.completions = completions
        yield self.transcript
        yield self.waiting
        yield completions
        yield self.composer
        yield self.status

    def on_mount(self) -> None:
        """The first frame."""
        self.transcript.mount(Welcome())
        self.composer.focus()

    def prepare(self) -> None:
        """Import what only a conversation needs, once the first frame is there."""
        from .turn_view import TurnView

        self.turn = TurnView(self.transcript, self.waiting, self.status)
        self.turn.show_reasoning = self.hermes.settings.get("show_reasoning", False)
        self.questions = Questions(self.app, self._asking)

    # The conversation that is shown

    async def show(self, client: Client, opened: Opened) -> None:
        """Show a live session as the server tells it."""
        async with self._alone():
            sid = opened["session_id"]
            # Events may have come before this screen existed.
            if client.last_seen(sid) > opened["latest_seq"]:
                opened = await client.activate(sid)
            await self._draw(client, opened)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Draw one thing at a time: a whole conversation, or an event."""
        task = asyncio.current_task()
        if self._drawn_by is task:
            yield
            return
        async with self._drawing:
            self._drawn_by = task
            try:
                yield
            finally:
                self._drawn_by = None

    async def _draw(self, client: Client, opened: Opened) -> None:
        from .stored_blocks import blocks_of

        self._client = client
        self.sid, self.key = opened["session_id"], opened["stored_session_id"]
        self._drawn_seq = opened["latest_seq"]
        self.questions.forget()
        blocks = blocks_of(opened["messages"], show_reasoning=self.turn.show_reasoning)
        self.has_messages = bool(blocks)
        inflight = opened["inflight"]
        if inflight is not None:
            stamps = [block.timestamp for block in blocks if isinstance(block, UserMessage)]
            if inflight["timestamp"] is None or inflight["timestamp"] not in stamps:
                blocks.append(UserMessage(inflight["user"], inflight["timestamp"]))
        await self.transcript.show(blocks or [Welcome(opened["info"]["model"])])
        self.turn.reset(running=opened["running"])
        if inflight is not None:
            if inflight["recovered"]:
                await self.tell(GOING_ON)
            await self.turn.resume_answer(inflight["assistant"])
        if opened["status"] == "elsewhere":
            await self.tell("Another process is answering here.")
        for question_elsewhere in opened["asked_elsewhere"]:
            await self.tell(question_elsewhere)
        self._tell_info(cast(dict[str, Any], opened["info"]))
        await self._tell_config_warning(cast(dict[str, Any], opened["info"]))
        for question in opened["pending"]:
            self.questions.ask(question["type"], question["payload"], client, self.sid)
        self._is_open.set()
        self.refresh_facts()

    async def reload(self) -> None:
        """Draw the conversation anew."""
        async with self._alone():
            await self._draw(self.client, await self.client.activate(self.sid))

    async def take(self, event: Event) -> None:
        """Something happened on the server."""
        async with self._alone():
            await self._take(event)

    async def _take(self, event: Event) -> None:
        if event.session_id and event.session_id != self.sid:
            if event.type == "session.snapshot":
                await self._take_snapshot(event)
            elif event.type == "message.complete":
                self.notify("An answer in another conversation is there (F2).")
            return
        is_old = event.seq is not None and event.seq <= self._drawn_seq
        if is_old and await self.turn.take_old(event.type, event.payload):
            return
        if await self.turn.take(event.type, event.payload):
            if event.type == "message.complete":
                self.refresh_facts()
            elif event.type == "message.start":
                await self._first_message()
        elif event.type in KINDS:
            self.questions.ask(event.type, event.payload, self.client, self.sid)
        else:
            await self._take_other(event)

    async def _first_message(self) -> None:
        self.has_messages = True
        await self.transcript.query(Welcome).remove()

    async def _take_other(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case "request.closed" | "sudo.expire":
                self.questions.closed(str(payload.get("request_id")))
            case "session.info":
                self._tell_info(payload)
                await self._tell_config_warning(payload)
            case "session.title":
                self.status.set(title=payload.get("title") or "")
            case "history.changed":
                await self.reload()
            case "session.switched" | "screen.clear":
                self.waiting.clear_all()
                await self.reload()
                self.is_switched.set()
            case "session.snapshot":
                await self._take_snapshot(event)
            case "session.closed" | "session.gone":
                await self.hermes.reopen(event.session_id)
            case "clipboard.copy":
                self.hermes.copy(str(payload.get("text") or ""))
            case "background.complete":
                await self.tell(f"A background task has ended.\n{payload.get('text')}", "output")
            case "review.summary":
                await self.tell(str(payload.get("text")))
            case "error":
                await self.tell(str(payload.get("message")), "error")
                self.turn.stopped()
            case _:
                log.debug("Not shown: %s", event.type)

    async def _take_snapshot(self, event: Event) -> None:
        moved = event.payload.get("previous_session_id")
        if event.session_id != self.sid and moved != self.sid:
            return
        was_running = self.turn.is_running
        await self.show(self.client, cast("Opened", event.payload))
        if moved is None:
            return
        for path in list(self.waiting.images):  # the new server does not know of them
            await self.attach(path)
        if was_running and not self.turn.is_running:
            await self.tell(
                "The server stopped in the middle of this answer and was started again. All that"
                " was said is kept; /retry asks your last message again.",
                "warning",
            )
        else:
            await self.tell("The server was started again; the conversation goes on.")

    def connection_lost(self) -> None:
        """The server has stopped; it is being started again."""
        self.questions.forget()
        self.status.set(state="lost")

    def connection_restored(self) -> None:
        """There is a server again; a snapshot follows."""
        self.status.set(state="running" if self.turn.is_running else "ready")

    async def tell(self, text: str, kind: Any = "info") -> None:
        """Say something in the conversation."""
        await self.transcript.add(Notice(text, kind))

    def _asking(self, is_asking: bool) -> None:
        busy = "running" if self.turn.is_running else "ready"
        self.status.set(state="asking" if is_asking else busy)

    async def _tell_config_warning(self, info: dict[str, Any]) -> None:
        """Show a warning about the configuration, once until it changes."""
        warning = str(info.get("config_warning") or "")
        if warning and warning != self._config_warning:
            await self.tell(warning)
        self._config_warning = warning

    def _tell_info(self, info: dict[str, Any]) -> None:
        self.key = info.get("stored_session_id") or self.key
        self.status.set(
            model=info.get("model") or "",
            title=info.get("title") or "",
            mode=info.get("mode") or "guarded",
            yolo=bool(info.get("yolo")),
        )
        for welcome in self.transcript.query(Welcome):
            welcome.tell(info.get("model") or "")

    @work(group="facts", exclusive=True)
    async def refresh_facts(self) -> None:
        """Ask how much of the model's window is used, and what it has cost."""
        try:
            window = await self.client.request("session.context_breakdown", session_id=self.sid)
            used = await self.client.request("session.usage", session_id=self.sid)
        except (RpcFailedError, ConnectionLostError) as error:
            log.info("Could not read the usage: %s", error)
            return
        self.status.set(
            context_used=window["context_used"],
            context_max=window["context_max"],
            cost_usd=used["cost_usd"],
        )

    # Sending

    def on_composer_sent(self, event: Composer.Sent) -> None:
        """Enter was pressed."""
        if event.text or self.waiting.images:
            self.composer.sent(event.text)
            self.run_worker(self._send(event.text), group="send")

    async def _send(self, text: str) -> None:
        await self._is_open.wait()
        async with self._sending:
            try:
                if not await self._commands.carry_out(text):
                    await self.submit(text)
            except RpcFailedError as error:
                await self.tell(str(error), "error")
            except ConnectionLostError:
                await self.tell("The server stopped before it answered. Try it again.", "warning")

    async def submit(self, text: str) -> None:
        """Send a message; if that fails, it is offered for editing again."""
        message_id = uuid.uuid4().hex
        await self._first_message()
        is_shown = not self.turn.is_running
        if is_shown:
            await self.turn.show_sent(message_id, text)
        else:
            self.waiting.add(Message(message_id, text, "sending"))
        try:
            how = await self._submitted(message_id, text, is_shown)
        except (RpcFailedError, ConnectionLostError):
            await self.turn.take_back(message_id)
            self.waiting.take(message_id)
            if is_shown:
                self.turn.stopped()
            if not self.composer.text:
                self.composer.put(text)
            raise
        self.waiting.forget_images()
        if self.waiting.has(message_id):
            # "streaming" and not begun: a turn of another process comes first.
            how = how if how in ("steered", "interrupting") else "queued"
            self.waiting.add(Message(message_id, text, how))
        self.status.set(waiting=len(self.waiting.messages))

    async def _submitted(self, message_id: str, text: str, is_shown: bool) -> str:
        """Send a message; if the live session has ended, to the one that replaces it."""
        sid = self.sid
        try:
            return await self.client.submit(sid, text, message_id=message_id)
        except RpcFailedError as error:
            if error.code != SESSION_NOT_FOUND:
                raise
        await self.hermes.reopen(sid)
        if is_shown:  # the screen was drawn anew
            await self._first_message()
            await self.turn.show_sent(message_id, text)
        return await self.client.submit(self.sid, text, message_id=message_id)

    # Completion, pictures

    def on_composer_typed(self, event: Composer.Typed) -> None:
        """Look for candidates."""
        self._complete(event)

    @work(group="complete", exclusive=True)
    async def _complete(self, event: Composer.Typed) -> None:
        if not self.sid:
            return
        candidates, start = await candidates_for(self.client, self.sid, event.before, event.asked)
        if self.composer.before_cursor == event.before:
            self.completions.offer(candidates, start, event.before)

    def on_option_list_option_selected(self, event: Completions.OptionSelected) -> None:
        """A click chooses one."""
        event.stop()
        self.composer.accept()
        self.composer.focus()

    async def on_composer_dropped(self, event: Composer.Dropped) -> None:
        """A file was dropped: a picture goes along, any other is named."""
        text = event.text
        if self.sid:
            try:
                drop = await self.client.request(
                    "input.detect_drop", session_id=self.sid, text=text
                )
            except (RpcFailedError, ConnectionLostError) as error:
                log.info("Not taken for a file: %s", error)
            else:
                text = drop["text"]
                if drop["is_image"]:
                    self.waiting.attach(drop["path"])
        self.composer.insert(text)

    async def attach(self, path: str) -> None:
        """Send a picture along with the next message."""
        try:
            done = await self.client.request("image.attach", session_id=self.sid, path=path)
        except RpcFailedError as error:
            await self.tell(str(error), "error")
        else:
            self.waiting.attach(done["path"])

    def on_composer_emptied(self) -> None:
        """Backspace in the empty input leaves out the last picture."""
        path = self.waiting.detach_last()
        if path is not None:
            self.run_worker(
                self.client.request("image.detach", session_id=self.sid, path=path), group="send"
            )

    def on_composer_help_wanted(self) -> None:
        """A question mark."""
        self.hermes.action_help()

    # Keys

    def on_key(self, event: Key) -> None:
        """Keys typed while a card has the focus go to the input."""
        if event.is_printable and event.character not in (None, " "):
            event.stop()
            self.composer.focus()
            self.composer.insert(event.character or "")

    async def action_interrupt(self) -> None:
        """Stop the running turn."""
        self.composer.focus()
        if not self.sid or not self.turn.is_running:
            return
        self.status.set(doing="stopping")
        try:
            if not await self.client.interrupt(self.sid):
                self.turn.stopped()
        except (RpcFailedError, ConnectionLostError) as error:
            await self.tell(f"It could not be stopped: {error}", "warning")

    def action_scroll(self, pages: int) -> None:
        """Move through the conversation."""
        self.transcript.scroll_relative(y=pages * max(1, self.transcript.size.height - 2))

    def action_fold_all(self) -> None:
        """Open or close every card."""
        self.transcript.fold_all()

    def action_reasoning(self) -> None:
        """Show reasoning, or only that there is some."""
        from .reasoning import Reasoning

        shown = not self.turn.show_reasoning
        self.turn.show_reasoning = shown
        self.hermes.settings.set("show_reasoning", shown)
        for block in self.transcript.query(Reasoning):
            block.fold(shown)
        self.notify("Reasoning is shown." if shown else "Reasoning is folded.", timeout=2)

    def action_next_mode(self) -> None:
        """Go round: guarded, plan, guarded."""
        if self.sid:
            wanted = "plan" if self.status.facts.mode == "guarded" else "guarded"
            before = self.status.facts.mode
            self.status.set(mode=wanted)  # a second key counts from here
            self.run_worker(self._choose_mode(wanted, before), group="mode")

    async def _choose_mode(self, wanted: str, before: str) -> None:
        try:
            done = await self.client.request("session.mode.set", session_id=self.sid, mode=wanted)
        except (RpcFailedError, ConnectionLostError) as error:
            self.status.set(mode=before)
            await self.tell(f"The mode stays as it was: {error}", "warning")
            return
        meaning = f"{done['mode']}: {done['meaning']}"
        self.notify(meaning[0].upper() + meaning[1:], timeout=3, markup=False)

    def action_new(self) -> None:
        """Begin a new conversation."""
        self.run_worker(self._send("/new"), group="send")
