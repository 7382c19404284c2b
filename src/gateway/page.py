"""The web page beside a gateway: `hermes web` in a process of its own, started again if it ends.

It ends with the gateway, however that ends: its standard input is a pipe that the gateway holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
from pathlib import Path

log = logging.getLogger(__name__)

COMMAND = (sys.executable, "-m", "hermes_cli.main", "web", "--beside-gateway")
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
STEADY_SECONDS = 60.0
"""A page that ran for so long is started again at once."""
STOP_SECONDS = 12.0


class PageBeside:
    """Keeps the page's process running."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._child: asyncio.subprocess.Process | None = None
        self._is_over = False

    async def keep(self) -> None:
        """Serve the page until the gateway stops."""
        wait = FIRST_WAIT
        while not self._is_over:
            began = time.monotonic()
            code, said = await self._run()
            if self._is_over:
                return
            if code == 0:  # one that was there already is asked for again when it may be gone
                log.info("The web page is served by another process of this home.")
                wait = LONGEST_WAIT
            else:
                log.warning("The web page ended with code %s. %s", code, said)
            await asyncio.sleep(wait)
            is_steady = time.monotonic() - began > STEADY_SECONDS + wait
            wait = FIRST_WAIT if is_steady else min(LONGEST_WAIT, wait * 2)

    async def _run(self) -> tuple[int, str]:
        """Run it once; its exit code, and the last that it said about an error."""
        pipe = asyncio.subprocess.PIPE
        self._child = child = await asyncio.create_subprocess_exec(
            *COMMAND, stdin=pipe, stdout=asyncio.subprocess.DEVNULL, stderr=pipe,
            env={**os.environ, "HERMES_HOME": str(self._home)},
        )  # fmt: skip
        assert child.stderr is not None
        last = ""
        async for line in child.stderr:
            last = line.decode("utf-8", "replace").strip() or last
        return await child.wait(), last

    async def stop(self) -> None:
        """End it, and wait until it is gone."""
        self._is_over = True
        child = self._child
        if child is None or child.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await child.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()
