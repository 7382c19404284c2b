"""The events of a turn, drawn into the transcript as they come.

Text, reasoning and tools alternate: whatever begins ends what was being written before. What a
snapshot has shown already may come again as an event; a message is then known by its timestamp and
a tool's run by its id.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .answer import Answer
from .blocks import Kind, Notice, UserMessage
from .reasoning import Reasoning
from .status_line import StatusLine
from .tool_card import ToolCard
from .transcript import Transcript
from .waiting import Waiting

Payload = dict[str, Any]


class TurnView:
    """Draws one conversation's turns."""

    def __init__(self, transcript: Transcript, waiting: Waiting, status: StatusLine) -> None:
        self._transcript, self._waiting, self._status = transcript, waiting, status
        self._answer: Answer | None = None
        self._reasoning: Reasoning | None = None
        self._sent: dict[str, UserMessage] = {}
        """Messages that are shown before their turn has begun."""
        self._handlers: dict[str, Callable[[Payload], Awaitable[None]]] = {
            "message.start": self._start,
            "message.delta": self._delta,
            "message.interim": self._interim,
            "message.steered": self._steered,
            "message.complete": self._complete,
            "reasoning.delta": self._think,
            "tool.start": self._tool_start,
            "tool.progress": self._tool_progress,
            "tool.complete": self._tool_complete,
            "status.update": self._update,
        }
        self.show_reasoning = False
        self.is_running = False

    async def take(self, kind: str, payload: Payload) -> bool:
        """Draw an event; False if it is none of a turn."""
        handler = self._handlers.get(kind)
        if handler is None:
            return False
        await handler(payload)
        return True

    async def take_old(self, kind: str, payload: Payload) -> bool:
        """Take an event from before a snapshot, and draw only what the snapshot does not show.

        False if it is not an event of a turn, and has to be handled like any other.
        """
        if kind == "message.start":
            self._begun(payload.get("prompt_id") or "")
        elif kind == "message.complete":
            await self._tell_end(payload)
        return kind.startswith(("message.", "reasoning.", "tool."))

    def reset(self, *, running: bool) -> None:
        """The transcript was drawn anew."""
        self._answer, self._reasoning = None, None
        self._sent.clear()
        self._set_running(running)

    async def resume_answer(self, text: str) -> None:
        """Go on with an answer of which this is the text so far."""
        if text:
            self._answer = Answer()
            await self._transcript.add(self._answer)
            await self._answer.write(text)

    async def show_sent(self, message_id: str, text: str) -> None:
        """Show a message at once, before its turn has begun."""
        self._sent[message_id] = UserMessage(text)
        await self._transcript.add(self._sent[message_id])
        self._transcript.anchor()
        self._set_running(True)

    async def take_back(self, message_id: str) -> None:
        """A message that was shown could not be sent, or waits after all."""
        block = self._sent.pop(message_id, None)
        if block is not None:
            await block.remove()

    def stopped(self) -> None:
        """No turn runs any more, whatever the last event was."""
        self._set_running(False)

    def _set_running(self, running: bool) -> None:
        self.is_running = running
        if self._status.facts.state != "lost" or not running:
            self._status.set(state="running" if running else "ready", doing="")

    async def _end_block(self, text: str | None = None) -> None:
        """What was being written is over."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.finish(text)
        self._end_reasoning()

    def _end_reasoning(self) -> None:
        if self._reasoning is not None:
            self._reasoning.finish()
            self._reasoning = None

    # Messages

    async def _start(self, payload: Payload) -> None:
        if payload.get("restart"):
            answer, self._answer = self._answer, None
            if answer is not None:
                await answer.finish()
                await answer.remove()
            self._end_reasoning()
            return
        await self._end_block()
        self._set_running(True)
        prompt_id = payload.get("prompt_id") or ""
        stamp = payload.get("timestamp")
        self._begun(prompt_id)
        shown = self._sent.get(prompt_id)
        if shown is not None:
            shown.timestamp = stamp
        elif not self._knows(UserMessage, stamp):
            block = UserMessage(payload.get("prompt") or "", stamp)
            if prompt_id:
                self._sent[prompt_id] = block
            await self._transcript.add(block)

    def _begun(self, prompt_id: str) -> None:
        """A queued message has begun."""
        self._waiting.take(prompt_id)
        self._status.set(waiting=len(self._waiting.messages))

    def _knows(self, kind: type[UserMessage] | type[Answer], stamp: float | None) -> bool:
        return stamp is not None and any(
            block.timestamp == stamp for block in self._transcript.query(kind)
        )

    async def _delta(self, payload: Payload) -> None:
        self._end_reasoning()
        if self._answer is None:
            self._answer = Answer()
            await self._transcript.add(self._answer)
            self._status.set(doing="answering")
        await self._answer.write(payload.get("text") or "")

    async def _interim(self, payload: Payload) -> None:
        text = payload.get("text") or ""
        if self._answer is None and not payload.get("already_streamed") and text:
            await self._transcript.add(Answer(text))
        await self._end_block(text or None)

    async def _steered(self, payload: Payload) -> None:
        text = payload.get("text") or ""
        self._waiting.take(text=text)
        self._status.set(waiting=len(self._waiting.messages))
        await self._end_block()
        await self._transcript.add(UserMessage(text))

    async def _complete(self, payload: Payload) -> None:
        status, text = payload.get("status"), payload.get("text") or ""
        stamp = payload.get("timestamp")
        whole = text if status == "complete" and text else None
        if self._answer is None and whole is not None and not self._knows(Answer, stamp):
            self._answer = Answer(whole)
            await self._transcript.add(self._answer)
        if self._answer is not None:
            self._answer.timestamp = stamp
        await self._end_block(whole)
        for card in self._transcript.query(ToolCard):
            card.end_unknown()
        await self._tell_end(payload)
        goes_on = any(message.how != "steered" for message in self._waiting.messages)
        self._set_running(goes_on and not payload.get("unstored"))

    async def _tell_end(self, payload: Payload) -> None:
        """Say why a turn has ended, if not with an answer; what was dropped waits no more."""
        status = payload.get("status")
        self._begun(payload.get("dropped") or "")
        if payload.get("warning"):
            kind: Kind = "error" if status == "error" else "warning"
            await self._transcript.add(Notice(str(payload["warning"]), kind))
        elif status == "interrupted":
            await self._transcript.add(Notice("Stopped. What was said so far is kept."))

    # What happens in between

    async def _think(self, payload: Payload) -> None:
        if self._reasoning is None:
            if self._answer is not None:
                await self._end_block()
            self._reasoning = Reasoning(is_open=self.show_reasoning)
            await self._transcript.add(self._reasoning)
            self._status.set(doing="thinking")
        self._reasoning.write(payload.get("text") or "")

    async def _tool_start(self, payload: Payload) -> None:
        await self._end_block()
        tool_id, name = str(payload.get("tool_id")), str(payload.get("name"))
        self._status.set(doing=name)
        if self._card(tool_id) is None:
            context, arguments = str(payload.get("context") or ""), payload.get("args") or {}
            await self._transcript.add(ToolCard(tool_id, name, context, arguments))

    async def _tool_progress(self, payload: Payload) -> None:
        card = self._card(str(payload.get("tool_id")))
        if card is not None:
            card.add_output(payload.get("text") or "")

    async def _tool_complete(self, payload: Payload) -> None:
        card = self._card(str(payload.get("tool_id")))
        if card is None:
            card = ToolCard(str(payload.get("tool_id")), str(payload.get("name")))
            await self._transcript.add(card)
        card.finish(
            payload.get("result_text") or "",
            is_error=bool(payload.get("is_error")),
            duration=payload.get("duration_s"),
        )
        self._status.set(doing="")

    def _card(self, tool_id: str) -> ToolCard | None:
        return next(
            (card for card in self._transcript.query(ToolCard) if card.tool_id == tool_id), None
        )

    async def _update(self, payload: Payload) -> None:
        kind, text = payload.get("kind"), payload.get("text") or ""
        if kind == "progress":
            self._status.set(doing=text)
            return
        if kind == "compressing":
            self._status.set(doing="compressing")
        await self._transcript.add(Notice(text, "warning" if kind in ("warn", "retry") else "info"))
