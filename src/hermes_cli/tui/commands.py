"""Slash commands: a few concern only the screen, the others are carried out by the server."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import TYPE_CHECKING, Any

from .texts import plain

if TYPE_CHECKING:
    from .chat_screen import ChatScreen

_COMMAND = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_REDRAWS = frozenset({"undo", "retry", "compress", "compact"})
"""After these the conversation is another one than is shown."""
_SWITCHES = frozenset({"new", "reset", "clear", "branch", "fork", "resume"})
"""These go to another conversation, which is drawn when the server tells of it."""
SWITCH_SECONDS = 1.0


class Commands:
    """The commands of one screen."""

    def __init__(self, screen: ChatScreen) -> None:
        self._screen = screen

    async def carry_out(self, text: str) -> bool:
        """Carry out a line that is a command; False if it is none."""
        command = _COMMAND.fullmatch(text)
        if command is None:
            return False
        name, arg = command[1].lower(), (command[2] or "").strip()
        if not self._local(name, arg) and not await self._with_file(name, arg):
            await self._remote(name, text)
        return True

    def _local(self, name: str, arg: str) -> bool:
        app = self._screen.hermes
        if name in ("help", "keys") and not arg:
            app.action_help()
        elif name in ("sessions", "resume") and not arg:
            app.action_sessions()
        elif name == "theme":
            app.use_theme(arg)
        elif name == "copy" and not arg:
            app.action_copy_answer()
        else:
            return False
        return True

    async def _with_file(self, name: str, arg: str) -> bool:
        if name == "image" and arg:
            await self._screen.attach(arg)
            return True
        return False

    async def _remote(self, name: str, text: str) -> None:
        screen = self._screen
        screen.is_switched.clear()
        result = await screen.client.request("slash.exec", session_id=screen.sid, command=text)
        if result.get("leave"):
            screen.hermes.leave()
            return
        kind = result["type"]
        if name in _REDRAWS or kind == "prefill":
            await screen.reload()
        if name in _SWITCHES:
            # What is told belongs into the new conversation; there may also be none to go to.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(screen.is_switched.wait(), SWITCH_SECONDS)
        notice = result.get("notice") or result.get("output")
        if notice:
            await screen.tell(str(notice), "output")
        if kind == "prefill":
            screen.composer.put(plain(result.get("message")))
        elif kind in ("send", "skill"):
            await screen.submit(await self._with_images(result.get("message")))

    async def _with_images(self, content: Any) -> str:
        """The text of a message; its pictures are attached anew."""
        if not isinstance(content, list):
            return str(content or "")
        for part in content:
            if part.get("type") == "image_url":
                url = part["image_url"]["url"]
                await self._screen.client.request(
                    "image.attach_bytes", session_id=self._screen.sid, data=url
                )
        return "\n".join(str(part.get("text")) for part in content if part.get("type") == "text")
