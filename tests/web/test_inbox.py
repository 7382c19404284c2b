"""The inbox: what waits for a person from every surface, decided in the page."""

from __future__ import annotations

import pytest
from pages import Site, send, shown
from scripted_provider import call, say, script

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_what_waits_and_is_owed_is_there_with_where_it_comes_from(
    browser, served: Site
) -> None:
    with served.store() as db:
        to = {"session_key": "agent:main:telegram:dm:42", "platform": "telegram", "chat_id": "42"}
        db.add_delivery("given-up", "This never arrived.", **to)
        db.finish_delivery("given-up", "failed", "The chat is gone.")
    async with shown(browser, served, "/inbox") as page:
        await page.wait_for_selector("text=rm -rf ~/old-flat/scans")
        text = await page.inner_text(".page")
        for expected in (
            "Plan the move to the new flat", "min left", "And the receipts?",
            "The plan has four steps", "given up", "The chat is gone.",
            "denied", "answered by operator", "Ask again",
        ):  # fmt: skip
            assert expected in text, expected
        await page.click("a:has-text('Questions about the tax form')")
        await page.wait_for_selector("text=Questions about the tax form: step 1?")


async def test_a_request_is_decided_in_the_inbox_and_its_turn_goes_on(
    browser, served: Site
) -> None:
    """A command that asks, in a conversation that another tab has open."""
    async with shown(browser, served) as page:
        await page.evaluate("() => localStorage.setItem('hermes.next', '{\"mode\": \"guarded\"}')")
        question = call("clarify", question="Which of the two?", choices=["left", "right"])
        await send(page, script("inbox", question, say("So be it.")))
        await page.wait_for_selector(".ask >> text=Which of the two?")
        other = await page.context.new_page()
        await other.goto(served.url + "/inbox")
        await other.click(".ask button:has-text('left')")
        await page.wait_for_selector("article.assistant >> text=So be it.")
        await other.wait_for_function("() => !document.body.textContent.includes('Which of the')")


async def test_a_grant_is_revoked_at_once(browser, served: Site) -> None:
    with served.store() as db:
        db.grant_patterns(["pattern of a test"], None)
    async with shown(browser, served, "/inbox") as page:
        row = page.locator("li", has_text="pattern of a test")
        await row.locator("button").click()
        await row.wait_for(state="detached")
    with served.store() as db:
        assert "pattern of a test" not in {grant["pattern_key"] for grant in db.list_grants()}
