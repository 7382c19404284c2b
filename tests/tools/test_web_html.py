"""Readable text from HTML: what is kept, what is left out, and that nothing breaks it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.web.html import End, Start, Text, tokens
from tools.web.markdown import readable

BASE = "http://host.test/folder/"


def text_of(page: str) -> str:
    return readable(page, BASE).text


def test_keeps_headings_links_lists_and_code():
    page = """<html><head><title>A &amp; B</title></head><body>
        <h1>Hello  <em>world</em></h1>
        <p>Some <b>bold</b> <a href="/rel?q=1">link text</a>, and <code>x = 1</code>.</p>
        <ul><li>one<li>two<ul><li>nested</ul></ul>
        <ol><li>first</li><li>second</li></ol>
        <pre>def f():
    return 1</pre>
        <blockquote><p>quoted</p><p>twice</p></blockquote>end<br>line</body></html>"""
    found = readable(page, BASE)
    assert found.title == "A & B"
    assert found.text == (
        "# Hello world\n\n"
        "Some bold [link text](http://host.test/rel?q=1), and `x = 1`.\n\n"
        "- one\n- two\n  - nested\n\n"
        "1. first\n2. second\n\n"
        "```\ndef f():\n    return 1\n```\n\n"
        "> quoted\n>\n> twice\n\n"
        "end\nline"
    )


def test_shows_a_table_of_data_as_rows_and_one_of_layout_as_text():
    data = "<table><tr><th>a<th>b<tr><td>1<td>2|3</table>after"
    assert text_of(data) == "| a | b |\n| --- | --- |\n| 1 | 2\\|3 |\n\nafter"
    layout = f"<table><tr><td>menu<td><table><tr><td>x<td>y</table><p>{'long ' * 80}</table>"
    assert "| x | y |" in text_of(layout)
    assert not text_of(layout).startswith("| menu")


@pytest.mark.parametrize(
    "unseen",
    [
        "<!-- SECRET -->",
        "<script>SECRET</script>",
        "<style>SECRET</style>",
        "<div hidden>SECRET <div>SECRET</div></div>",
        "<span style='color:red; display : none'>SECRET</span>",
        "<p style='font-size:0'>SECRET<p>",
        "<div aria-hidden=true>SECRET</div>",
        "<template><p>SECRET</p></template>",
        "<select><option>SECRET</select>",
        "<a href='javascript:SECRET'></a>",
    ],
)
def test_leaves_out_what_a_reader_would_not_see(unseen):
    found = text_of(f"<p>before</p>{unseen}<p>after</p>")
    assert "SECRET" not in found
    assert "before" in found
    assert "after" in found


def test_prefers_the_main_part_of_a_page_if_there_is_enough_of_it():
    page = f"<nav>menu</nav><main><p>{'word ' * 60}</p></main><footer>imprint</footer>"
    assert "menu" not in text_of(page)
    assert "imprint" not in text_of(page)
    assert "menu" in text_of("<nav>menu</nav><main>little</main>")


def test_links_that_lead_nowhere_are_plain_text():
    assert text_of('<a href="javascript:x()">one</a> <a href="#top">two</a>') == "one two"
    assert text_of('<a href="http://[bad">three</a>') == "three"


def test_tokens_follow_the_rules_of_browsers():
    page = "<A HREF='1' href=2 x>t</A ><br/>a < b&lt;c</x y='>'><?php ?><!doctype html>"
    assert list(tokens(page)) == [
        Start("a", {"href": "1", "x": ""}),
        Text("t"),
        End("a"),
        Start("br", {}),
        Text("a "),
        Text("<"),
        Text(" b<c"),
        End("x"),
        Text("'>"),
    ]


@pytest.mark.parametrize(
    "piece",
    ["<!", "<a ", '<a "', "&#", "</", "<![CDATA[", "<ul><li>x", "<table><tr><td>x", "<blockquote>x",
     "<a href=x>y", "<a b=c d ", "<!--", "<pre>x", "<script>", "</p></table></ul></a></pre>"],
)  # fmt: skip
def test_a_hostile_page_is_read_to_its_end(piece):
    # Anything worse than linear would not end in this test run.
    readable(piece * (300_000 // len(piece)), BASE)


def test_an_absurd_character_reference_does_no_harm():
    assert text_of("&#" + "9" * 5_000 + ";").startswith("&#999")


PIECES = [
    "<p>", "</p>", "<a href=x>", "</a>", "<table>", "<tr>", "<td>", "</table>", "<li>", "<ul>", "=",
    "</ul>", "<pre>", "</pre>", "text", " ", "<", ">", "&amp;", "<!--", "-->", "<main>", "<title>",
    "</main>", "<div hidden>", "</div>", "<code>", "</code>", "'", '"', "<blockquote>",
]  # fmt: skip


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=60))
def test_no_page_breaks_it(pieces):
    found = readable("".join(pieces), BASE)
    assert found.text == found.text.strip()


@given(st.text(alphabet=st.characters(exclude_characters="<&\x00"), max_size=200))
def test_text_without_markup_keeps_its_words(text):
    assert text_of(text).split() == text.split()
