"""What a model, a tool, a title or a file name says is text: no script, no request elsewhere."""

from __future__ import annotations

import pytest
from attacks import TEXTS
from pages import Site, shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

ALLOWED = (
    "A ARTICLE B BDI BLOCKQUOTE BR BUTTON CODE DD DEL DETAILS DIV DL DT EM FIGCAPTION FIGURE"
    " H2 H3 H4 H5 H6 HR IMG LI OL P PRE SECTION SPAN STRONG SUMMARY TABLE TBODY TD TH THEAD TR"
    " UL math mrow mi mn mo mtext mspace mfrac msup msub msubsup munder mover munderover msqrt"
    " mroot mstyle mpadded mtable mtr mtd menclose mphantom"
)
FOUND = """(allowed) => {
  const bad = [], names = allowed.split(' ');
  for (const one of document.querySelectorAll('#app .column *')) {
    if (!names.includes(one.tagName)) bad.push('element ' + one.tagName);
    for (const { name, value } of one.attributes) {
      if (/^on/i.test(name)) bad.push(one.tagName + ' ' + name);
      if (['href', 'src', 'xlink:href', 'action', 'srcset'].includes(name)
          && !/^(https?:|mailto:|data:image|\\/c\\/)/.test(value)) bad.push(name + '=' + value);
      if (name === 'src' && !/^data:image/.test(value)) bad.push('src=' + value);
    }
  }
  return [...new Set(bad)];
}"""


def fill(served: Site) -> str:
    """A conversation that says every text: as an answer, a result, a question and a file name."""
    with served.store() as db:
        session_id = db.create_session("attacked", "tui")
        db.set_session_title(session_id, "<img src=x onerror=alert(1)> https://evil.example/")
        rows = []
        for number, text in enumerate(TEXTS):
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "read_file", "arguments": '{"path": "x"}'},
            }
            rows += [
                {"role": "user", "content": text},
                {"role": "assistant", "content": text, "tool_calls": [call]},
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


async def test_no_text_becomes_code_or_a_request(browser, served: Site) -> None:
    """Read through all of it, with every card open; `shown` fails on dialogs and requests."""
    session_id = fill(served)
    async with shown(browser, served, f"/c/{session_id}") as page:
        await page.wait_for_selector(f"text=Done with number {len(TEXTS) - 1}.")
        bad: set[str] = set()
        for _ in range(60):
            await page.evaluate(
                "() => document.querySelectorAll('.tools .line[aria-expanded=false], .reasoning')"
                ".forEach((one) => one.click())"
            )
            bad |= set(await page.evaluate(FOUND, ALLOWED))
            top = await page.evaluate(
                "() => { const box = document.querySelector('.scroll');"
                " const before = box.scrollTop; box.scrollTop -= 1400; return before; }"
            )
            if top == 0 and not await page.query_selector("text=Earlier messages…"):
                break
            await page.wait_for_timeout(40)
        assert bad == set()
        assert await page.evaluate("() => ({}).polluted") is None


@pytest.mark.parametrize("start", range(0, len(TEXTS), 40))
async def test_no_query_or_name_of_a_file_becomes_code(browser, served: Site, start: int) -> None:
    async with shown(browser, served, "/find") as page:
        await page.wait_for_selector("input[type=search]")
        for text in TEXTS[start : start + 40 : 8]:
            await page.fill("input[type=search]", text)
            await page.wait_for_timeout(150)
