"""The chart: one bar for each row, from 1× to how many times better than hermes-agent ours is.

Drawn by hand as SVG, on a logarithmic axis. It brings its own background in both colour schemes, so
that it can be read on any page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from .page import times
from .rows import Row
from .yardstick import NAME

WIDTH, LABELS, FIGURES, MARGIN = 920, 350, 60, 24
TOP, STEP, BAR = 86, 24, 14
BOTTOM = 34
_TICKS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)
_STYLE = """
  .page { fill: #ffffff } .rule { stroke: #d8dee4 } .one { stroke: #59636e }
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 } .faint { fill: #59636e; font-size: 12px }
  .ahead { fill: #1a7f64 } .behind { fill: #c4501b } .level { fill: #848d97 }
  .limit { fill: #ffffff; stroke: #1f2328; stroke-width: 1.5 }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117 } .rule { stroke: #2b323b } .one { stroke: #9198a1 }
    text { fill: #e6edf3 } .faint { fill: #9198a1 }
    .ahead { fill: #3fb68b } .behind { fill: #f0883e } .level { fill: #767e88 }
    .limit { fill: #0d1117; stroke: #e6edf3 }
  }
"""


def draw(rows: Sequence[Row], *, quick: bool = False) -> str:
    """The chart of all rows that were measured on both sides."""
    shown = [(row, ratio) for row in rows if (ratio := row.times_better("theirs"))]
    limits = {row.key: limit for row, _ in shown if (limit := _limit(row))}
    every = [1.0, *(ratio for _, ratio in shown), *limits.values()]
    low, high = math.log10(min(every) * 0.8), math.log10(max(every) * 1.25)
    height = TOP + STEP * len(shown) + BOTTOM

    def x(ratio: float) -> float:
        room = WIDTH - LABELS - FIGURES - MARGIN * 2
        return LABELS + MARGIN + room * (math.log10(ratio) - low) / (high - low)

    title = f"How many times better than {NAME}" + (" (a quick run)" if quick else "")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="32">{escape(title)}</text>',
        *_legend(),
    ]
    for tick in _TICKS:
        if low <= math.log10(tick) <= high:
            kind = "one" if tick == 1 else "rule"
            parts.append(
                f'<line class="{kind}" x1="{x(tick):.1f}" x2="{x(tick):.1f}" '
                f'y1="{TOP - 6}" y2="{height - BOTTOM + 4}"/>'
                f'<text class="faint" x="{x(tick):.1f}" y="{height - BOTTOM + 20}" '
                f'text-anchor="middle">{tick:g}×</text>'
            )
    for number, (row, ratio) in enumerate(shown):
        parts += _bar(row, ratio, TOP + STEP * number, sorted((x(1), x(ratio))))
        if row.key in limits:
            parts.append(_diamond(x(limits[row.key]), TOP + STEP * number + BAR / 2))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _limit(row: Row) -> float | None:
    """How many times better than hermes-agent the bare limit is."""
    ours, bare = row.times_better("theirs"), row.times_better("bare")
    return ours / bare if ours and bare else None


def _bar(row: Row, ratio: float, top: float, span: Sequence[float]) -> list[str]:
    left, width = span[0], max(2.0, span[1] - span[0])
    return [
        f'<text x="{LABELS}" y="{top + 11}" text-anchor="end">{escape(row.what)}</text>',
        f'<rect class="{row.verdict()}" x="{left:.1f}" y="{top}" width="{width:.1f}" '
        f'height="{BAR}" rx="2"/>',
        f'<text x="{WIDTH - MARGIN}" y="{top + 11}" text-anchor="end">{times(ratio)}</text>',
    ]


def _diamond(x: float, y: float) -> str:
    return f'<path class="limit" d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"/>'


def _legend() -> list[str]:
    parts, left = [], MARGIN
    for kind, words in (
        ("ahead", "ahead"), ("level", "level"), ("behind", "behind"), ("limit", "the bare limit"),
    ):  # fmt: skip
        parts.append(
            _diamond(left + 6, 54)
            if kind == "limit"
            else f'<rect class="{kind}" x="{left}" y="48" width="12" height="12" rx="2"/>'
        )
        parts.append(f'<text class="faint" x="{left + 18}" y="58">{words}</text>')
        left += 34 + 7 * len(words)
    return parts
