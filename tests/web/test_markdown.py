"""Markdown that grows is drawn as if it had come at once: every prefix of every text."""

from __future__ import annotations

import pytest
from attacks import TEXTS
from pages import Site, shown

from web.assets import Assets

pytestmark = pytest.mark.asyncio(loop_scope="session")

DOCUMENTS = [
    "# Head\n\nA paragraph\nof two lines.\n\n- one\n- two\n\n  more of two\n\n1. a\n2. b\n\nEnd.",
    "Text\n===\n\n> quoted\nlazily\n\n```py\ncode\n\nmore\n```\n\nafter\n\n    indented\n\nlast",
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\nafter | table\n\n***\n\n$$x^2$$\n\n\\[y\\] and $z$ end",
    "see [ref]\n\nmore text\n\nand more\n\n[ref]: https://example.org/\n\nafter",
    "<div>\nhtml\n\n</div>\n\n<b>x</b> text\n\n- [ ] task\n- [x] done\n\n* * *\n\nend",
]
COMPARE = """async ([address, texts]) => {
  const { growing, lex } = await import(address);
  const raw = (tokens) => JSON.stringify(tokens.map((token) => [token.type, token.raw]));
  const different = [];
  for (const text of texts) {
    const parse = growing();
    for (let end = 1; end <= text.length; end++) {
      const now = text.slice(0, end);
      if (raw(parse(now)) !== raw(lex(now))) { different.push([text, end]); break; }
    }
  }
  return different;
}"""


async def test_a_prefix_is_parsed_as_a_whole_text_is(browser, served: Site) -> None:
    texts = [*DOCUMENTS, *(text for text in TEXTS if len(text) < 200), "\n\n".join(DOCUMENTS)]
    address = f"/static/{Assets().digest}/markdown.js"
    async with shown(browser, served) as page:
        await page.wait_for_selector("[data-composer]")
        assert await page.evaluate(COMPARE, [address, texts]) == []
