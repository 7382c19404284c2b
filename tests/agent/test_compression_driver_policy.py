"""The arithmetic of windows: whatever the figures, they are in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.compression.policy import (
    HIGHEST_RATIO,
    LOWEST_RATIO,
    Gauge,
    PromptTooLargeError,
    is_saving,
    require_room,
    share_out,
)
from agent.config_schema import CompressionSettings


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
