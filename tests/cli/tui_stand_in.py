"""A session server of a few lines, for tests of the screens: it speaks through the real client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermes_cli.tui.app import HermesApp, Opening
from tui_gateway.client import Client

INFO = {
    "model": "test-model",
    "provider": "custom",
    "cwd": "/work",
    "branch": "main",
    "title": "",
    "running": False,
    "reasoning_effort": "",
    "approval_mode": "manual",
    "mode": "guarded",
    "yolo": False,
    "folders": [],
    "stored_session_id": "stored-1",
    "version": "0",
    "usage": {},
    "skin": "default",
}


class StandIn:
    """Answers requests from a table, and sends the events that a test tells it to send.

    It is a `Dialer` and the `Wire` of its only connection at the same time.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.messages: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "session.create": lambda _: self.opened(),
            "session.resume": lambda params: self.opened(stored=params["session_id"]),
            "session.activate": lambda _: self.opened(),
            "session.close": lambda _: {"closed": True},
            "session.context_breakdown": lambda _: {"context_used": 12_000, "context_max": 128_000},
            "session.usage": lambda _: {"cost_usd": 0.25},
            "session.mode.set": lambda params: {"mode": params["mode"], "meaning": "so it is"},
            "config.get": lambda params: {"key": params["key"], "value": False},
            "session.list": lambda _: {"sessions": []},
            "session.search": lambda _: {"query": "", "results": []},
            "session.interrupt": lambda _: {"status": "interrupted"},
            "prompt.submit": lambda _: {"status": "streaming"},
            "approval.respond": lambda _: {"resolved": 1},
            "clarify.respond": lambda _: {"status": "ok"},
            "sudo.respond": lambda _: {"status": "ok"},
            "image.detach": lambda _: {"detached": True, "count": 0},
            "commands.catalog": lambda _: {
                "categories": [{"name": "Conversation", "pairs": [["/new", "Begin anew"]]}]
            },
            "complete.slash": lambda _: {"items": [], "replace_from": 0},
            "complete.path": lambda _: {"items": []},
        }
        self._frames: asyncio.Queue[str | None] = asyncio.Queue()
        self._seq = 0
        self.sid = "live-1"

    def opened(self, stored: str = "stored-1") -> dict[str, Any]:
        """A live session, as the protocol tells it."""
        return {
            "session_id": self.sid,
            "stored_session_id": stored,
            "session_key": stored,
            "message_count": len(self.messages),
            "messages": self.messages,
            "info": {**INFO, "stored_session_id": stored},
            "running": False,
            "status": "idle",
            "inflight": None,
            "pending": [],
            "asked_elsewhere": [],
            "started_at": 0.0,
            "latest_seq": self._seq,
            "epoch": "e",
        }

    def asked(self, method: str) -> list[dict[str, Any]]:
        """The parameters of every request of a method."""
        return [params for name, params in self.requests if name == method]

    def emit(self, kind: str, /, **payload: Any) -> None:
        """Send an event of the session."""
        self._seq += 1
        params = {"type": kind, "session_id": self.sid, "seq": self._seq, "payload": payload}
        self._frames.put_nowait(json.dumps({"method": "event", "params": params}))

    # Dialer and Wire

    async def dial(self) -> StandIn:
        """Itself."""
        return self

    async def send(self, text: str) -> None:
        """Answer a request."""
        frame = json.loads(text)
        params = frame.get("params") or {}
        self.requests.append((frame["method"], params))
        answer = self.answers.get(frame["method"])
        reply: dict[str, Any] = {"id": frame["id"]}
        if answer is None:
            reply["error"] = {"code": -32601, "message": f"There is no method {frame['method']}."}
        else:
            result = answer(params)
            reply["error" if isinstance(result, Refusal) else "result"] = result
        self._frames.put_nowait(json.dumps(reply))

    async def receive(self) -> str | None:
        """The next frame."""
        return await self._frames.get()

    async def close(self) -> None:
        """Nothing to end."""


class Refusal(dict[str, Any]):
    """An answer that is an error."""

    def __init__(self, message: str, code: int = 4018) -> None:
        super().__init__(code=code, message=message)


def make_app(server: StandIn, home: Path, opening: Opening | None = None) -> HermesApp:
    """The interface with a stand-in for its server."""
    return HermesApp(Client(server), home, opening)  # type: ignore[arg-type]
