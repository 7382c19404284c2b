"""The maths of the common table: medians, spreads, ratios, who is behind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.rows import Row, half_range, number

POSITIVE = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=12)


def row(ours: list[float], theirs: list[float] | None = None, **more: object) -> Row:
    samples = {"ours": ours} | ({"theirs": theirs} if theirs else {})
    return Row("key", "what", "ms", samples, **more)  # type: ignore[arg-type]


def test_less_is_better_unless_more_is() -> None:
    assert row([10.0], [40.0]).times_better("theirs") == 4
    assert row([10.0], [40.0], higher=True).times_better("theirs") == 0.25


def test_ratios_are_taken_round_by_round() -> None:
    # The second round was disturbed on both sides alike.
    assert row([1.0, 10.0, 1.0], [2.0, 20.0, 2.0]).times_better("theirs") == 2
    # Rounds that do not belong together are not paired.
    assert row([1.0, 2.0, 3.0], [8.0]).times_better("theirs") == 4


@pytest.mark.parametrize(
    ("ours", "theirs"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [0.0])]
)
def test_what_cannot_be_compared_is_not(ours: list[float], theirs: list[float]) -> None:
    made = Row("key", "what", "ms", {"ours": ours, "theirs": theirs})
    assert made.times_better("theirs") is None
    assert made.verdict() == ""
    assert row([1.0]).times_better("bare") is None


def test_a_round_of_nothing_does_not_hide_the_others() -> None:
    assert row([4.0, 4.0, 4.0], [0.0, 2.0, 2.0], higher=True).times_better("theirs") == 2


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    [
        ([10.0] * 5, [20.0] * 5, "ahead"),
        ([20.0] * 5, [10.0] * 5, "behind"),
        ([10.0] * 5, [10.4] * 5, "level"),
        ([10.4] * 5, [10.0] * 5, "level"),
        ([10.6] * 5, [10.0] * 5, "behind"),
        # A fifth more, but each side varies by a fifth itself.
        ([12.0, 10.0, 14.0, 9.6, 14.4], [10.0, 12.0, 8.0, 12.0, 8.0], "level"),
        ([30.0], [10.0], "behind"),
    ],
)
def test_behind_is_said_where_it_is_behind(
    ours: list[float], theirs: list[float], verdict: str
) -> None:
    assert row(ours, theirs).verdict() == verdict


@given(POSITIVE, POSITIVE)
def test_one_is_ahead_when_the_other_is_behind(ours: list[float], theirs: list[float]) -> None:
    there, back = row(ours, theirs).verdict(), row(theirs, ours).verdict()
    ratios = row(ours, theirs).times_better("theirs"), row(theirs, ours).times_better("theirs")
    assert ratios[0] and ratios[1]
    if len(ours) % 2 or len(ours) != len(theirs):  # the median of two ratios is not their inverse
        assert ratios[0] * ratios[1] == pytest.approx(1)
        assert {"ahead": "behind", "behind": "ahead", "level": "level"}[there] == back


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_the_spread_lies_within_the_range(values: list[float]) -> None:
    assert 0 <= half_range(values) <= (max(values) - min(values)) / 2 + 1e-6


def test_half_the_interquartile_range() -> None:
    assert half_range([1.0, 2.0, 3.0, 4.0, 100.0]) == 1.0
    assert half_range([1.0, 9.0]) == 0.0


@pytest.mark.parametrize(
    ("value", "shown"),
    [(534_804.2, "535,000"), (3434.6, "3,430"), (148.3, "148"), (14.83, "14.8"), (1.483, "1.48"),
     (300.0, "300"), (7.0, "7"), (0.0, "0"), (999.7, "1,000")],
)  # fmt: skip
def test_figures_have_three_digits_that_count(value: float, shown: str) -> None:
    assert number(value) == shown


def test_figures_are_shown_with_their_spread_and_unit() -> None:
    assert row([10.0, 12.5, 15.5]).figure("ours") == "12.5 ± 1.4 ms"
    assert row([12.5]).figure("ours") == "12.5 ms"
    assert row([12.5]).figure("theirs") == ""


def test_samples_are_scaled() -> None:
    made = Row.of("key", "what", "ms", {"ours": [0.5, 0.25]}, 1e3, higher=True)
    assert made.samples == {"ours": [500.0, 250.0]}
    assert made.higher
