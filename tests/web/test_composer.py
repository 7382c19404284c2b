"""Where one types: what a message does to a running answer, files, and what others write."""

from __future__ import annotations

import base64

import pytest
from pages import Site, idle, read, send, shown
from scripted_provider import say, script

pytestmark = pytest.mark.asyncio(loop_scope="session")

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
GIVE = """([kind, name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
  const given = new DataTransfer();
  given.items.add(new File([bytes], name, { type }));
  const facts = { bubbles: true, cancelable: true };
  const event = kind === 'paste' ? new ClipboardEvent('paste', { ...facts, clipboardData: given })
    : new DragEvent('drop', { ...facts, dataTransfer: given });
  document.querySelector('[data-composer]').dispatchEvent(event);
}"""


async def test_a_message_waits_until_an_answer_is_stopped(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        await send(page, script("busy", say("It goes on and on. " * 40, pieces=400, pause=0.02)))
        await page.wait_for_selector("article.assistant >> text=It goes on")
        await page.fill("[data-composer]", "this one waits")
        await page.check("label:has-text('Wait') input")
        await page.press("[data-composer]", "Enter")
        await page.wait_for_selector(".waiting >> text=this one waits")
        await page.click("button.stop")
        await page.wait_for_selector("text=You said: this one waits")
        await idle(page)
        said = await read(page)
    assert [role for role, _ in said] == ["user", "assistant", "user", "assistant"]
    assert said[1][1].startswith("It goes on") and len(said[1][1]) < 700, "what was said is kept"
    assert said[2][1] == "this one waits"


async def test_files_and_pictures_are_pasted_and_dropped(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        await page.wait_for_selector(".side .list a")  # it is connected
        await page.evaluate(GIVE, ["paste", "dot.png", "image/png", PNG])
        await page.wait_for_selector(".attached li >> text=dot.png")
        text = base64.b64encode(b"Fifty-one lines").decode()
        await page.evaluate(GIVE, ["drop", "list.txt", "text/plain", text])
        await page.wait_for_function(
            "() => document.querySelector('[data-composer]').value.includes('list.txt')"
        )
        await page.evaluate(GIVE, ["drop", "odd.png", "image/png", PNG])
        await page.wait_for_selector(".attached li >> text=odd.png")
        await page.click("button[aria-label='Leave out odd.png']")
        await page.wait_for_selector(".attached li >> text=odd.png", state="detached")
        await page.press("[data-composer]", "End")
        await page.keyboard.type(" What is that?")
        await page.press("[data-composer]", "Enter")
        await idle(page)
        assert await page.locator("article.user img.picture").count() == 1
        assert "What is that?" in await page.inner_text("article.user")


async def test_what_another_process_stores_is_shown(browser, served: Site) -> None:
    with served.store() as db:
        key = db.create_session("elsewhere", "telegram", user_id="telegram:42", chat_id="42")
        db.append_messages(key, [{"role": "user", "content": "From the telephone"}])
        async with shown(browser, served, f"/c/{key}") as page:
            await page.wait_for_selector("text=From the telephone")
            db.append_messages(key, [{"role": "assistant", "content": "Seen **everywhere**."}])
            await page.wait_for_selector("article.assistant strong:has-text('everywhere')")
