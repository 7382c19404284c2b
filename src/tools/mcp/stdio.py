"""An MCP server as a child process, with a bound on everything it may do to us.

The SDK's own transport keeps a line of any length and answers a flood with a flood of log entries.
Here a message has a largest size, and messages a largest number per second; a server that exceeds
them is ended. The last lines of its error output are kept, to say why it died. However the
connection ends, the child ends with all it started, and a Hermes that is killed finds it in the
ledger afterwards.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..processes.identity import MARKER, Target, marker_value, new_marker, start_time, stop
from ..processes.ledger import RUN_FOLDER, Ledger, Record
from ..trees import remove_tree
from ..wall.programs import ProgramWall

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

log = logging.getLogger(__name__)

MAX_MESSAGE = 10_000_000
MAX_PER_SECOND = 2_000
MAX_UNREADABLE = 50
_INHERITED = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_ALL", "TMPDIR")
_EXIT_SECONDS = 1.0
_GRACE_SECONDS = 0.3


class StdioServer:
    """One run of a server's command."""

    def __init__(
        self,
        command: str,
        args: Sequence[str],
        env: Mapping[str, str],
        home: Path | None,
        wall: ProgramWall | None = None,
    ) -> None:
        self.ended = asyncio.Event()
        self.reason = ""
        """Why it was ended, if it broke a limit or the protocol."""
        self._argv = [command, *args]
        self._marker = new_marker()
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        self._environ = {**inherited, **env, MARKER: marker_value(self._marker)}
        self._ledger = Ledger(home) if home is not None else None
        self._home, self._wall = home, wall
        self._errors = b""

    def why(self) -> str:
        """Why it ended, with the last lines of its error output."""
        said = self._errors.decode("utf-8", "replace").strip().splitlines()[-3:]
        hint = " | ".join(line.strip()[:200] for line in said)
        return self.reason + (f" (it said: {hint})" if hint else "")

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[TransportStreams]:
        """Start it, talk to it, end it; OSError if it cannot be started."""
        import anyio
        from mcp.shared.message import SessionMessage

        if self._ledger is not None:
            self._ledger.add(Record(self._marker, "mcp", "background"))
        fds: tuple[int, ...] = ()
        try:
            argv, environ = self._argv, self._environ
            if self._wall is not None and self._home is not None:
                folder = self._home.resolve() / RUN_FOLDER / self._marker
                argv, environ, fds = self._wall.confine(argv, environ, self._home, folder)
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=environ,
                limit=MAX_MESSAGE,
                start_new_session=True,
                pass_fds=fds,
            )
        except BaseException:
            self._forget()
            raise
        finally:
            for descriptor in fds:
                os.close(descriptor)
        target = Target(self._marker, process.pid, start_time(process.pid))
        if self._ledger is not None:
            self._ledger.update(self._marker, pid=target.pid, start=target.start)
        to_us, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        to_server, from_us = anyio.create_memory_object_stream[SessionMessage](0)
        tasks = [
            asyncio.create_task(self._listen(process, to_us)),
            asyncio.create_task(self._speak(process, from_us)),
            asyncio.create_task(self._hear_errors(process)),
        ]
        try:
            yield from_server, to_server
        finally:
            for task in tasks:
                task.cancel()
            for stream in (to_us, from_server, to_server, from_us):
                stream.close()
            # A task of its own: nothing that happens to the caller keeps it from its work.
            ending = asyncio.create_task(self._end(process, target))
            with anyio.CancelScope(shield=True):
                await asyncio.shield(ending)

    async def _listen(self, process: asyncio.subprocess.Process, to_us: Any) -> None:
        import anyio
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        assert process.stdout is not None, "it was started with pipes"
        unreadable = count = 0
        second = 0.0
        try:
            while line := await process.stdout.readline():
                now = time.monotonic()
                second, count = (now, 0) if now - second >= 1 else (second, count + 1)
                if count > MAX_PER_SECOND:
                    self.reason = f"it sent more than {MAX_PER_SECOND:,} messages in a second"
                    return
                if not line.strip():
                    continue
                try:
                    message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                except ValueError:
                    unreadable += 1
                    log.debug("An MCP server sent something unreadable: %.200r", line)
                    if unreadable > MAX_UNREADABLE:
                        self.reason = "what it sends is not MCP"
                        return
                    continue
                await to_us.send(SessionMessage(message))
            self.reason = "it ended"
        except ValueError:
            self.reason = f"it sent a message of more than {MAX_MESSAGE:,} bytes"
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the connection is being closed from this side
        finally:
            to_us.close()
            if self.reason:
                self.ended.set()

    async def _speak(self, process: asyncio.subprocess.Process, from_us: Any) -> None:
        assert process.stdin is not None, "it was started with pipes"
        try:
            async for sent in from_us:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                process.stdin.write(text.encode() + b"\n")
                await process.stdin.drain()
        except (ConnectionError, RuntimeError):
            self.reason = self.reason or "it does not listen any more"
            self.ended.set()

    async def _hear_errors(self, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None, "it was started with pipes"
        while data := await process.stderr.read(65_536):
            self._errors = (self._errors + data)[-4_000:]

    async def _end(self, process: asyncio.subprocess.Process, target: Target) -> None:
        if process.stdin is not None:
            process.stdin.close()
        deadline = time.monotonic() + (0 if self.reason else _EXIT_SECONDS)
        while process.returncode is None and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        try:
            await asyncio.to_thread(stop, [target], _GRACE_SECONDS)
        except RuntimeError:  # the program is ending, and starts no threads any more
            stop([target], _GRACE_SECONDS)
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), 2)
        # Nothing public closes the pipes that a survivor may still hold at its end.
        transport = getattr(process, "_transport", None)
        if transport is not None:
            transport.close()
        self._forget()

    def _forget(self) -> None:
        if self._home is not None:
            remove_tree(self._home / RUN_FOLDER / self._marker, reopen=True)
        if self._ledger is not None:
            self._ledger.remove(self._marker)
