"""The page by the keyboard alone: talking, a turn, finding, deciding; and what is read aloud."""

from __future__ import annotations

import asyncio

import pytest
from pages import SECONDS, Site, idle, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

FOCUSED = "(selector) => document.activeElement.matches(selector)"


async def tab_to(page, selector: str, key: str = "Tab") -> None:
    """Press Tab until something like that has the focus."""
    for _ in range(80):
        if await page.evaluate(FOCUSED, selector):
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{selector} was not reached.")


async def test_talk_find_and_decide_without_a_mouse(browser, served: Site) -> None:
    with served.store() as db:
        asked = db.create_approval(
            session_id="past-2", command="rm \u202etxt.a\u200b -r", description="deletes",
            pattern_keys=["one of the keyboard"], ttl_seconds=600,
        )  # fmt: skip
    async with shown(browser, served) as page:
        press, write = page.keyboard.press, page.keyboard.type
        await page.wait_for_selector("[data-composer]:focus")
        await write("quokkas by keys")
        await press("Enter")
        await idle(page)
        spoken = await page.text_content("p.sr[aria-live=polite]")
        assert spoken == "Hermes: You said: quokkas by keys"
        assert await page.get_attribute(".scroll", "aria-live") == "off", "it is said once"
        await tab_to(page, ".marks button", "Shift+Tab")
        await press(".")
        await page.wait_for_selector(".panel h2:has-text('Turns')")
        await press("Escape")
        await page.wait_for_selector(".panel", state="detached")
        await press("/")
        await page.wait_for_selector("[data-composer]:focus")
        await press("Control+k")
        await page.wait_for_selector("input[type=search]:focus")
        await write("quokkas")
        await page.wait_for_selector(".hits a >> text=by keys")
        await press("ArrowDown")
        await press("Enter")
        await page.wait_for_selector("article.here")
        await press("Control+k")
        await write("> inb")
        await press("Enter")
        await page.wait_for_selector("pre.command:has-text('rm ⟦U+202E⟧txt.a⟦U+200B⟧ -r')")
        await tab_to(page, f'[id="{asked.id}"] button.once')
        # A button that has just appeared takes no press, so one may have to be repeated.
        async with asyncio.timeout(SECONDS):
            while await page.locator(f'[id="{asked.id}"] button.once').count():
                await press("Enter")
                await page.evaluate("() => new Promise(requestAnimationFrame)")
    with served.store() as db:
        assert db.get_approval(asked.id)["choice"] == "once"
