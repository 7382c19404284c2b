"""The page in a real browser: first paint, bytes, a long conversation, a streamed answer.

`python -m bench.web` prints each figure beside its bar. It needs a Chromium (HERMES_BROWSER) and
playwright. Times are of this machine, loopback and an idle system; `--runs` says how many.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "web"), str(ROOT / "tests" / "tui")]

MESSAGES = 10_000
SENTENCE = "Sentence number {} of a long answer, with **bold** words. "
ANSWER = "".join(SENTENCE.format(number) for number in range(460))

PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
WATCH = """() => {
  window.longTasks = []; window.keys = [];
  const note = (list) => list.getEntries().forEach((one) => longTasks.push(one.duration));
  new PerformanceObserver(note).observe({ type: 'longtask' });
  document.addEventListener('keydown', () => { const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => keys.push(performance.now() - began))); }, true);
}"""


def sizes() -> dict[str, tuple[float, float]]:
    """Bytes of JavaScript, packed: of the first load and of everything, each with its bar in kB."""
    from web.assets import STATIC, Assets

    assets = Assets()

    def packed(names: list[str]) -> float:
        return sum(len(gzip.compress((STATIC / name).read_bytes(), 9)) for name in names) / 1000

    everything = [name for name in assets.names() if name.endswith(".js")]
    return {
        "JavaScript of the first load, kB gz": (packed(assets.first_load()), 75),
        "all JavaScript there is, kB gz": (packed(everything), 150),
    }


async def paints(browser: Any, served: Any, runs: int) -> dict[str, tuple[float, float]]:
    """First paint and a usable composer, on a first and on a second visit, in milliseconds."""
    from pages import shown

    cold, warm, usable = [], [], []
    key = served.key()
    for _ in range(runs):
        async with shown(browser, served, key=key) as page:
            await page.wait_for_selector("[data-composer]:not([disabled])")
            usable.append(await page.evaluate("() => performance.now()"))
            cold.append(await page.evaluate(PAINT))
            await page.reload()
            await page.wait_for_selector("[data-composer]")
            warm.append(await page.evaluate(PAINT))
    return {
        "first paint, cold, ms": (statistics.median(filter(None, cold)), 100),
        "first paint, second visit, ms": (statistics.median(filter(None, warm)), 60),
        "usable composer, ms": (statistics.median(usable), 250),
    }


async def long_conversation(browser: Any, served: Any) -> dict[str, tuple[float, float]]:
    """A conversation of 10,000 messages: opened, and scrolled through to its beginning."""
    from pages import shown

    with served.store() as db:
        session_id = db.create_session("long", "tui")
        text = "Some **words** of number {}, about as long as what people write to each other."
        roles = ("user", "assistant")
        db.append_messages(
            session_id,
            [{"role": roles[n % 2], "content": text.format(n)} for n in range(MESSAGES)],
        )
    async with shown(browser, served) as page:
        client = await page.context.new_cdp_session(page)
        await client.send("Network.enable")
        frames: list[int] = []
        client.on(
            "Network.webSocketFrameReceived",
            lambda event: frames.append(len(event["response"]["payloadData"])),
        )
        await page.goto(f"{served.url}/c/{session_id}")
        await page.wait_for_selector(f"text=number {MESSAGES - 1},")
        shown_after = await page.evaluate("() => performance.now()")
        sent = sum(frames)
        most = 0
        for _ in range(2000):
            most = max(most, await page.evaluate("() => document.querySelectorAll('*').length"))
            at = await page.evaluate(
                "() => { const box = document.querySelector('.scroll');"
                " box.scrollTop = Math.max(0, box.scrollTop - 4000); return box.scrollTop; }"
            )
            if at == 0:
                if await page.query_selector("text=number 0,"):
                    break
                await page.wait_for_timeout(20)
    return {
        "10,000 messages: the last on screen, ms": (shown_after, 300),
        "10,000 messages: received for it, kB": (sent / 1000, 200),
        "10,000 messages: most DOM nodes while scrolling": (most, 8000),
    }


async def streaming(browser: Any, served: Any) -> dict[str, tuple[float, float]]:
    """An answer of 30 kB at 200 pieces a second, while somebody types."""
    from pages import idle, send, shown
    from scripted_provider import say, script

    async with shown(browser, served) as page:
        await page.evaluate(WATCH)
        pieces = len(ANSWER) // 40
        await send(page, script("stream", say(ANSWER, pieces=pieces, pause=0.005)))
        await page.wait_for_selector("article.assistant")
        while await page.query_selector(".working"):
            await page.keyboard.type("typed ", delay=40)
        await page.fill("[data-composer]", "")
        await idle(page)
        tasks = await page.evaluate("() => longTasks")
        keys = sorted(await page.evaluate("() => keys"))
    return {
        "30 kB streamed: long tasks": (len(tasks), 0),
        "typing meanwhile: key to paint p95, ms": (keys[int(len(keys) * 0.95)] if keys else 0, 50),
    }


async def measure(runs: int) -> dict[str, tuple[float, float]]:
    """Every figure with its bar."""
    import browser as browsers
    from pages import site
    from playwright.async_api import async_playwright
    from scripted_provider import ScriptedProvider
    from serving import configure

    found = sizes()
    program = browsers.find()
    if program is None:
        print(browsers.MISSING, file=sys.stderr)
        return found
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedProvider() as provider:
            home = configure(Path(folder) / "home", provider)
            async with site(home) as served, async_playwright() as playwright:
                browser = await playwright.chromium.launch(**browsers.options(program))
                found |= await paints(browser, served, runs)
                found |= await long_conversation(browser, served)
                found |= await streaming(browser, served)
                await browser.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    args = parser.parse_args()
    for name, (value, bar) in asyncio.run(measure(args.runs)).items():
        print(f"{name:52} {value:10.1f}   bar {bar:8.0f}   {'' if value <= bar else 'ABOVE'}")


if __name__ == "__main__":
    main()
