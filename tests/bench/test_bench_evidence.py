"""The questions of the benchmark are made the same each time, and search finds most answers."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.evidence import answers
from bench.evidence_talk import HALVES, make
from bench.lab import Lab
from hermes_state.search.query import parse
from hermes_state.search.question import read_question

from ..state.concepts import Concepts

DIGESTS = {"tuning": "82b0f090c6f3efa5", "report": "370aaf40a04dee4e"}


@pytest.mark.parametrize("half", HALVES)
def test_a_half_is_the_same_each_time(half: str) -> None:
    made = make(half)
    assert hashlib.sha256(repr(made).encode()).hexdigest()[:16] == DIGESTS[half]
    assert len(made.questions) > 200
    turns = [{turn.text for session in talk for turn in session} for talk in made.talks]
    assert all(turns)


def test_questions_by_meaning_share_no_word_with_their_answers() -> None:
    for half in HALVES:
        made = make(half)
        texts = [[turn.text for session in talk for turn in session] for talk in made.talks]
        for question in made.questions:
            if question.style == "meaning" and question.language not in ("zh", "ja"):
                read = read_question(question.text, parse(question.text), 0.0)
                assert read is not None
                asked = {word for term in read.pieces for word in term.words}
                for talk, number in question.evidence:
                    answer = read_question(texts[talk][number], parse("x"), 0.0)
                    assert answer is not None
                    told = {word for term in answer.pieces for word in term.words}
                    shared = asked & told
                    assert len(shared) <= 1, (question.text, shared)


def test_search_finds_what_bare_full_text_search_does_not(tmp_path: Path) -> None:
    half = make("report")
    found, _ = answers(half, Lab(tmp_path, True, None), Concepts())
    share = {way: shares["all"][0] for way, shares in found.items()}
    assert share["by words"] > 0.75 > share["bare FTS5"] > share["all words"]
    assert share["with vectors"] > 0.75  # of a model that knows none of these words
