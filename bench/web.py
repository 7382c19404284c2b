"""The page in a real browser: first paint, bytes, a long conversation, a streamed answer.

`python -m bench.web` prints each figure beside its bar. It needs a Chromium (HERMES_BROWSER) and
playwright. Times are of this machine, loopback and an idle system; `--runs` says how many, and
`--only` which part. Cuts, kills, what is typed offline, texts that attack and axe-core are counted
by the tests, as often as is promised with `make web-test FULL=1`.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import math
import os
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "web"), str(ROOT / "tests" / "tui")]

MESSAGES = 10_000
STEPS = 60
SENTENCE = "Sentence number {} of a long answer, with **bold** words. "
ANSWER = "".join(SENTENCE.format(number) for number in range(460))

PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
USABLE = """new MutationObserver((_, observer) => {
  if (!document.querySelector('[data-composer]:not([disabled])')) return;
  observer.disconnect();
  requestAnimationFrame(() => { window.usableAt = performance.now(); });
}).observe(document, { subtree: true, childList: true });"""
WATCH = """() => {
  window.longTasks = []; window.keys = [];
  const note = (list) => list.getEntries().forEach((one) => longTasks.push(one.duration));
  new PerformanceObserver(note).observe({ type: 'longtask' });
  document.addEventListener('keydown', () => { const began = performance.now();
    requestAnimationFrame(() => setTimeout(() => keys.push(performance.now() - began))); }, true);
}"""

SEEN = """() => {
  window.seen = {};
  new MutationObserver(() => {
    for (const one of document.querySelectorAll('article.said')) {
      const number = /Step (\\d+) of/.exec(one.textContent)?.[1];
      if (number && !(number in seen)) seen[number] = performance.timeOrigin + performance.now();
    }
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
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
        "CSS, kB gz": (packed(["style.css"]), 10),
    }


async def starting(_: Any, __: Any, runs: int) -> dict[str, tuple[float, float]]:
    """From `hermes web` to a page that answers, in a home that has been used before."""
    from tests.ports import free_port

    port = str(free_port())
    command = (sys.executable, "-m", "hermes_cli.main", "web", "--no-open", "--port", port)
    took = []
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "HERMES_HOME": home}
        for _number in range(runs + 1):
            began = time.monotonic()
            child = await asyncio.create_subprocess_exec(
                *command, env=environ, stdout=asyncio.subprocess.PIPE
            )
            assert child.stdout is not None
            url = (await child.stdout.readline()).decode().partition("/enter")[0]
            with await asyncio.to_thread(urllib.request.urlopen, url) as answer:
                answer.read()
            took.append((time.monotonic() - began) * 1000)
            child.terminate()
            await child.wait()
    return {"from `hermes web` to a page that answers, ms": (statistics.median(took[1:]), 1000)}


async def paints(browser: Any, served: Any, runs: int) -> dict[str, tuple[float, float]]:
    """First paint and a usable composer, on a first and on a second visit, in milliseconds."""
    from pages import shown

    cold, warm, usable, empty = [], [], [], []
    key = served.key()
    for _ in range(runs):
        async with shown(browser, served, key=key, fresh=True, script=USABLE) as page:
            await page.wait_for_function("() => window.usableAt")
            usable.append(await page.evaluate("() => usableAt"))
            cold.append(await page.evaluate(PAINT))
            await page.reload()
            await page.wait_for_selector("[data-composer]")
            warm.append(await page.evaluate(PAINT))
            await page.goto("data:text/html,<p>Nothing</p>")
            await page.wait_for_function(PAINT)
            empty.append(await page.evaluate(PAINT))
    return {
        "for comparison: first paint of one word, ms": (statistics.median(empty), math.nan),
        "first paint, cold, ms": (statistics.median(filter(None, cold)), 100),
        "first paint, second visit, ms": (statistics.median(filter(None, warm)), 60),
        "usable composer, ms": (statistics.median(usable), 250),
    }


async def second_visit(browser: Any, served: Any) -> dict[str, tuple[float, float]]:
    """How much a browser asks for that has been here before."""
    from pages import shown

    async with shown(browser, served) as page:
        await page.wait_for_selector("[data-composer]")
        await page.goto("about:blank")
        client = await page.context.new_cdp_session(page)
        await client.send("Network.enable")
        asked: list[str] = []
        kept: set[str] = set()
        client.on(
            "Network.requestWillBeSent",
            lambda event: asked.append(event["requestId"]),
        )
        client.on("Network.requestServedFromCache", lambda event: kept.add(event["requestId"]))
        client.on(
            "Network.responseReceived",
            lambda event: (
                kept.add(event["requestId"])
                if event["response"].get("fromDiskCache")
                or event["response"].get("fromServiceWorker")
                else None
            ),
        )
        await page.goto(served.url)
        await page.wait_for_selector("[data-composer]")
    return {"requests of a second visit": (len(set(asked) - kept), 2)}


async def following(browser: Any, served: Any) -> dict[str, tuple[float, float]]:
    """How long it takes until what another process stores is on the screen."""
    from pages import shown

    with served.store() as db:
        key = db.create_session("followed", "telegram")
        db.append_messages(key, [{"role": "user", "content": "The first of them"}])
        async with shown(browser, served, f"/c/{key}") as page:
            await page.wait_for_selector("text=The first of them")
            await page.evaluate(SEEN)
            stored = []
            for number in range(STEPS):
                role = ("assistant", "user")[number % 2]
                row = {"role": role, "content": f"Step {number} of another process"}
                await asyncio.to_thread(db.append_messages, key, [row])
                stored.append(time.time() * 1000)
                await page.wait_for_selector(f"text=Step {number} of another process")
                await asyncio.sleep(0.05 * (number % 7))  # at all moments of the watcher's round
            seen = await page.evaluate("() => seen")
    took = sorted(seen[str(number)] - at for number, at in enumerate(stored))
    return {"a step of another process on the screen p95, ms": (took[int(STEPS * 0.95)], 500)}


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


PARTS: dict[str, Any] = {
    "start": starting,
    "paint": paints,
    "again": lambda browser, served, _: second_visit(browser, served),
    "long": lambda browser, served, _: long_conversation(browser, served),
    "stream": lambda browser, served, _: streaming(browser, served),
    "follow": lambda browser, served, _: following(browser, served),
}


async def measure(runs: int, only: str = "") -> dict[str, tuple[float, float]]:
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
                for name, part in PARTS.items():
                    if only in ("", name):
                        found |= await part(browser, served, runs)
                await browser.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--only", choices=PARTS, default="", help="one part alone")
    args = parser.parse_args()
    for name, (value, bar) in asyncio.run(measure(args.runs, args.only)).items():
        judged = "" if math.isnan(bar) else f"bar {bar:8.0f}{'' if value <= bar else '   ABOVE'}"
        print(f"{name:52} {value:10.1f}   {judged}".rstrip())


if __name__ == "__main__":
    main()
