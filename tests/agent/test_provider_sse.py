"""Server-sent events survive any way of being cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers import sse
from agent.providers.sse import SseDecoder

payloads = st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1), max_size=8)


def decode(pieces: list[bytes]) -> list[bytes]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


def cut(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    return [body[start:end] for start, end in pairwise(edges)]


@given(payloads, st.lists(st.integers(min_value=0)), st.sampled_from(["\n", "\r\n"]))
def test_the_events_do_not_depend_on_the_pieces(texts, places, newline):
    lines = [f"event: x{newline}data: {text}{newline}{newline}" for text in texts]
    body = "".join(lines).encode("utf-8", "surrogatepass")
    expected = [text.encode("utf-8", "surrogatepass") for text in texts]
    assert decode([body]) == expected
    assert decode(cut(body, places)) == expected
    assert decode([body[i : i + 1] for i in range(len(body))]) == expected


@given(payloads.filter(bool), st.integers(min_value=0))
def test_a_cut_body_never_yields_half_an_event(texts, place):
    body = "".join(f"data: {text}\n\n" for text in texts).encode("utf-8", "surrogatepass")
    found = decode([body[: place % len(body)]])
    assert found == [text.encode("utf-8", "surrogatepass") for text in texts][: len(found)]
    assert len(found) < len(texts)


def test_comments_other_fields_and_empty_events_are_skipped():
    assert decode([b": ping\n\nid: 1\nretry: 5\n\ndata: a\nid: 2\n\n\n\ndata:b\n\n"]) == [
        b"a",
        b"b",
    ]


def test_data_on_several_lines_is_one_event():
    assert decode([b"data: {\ndata:  1}\n\n"]) == [b"{\n 1}"]


def test_a_line_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    with pytest.raises(ValueError, match="more than 1000 bytes"):
        for _ in range(20):
            decoder.feed(b"x" * 100)


def test_many_events_are_not_taken_for_a_large_one(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    decoder = SseDecoder()
    assert sum(len(decoder.feed(b"data: 0123456789\n\n")) for _ in range(500)) == 500
