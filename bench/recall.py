"""What is still known after compression: our record, the fallback without a model, and truncation.

Made-up conversations (`recall_talk`) are compressed after every stage, to the same number of
tokens by each method, with rotations in a real store. After 1, 3 and 8 compressions it is counted
what of the planted things the context still holds, by their values alone:

- held: the value that holds now is there;
- stale: a value that was changed is there, or a settled task, and no line from there on says
  otherwise. Stale ones are subtracted.

Beside it stands what session search finds: asked for the matter, is the message with the value that
holds among the first five hits?

"Our record" needs a model. By default a stand-in reads for it (`recall_reader`), which knows
nothing of what was planted and overlooks 18 % of what it could report; no understanding is measured
here, but what the way of compressing makes of an imperfect reader. `python -m bench.recall --model`
asks the configured model instead.

The figures flatter both of ours a little: the cue words of `agent.compression` were settled while
most of the forms of words in `recall_talk` were known. On the later forms alone (the last of each
list) less is kept, in the same order.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from agent.compression.compress import Ask, compress
from agent.compression.plan import in_groups
from agent.compression.tokens import estimate_tokens
from hermes_state import SessionDB

from .measure import Finding, machine, progress, scratch_folder, verdict, write_results
from .recall_reader import OVERLOOKED, clerk
from .recall_talk import Item, Message, Stage, Talk

DEPTHS = (1, 3, 8)
TARGET = 2000
"""Tokens of the context after a compression."""
HITS = 5
METHODS = ("our record", "fallback", "truncation")


class Known(NamedTuple):
    """What of the planted things is known."""

    items: int
    """Things that hold."""
    held: int
    stale: int
    found: int
    """By search."""
    tokens: int

    @property
    def share(self) -> float:
        """Held less stale, of all that hold."""
        return (self.held - self.stale) / max(1, self.items)

    @property
    def density(self) -> float:
        """The share per 1,000 tokens of context."""
        return self.share * 1000 / max(1, self.tokens)


@dataclass
class Tally:
    """The same measured on several conversations."""

    known: list[Known] = field(default_factory=list)

    def mean(self, of: Callable[[Known], float]) -> float:
        """The mean over the conversations."""
        return sum(map(of, self.known)) / max(1, len(self.known))


Shorten = Callable[[list[Message]], Awaitable[list[Message]]]


def shorteners(ask: Ask) -> dict[str, Shorten]:
    """The methods that are compared, each with the same target."""

    async def by_record(messages: list[Message]) -> list[Message]:
        made = await compress(messages, target_tokens=TARGET, ask=ask)
        return made.messages if made else messages

    async def by_form(messages: list[Message]) -> list[Message]:
        made = await compress(messages, target_tokens=TARGET, ask=None)
        return made.messages if made else messages

    async def by_truncation(messages: list[Message]) -> list[Message]:
        return truncated(messages)

    return dict(zip(METHODS, (by_record, by_form, by_truncation), strict=True))


def truncated(messages: list[Message]) -> list[Message]:
    """The newest messages that fit the target, beginning with one of the user's."""
    kept: list[list[Message]] = []
    room = TARGET
    for group in reversed(in_groups(messages)):
        room -= estimate_tokens(group)
        if room < 0:
            break
        kept.insert(0, group)
    while len(kept) > 1 and kept[0][0]["role"] != "user":
        kept.pop(0)
    return [message for group in kept for message in group]


def plain(text: str) -> str:
    """Text as it is compared: lower case, words one space apart."""
    words = re.findall(r"[^\W_]+", text.lower())
    return f" {' '.join(words)} "


def lines_of(messages: Iterable[Message]) -> list[str]:
    """What a model reads of the messages, line by line."""
    return [plain(line) for m in messages for line in str(m.get("content") or "").split("\n")]


def last_line(lines: list[str], value: str) -> int:
    """The last line that holds a value; -1 if none does."""
    sought = plain(value)
    return max((number for number, line in enumerate(lines) if sought in line), default=-1)


def score(item: Item, lines: list[str]) -> tuple[bool, bool]:
    """(held, stale) of one planted thing."""
    if item.sort == "task" and item.settled:
        return False, last_line(lines, item.values[0]) > last_line(lines, item.settled)
    now = last_line(lines, item.values[-1])
    before = max((last_line(lines, value) for value in item.values[:-1]), default=-1)
    return now >= 0, before > now


def find(db: SessionDB, root: str, item: Item) -> bool:
    """Whether search, asked for the matter, shows the value that holds."""
    words = re.findall(r"[\w']+", item.subject)
    telling = [w.removesuffix("'s") for w in words if len(w) > 3 and w != item.values[-1]]
    hits = db.search_messages(" ".join(telling), limit=HITS, conversation_id=root)
    for hit in hits:
        (message,) = db.get_messages_around(hit["session_id"], hit["id"], 0)["window"]
        if plain(item.values[-1]) in plain(str(message["content"])):
            return True
    return False


async def live(
    folder: Path, seed: int, method: str, shorten: Shorten, depths: Sequence[int]
) -> dict[int, Known]:
    """One conversation, stored and compressed after each stage; what is known at each depth."""
    db = SessionDB(folder / f"{method.replace(' ', '-')}-{seed}.db")
    known = {}
    try:
        root = session = "stage-0"
        db.create_session(session, "cli")
        for number, stage in enumerate(Talk(seed).stages(max(depths)), start=1):
            db.append_messages(session, stage.messages)
            view = db.load_live(session)
            assert view is not None
            shown = await shorten(view.messages)
            session = db.rotate_session(session, f"stage-{number}", shown).session_id
            if number in depths:
                known[number] = measure(db, root, stage, shown)
    finally:
        db.close()
    return known


def measure(db: SessionDB, root: str, stage: Stage, shown: list[Message]) -> Known:
    """What is known of everything planted so far."""
    lines = lines_of(shown)
    scores = [score(item, lines) for item in stage.items]
    holding = [item for item in stage.items if item.current is not None]
    return Known(
        len(holding),
        sum(held for held, _ in scores),
        sum(stale for _, stale in scores),
        sum(find(db, root, item) for item in holding),
        estimate_tokens(shown),
    )


def table(tallies: dict[tuple[int, str], Tally]) -> str:
    """The measured shares as text in columns."""
    head = (
        "compressions", "method", "known", "per 1,000 tokens", "held", "stale", "tokens", "search",
    )  # fmt: skip
    lines = [head]
    for (depth, method), tally in tallies.items():
        lines.append(
            (
                str(depth),
                method,
                f"{tally.mean(lambda k: k.share):.1%}",
                f"{tally.mean(lambda k: k.density):.1%}",
                f"{tally.mean(lambda k: k.held / max(1, k.items)):.1%}",
                f"{tally.mean(lambda k: k.stale / max(1, k.items)):.1%}",
                f"{tally.mean(lambda k: k.tokens):.0f}",
                f"{tally.mean(lambda k: k.found / max(1, k.items)):.1%}",
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "  ".join(
            cell.ljust(width) if index == 1 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def findings_of(tallies: dict[tuple[int, str], Tally], depths: Iterable[int]) -> list[Finding]:
    """The goals: our record ahead of both others at every depth, and all found by search."""
    found = []
    for depth in depths:
        ours, *others = [tallies[depth, method] for method in METHODS]
        for what, of in (
            ("known", lambda k: k.share),
            ("known per 1,000 tokens", lambda k: k.density),
        ):
            mine, best = ours.mean(of), max(other.mean(of) for other in others)
            found.append(
                Finding(
                    f"{what} after {depth} compressions",
                    f"{mine:.1%}",
                    f"{best:.1%}",
                    ratio=mine / best if best > 0 else None,
                    goal="ahead of the fallback and of truncation",
                    met=mine > best,
                    details={m: [k._asdict() for k in tallies[depth, m].known] for m in METHODS},
                )
            )
    return found


async def recall(
    folder: Path,
    conversations: int,
    depths: Sequence[int],
    ask: Callable[[int], Ask] = clerk,
) -> dict[tuple[int, str], Tally]:
    """All methods on some conversations; `ask` gives the summarising model for a seed."""
    tallies = {(depth, method): Tally() for depth in depths for method in METHODS}
    for seed in range(conversations):
        progress(f"recall, conversation {seed + 1} of {conversations}")
        for method, shorten in shorteners(ask(seed)).items():
            known = await live(folder, seed, method, shorten, depths)
            for depth in depths:
                tallies[depth, method].known.append(known[depth])
    return tallies


def configured(seed: int) -> Ask:
    """The configured model, as `--model` wants it."""
    from agent.auxiliary import build_auxiliary
    from agent.build import build_models
    from agent.config import load_config

    config = load_config()
    models = build_models(config)
    auxiliary = build_auxiliary(config, lambda: models)

    async def ask(system: str, prompt: str) -> str:
        return await auxiliary.ask("compression", system, prompt)

    return ask


MEASUREMENTS: dict[str, Any] = {}
"""This benchmark has one part only."""


def run(parts: Iterable[str] = (), *, model: bool = False) -> list[Finding]:
    """Measure recall and print the table."""
    conversations = 2 if os.environ.get("QUICK") else 6
    with scratch_folder() as folder:
        tallies = asyncio.run(recall(folder, conversations, DEPTHS, configured if model else clerk))
    findings = findings_of(tallies, DEPTHS)
    write_results("recall", findings, machine())
    print(table(tallies))
    reader = (
        "the configured model"
        if model
        else f"a stand-in that understands little and overlooks {OVERLOOKED:.0%}"
    )
    print(f"\nThe reader behind our record: {reader}. {verdict(findings)}")
    return findings


def main(arguments: list[str] | None = None) -> None:
    """`python -m bench.recall [--model]`"""
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--model", action="store_true", help="ask the configured model")
    run(model=parser.parse_args(arguments).model)


if __name__ == "__main__":
    main()
