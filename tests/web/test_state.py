"""The state of everything, for the operator: a log, backups that are proven, a doctor's cures."""

from __future__ import annotations

import pytest
from pages import Site, shown

from hermes_state.backup.chain import add_point

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_operator_sees_how_everything_is(browser, served: Site) -> None:
    async with shown(browser, served, "/state") as page:
        await page.wait_for_selector(".tile:has-text('Gateway') >> text=not running")
        tiles = await page.inner_text(".tiles")
        assert "1 may be missing" not in tiles
        assert "Owed to chats" in tiles and str(served.home / "state.db") in tiles
        await page.click("main .tile >> text=Look")
        await page.wait_for_selector("h1:has-text('Inbox')")
        await page.go_back()
        await page.wait_for_selector("pre.log")
        await page.click("button:has-text('Errors')")
        await page.wait_for_selector("pre.log:has-text('Nothing.')")


async def test_a_line_of_the_log_leads_to_its_conversation(browser, served: Site) -> None:
    with (served.home / "logs" / "agent.log").open("a") as file:
        at = "2026-11-18 09:12:00,000"
        file.write(f"{at} WARNING agent.turn [past-1]: Tried <img src=x> \u202eagain\n")
    async with shown(browser, served, "/state") as page:
        await page.click("button:has-text('Warnings')")
        await page.wait_for_selector("pre.log:has-text('Tried <img src=x> ⟦U+202E⟧again')")
        await page.click("pre.log a:has-text('past-1')")
        await page.wait_for_selector("h1:has-text('Why the nightly build is slow')")


async def test_a_backup_is_proven(browser, served: Site) -> None:
    async with shown(browser, served, "/state") as page:
        await page.wait_for_selector("text=There is no point to go back to.")
        folder = served.home / "backups" / "continuous"
        folder.mkdir(parents=True)
        add_point(served.home / "state.db", folder)
        await page.reload()
        await page.wait_for_selector("text=None was ever proven")
        await page.click("button:has-text('Prove now')")
        await page.wait_for_selector("text=Point 1 was restored aside")
        await page.wait_for_selector("text=last proven")


async def test_the_doctor_finds_and_cures(browser, served: Site) -> None:
    file = served.home / "chat_history"
    file.touch()
    file.chmod(0o644)
    async with shown(browser, served, "/state", phone=True) as page:
        await page.click("button:has-text('Look for problems')")
        await page.wait_for_selector("text=chat_history can be read by others.")
        await page.click("li:has-text('chat_history can be read') button:has-text('Fix it')")
        await page.wait_for_selector(".state-good:has-text('fixed:')")
    assert file.stat().st_mode & 0o077 == 0


async def test_a_member_is_told_whose_it_is(browser, served: Site) -> None:
    with served.store() as db:
        person = db.add_person("Eve")
    async with shown(browser, served, "/state", key=served.key(person.id)) as page:
        await page.wait_for_selector("text=is for its operator")
        assert await page.locator(".side a:has-text('State')").count() == 0
        assert await page.locator("pre.log").count() == 0
