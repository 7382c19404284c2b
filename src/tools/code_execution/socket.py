"""The private socket over which a program calls tools.

It takes one connection, from whoever presents the token that only the child was given, and answers
one call after the other: at most so many, each of a bounded size, and only to tools on the list.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from ..base import ToolError

log = logging.getLogger(__name__)

ALLOWED = (
    "read_file",
    "write_file",
    "patch",
    "search_files",
    "terminal",
    "web_fetch",
    "session_search",
)
TOKEN_VARIABLE = "HERMES_TOOLS_TOKEN"
DESCRIPTOR_VARIABLE = "HERMES_TOOLS_DESCRIPTOR"
MAX_CALLS = 200
_MAX_REQUEST = 10_000_000
_MAX_RESULT = 5_000_000

CallTool = Callable[[str, dict[str, Any]], str]
"""Calls a tool as if the model had asked for it; raises ToolError."""


class ToolSocket:
    """A context manager: listens while the child runs; afterwards nothing is answered any more."""

    def __init__(self, path: Path | None, call_tool: CallTool | None) -> None:
        """Without a path there is one connection from the start: the child is given `theirs`."""
        self.token = secrets.token_hex(16)
        self._path = path
        self._call_tool = call_tool
        self._calls = 0
        self._closed = threading.Event()
        self._busy = threading.Event()
        self._connection: socket.socket | None = None
        self.theirs: socket.socket | None = None
        if path is None:
            self._server, self.theirs = socket.socketpair()
        else:
            self._server = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> ToolSocket:
        if self._path is None:
            threading.Thread(target=self._serve_one, name="hermes-code-tools", daemon=True).start()
            return self
        try:
            self._server.bind(str(self._path))
            os.chmod(self._path, 0o600)  # noqa: PTH101 - its folder is private already
            self._server.listen(1)
        except OSError as error:
            self._server.close()
            raise ToolError(f"The tools cannot be offered to the code: {error}.") from error
        threading.Thread(target=self._serve, name="hermes-code-tools", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        for end in (self._server, self._connection):
            if end is not None:
                # Closing alone would not wake the thread that waits on it.
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
        self._server.close()
        if self.theirs is not None:
            self.theirs.close()

    @property
    def is_busy(self) -> bool:
        """Whether a call is being answered."""
        return self._busy.is_set()

    def _serve_one(self) -> None:
        with suppress(OSError, ValueError), self._server.makefile("rwb") as stream:
            if self._knows_token(stream):
                self._answer_all(stream)

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            self._connection = connection
            with (
                connection,
                suppress(OSError, ValueError),
                connection.makefile("rwb") as stream,
            ):
                connection.settimeout(5)  # for the token
                if self._knows_token(stream):
                    self._server.close()  # the token is used up
                    connection.settimeout(None)
                    self._answer_all(stream)
                    return

    def _knows_token(self, stream: BufferedRWPair) -> bool:
        hello = json.loads(stream.readline(1_000))
        given = hello.get("token") if isinstance(hello, dict) else None
        return isinstance(given, str) and hmac.compare_digest(given.encode(), self.token.encode())

    def _answer_all(self, stream: BufferedRWPair) -> None:
        while not self._closed.is_set():
            line = stream.readline(_MAX_REQUEST + 1)
            if not line:
                return
            if len(line) > _MAX_REQUEST:
                answer = {"error": f"A call may have {_MAX_REQUEST:,} bytes at most."}
                stream.write(json.dumps(answer).encode() + b"\n")
                stream.flush()
                return
            self._busy.set()
            try:
                answer = self._answer(line)
            finally:
                self._busy.clear()
            stream.write(json.dumps(answer).encode() + b"\n")
            stream.flush()

    def _answer(self, line: bytes) -> dict[str, str]:
        try:
            request = json.loads(line)
            name, arguments = request["tool"], request["arguments"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return {"error": "That is not a call of a tool."}
        if not isinstance(name, str) or not isinstance(arguments, dict) or name not in ALLOWED:
            return {"error": f"Only these tools can be called: {', '.join(ALLOWED)}."}
        if self._call_tool is None:
            return {"error": "Tools cannot be called from code here."}
        self._calls += 1
        if self._calls > MAX_CALLS:
            return {"error": f"A program may call tools {MAX_CALLS} times at most."}
        try:
            result = self._call_tool(name, arguments)
        except ToolError as error:
            return {"error": str(error)}
        except Exception as error:
            # Whatever a tool raises is the program's to see; this thread must go on answering.
            log.exception("The tool %s, called from code, failed", name)
            return {"error": f"{type(error).__name__}: {error}"}
        text = result if isinstance(result, str) else str(result)
        if len(text) > _MAX_RESULT:
            text = f"{text[:_MAX_RESULT]}\n[… {len(text) - _MAX_RESULT:,} characters left out …]"
        return {"result": text}
