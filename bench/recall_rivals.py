"""What is still known after compression, on every side: `recall` with hermes-agent beside it.

Without a model all three do the same work: ours falls back on forms of words, hermes-agent on its
own deterministic summary, and truncation keeps the newest messages. With a model only ours is
measured, as the stand-in for one (`recall_reader`) reads and writes our record.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent.compression.tokens import estimate_tokens

from .lab import Lab
from .measure import Finding, in_columns, medians, progress
from .processes import Child
from .recall import DEPTHS, METHODS, TARGET, Known, Tally, lines_of, recall, score
from .recall_talk import Talk
from .rows import Row

RECORD, FALLBACK, TRUNCATION = METHODS
BARE_RECALL = "the newest messages that fit"
NO_READER = "the stand-in for a model reads and writes our record only"


def rivals(lab: Lab) -> list[Finding]:
    """The share of what was planted that is known after 1, 3 and 8 compressions."""
    conversations = 2 if lab.quick else 6
    tallies = asyncio.run(recall(lab.folder, conversations, DEPTHS))
    theirs = _theirs(lab, conversations, DEPTHS) if lab.yardstick else {}
    tokens = [known.tokens for tally in theirs.values() for known in tally.known]
    differs = (
        f"in the smallest contexts that hermes-agent can be made to use, {min(tokens):,} to"
        f" {max(tokens):,} tokens; the others have {TARGET:,}"
        if tokens
        else ""
    )
    findings = []
    for depth in DEPTHS:
        shares = {
            "ours": _shares(tallies[depth, FALLBACK]),
            "bare": _shares(tallies[depth, TRUNCATION]),
        }
        if theirs:
            shares["theirs"] = _shares(theirs[depth])
        findings.append(_finding(depth, "alone", "no model", shares, differs=differs))
    for depth in DEPTHS:
        shares = {
            "ours": _shares(tallies[depth, RECORD]),
            "bare": _shares(tallies[depth, TRUNCATION]),
        }
        findings.append(_finding(depth, "read", "a stand-in model", shares, absent=NO_READER))
    return findings


def _finding(
    depth: int, key: str, reader: str, shares: dict[str, list[float]], *,
    differs: str = "", absent: str = "",
) -> Finding:  # fmt: skip
    what = f"known after {depth} compression{'s' * (depth > 1)}, {reader}"
    return Finding(
        what,
        *in_columns(medians(shares), "{:.1f} %", 100),
        details=shares,
        row=Row.of(
            f"recall.{key}.{depth}", f"recall: {what}", "%", shares, 100,
            higher=True, differs=differs, bare=BARE_RECALL, absent=absent,
        ),
    )  # fmt: skip


def _shares(tally: Tally) -> list[float]:
    return [known.share for known in tally.known]


def _theirs(lab: Lab, conversations: int, depths: Sequence[int]) -> dict[int, Tally]:
    tallies = {depth: Tally() for depth in depths}
    with Child(
        lab.folder / "recall-theirs", python=lab.yardstick, module="bench.recall_child"
    ) as child:
        for seed in range(conversations):
            progress(f"recall, theirs, conversation {seed + 1} of {conversations}")
            child.ask("begin")
            shown: list[dict[str, object]] = []
            for number, stage in enumerate(Talk(seed).stages(max(depths)), start=1):
                shown = child.ask("compress", messages=shown + stage.messages)["messages"]
                if number not in depths:
                    continue
                lines = lines_of(shown)
                scores = [score(item, lines) for item in stage.items]
                tallies[number].known.append(
                    Known(
                        items=sum(item.current is not None for item in stage.items),
                        held=sum(held for held, _ in scores),
                        stale=sum(stale for _, stale in scores),
                        found=0,  # search is measured by `recall`
                        tokens=estimate_tokens(shown),
                    )
                )
    return tallies
