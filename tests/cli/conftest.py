"""A model server with a script, and the real `hermes` program in a home of its own."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB

from .. import forked, server_store

Piece = str | threading.Event | dict[str, Any]


@dataclass
class ModelServer:
    """Answers chat completions with the next scripted reply: pieces of text, or an HTTP status."""

    url: str = ""
    replies: queue.Queue[list[Piece] | int | None] = field(default_factory=queue.Queue)
    requests: list[dict[str, Any]] = field(default_factory=list)
    streaming: threading.Event = field(default_factory=threading.Event)
    """Set when a reply waits in its middle."""

    def say(self, *pieces: Piece) -> None:
        """Answer the next request like this; at an Event the stream waits for it."""
        self.replies.put(list(pieces))

    def call(self, tool: str, **arguments: Any) -> None:
        """Answer the next request with a tool call."""
        function = {"name": tool, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{tool}", "type": "function", "function": function}
        self.replies.put([{"tool_calls": [call]}])

    def refuse(self, status: int) -> None:
        """Answer the next request with this HTTP status."""
        self.replies.put(status)

    def close(self) -> None:
        """Hang up on whoever waits for a reply that nobody has written."""
        self.replies.put(None)


class Handler(BaseHTTPRequestHandler):
    script: ModelServer

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.script.requests.append(json.loads(self.rfile.read(size)))
        reply = self.script.replies.get(timeout=60)
        if reply is None:
            self.script.replies.put(None)  # for the next one who waits
            return
        if isinstance(reply, int):
            self.send_error(reply)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for piece in reply:
                if isinstance(piece, threading.Event):
                    self.script.streaming.set()
                    piece.wait(60)
                elif isinstance(piece, dict):
                    self.event(piece)
                else:
                    self.event({"content": piece})
            self.event({}, "tool_calls" if isinstance(reply[-1], dict) else "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            pass  # the program has hung up, as some tests want

    def event(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Nothing on the test's output."""


@pytest.fixture
def server() -> Iterator[ModelServer]:
    script = ModelServer()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"script": script}))
    httpd.daemon_threads = True
    script.url = f"http://127.0.0.1:{httpd.server_address[1]}/v1"
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield script
    httpd.shutdown()
    script.close()
    httpd.server_close()


@dataclass
class Hermes:
    """The program in its own home."""

    home: Path

    @property
    def command(self) -> list[str]:
        return [str(Path(sys.executable).with_name("hermes"))]

    @property
    def environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name == "HERMES_WALL"
            or not (name.startswith("HERMES_") or name.endswith("_API_KEY"))
        }
        where = server_store.environment()
        return {**kept, **where, "HOME": str(self.home), "TERM": "xterm"}

    def configure(self, text: str) -> None:
        folder = self.home / ".hermes"
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(text)

    def run(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run `hermes` to its end, with text or nothing on its standard input."""
        return forked.run(
            [*self.command, *arguments], input=stdin, environ=self.environment, cwd=self.home
        )

    def store(self) -> SessionDB:
        """The program's store."""
        return SessionDB(self.home / ".hermes" / "state.db")


@pytest.fixture
def bare_hermes(tmp_path: Path) -> Hermes:
    home = tmp_path / "person"
    home.mkdir()
    return Hermes(home)


@pytest.fixture
def hermes(bare_hermes: Hermes, server: ModelServer) -> Hermes:
    bare_hermes.configure(
        f"model:\n  default: test-model\n  provider: custom\n  base_url: {server.url}\n"
        # The script answers the conversation, not a side task that runs beside it.
        "auxiliary:\n  title_generation:\n    enabled: false\n"
    )
    return bare_hermes


@dataclass
class Said:
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed for scripts."""
        return json.loads(self.out)


@dataclass
class Cli:
    """The command line within this process, in a home of its own; nobody is at the terminal."""

    home: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str) -> Said:
        """Run `hermes` with these arguments."""
        from hermes_cli.main import main

        self.capture.readouterr()
        try:
            code = main(list(arguments))
        except SystemExit as ended:  # argparse's way to end after --help and after a mistake
            code = int(ended.code or 0)
        said = self.capture.readouterr()
        assert "Traceback" not in said.err
        return Said(code, said.out, said.err)

    def fails(self, *arguments: str, code: int = 2) -> str:
        """Run something that must not work; returns the sentence on standard error."""
        said = self(*arguments)
        assert said.code == code, (arguments, said)
        assert said.err.strip(), arguments
        return said.err

    def store(self) -> SessionDB:
        """The store of the home."""
        return SessionDB(self.home / "state.db")


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    home = tmp_path / "hermes-home"
    home.mkdir(mode=0o700)
    for name in list(os.environ):
        is_set = name.endswith(("_API_KEY", "_TOKEN")) or name.startswith("HERMES_")
        if is_set and name not in server_store.NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115, PTH123 - for the whole test
    monkeypatch.chdir(tmp_path)
    return Cli(home, capsys)


def talk(db: SessionDB, session_id: str, title: str | None, *texts: str, at: float = 0) -> None:
    """A conversation of alternating messages."""
    db.create_session(session_id, "cli", model="test-model", **({"started_at": at} if at else {}))
    for number, text in enumerate(texts):
        role = ("user", "assistant")[number % 2]
        db.append_message(session_id, role, text, timestamp=at + number if at else None)
    if title:
        db.set_session_title(session_id, title)


@pytest.fixture
def rome(cli: Cli) -> Cli:
    """A home with a conversation called “Trip to Rome” and one about a garden."""
    with cli.store() as db:
        talk(db, "20260101_101010_aaaaaa", "Trip to Rome", "How do I get there?",
             "Take the train to Rome at noon.")  # fmt: skip
        talk(
            db,
            "20260102_101010_bbbbbb",
            None,
            "What grows in the shade?",
            "Ferns, in these exact words.",
        )
    return cli
