"""Every page, in both themes and sizes: for screen readers too; and looking writes nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pages import Site, idle, send, shown
from scripted_provider import call, say, script

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES = ("", "/find?q=plan", "/inbox", "/usage", "/state", "/settings")
PANELS = ("", "/history", "/turn", "/files")
READ = "() => ![...document.querySelectorAll('.quiet')].some((one) => one.textContent === '…')"
AXE = "axe-core@4.14.0"
PICTURES = Path(__file__).parents[2] / "docs" / "images"
ANSWER = """Here is **the plan**.

1. Read the `notes`
2. Write a [page](https://example.org/)

| Step | Hours |
|---|--:|
| Read | 2 |

```python
def hello(name: str) -> str:
    return f"Hi {name}"
```

And $e^{i\\pi} + 1 = 0$.
"""


def axe() -> str:
    """The checker's source, fetched by npm where that is at hand; it is never shipped."""
    folder = Path(os.environ.get("HERMES_TEST_CACHE") or "/tmp/hermes-test-cache")
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "axe-4.14.0.js"
    if not source.exists():
        try:
            subprocess.run(
                ["npm", "pack", "--silent", AXE],
                cwd=folder,
                check=True,
                capture_output=True,
                timeout=60,
            )
        except (OSError, subprocess.SubprocessError):
            pytest.skip("axe-core could not be fetched; it needs npm and a registry")
        import tarfile

        with tarfile.open(next(folder.glob("axe-core-*.tgz"))) as packed:
            file = packed.extractfile("package/axe.min.js")
            assert file is not None
            source.write_bytes(file.read())
    return source.read_text()


async def violations(page, source: str) -> list[str]:
    """What axe finds; it comes in by the debugger, past the policy that forbids it to pages."""
    client = await page.context.new_cdp_session(page)
    await client.send("Runtime.evaluate", {"expression": source})
    result = await client.send(
        "Runtime.evaluate",
        {
            "expression": "axe.run(document, {resultTypes: ['violations']}).then((found) =>"
            " JSON.stringify(found.violations.map((one) =>"
            " one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))"
            ".join(' | '))))",
            "awaitPromise": True,
            "returnByValue": True,
        },
    )
    import json

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
    """A conversation with a tool, a table, code and a formula; made once."""
    if "id" not in talked:
        async with shown(browser, served) as page:
            steps = call("terminal", command="ls notes"), say(ANSWER)
            await send(page, script("plan", *steps))
            await page.wait_for_selector("article.assistant table")
            await idle(page)
            talked["id"] = page.url.rpartition("/c/")[2]
    return talked["id"]


@pytest.mark.parametrize("phone", [False, True], ids=["desktop", "phone"])
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_can_be_read_by_everybody(
    browser, served: Site, talked: dict[str, str], theme: str, phone: bool
) -> None:
    source = axe()
    key = await conversation(browser, served, talked)
    found: dict[str, list[str]] = {}
    async with shown(browser, served, phone=phone, color_scheme=theme) as page:
        for path in (*PAGES, *(f"/c/{key}{panel}" for panel in PANELS)):
            await page.goto(served.url + (path or "/"))
            await page.wait_for_selector("h1, h2")
            await settled(page, path)
            await page.wait_for_timeout(150)
            if problems := await violations(page, source):
                found[path] = problems
            wide = await page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, path
            if os.environ.get("HERMES_PICTURES"):
                name = (
                    path.strip("/").replace(f"c/{key}", "talk").replace("/", "-") or "new"
                ).split("?")[0]
                size = "phone" if phone else "desktop"
                await page.screenshot(path=PICTURES / f"web-{name}-{theme}-{size}.png")
    assert found == {}


async def test_looking_changes_nothing(browser, served: Site, talked: dict[str, str]) -> None:
    key = await conversation(browser, served, talked)
    device = served.key()
    before = dump(served)
    async with shown(browser, served, key=device) as page:
        for path in (*PAGES, *(f"/c/{key}{panel}" for panel in PANELS)):
            await page.goto(served.url + (path or "/"))
            await page.wait_for_selector("h1, h2")
            await page.wait_for_timeout(200)
    assert dump(served) == before


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
