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


HOSTILE_MARKDOWN = (
    "\n", " ", "\t", "$", "$ ", "$$ ", "\\(a", "\\[", "[", "![", "[a](", "[](", "[a][", "<", "<a ",
    "<!--", "*", "**", "* ", "_", "__", "_a _b", "**a *b ", "~", "`", "`a", ">", "> ", "- ", "1. ",
    "|", "#",
    "| a |\n|---|\n", "- a\n - ", "a\n=", "https://", "a@b.", "&", "\\", "[a]: ", "a  \n",
)  # fmt: skip
PARSED = """async ([address, texts, length]) => {
  const { lex } = await import(address);
  const lost = [];
  for (const before of ['', '$$', 'a ']) for (const part of texts) {
    const text = before + part.repeat(Math.ceil(length / part.length)) + 'x';
    if (!lex(text).length) lost.push(part);
  }
  return lost;
}"""


async def test_no_text_keeps_the_page_from_answering(browser, served: Site) -> None:
    """10,000 characters of what parsers dislike; a nest too deep to be drawn is shown as it is."""
    address = f"/static/{Assets().digest}/markdown.js"
    deep = ">" * 9000
    with served.store() as db:
        key = db.create_session("hostile", "tui")
        said = [deep, "$$" + "\n" * 9000 + "x", "**a *b " * 2000, "The last."]
        rows = [{"role": "assistant", "content": text} for text in said]
        db.append_messages(key, [{"role": "user", "content": "Go on"}, *rows])
    async with shown(browser, served, f"/c/{key}") as page:
        await page.wait_for_selector("text=The last.")
        assert await page.locator("p.raw").count() == 2
        assert await page.evaluate(PARSED, [address, list(HOSTILE_MARKDOWN), 10_000]) == []


async def test_what_cannot_be_drawn_takes_nothing_else_with_it(browser, served: Site) -> None:
    """Arguments that are nested deeper than a browser can write them."""
    deep = '{"path": ' + "[" * 100_000 + "]" * 100_000 + "}"
    function = {"name": "read_file", "arguments": deep}
    with served.store() as db:
        key = db.create_session("nested", "tui")
        db.append_messages(key, [
            {"role": "user", "content": "Go on"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "deep", "type": "function", "function": function}]},
            {"role": "tool", "content": "x", "tool_call_id": "deep", "tool_name": "read_file"},
            {"role": "assistant", "content": "The last."},
        ])  # fmt: skip
    async with shown(browser, served, f"/c/{key}") as page:
        await page.wait_for_selector("text=The last.")
        await page.click(".tools .line")
        await page.wait_for_selector(".card.tool, p.warn:has-text('This cannot be shown')")
        assert await page.locator("[data-composer]").count() == 1


SAMPLES = {
    "python": ("@cache\ndef total(rows):  # all\n    return f\"{rows}\", 1.5\n",
               ["meta @cache", "keyword def", "title total", "comment # all", "keyword return",
                'string f"{rows}"', "number 1.5"]),
    "rust": ("fn main<'a>() -> &'a str { println!(\"x\") }",
             ["keyword fn", "title main", "symbol 'a", "symbol 'a", "keyword str",
              "built_in println!", 'string "x"']),
    "ts": ("const re = /a[/]b/g; // `c`", ["keyword const", "regexp /a[/]b/g", "comment // `c`"]),
    "html": ("<b id=x>a</b><!-- c", ["tag <b", "attr id", "tag >", "tag </b", "tag >",
                                     "comment <!-- c"]),
    "yaml": ("a:\n  - b: 'x' # c", ["attr a", "attr b", "string 'x'", "comment # c"]),
    "SQL": ("select 'it''s' -- c", ["keyword select", "string 'it''s'", "comment -- c"]),
    "patch": ("@@ -1 @@\n-a\n+b", ["meta @@ -1 @@", "deletion -a", "addition +b"]),
    "toml": ("[a]\nb = 1", ["section [a]", "attr b", "number 1"]),
}  # fmt: skip
LANGUAGES = [
    "bash", "cpp", "csharp", "css", "diff", "go", "ini", "java", "javascript", "json", "kotlin",
    "lua", "markdown", "php", "python", "ruby", "rust", "sql", "swift", "xml", "yaml",
]  # fmt: skip
HOSTILE = (
    '"', '\\"', "'", "/*", "=/[", "`", "<a", "<!--", "-", "[", "a", "- ", "$", "${", "\"\"\"",
    "a:", "a=", "*", "1e", "(/", "\\", "&a", "--[[", "\n[", "|\n", "\n ", "a.", " ",
)  # fmt: skip
COLOURED = """async ([address, samples]) => {
  const { parts, languageOf } = await import(address);
  return samples.map(([lang, text]) => parts(text, languageOf(lang)));
}"""
UNCHANGED = """async ([address, languages, texts, length]) => {
  const { parts, languageOf } = await import(address);
  const changed = [];
  for (const lang of languages) for (const part of texts) {
    const text = part.repeat(Math.ceil(length / part.length));
    const drawn = parts(text, languageOf(lang)).map(([, words]) => words).join('');
    if (drawn !== text) changed.push([lang, part]);
  }
  return changed;
}"""


async def test_code_is_coloured_and_not_changed(browser, served: Site) -> None:
    """Also what somebody wrote who wants the page to stand still: 40 kB of the same."""
    address = f"/static/{Assets().digest}/code.js"
    async with shown(browser, served) as page:
        await page.wait_for_selector("[data-composer]")
        given = [[lang, text] for lang, (text, _) in SAMPLES.items()]
        drawn = await page.evaluate(COLOURED, [address, given])
        for found, (lang, (_, wanted)) in zip(drawn, SAMPLES.items(), strict=True):
            assert [f"{kind} {words}" for kind, words in found if kind] == wanted, lang
        for texts, length in ((HOSTILE, 40_000), (TEXTS, 1)):
            asked = [address, LANGUAGES, list(texts), length]
            assert await page.evaluate(UNCHANGED, asked) == []
        asked = [address, [["__proto__", "x"], ["constructor", "x"], ["no such", "x"]]]
        same = (
            "async ([address, names]) => { const { colour } = await import(address);"
            " return names.every(([name, text]) => colour(text, name) === text); }"
        )
        assert await page.evaluate(same, asked)
