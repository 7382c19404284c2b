"""Every page, in both themes and sizes: for screen readers too; and looking writes nothing."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

import pytest
from pages import DRAWN, FULL, Site, idle, send, shown
from scripted_provider import call, say, script

from web.assets import Assets

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = ("/", "/find?q=tax", "/inbox", "/jobs", "/usage", "/state", "/settings", "/c/nobody")
PANELS = ("", "/history", "/turn")
READ = (
    "() => ![...document.querySelectorAll('.quiet')]"
    ".some((one) => one.textContent === '…' && one.checkVisibility())"
)
COLOURS = ("color-contrast", "link-in-text-block")
PICTURES = Path(os.environ.get("HERMES_PICTURES") or Path(__file__).parents[2] / "docs" / "images")
PICTURES_WANTED = bool(os.environ.get("HERMES_PICTURES"))


def axe() -> str:
    """The source of the checker, which is never shipped."""
    spec = importlib.util.find_spec("axe_playwright_python")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")


async def violations(page, source: str, *rules: str) -> list[str]:
    """What axe finds, by all its rules or by some; it comes in by the debugger, past the policy
    that forbids it to pages."""
    client = await page.context.new_cdp_session(page)
    if not await page.evaluate("() => 'axe' in window"):
        await client.send("Runtime.evaluate", {"expression": source})
    only = f", runOnly: {json.dumps(rules)}" if rules else ""
    checked = {
        "expression": f"axe.run(document, {{resultTypes: ['violations']{only}}}).then((found) =>"
        " JSON.stringify(found.violations.map((one) =>"
        " one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))"
        ".join(' | '))))",
        "awaitPromise": True,
        "returnByValue": True,
    }
    result = await client.send("Runtime.evaluate", checked)
    await client.detach()
    return list(json.loads(result["result"]["value"]))


async def settled(page, path: str) -> None:
    """Wait until a page has what it shows."""
    from playwright.async_api import TimeoutError as TimedOut

    try:
        await page.wait_for_function(READ, timeout=15_000)
    except TimedOut as error:
        raise AssertionError(f"{path}: {await page.inner_text('#app')}") from error


@pytest.fixture(scope="session")
def talked() -> dict[str, str]:
    return {}


async def conversation(browser, served: Site, talked: dict[str, str]) -> str:
    """A conversation that has changed a file; made once."""
    if "id" not in talked:
        async with shown(browser, served) as page:
            steps = call("write_file", path="plan.txt", content="One.\n"), say("It is written.")
            await send(page, script("plan", *steps))
            await page.wait_for_selector("text=It is written.")
            await idle(page)
            talked["id"] = page.url.rpartition("/c/")[2]
        with served.store() as db:
            db.set_session_title(talked["id"], "A plan for the week")
    return talked["id"]


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
async def test_every_page_can_be_read_by_everybody_and_looking_changes_nothing(
    browser, served: Site, talked: dict[str, str], phone: bool
) -> None:
    """In both themes; what depends on colours alone is all that differs between them.

    On a desktop each address is opened, on a phone the pages are gone to from the first.
    """
    source, found = axe(), {}
    talk = f"/c/{served.past['tip']}"
    files = f"/c/{await conversation(browser, served, talked)}/files"
    async with shown(browser, served, phone=phone) as page:
        await page.wait_for_selector("[data-composer]")
        before = dump(served)
        for path in (*PAGES, *(talk + panel for panel in PANELS), files, "/enter"):
            by_link = phone and path != "/enter"
            await (visit(page, path) if by_link else page.goto(served.url + path))
            await page.wait_for_selector("h1, h2")
            await settled(page, path)
            for theme in ("light", "dark"):
                await page.emulate_media(color_scheme=theme)
                await page.evaluate(DRAWN)
                rules = COLOURS if theme == "dark" and not FULL else ()
                if problems := await violations(page, source, *rules):
                    found[path, theme] = problems
                if PICTURES_WANTED:
                    await picture(
                        page, path.replace(talk, "/talk").replace(files, "/files"), theme, phone
                    )
            wide = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, path
        assert dump(served) == before
    assert found == {}


async def visit(page, path: str) -> None:
    """Go to a page as its links do."""
    await page.evaluate(
        "([app, path]) => import(app).then((module) => module.go(path))",
        [f"/static/{Assets().digest}/app.js", path],
    )


async def picture(page, path: str, theme: str, phone: bool) -> None:
    """What a page looks like, for the documentation."""
    name = (path.strip("/").replace("/", "-") or "new").split("?")[0]
    size = "phone" if phone else "desktop"
    await page.screenshot(path=PICTURES / f"web-{name}-{theme}-{size}.png")


def dump(served: Site) -> dict[str, list]:
    """Everything in the store but when a device was last here."""
    import apsw

    connection = apsw.Connection(
        f"file:{served.home}/state.db?mode=ro",
        flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI,
    )
    names = [
        row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
    ]
    content = {
        name: sorted(map(repr, connection.execute(f'SELECT * FROM "{name}"')))
        for name in names
        if name != "web_devices" and not name.startswith("sqlite_")
    }
    connection.close()
    return content
