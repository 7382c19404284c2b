"""The arithmetic of windows: whatever the figures, they are in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.compression.policy import (
    HIGHEST_RATIO,
    LOWEST_RATIO,
    Budget,
    Gauge,
    PromptTooLargeError,
    cooldown_seconds,
    is_saving,
    require_room,
    share_out,
)
from agent.config.schema import CompressionSettings


@given(
    window=st.integers(1024, 2_000_000),
    share=st.floats(0, 2),
    max_tokens=st.none() | st.integers(1, 200_000),
    threshold=st.floats(0.05, 0.95),
    target=st.floats(0.01, 0.9),
)
def test_a_budget_is_in_order(
    window: int, share: float, max_tokens: int | None, threshold: float, target: float
) -> None:
    settings = CompressionSettings(threshold=threshold, target_ratio=target)
    budget = share_out(settings, window, int(window * share), max_tokens)
    assert 0 <= budget.fixed < budget.trigger <= budget.limit < window
    assert 0 < budget.target <= budget.trigger - budget.fixed
    assert budget.target < budget.room


@pytest.mark.parametrize(
    ("window", "fixed", "max_tokens", "shared", "room"),
    [
        (100_000, 10_000, None, Budget(10_000, 95_904, 52_952, 20_000), 85_904),
        (8_000, 2_000, 1_000, Budget(2_000, 7_000, 4_500, 1_250), 5_000),
        (8_000, 2_000, 100_000, Budget(2_000, 5_000, 4_000, 1_000), 3_000),
        (8_000, 9_000, None, Budget(7_200, 7_800, 7_500, 150), 600),
        (4_000, 0, None, Budget(0, 3_000, 2_000, 1_000), 3_000),
    ],
)
def test_how_a_window_is_shared_out(
    window: int, fixed: int, max_tokens: int | None, shared: Budget, room: int
) -> None:
    """At half the window or halfway to its limit, to a fifth of it or half of what is due."""
    found = share_out(CompressionSettings(), window, fixed, max_tokens)
    assert (found, found.room) == (shared, room)


def test_the_rest_after_failures_doubles_up_to_an_hour() -> None:
    rests = [cooldown_seconds(failures) for failures in range(1, 9)]
    assert rests == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    assert cooldown_seconds(0) == 60 and cooldown_seconds(10**6) == 3600


def test_the_answer_has_its_room() -> None:
    settings = CompressionSettings(threshold=0.95)
    assert share_out(settings, 200_000, 10_000, 32_000).limit == 168_000
    assert share_out(settings, 4000, 0, None).limit == 3000


def test_a_prompt_that_leaves_no_room_is_refused() -> None:
    require_room(4000, 3000, certain=True)
    require_room(4000, 5000, certain=False)  # an estimate may be too high
    for fixed, certain in ((3950, True), (7000, False)):
        with pytest.raises(PromptTooLargeError, match="larger window, or fewer tools"):
            require_room(4000, fixed, certain=certain)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(-5, 10**7)), max_size=20))
def test_the_correction_is_bounded(calls: list[tuple[int, int]]) -> None:
    gauge = Gauge()
    for estimate, real in calls:
        gauge.note_sent(estimate)
        gauge.note_real(real)
        assert LOWEST_RATIO <= gauge.ratio <= HIGHEST_RATIO
        if estimate and LOWEST_RATIO <= real / estimate <= HIGHEST_RATIO:
            assert abs(gauge.corrected(estimate) - real) <= 1
        before = gauge.ratio
        gauge.note_refused(10**6)
        assert before <= gauge.ratio <= HIGHEST_RATIO


def test_what_counts_as_saving() -> None:
    assert is_saving(1000, 900) and not is_saving(1000, 901)
