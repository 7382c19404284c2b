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
FULL = os.environ.get("HERMES_TEST_WEB") == "full"
"""Whether everything is tried as often as is promised (`make web-test FULL=1`), not as a sample."""
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
        self._keys: dict[tuple[str, str], str] = {}

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

    def new_key(self, person: str = OPERATOR, scope: str = "full") -> str:
        """The key of a new device of a person."""
        with self.store() as db:
            code = db.offer_device_code(person, scope)
            made = db.make_device(code, f"test {person}", "test")
        assert isinstance(made, NewDevice)
        return made.key

    def key(self, person: str = OPERATOR, scope: str = "full") -> str:
        """The key of a device of a person, the same each time."""
        if (person, scope) not in self._keys:
            self._keys[person, scope] = self.new_key(person, scope)
        return self._keys[person, scope]

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
        self.url = url
        context.on("request", self._request)
        context.on("dialog", self._dialog)
        context.on("weberror", lambda error: self.found.append(f"error: {error.error}"))

    def _request(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.found.append(f"request: {request.url}")

    def _dialog(self, dialog: Any) -> None:
        self.found.append(f"dialog: {dialog.message}")
        task = asyncio.ensure_future(dialog.dismiss())
        task.add_done_callback(lambda _: None)


_contexts: dict[tuple[Browser, bool], tuple[BrowserContext, Guarded]] = {}
"""A profile for desktops and one for phones, for all tests: each new one takes half a second."""
ENTER = """([origin, key]) => {
  if (location.origin !== origin || sessionStorage.getItem("test")) return;
  localStorage.clear();
  localStorage.setItem("hermes.key", key);
  sessionStorage.setItem("test", "1");
}"""


async def _context(
    browser: Browser, url: str, phone: bool, fresh: bool
) -> tuple[BrowserContext, Guarded]:
    """A profile, and what is noticed about it from now on."""
    if fresh or (browser, phone) not in _contexts:
        size = PHONE if phone else DESKTOP
        made = await browser.new_context(viewport=size, has_touch=phone, is_mobile=phone)
        if fresh:
            return made, Guarded(made, url)
        _contexts[browser, phone] = made, Guarded(made, url)
    context, guarded = _contexts[browser, phone]
    guarded.url, guarded.found = url, []
    return context, guarded


@contextlib.asynccontextmanager
async def shown(
    browser: Browser, served: Site, path: str = "/", *, key: str | None = None, phone: bool = False,
    fresh: bool = False, script: str = "",
) -> AsyncIterator[Page]:  # fmt: skip
    """The page in a browser that is known; fails on whatever reaches beyond our origin.

    With `fresh`, nothing is in the browser's cache; `script` runs before the page's own.
    """
    context, guarded = await _context(browser, served.url, phone, fresh)
    try:
        page = await context.new_page()
        given = json.dumps([served.url, key or served.key()])
        await page.add_init_script(f"({ENTER})({given});{script}")
        await page.goto(served.url + path)
        yield page
        assert not guarded.found, guarded.found
    finally:
        if fresh:
            await context.close()
        else:
            for opened in context.pages:
                await opened.close()


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


READ = """() => {
  const box = document.querySelector('.scroll');
  const said = [...document.querySelectorAll('article.said')].map((one) => [
    one.id, one.classList.contains('user') ? 'user' : 'assistant',
    one.querySelector('.own, .md')?.textContent || '',
  ]);
  const atTop = box.scrollTop <= 0 && !document.body.textContent.includes('Earlier messages…');
  box.scrollTop -= box.clientHeight * 0.7;
  return [said, atTop];
}"""
DRAWN = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


async def read(page: Page) -> list[tuple[str, str]]:
    """What a person reads who scrolls through all of it: who said what, in order."""
    found: dict[int, tuple[str, str]] = {}
    is_top = False
    while not is_top:
        said, is_top = await page.evaluate(READ)
        ids = [key for key, _, _ in said]
        assert len(ids) == len(set(ids)), f"shown twice: {said}"
        found.update({int(key[1:]): (role, text) for key, role, text in said})
        await page.evaluate(DRAWN)
    return [found[key] for key in sorted(found)]


def words(text: str) -> str:
    """A text without its white space, to compare what is drawn with what is stored."""
    return "".join(text.split())
