"""A real page: its server in a process, a device in its store, and a browser that shows it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_state import OPERATOR, NewDevice, SessionDB
from tests import forked

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page

SECONDS = 60.0
"""After so long something has gone wrong for good."""
DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}


class Site:
    """The page's server of a home; it can be killed and started again at the same place."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = 0
        self.url = ""
        self.process: Any = None
        self.past: dict[str, str] = {}
        """Conversations that were there before it was served, as `filled.fill` names them."""
        self._keys: dict[str, str] = {}

    async def start(self) -> None:
        """Begin to serve."""
        program = ("hermes_cli.main", "web", "--no-open", "--port", str(self.port))
        environ = {**os.environ, "HERMES_HOME": str(self.home)}
        self.process = await forked.start(*program, environ=environ, cwd=self.home)
        async with asyncio.timeout(SECONDS):
            self.address = (await self.process.stdout.readline()).decode().strip()
        assert self.address.startswith("http"), self.address
        self.url = self.address.partition("/enter")[0]
        self.port = int(self.url.rpartition(":")[2])

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it, by default without a warning."""
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)
        async with asyncio.timeout(SECONDS):
            await self.process.wait()

    @contextlib.contextmanager
    def store(self) -> Any:
        """The store of its home."""
        with SessionDB(self.home / "state.db") as db:
            yield db

    def key(self, person: str = OPERATOR, scope: str = "full") -> str:
        """The key of a device of a person."""
        with self.store() as db:
            code = db.offer_device_code(person, scope)
            made = db.make_device(code, f"test {person}", "test")
        assert isinstance(made, NewDevice)
        return made.key

    def stored(self, session_id: str) -> list[tuple[str, str]]:
        """Everything that was said in a conversation, as the store has it."""
        with self.store() as db:
            tip = db.get_compression_tip(session_id)
            page = db.get_message_page(tip, limit=100_000)["messages"]
        return [
            (row["role"], row["content"] if isinstance(row["content"], str) else "")
            for row in page
            if row["role"] in ("user", "assistant") and row["content"]
        ]


@contextlib.asynccontextmanager
async def site(home: Path) -> AsyncIterator[Site]:
    """A served page."""
    served = Site(home)
    await served.start()
    try:
        yield served
    finally:
        await served.kill(signal.SIGTERM)


class Guarded:
    """What went wrong in a browser: requests beyond our origin, dialogs, errors of scripts."""

    def __init__(self, context: BrowserContext, url: str) -> None:
        self.found: list[str] = []
        self._url = url
        context.on("request", self._request)
        context.on("dialog", self._dialog)
        context.on("weberror", lambda error: self.found.append(f"error: {error.error}"))

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self._url, "data:", "blob:")):
            self.found.append(f"request: {request.url}")

    def _dialog(self, dialog: Any) -> None:
        self.found.append(f"dialog: {dialog.message}")
        task = asyncio.ensure_future(dialog.dismiss())
        task.add_done_callback(lambda _: None)


@contextlib.asynccontextmanager
async def shown(
    browser: Browser, served: Site, path: str = "/", *, key: str | None = None, phone: bool = False,
    **options: Any,
) -> AsyncIterator[Page]:  # fmt: skip
    """The page in a browser that is known; fails on whatever reaches beyond our origin."""
    state = {
        "cookies": [],
        "origins": [
            {
                "origin": served.url,
                "localStorage": [{"name": "hermes.key", "value": key or served.key()}],
            }
        ],
    }
    context = await browser.new_context(
        viewport=PHONE if phone else DESKTOP,
        has_touch=phone,
        is_mobile=phone,
        storage_state=state,
        **options,
    )
    guarded = Guarded(context, served.url)
    try:
        page = await context.new_page()
        await page.goto(served.url + path)
        yield page
        assert not guarded.found, guarded.found
    finally:
        await context.close()


async def send(page: Page, text: str) -> None:
    """Type a message and send it."""
    await page.fill("[data-composer]", text)
    await page.press("[data-composer]", "Enter")


IDLE = (
    "() => !document.querySelector('.working, .waiting, .offline') &&"
    " document.querySelector('.said') && !localStorage.getItem('hermes.outbox')?.includes('id')"
    " && [...document.querySelectorAll('article.said')].every((one) => one.id)"
)


async def idle(page: Page) -> None:
    """Wait until nothing runs, waits or is unsent, and everything shown is stored."""
    from playwright.async_api import TimeoutError as TimedOut

    try:
        await page.wait_for_function(IDLE, timeout=SECONDS * 500)
    except TimedOut as error:
        text = await page.inner_text("#app")
        left = await page.evaluate("() => localStorage.getItem('hermes.outbox')")
        raise AssertionError(f"The page is not at rest: {text[-1500:]}\n{left}") from error


async def read(page: Page) -> list[tuple[str, str]]:
    """What a person reads: who said what, in order, as source."""
    said = await page.evaluate(
        "() => [...document.querySelectorAll('article.said')].map((one) =>"
        " [one.classList.contains('user') ? 'user' : 'assistant',"
        " (one.querySelector('.own, .md')?.textContent || '')])"
    )
    return [(role, text) for role, text in said]


def words(text: str) -> str:
    """A text without its white space, to compare what is drawn with what is stored."""
    return "".join(text.split())


def as_json(value: Any) -> str:
    """For scripts in a page."""
    return json.dumps(value)
