"""Jobs in the page: made, paused, begun, and what became of their runs; and the settings."""

from __future__ import annotations

import pytest
from pages import Site, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_job_shows_its_runs_and_is_paused_and_begun(browser, served: Site) -> None:
    async with shown(browser, served, "/jobs") as page:
        job = page.locator("article", has_text="tracker news")
        await job.locator("text=every weekday at 8:00").wait_for()
        await job.locator("button:has-text('What became of it')").click()
        await job.locator("td:has-text('The tracker does not answer.')").wait_for()
        assert await job.locator("tbody tr").count() == 3
        await job.locator("button:has-text('Pause')").click()
        await job.locator("button:has-text('Go on')").click()
        await job.locator("button:has-text('Pause')").wait_for()
        await job.locator("button:has-text('Run now')").click()
        await page.wait_for_selector("text=is begun by the next process")
    with served.store() as db:
        assert db.get_job("job-news")["state"] == "active"
        assert db.list_job_runs("job-news", 9)[0]["state"] == "waiting"


async def test_a_job_is_made_changed_and_removed(browser, served: Site) -> None:
    async with shown(browser, served, "/jobs", phone=True) as page:
        await page.click("button:has-text('New job')")
        await page.fill("label:has-text('Name') input", "plants")
        await page.fill("label:has-text('When') input", "no time at all")
        await page.fill("form textarea", "Remind me of the plants")
        await page.click("button:has-text('Keep it')")
        await page.wait_for_selector(".warn")  # why it is no schedule
        await page.fill("label:has-text('When') input", "every day at 18:00")
        await page.click("button:has-text('Keep it')")
        job = page.locator("article", has_text="Remind me of the plants")
        await job.locator("button:has-text('Change')").click()
        await page.fill("form textarea", "Water the plants")
        await page.click("button:has-text('Keep it')")
        job = page.locator("article", has_text="Water the plants")
        await job.locator("button:has-text('Remove')").click()
        await job.locator("button:has-text('Yes, remove it')").click()
        await job.wait_for(state="detached")


async def test_a_revoked_browser_is_put_out_at_once(browser, served: Site) -> None:
    with served.store() as db:
        ada = db.resolve_person("Ada") or db.add_person("Ada")
    async with shown(browser, served, key=served.new_key(ada.id)) as other:
        await other.wait_for_selector("[data-composer]")
        async with shown(browser, served, "/settings") as page:
            device = page.locator("li", has_text="test " + ada.id)
            await device.locator("button:has-text('Revoke')").click()
            await other.wait_for_selector("text=Not let in any more")
            await device.wait_for(state="detached")


async def test_a_member_sees_their_own_and_the_operator_all(browser, served: Site) -> None:
    with served.store() as db:
        ada = db.resolve_person("Ada") or db.add_person("Ada")
    async with shown(browser, served, "/settings", key=served.key(ada.id)) as page:
        await page.wait_for_selector("text=You are Ada")
        await page.wait_for_selector(".columns input", state="attached")
        assert await page.locator(".card").count() == 1  # her own browser
        assert await page.locator(".columns input:enabled").count() == 0
        assert "Configuration" not in await page.inner_text(".page")
        await page.click("a[href='/jobs']")
        await page.wait_for_selector("text=No job yet")
    async with shown(browser, served, "/settings") as page:
        await page.click("summary:has-text('Every key')")
        await page.fill("input[aria-label='Find a key']", "model.default")
        await page.wait_for_selector("td:has-text('scripted')")
