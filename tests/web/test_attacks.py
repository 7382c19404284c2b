"""What a model, a tool, a title or a file name says is text: no script, no request elsewhere.

Every text is said in a conversation by everybody who can say something there, is a title, is asked
to be approved, and is looked for; `shown` fails on dialogs, errors and requests.
"""

from __future__ import annotations

import json

import pytest
from attacks import TEXTS
from pages import FULL, Site, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

SAMPLE = TEXTS if FULL else TEXTS[::5]
"""What is typed text by text, which takes a sixth of a second each."""
ALLOWED = (
    "A ARTICLE ASIDE B BDI BLOCKQUOTE BR BUTTON CODE DD DEL DETAILS DIV DL DT EM FIGCAPTION FIGURE"
    " FORM H1 H2 H3 H4 H5 H6 HEADER HR IMG INPUT LABEL LI MAIN MARK NAV OL OPTION P PRE SECTION"
    " SELECT SPAN STRONG SUMMARY TABLE TBODY TD TEXTAREA TH THEAD TR UL math mrow mi mn mo mtext"
    " mspace mfrac msup msub msubsup munder mover munderover msqrt mroot mstyle mpadded mtable mtr"
    " mtd menclose mphantom"
)
FOUND = """(allowed) => {
  const bad = [], names = allowed.split(' ');
  for (const one of document.querySelectorAll('#app *')) {
    if (!names.includes(one.tagName)) bad.push('element ' + one.tagName);
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) bad.push(one.tagName + ' ' + name);
      if (['href', 'src', 'xlink:href', 'action', 'srcset', 'formaction', 'background'].includes(name)
          && !/^(https?:|mailto:|data:image|\\/(c\\/|find|inbox|usage|state|settings|jobs|memory)|#main$)/.test(value)) bad.push(name + '=' + value);
      if (name === 'src' && !/^data:image/.test(value)) bad.push('src=' + value);
      if (name === 'style' && /url/i.test(value)) bad.push('style=' + value);
    }
  }
  if ({}.polluted !== undefined) bad.push('Object.prototype');
  return [...new Set(bad)];
}"""  # noqa: E501
OPEN = """() => document.querySelectorAll(
  '.tools .line[aria-expanded=false], .record button[aria-expanded=false], summary'
).forEach((one) => one.click())"""
UP = """() => {
  const box = document.querySelector('.scroll'), before = box.scrollTop;
  box.scrollTop -= 1400;
  return before;
}"""


def fill(served: Site) -> str:
    """A conversation that says every text: as an answer, a result, a question and a file name."""
    with served.store() as db:
        session_id = db.create_session("attacked", "tui")
        rows = []
        for number, text in enumerate(TEXTS):
            given = {"path": text, "old_string": text, "new_string": text + "\n"}
            function = {"name": "patch", "arguments": json.dumps(given)}
            call = {"id": f"c{number}", "type": "function", "function": function}
            rows += [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text, "reasoning": text, "tool_calls": [call]},
                {
                    "role": "tool",
                    "content": text,
                    "tool_call_id": f"c{number}",
                    "tool_name": text[:40],
                },
                {"role": "assistant", "content": f"Done with number {number}.\n\n{text}"},
            ]
        db.append_messages(session_id, rows)
    return session_id


def entitle(served: Site) -> int:
    """A conversation for each text, with it as its title; so many titles were taken."""
    taken = 0
    with served.store() as db:
        for number, text in enumerate(TEXTS):
            key = db.create_session(f"titled-{number}", "tui")
            db.append_messages(key, [{"role": "user", "content": f"gazpacho {number}\n{text}"}])
            try:
                taken += bool(db.set_session_title(key, text[:90]))
            except ValueError:
                continue
    return taken


async def test_no_text_becomes_code_or_a_request(browser, served: Site) -> None:
    """Read through all of it, with every card open."""
    session_id = fill(served)
    async with shown(browser, served, f"/c/{session_id}") as page:
        await page.wait_for_selector(f"text=Done with number {len(TEXTS) - 1}.")
        bad: set[str] = set()
        for _ in range(400):
            await page.evaluate(OPEN)
            bad |= set(await page.evaluate(FOUND, ALLOWED))
            top = await page.evaluate(UP)
            if top == 0 and not await page.query_selector("text=Earlier messages…"):
                break
            await page.wait_for_timeout(20)
        else:
            raise AssertionError("The beginning was not reached.")
        assert await page.query_selector("text=Done with number 0.")
        assert bad == set()


async def test_no_title_query_or_request_becomes_code(browser, served: Site) -> None:
    assert entitle(served) > len(TEXTS) // 2
    with served.store() as db:
        for text in SAMPLE:
            db.create_approval(
                session_id="titled-0", command=text, description=text, pattern_keys=[text]
            )
    try:
        bad = await look_through(browser, served)
    finally:
        with served.store() as db:
            for number in range(len(TEXTS)):
                db.delete_session(f"titled-{number}")
    assert bad == set()


async def look_through(browser, served: Site) -> set[str]:
    """What is wrong with the pages that show titles, hits and requests."""
    async with shown(browser, served, "/find?q=gazpacho") as page:
        sockets: list = []
        page.on("websocket", lambda socket: sockets.append(socket))
        await page.reload()
        await page.wait_for_selector(".hits a")
        while more := await page.query_selector("button:has-text('More')"):
            await more.click()
            await page.wait_for_timeout(100)
        assert await page.locator(".hits a").count() >= len(TEXTS)
        bad = set(await page.evaluate(FOUND, ALLOWED))
        for text in SAMPLE:
            await page.fill("input[type=search]", "")
            if text.startswith(">") or not text.strip():  # to a page of ours, or no query
                await page.fill("input[type=search]", text)
            else:
                async with sockets[-1].expect_event("framereceived", is_answer):
                    await page.fill("input[type=search]", text)
            bad |= set(await page.evaluate(FOUND, ALLOWED))
        await page.goto(served.url + "/inbox")
        await page.wait_for_selector(".ask")
        bad |= set(await page.evaluate(FOUND, ALLOWED))
        await page.goto(served.url + "/c/titled-0")
        await page.wait_for_selector("article.user")
        bad |= set(await page.evaluate(FOUND, ALLOWED))
    return bad


def is_answer(frame: str | bytes) -> bool:
    """Whether a frame answers a search."""
    return '"results"' in str(frame) or '"error"' in str(frame)


async def test_no_name_of_a_file_becomes_code(browser, served: Site) -> None:
    async with shown(browser, served) as page:
        await page.wait_for_selector("[data-composer]")
        field = page.locator("input[type=file]").first
        bad: set[str] = set()
        for text in SAMPLE:
            name = "".join(letter for letter in text if letter not in "/\0\n")[:60] or "x"
            for kind in ("text/plain", "image/png"):
                await field.set_input_files({"name": name, "mimeType": kind, "buffer": b"x"})
            bad |= set(await page.evaluate(FOUND, ALLOWED))
        await page.wait_for_timeout(300)
        bad |= set(await page.evaluate(FOUND, ALLOWED))
        await page.fill("[data-composer]", "")
    assert bad == set()
