"""The lineage of a conversation, any point of it as it was then, its turns, and finding a place."""

from __future__ import annotations

import pytest
from pages import Site, idle, send, shown
from scripted_provider import call, say, script

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_any_point_is_read_as_it_was_and_branched_from(browser, served: Site) -> None:
    """Also from before a compression; as it was said, and as the model was sent it."""
    tip = served.past["tip"]
    async with shown(browser, served, f"/c/{tip}/history") as page:
        await page.wait_for_selector("text=Compressed, and went on")
        assert await page.locator(".lanes li").count() == 3
        with served.store() as db:
            (said,) = [row for row in db.get_messages(served.past["long"], include_inactive=True)
                       if row["content"] == "No: for books it is 7 %."]  # fmt: skip
        await page.goto(f"{served.url}/c/{tip}/history?at={said['id']}")
        await page.wait_for_selector(".then")
        await page.click("button:has-text('As sent to the model')")
        await page.wait_for_function(
            "() => !document.querySelector('.column').textContent.includes('write a test')"
        )
        await page.click("button:has-text('Branch from here')")
        await page.wait_for_function("(tip) => !location.pathname.includes(tip)", arg=tip)
        await idle(page)
        text = await page.inner_text(".column")
        assert "No: for books it is 7 %." in text and "write a test" not in text


async def test_a_turn_shows_its_steps_and_what_a_tool_was_given(browser, served: Site) -> None:
    async with shown(browser, served, f"/c/{served.past['tip']}/turn") as page:
        await page.click("button[aria-label='Earlier turn']")
        await page.click(".panel table button:has-text('terminal')")
        await page.wait_for_selector(".panel .card >> text=2 passed")
        await page.click("button[aria-label='Earlier turn']")
        await page.wait_for_selector(".panel .legend:has-text('compression')")
        assert "/turn/" in page.url


async def test_files_of_a_moment_are_put_back_and_that_is_undone(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        name = served.home / "notes-of-the-page.txt"
        for text in ("first\n", "second\n"):
            write = call("write_file", path=str(name), content=text)
            await send(page, script(f"write {text}", write, say(f"Wrote {text}")))
            await page.wait_for_selector(f"text=Wrote {text.strip()}")
            await idle(page)
        await page.click(".tools .line >> nth=0")
        assert "+first" in await page.inner_text(".diff")
        first = await page.get_attribute("article.assistant >> nth=0", "id")
        key = page.url.rpartition("/c/")[2]
        await page.goto(f"{served.url}/c/{key}/files?at={first[1:]}")
        await page.click("button:has-text('What differs now') >> nth=0")
        await page.wait_for_selector(".panel .diff .added")
        await page.click("button:has-text('Put files back to then')")
        await page.wait_for_selector("text=1 file put back")
        assert name.read_text() == "first\n"
        await page.click("button:has-text('Undo')")
        await page.wait_for_function(
            "() => document.querySelectorAll('.panel [role=status]').length"
        )
        await page.wait_for_selector("text=1 file put back")
        assert name.read_text() == "second\n"


async def test_a_hit_shows_its_surroundings_and_opens_at_the_message(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        await page.wait_for_selector("[data-composer]")
        await page.keyboard.press("Control+k")
        await page.wait_for_selector("input[type=search]:focus")
        await page.keyboard.type("tax")
        await page.wait_for_selector(".hits mark")
        await page.select_option("select[aria-label='Said by']", "user")
        await page.wait_for_function(
            "() => ![...document.querySelectorAll('.hit')]"
            ".some((one) => one.textContent.startsWith('Hermes'))"
        )
        hit = page.locator(".hits a", has_text="Add the")
        assert "Done: total now adds 19" in await hit.inner_text()
        await hit.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_selector(".here >> text=Add the tax, please")
        await page.keyboard.press("Control+k")
        await page.wait_for_selector("input[type=search]:focus")
        await page.keyboard.type("> inb")
        await page.keyboard.press("Enter")
        await page.wait_for_selector("h1:has-text('Inbox')")


async def test_a_panel_on_a_phone_leads_back(browser, served: Site) -> None:
    async with shown(browser, served, f"/c/{served.past['tip']}", phone=True) as page:
        await page.click(".bar nav a:has-text('History')")
        await page.wait_for_selector("text=Compressed, and went on")
        await page.click("a.back")
        await page.wait_for_selector(".panel", state="detached")
        assert await page.is_visible("[data-composer]")


async def test_what_is_not_there_is_said_to_be_so(browser, served: Site) -> None:
    async with shown(browser, served, "/c/nobody") as page:
        await page.wait_for_selector("text=There is no such conversation, or it is not yours.")
        assert await page.locator("[data-composer]").count() == 0
        await page.click("button:has-text('New')")
        await page.wait_for_selector("[data-composer]")
