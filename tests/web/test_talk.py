"""Talking in the page: streamed, sent once, and the same as the store whatever is cut or killed."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from cutting import line_to
from pages import FULL, Site, idle, read, send, shown, site, words
from scripted_provider import ScriptedProvider, call, say, script
from serving import configure

from tests import seeds

pytestmark = pytest.mark.asyncio(loop_scope="session")

SENTENCE = "The quick brown fox jumps over the lazy dog, number {}. "
LONG = "".join(SENTENCE.format(number) for number in range(120))


STREAMED = """([number, length]) => {
  const said = [...document.querySelectorAll('article.assistant')];
  return said.length > number && said.pop().textContent.length > length;
}"""


class Near:
    """A site as it is reached by a line of ours."""

    def __init__(self, site: Site, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = site.key


def key_of(page: object) -> str:
    return str(page.url).rpartition("/c/")[2]  # type: ignore[attr-defined]


async def test_a_code_lets_a_browser_in_and_leaves_the_address(browser, served: Site) -> None:
    from pages import Guarded

    with served.store() as db:
        code = db.offer_device_code("operator")
    context = await browser.new_context()
    guarded = Guarded(context, served.url)
    page = await context.new_page()
    await page.goto(f"{served.url}/enter#code={code}")
    await page.wait_for_selector("[data-composer]")
    assert page.url == f"{served.url}/"
    assert await context.cookies() == []
    again = await context.new_page()
    await again.goto(f"{served.url}/enter#code={code}")
    await again.wait_for_selector("text=wrong, used or expired")
    assert guarded.found == []
    await context.close()


async def test_an_answer_streams_and_is_what_is_stored(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        steps = call("terminal", command="echo forty-two"), say("It is **done**.", pieces=3)
        await send(page, script("talk", *steps))
        await page.wait_for_selector("article.assistant >> text=done")
        await idle(page)
        assert [words(text) for _, text in await read(page)][1:] == ["Itisdone."]
        await page.click(".tools .line")
        assert "forty-two" in await page.text_content(".card.tool .output")
        assert len(served.stored(key_of(page))) == 2


async def test_a_cut_connection_loses_and_doubles_nothing(browser, served: Site) -> None:
    """The socket is closed at random moments of streams, and right after sending."""
    chance = random.Random(seeds.seed())
    for talk in range(9 if FULL else 1):
        async with shown(browser, served) as page:
            for number in range(3):
                await page.wait_for_selector("[data-composer]")
                await send(page, script(f"cut{talk}-{number}", say(LONG, pieces=60, pause=0.01)))
                for _ in range(4):
                    await asyncio.sleep(chance.random() * 0.25)
                    await page.evaluate("() => window.hermesCut()")
                await idle(page)
            assert_same(await read(page), served.stored(key_of(page)))


async def test_a_line_that_breaks_within_a_frame_loses_and_doubles_nothing(
    browser, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Reset after so many bytes, wherever that is."""
    chance = random.Random(seeds.seed())
    home = configure(tmp_path / "home", provider, platforms={"web": {"hosts": ["127.0.0.1"]}})
    cuts = 0
    async with site(home) as own, line_to(own.port) as (line, port):
        near = Near(own, port)
        while cuts < (100 if FULL else 6):
            async with shown(browser, near) as page:
                await page.wait_for_selector("[data-composer]")
                for number in range(2):
                    if chance.random() < 0.5:
                        line.cut_after(chance.randrange(1, 200))
                    await send(
                        page, script(f"line{cuts}-{number}", say(LONG, pieces=60, pause=0.01))
                    )
                    for _ in range(3):
                        line.cut_after(chance.randrange(1, 6000))
                        await asyncio.sleep(chance.random() * 0.3)
                    await idle(page)
                assert_same(await read(page), own.stored(key_of(page)))
            cuts = line.cuts


async def test_a_killed_server_goes_on_before_ones_eyes(
    browser, provider: ScriptedProvider, tmp_path: Path
) -> None:
    chance = random.Random(seeds.seed())
    home = configure(tmp_path / "home", provider)
    async with site(home) as own:
        for talk in range(25 if FULL else 1):
            async with shown(browser, own) as page:
                for number in range(2):
                    prompt = script(f"kill{talk}-{number}", say(LONG, pieces=80, pause=0.01))
                    await send(page, prompt)
                    await page.wait_for_function(
                        STREAMED, arg=[number, chance.randrange(100, len(LONG) * 3 // 4)]
                    )
                    await own.kill()
                    await own.start()
                    await idle(page)
                said = await read(page)
                assert_same(said, own.stored(key_of(page)))
                answers = [words(text) for role, text in said if role == "assistant"]
                assert answers == [words(LONG)] * 2


async def test_what_is_typed_offline_is_stored_once(
    browser, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Half of it before the page is loaded anew, which it is without a server."""
    count = 100 if FULL else 5
    home = configure(tmp_path / "home", provider)
    async with site(home) as served, shown(browser, served, fresh=True) as page:
        await page.goto(served.address)
        await page.wait_for_selector("[data-composer]")
        await page.evaluate("() => navigator.serviceWorker.ready.then(() => true)")
        await send(page, "first")
        await idle(page)
        await served.kill()
        await page.wait_for_selector(".offline")
        for number in range(count):
            if number == count // 2:
                await page.reload()
                await page.wait_for_selector(".offline")
            await send(page, f"typed offline {number}")
        assert await page.locator(".waiting").count() == count
        await served.start()
        await idle(page)
        texts = [text for role, text in served.stored(key_of(page)) if role == "user"]
        assert texts == ["first", *(f"typed offline {number}" for number in range(count))]
        assert_same(await read(page), served.stored(key_of(page)))


async def test_two_tabs_show_the_same(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        await send(page, "for both tabs")
        await idle(page)
        other = await page.context.new_page()
        await other.goto(page.url)
        await idle(other)
        await send(other, "from the other tab")
        await page.wait_for_selector("text=You said: from the other tab")
        await idle(page)
        await idle(other)
        assert await read(page) == await read(other)


def assert_same(screen: list[tuple[str, str]], stored: list[tuple[str, str]]) -> None:
    """The screen shows what is stored, all of it and nothing twice."""
    assert [(role, words(text)) for role, text in screen] == [
        (role, words(text)) for role, text in stored
    ]
