"""Markdown in the formats of platforms: right for ordinary text, never broken for odd text."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.markdown import to_plain
from gateway.platforms.matrix.formatting import to_matrix_html
from gateway.platforms.telegram.formatting import to_telegram_html, without_tags
from gateway.splitting import split_message, utf16_length

MARKDOWN = st.lists(
    st.one_of(
        st.sampled_from(
            ["**", "*", "_", "__", "~~", "||", "`", "``", "```", "\n```py\n", "\n", "\n\n", "[",
             "]", "](", ")", "![", "(http://x.y)", "\\", "> ", "- ", "1. ", "# ", "|", "|-|",
             "---", "<b>", "&amp;", "<", ">", "\t", "  ", "- [ ] "]
        ),
        st.text("ab é😀0", min_size=1, max_size=5),
        st.text(max_size=4),
    ),
    max_size=60,
).map("".join)  # fmt: skip

TELEGRAM_TAGS = {"b", "i", "s", "tg-spoiler", "code", "pre", "a", "blockquote"}
MATRIX_TAGS = {
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code", "blockquote", "ul", "ol", "li", "table",
    "thead", "tbody", "tr", "th", "td", "hr", "br", "strong", "em", "del", "span", "a",
}  # fmt: skip


class Strict(HTMLParser):
    """Reads HTML as a strict server does: known tags, closed in order."""

    def __init__(self, allowed: set[str]) -> None:
        super().__init__(convert_charrefs=True)
        self.allowed = allowed
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.allowed, tag
        if tag == "blockquote" and "tg-spoiler" in self.allowed:
            assert "blockquote" not in self.open
        if tag not in ("br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag


def assert_well_formed(text: str, allowed: set[str]) -> None:
    assert not re.search(r"&(?!(?:lt|gt|amp|quot|#x27);)", text)
    assert not re.search(r"<(?!/?[a-z])", text)
    parser = Strict(allowed)
    parser.feed(text)
    parser.close()
    assert parser.open == []


@given(MARKDOWN)
@example("**a *b** c*")
@example("[**x](http://a.b)** _c")
@example("> > > > > > deep")
@example("![](x)")
def test_any_text_gives_markup_that_can_be_parsed(text: str) -> None:
    assert_well_formed(to_telegram_html(text), TELEGRAM_TAGS)
    assert_well_formed(to_matrix_html(text), MATRIX_TAGS)
    assert isinstance(to_plain(text), str)


@given(MARKDOWN)
def test_what_telegram_shows_is_never_longer_than_the_markdown(text: str) -> None:
    shown = without_tags(to_telegram_html(text))
    assert utf16_length(shown) <= utf16_length(text)


@given(MARKDOWN)
def test_each_part_of_a_long_answer_can_be_parsed_and_fits(text: str) -> None:
    for part in split_message(text * 5, 100, utf16_length):
        formatted = to_telegram_html(part)
        assert_well_formed(formatted, TELEGRAM_TAGS)
        assert utf16_length(without_tags(formatted)) <= 100


@given(
    st.text("abc *_~|\\<>&`\n", max_size=120).filter(
        lambda text: "```" not in text and "~~~" not in text
    )
)
def test_no_letter_is_lost(text: str) -> None:
    letters = re.sub(r"[^abc]", "", text)
    for convert in (to_telegram_html, to_matrix_html):
        tagless = html.unescape(re.sub(r"<[^>]*>", "", convert(text)))
        assert re.sub(r"[^abc]", "", tagless) == letters
    assert re.sub(r"[^abc]", "", to_plain(text)) == letters


@pytest.mark.parametrize(
    ("markdown", "telegram"),
    [
        ("**bold** and *italic* and ~~gone~~", "<b>bold</b> and <i>italic</i> and <s>gone</s>"),
        ("***both***", "<b><i>both</i></b>"),
        ("snake_case_name and __init__", "snake_case_name and <b>init</b>"),
        ("2 * 3 * 4", "2 * 3 * 4"),
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("`x < y`", "<code>x &lt; y</code>"),
        ("``a ` b``", "<code>a ` b</code>"),
        ("# Title\ntext", "<b>Title</b>\ntext"),
        ("- one\n- two\n  - three", "• one\n• two\n  • three"),
        ("1. one\n2. two", "1. one\n2. two"),
        ("- [x] done\n- [ ] open", "☑ done\n☐ open"),
        ("> said\n> twice", "<blockquote>said\ntwice</blockquote>"),
        ("[site](https://a.b/c?d=1&e=2)", '<a href="https://a.b/c?d=1&amp;e=2">site</a>'),
        ("[wiki](https://a.b/c_(d))", '<a href="https://a.b/c_(d)">wiki</a>'),
        ("[bad](javascript:x)", "bad (javascript:x)"),
        ("```python\nif a < b:\n    pass\n```",
         '<pre><code class="language-python">if a &lt; b:\n    pass</code></pre>'),
        ("```\n**not bold**", "<pre>**not bold**</pre>"),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "<pre>| a | b |\n|---|---|\n| 1 | 2 |</pre>"),
        ("||secret||", "<tg-spoiler>secret</tg-spoiler>"),
        (r"\*literal\*", "*literal*"),
        ("unclosed **bold", "unclosed **bold"),
        ("---", "———"),
    ],
)  # fmt: skip
def test_telegram(markdown: str, telegram: str) -> None:
    assert to_telegram_html(markdown) == telegram


@pytest.mark.parametrize(
    ("markdown", "matrix"),
    [
        ("just **text**", "just <strong>text</strong>"),
        ("a\n\nb", "<p>a</p><p>b</p>"),
        ("## Two\nx", "<h2>Two</h2><p>x</p>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. c\n4. d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("```js\nx\n```", '<pre><code class="language-js">x\n</code></pre>'),
        ("> q", "<blockquote><p>q</p></blockquote>"),
        ("|a|b|\n|-|-|\n|1|2|",
         "<table><thead><tr><th>a</th><th>b</th></tr></thead>"
         "<tbody><tr><td>1</td><td>2</td></tr></tbody></table>"),
    ],
)  # fmt: skip
def test_matrix(markdown: str, matrix: str) -> None:
    assert to_matrix_html(markdown) == matrix


def test_plain() -> None:
    text = "# Hi\n**bold** [x](http://a.b)\n\n- one\n\n```\ncode\n```"
    assert to_plain(text) == "Hi\nbold x (http://a.b)\n\n• one\n\ncode"


@pytest.mark.parametrize(
    "nasty",
    ["*" * 20_000, "[" * 20_000, "`" * 20_000, "_a" * 10_000, "[a](" * 8_000, "> " * 10_000,
     "- " * 10_000, "# " + " " * 20_000 + "x", "|" * 20_000 + "\n|-|", "` `` ``` " * 3_000,
     "[a](" + " " * 20_000, "** " * 10_000, "|" + " " * 20_000 + "-|x\n" * 2],
)  # fmt: skip
def test_text_made_to_be_slow_is_read_in_a_few_steps(nasty: str) -> None:
    """The work is counted in steps of the interpreter, not in seconds."""
    import sys

    steps = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal steps
        steps += 1

    sys.setprofile(count)
    try:
        to_telegram_html(nasty)
        to_matrix_html(nasty)
    finally:
        sys.setprofile(None)
    assert steps < 100 * len(nasty)
