"""The session server within a test's process, with a real store and a scripted model."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent.scripted import ScriptedModel, StepLike, say
from hermes_state import SessionDB
from tui_gateway import server

CONFIG = """\
# Mine.
model:
  default: test-model  # the one
  provider: custom
  base_url: http://127.0.0.1:9/v1
auxiliary:
  title_generation:
    enabled: false
"""


def until(happened: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


class Refusal(AssertionError):
    """An error response where a result was wanted."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code, self.message = code, message


class Gateway:
    """Calls methods and reads what comes of them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server: ModuleType = server
        self.model = ScriptedModel(itertools.repeat(say("ok")))
        self._ids = itertools.count(1)

    def script(self, steps: Iterable[StepLike]) -> None:
        """What the model says from now on."""
        self.model = ScriptedModel(steps)

    def build_model(self, config: Any = None, name: str | None = None) -> ScriptedModel:
        """Stands for `agent.build.build_models`."""
        if name is not None:
            settings = config.model_named(name)
            return ScriptedModel(
                itertools.repeat(say("ok")), name=settings.name, provider=settings.provider
            )
        return self.model

    @property
    def db(self) -> SessionDB:
        return server._get_db()

    def request(self, method: str, params: Any) -> dict[str, Any]:
        """The whole response."""
        frame = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        response = server.handle_request(frame)
        assert response is not None
        assert json.loads(json.dumps(response)) == response, "only what JSON can carry"
        assert response["id"] == frame["id"]
        return response

    def call(self, method: str, **params: Any) -> Any:
        """The result, which there must be."""
        response = self.request(method, params)
        if "error" in response:
            raise Refusal(**response["error"])
        return response["result"]

    def refused(self, method: str, **params: Any) -> Refusal:
        """The error, which there must be."""
        response = self.request(method, params)
        assert "error" in response, response
        return Refusal(**response["error"])

    def open(self, **params: Any) -> str:
        """A new live session."""
        return str(
            self.call("session.create", **{"cwd": str(self.home.parent), **params})["session_id"]
        )

    def live(self, sid: str) -> dict[str, Any]:
        """The live session itself."""
        return server._sessions[sid]

    def ask(self, sid: str, text: str) -> None:
        """Have a message answered."""
        assert self.call("prompt.submit", session_id=sid, text=text)["status"] == "streaming"
        self.settle(sid)

    def settle(self, sid: str) -> None:
        """Wait for the end of the turn."""
        session = self.live(sid)
        assert not session["running"] or session["turn_done"].wait(60), "the turn does not end"

    def key(self, sid: str) -> str:
        """The stored session that a live one is in."""
        from tui_gateway import live

        return live.current_key(self.live(sid))

    def events(self, sid: str, kind: str | None = None) -> list[dict[str, Any]]:
        """What was told of a session so far."""
        found = self.call("session.events.since", session_id=sid, last_seen=0)["events"]
        return [one for one in found if kind in (None, one["type"])]


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text(CONFIG)
    monkeypatch.setenv("HERMES_HOME", str(home))
    for name in ("HERMES_YOLO_MODE", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    made = Gateway(home)
    monkeypatch.setattr("agent.build.build_models", made.build_model)
    monkeypatch.setattr(server, "_config", None)
    assert server._db is None and not server._sessions
    yield made
    server.shut_down("test")
    server._config = None
    for thread in threading.enumerate():
        if thread.name.startswith(("hermes-notes", "hermes-turn-")):
            thread.join(10)  # until then it may look for the store
    server._closed_db = None
