"""The chart is well-formed, and shows every row that can be compared, on the right side of 1×."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from bench.chart import WIDTH, draw
from bench.rows import Report, Row

SVG = "{http://www.w3.org/2000/svg}"


def _bars(text: str) -> list[tuple[str, float, float]]:
    """Class, left and right end of every bar; the legend's come first."""
    found = []
    for one in ElementTree.fromstring(text).iter(f"{SVG}rect"):
        left, width = float(one.get("x") or 0), float(one.get("width") or 0)
        found.append((str(one.get("class")), left, left + width))
    return [bar for bar in found if bar[0] != "page"][3:]


def test_bars_point_to_where_it_is_better(report: Report) -> None:
    ahead, behind, level = _bars(draw(report.rows))
    assert [ahead[0], behind[0], level[0]] == ["ahead", "behind", "level"]
    one = ahead[1]
    assert abs(behind[2] - one) < 1
    assert ahead[2] - one > 3 * (one - behind[1])  # 15× and 0.5×, on a logarithmic axis


def test_labels_are_escaped_and_quick_runs_named(report: Report) -> None:
    rows = [Row("k", "a < b & c", "ms", {"ours": [1.0], "theirs": [2.0]})]
    texts = [one.text for one in ElementTree.fromstring(draw(rows, quick=True)).iter(f"{SVG}text")]
    assert "a < b & c" in texts
    assert "How many times better than hermes-agent 0.19.0 (a quick run)" in texts


def test_without_anything_to_compare_it_is_still_a_picture() -> None:
    assert _bars(draw([])) == []


@given(st.lists(st.tuples(*[st.floats(1e-6, 1e9)] * 3), min_size=1, max_size=8))
def test_everything_stays_on_the_picture(figures: list[tuple[float, float, float]]) -> None:
    rows = [
        Row(f"k{n}", f"row {n}", "ms", {"ours": [ours], "theirs": [theirs], "bare": [bare]})
        for n, (ours, theirs, bare) in enumerate(figures)
    ]
    bars = _bars(draw(rows))
    assert len(bars) == len(rows)
    assert all(0 <= left <= right <= WIDTH for _, left, right in bars)
