"""Usage: charts that are tables too, and the conversations behind a bar."""

from __future__ import annotations

import pytest
from pages import Site, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_bar_opens_what_is_behind_it(browser, served: Site) -> None:
    async with shown(browser, served, "/usage") as page:
        await page.wait_for_selector(".chart .part")
        assert "claude-sonnet-5" in await page.inner_text(".bars figcaption")
        await page.focus(".chart .whole >> nth=0")
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".behind a:has-text('Summaries for the team')")
        await page.click("button:has-text('by tool')")
        await page.wait_for_selector("h2:has-text('Uses of tools per day')")
        await page.click(".chart .part >> nth=0")
        await page.click(".behind a:has-text('Summaries for the team')")
        await page.wait_for_selector("text=Summaries for the team: step 1?")


async def test_every_chart_is_a_table_and_has_the_sources(browser, served: Site) -> None:
    async with shown(browser, served, "/usage", phone=True) as page:
        await page.click("button:has-text('by source')")
        await page.wait_for_selector(".bars figcaption:has-text('telegram')")
        await page.click("summary:has-text('Cost per day')")
        assert await page.locator("th:has-text('telegram')").count() == 1
        await page.click("summary:has-text('weekday and hour')")
        assert await page.locator("td:has-text(':00')").count() > 3
        await page.click("button:has-text('by person')")
        await page.wait_for_selector(".bars figcaption:has-text('operator')")


async def test_names_of_tools_are_names(browser, served: Site) -> None:
    """Also those that every object has."""
    names = ("constructor", "__proto__", "toString", "\u202eevil")
    with served.store() as db:
        key = db.create_session("oddly-named", "tui")
        for name in names:
            called = {"id": name, "type": "function", "function": {"name": name, "arguments": "{}"}}
            db.append_messages(key, [
                {"role": "user", "content": "Go on"},
                {"role": "assistant", "content": "", "tool_calls": [called]},
                {"role": "tool", "content": "x", "tool_call_id": name, "tool_name": name},
                {"role": "assistant", "content": "Done."},
            ])  # fmt: skip
    async with shown(browser, served, "/usage") as page:
        await page.click("button:has-text('by tool')")
        await page.wait_for_selector(".bars figcaption:has-text('constructor')")
        assert "⟦U+202E⟧evil" in await page.inner_text(".bars figcaption")
        await page.locator(".chart .whole").last.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".behind")
        await page.goto(f"{served.url}/c/{key}")
        await page.wait_for_selector("text=Done.")
        await page.click(".tools .line >> nth=0")
        await page.wait_for_selector(".card.tool h4:has-text('constructor')")
