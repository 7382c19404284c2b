"""Starting the terminal interface: a first frame, the server, and only then what is heavy."""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False  # importing typing would delay the first frame
if TYPE_CHECKING:
    from pathlib import Path

    from tui_gateway.client import Client

    from .app import Opening
    from .server import ServerProcess

SILENT_SECONDS = 0.7
"""An end that takes longer is explained."""


def is_possible() -> bool:
    """Whether this is a terminal that can show the interface, and Textual is there."""
    if not (_is_terminal(sys.stdin) and _is_terminal(sys.stdout)):
        return False
    if os.environ.get("TERM", "") in ("dumb", "unknown") and sys.platform != "win32":
        return False
    from importlib.util import find_spec

    return find_spec("textual") is not None


def _is_terminal(stream: object) -> bool:
    return stream is not None and bool(stream.isatty())  # type: ignore[attr-defined]


def run(
    resume: str | None = None,
    continue_last: bool = False,
    model: str | None = None,
    mode: str | None = None,
    folders: tuple[str, ...] = (),
) -> int:
    """Show the interface until the person leaves; returns the exit code."""
    from .first_frame import FirstFrame

    frame = FirstFrame()
    frame.paint()
    gc.disable()  # nothing of what is imported now is ever garbage
    try:
        from agent.home import ConfigError, hermes_home

        from .server import ServerProcess

        server = ServerProcess()
        server.start()  # it loads while this process imports the rest
        try:
            home = hermes_home()
        except ConfigError as error:
            frame.remove()
            print(f"hermes: {error}", file=sys.stderr)
            return 2
        import asyncio

        from .app import Opening

        opening = Opening(resume, continue_last, model, mode, folders)
        return asyncio.run(_show(server, home, opening))
    except KeyboardInterrupt:
        frame.remove()
        return 130
    finally:
        frame.restore_mode()


async def _end(client: Client) -> None:
    """The screen is given back already; the server stores what runs, learns from it, and ends."""
    import asyncio

    ending = asyncio.create_task(client.aclose())
    if not (await asyncio.wait({ending}, timeout=SILENT_SECONDS))[0]:
        print("Keeping what was learnt …", file=sys.stderr)
    await ending


async def _show(server: ServerProcess, home: Path, opening: Opening) -> int:
    import asyncio
    import signal

    from tui_gateway.client import Client

    from . import hangup
    from .app import HermesApp
    from .log_later import LogLater

    LogLater.install(home)
    client = Client(server)
    app = HermesApp(client, home, opening)
    app.last_words = server.last_words
    if sys.platform != "win32":
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, app.leave, 128 + number)
        hangup.watch(lambda: loop.call_soon_threadsafe(app.leave, hangup.HUNG_UP))
    try:
        code = await app.run_async()
    finally:
        await _end(client)
    if code in (None, 0) and app.chat.has_messages and app.chat.key:
        print(f"Go on with: hermes --resume {app.chat.key}")
    return app.return_code or code or 0
