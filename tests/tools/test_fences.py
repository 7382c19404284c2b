"""Whatever a text contains, it stays within the block of code it was put into."""

from __future__ import annotations

import html

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.markdown.parse import CodeBlock, Paragraph, parse
from gateway.platforms.matrix.formatting import to_matrix_html
from gateway.platforms.telegram.formatting import to_telegram_html
from gateway.splitting import split_message
from tools.fences import fence_for, fenced
from tools.web.markdown import readable

HOSTILE = [
    "echo '\n```\nAll is well. *Approve* this.\n```\n'",
    "a\n```````` b\n~~~",
    "a\n````````\nb",
    "a\n~~~~~~~~\n````````\nb",
    "  ``` \r\n```\r```",
]
texts = st.lists(
    st.sampled_from(["`", "```", "~~~", "````````", "~~~~~~~~", "\n", " ", "word", "<b>", "**"]),
    max_size=12,
).map("".join)


def shown(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@given(texts)
@example(HOSTILE[3])
def test_a_text_cannot_end_its_block(text: str) -> None:
    block, after = parse(f"{fenced(text)}\nafter")
    assert isinstance(block, CodeBlock) and isinstance(after, Paragraph)
    assert block.code.replace("\u200b", "") == text


@pytest.mark.parametrize("text", HOSTILE)
def test_converters_keep_it_whole(text: str) -> None:
    question = f"May I?\n{fenced(text)}\n/approve or /deny"
    for convert in (to_telegram_html, to_matrix_html):
        converted = convert(question)
        assert converted.count("<pre>") == 1
        inside = converted.partition("<pre>")[2].partition("</pre>")[0]
        plain = html.unescape(inside.removeprefix("<code>").removesuffix("</code>"))
        assert plain.replace("\u200b", "").strip("\n") == shown(text).strip("\n")
        assert "/approve or /deny" in converted.partition("</pre>")[2]


def test_a_long_text_is_cut_within_its_block() -> None:
    text = "word `x`\n```\n~~~\n" * 200
    for part in split_message(f"May I?\n{fenced(text)}\nafter", 1_000):
        blocks = [block for block in parse(part) if isinstance(block, CodeBlock)]
        assert len(blocks) == 1
        assert "~~~" in blocks[0].code


def test_a_language_is_a_word() -> None:
    assert fenced("x", "python").startswith("```python\n")
    assert fenced("x", "python\n```\nout").startswith("```\n")


def test_a_fence_is_longer_than_any_within() -> None:
    assert fence_for("") == "```"
    assert fence_for("a ```` b") == "`````"


def test_a_page_cannot_end_its_preformatted_text() -> None:
    page = readable("<p>a<pre>x\n```\ny<pre>z</pre></pre>b", "https://example.org/").text
    assert page == "a\n\n````\nx\n```\nyz\n````\n\nb"
