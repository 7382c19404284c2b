"""Compression proper: messages in, fewer messages out, and they fit.

First old tool outputs are shortened; often that is enough. Otherwise the middle of the conversation
becomes one record: what the record of before says, changed by what a model reads in the messages
since, completed by what can be read from their form alone. If there is no model, or it fails, the
form alone must do. If even that does not fit, `shorten_to_fit` does.

Nothing here loops for longer than the messages are many: every step is a bounded number of walks
over them, whatever they hold and whatever the model answers.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from agent.model import Message

from .fallback import SURE, SURE_BESIDE_A_MODEL, extract
from .merge import apply_changes, fit_entries, fold_in, labelled
from .plan import (
    BRIDGES,
    LARGEST_RECORD,
    SMALLEST_REQUEST,
    Count,
    Measure,
    Plan,
    divide,
    said,
    valid,
)
from .prompt import SYSTEM, build_prompt, read_reply, stretches, tell_all
from .shorten import count_images, cut, lighten, text_of
from .summary import Entry, Summary, is_record, row_of
from .tokens import estimate_tokens, text_tokens
from .words import touches

logger = logging.getLogger(__name__)

Ask = Callable[[str, str], Awaitable[str]]
"""(system, prompt) -> text. It may fail or answer nonsense; its provider limits its time."""

MOST_PROMPTS = 4
"""Model calls of one compression."""
_RECENT_SHARE = 0.4
"""Of the target, how much at the end is never touched when old tool outputs are shortened."""
LEFT_OUT = "[Everything before this was left out to save room; session_search finds it.]"
NO_REQUEST = "[The conversation so far was left out to save room; session_search finds it.]"


@dataclass(frozen=True)
class Compressed:
    """What compression came to."""

    messages: list[Message]
    """What the model sees from now on: valid, and without the system prompt."""
    summary: Summary | None
    """The record among them; None where none was needed, or where there was no room for one."""
    method: str
    """"summary" if all went as intended, "fallback" if it was done without a model."""
    before_tokens: int
    after_tokens: int
    covers_until: int | None
    """The id of the newest message that was seen."""
    error: str | None = None
    """Why the model could not be used."""


@dataclass(frozen=True)
class Preview:
    """What a compression would do."""

    before_tokens: int
    after_tokens: int
    """At most; less if the record turns out short."""
    target_tokens: int
    kept_first: int
    """Messages at the beginning that stay."""
    kept_last: int
    """Messages at the end that stay."""
    summarised: int
    """Messages that the record will stand for, in addition to those it stands for already."""
    shortened: int
    """Tool outputs and the like that are shortened, where that alone is enough."""
    images: int
    """Pictures that will be left out."""
    previous_entries: int
    """Entries of the record so far."""
    in_focus: int
    """How many of the messages to be summarised touch the focus."""
    worthwhile: bool
    """Whether there is anything to gain."""


async def compress(
    messages: list[Message],
    *,
    target_tokens: int,
    ask: Ask | None,
    focus: str | None = None,
    count: Count = estimate_tokens,
    keep_first: int = 2,
    prompt_tokens: int | None = None,
) -> Compressed | None:
    """The conversation within `target_tokens`; None if there is nothing to gain.

    `ask` reaches the auxiliary model; without it, or when it fails, the record is made from the
    form of the messages alone. `focus` is a topic to be kept in preference. `count` measures a list
    of messages and may include the system prompt and the tools. `prompt_tokens` is how much one
    prompt for the auxiliary model may hold; by default so much that a model with the same window
    can take it.
    """
    measure = Measure(count)
    before = measure.total(messages)
    if before <= target_tokens:
        return None
    lighter = shorten_old(messages, target_tokens, measure)
    if not lighter:
        return None  # nobody has said anything
    if measure.total(lighter) <= target_tokens:
        return _result(lighter, None, "summary", before, measure, messages, None)
    plan = divide(messages, target_tokens=target_tokens, measure=measure, keep_first=keep_first)
    if prompt_tokens is None:
        prompt_tokens = min(16_000, max(1500, 2 * target_tokens))
    entries, error = await _ask_for_entries(plan, ask, focus, prompt_tokens)
    sure = SURE if error else SURE_BESIDE_A_MODEL
    entries = fold_in(entries, extract(plan.middle, focus, sure))
    method = "summary" if error is None else "fallback"
    made = _assemble(plan, entries, focus, target_tokens, measure)
    if made is None:
        result = shorten_to_fit(messages, target_tokens=target_tokens, count=count)
        result = replace(result, method=method, error=error)
    else:
        result = _result(made[0], made[1], method, before, measure, messages, error)
    return result if result.after_tokens < before else None


def shorten_to_fit(
    messages: list[Message], *, target_tokens: int, count: Count = estimate_tokens
) -> Compressed:
    """The last resort: without a model, for any messages whatsoever, and it always fits.

    Down to a floor of a few dozen tokens (above what `count` gives for no messages at all): there
    only the newest request is left, cut, with a pointer to the whole.
    """
    measure = Measure(count)
    before = measure.total(messages)
    whole = valid(messages)
    if whole and measure.total(whole) <= target_tokens:
        return _result(whole, None, "fallback", before, measure, messages, None)
    plan = divide(messages, target_tokens=target_tokens, measure=measure, keep_first=1)
    entries = fold_in(plan.previous.entries if plan.previous else (), extract(plan.middle))
    made = _assemble(plan, entries, None, target_tokens, measure)
    for share in (0.8, 0.5, 0.3):
        if made is not None:
            break
        room = int((target_tokens - measure.base) * share)
        if room < SMALLEST_REQUEST + BRIDGES:
            break
        plan = divide(messages, target_tokens=measure.base + room, measure=measure, keep_first=0)
        shown = plan.assemble(None)
        if shown and measure.total(shown) <= target_tokens:
            made = shown, None
    if made is None:
        made = [_only_request(messages, target_tokens, measure)], None
    return _result(made[0], made[1], "fallback", before, measure, messages, None)


def preview(
    messages: list[Message],
    target_tokens: int,
    *,
    focus: str | None = None,
    count: Count = estimate_tokens,
    keep_first: int = 2,
) -> Preview:
    """What `compress` would do with these messages, without doing it and without a model."""
    measure = Measure(count)
    before = measure.total(messages)
    lighter = shorten_old(messages, target_tokens, measure)
    plan = divide(messages, target_tokens=target_tokens, measure=measure, keep_first=keep_first)
    entries = len(plan.previous.entries) if plan.previous else 0
    enough = measure.total(lighter) <= target_tokens
    if enough:
        given = {id(message) for message in messages}
        kept, last, middle = len(said(messages)[0]), 0, []
        changed = sum(id(message) not in given for message in lighter)
        images = count_images(messages) - count_images(lighter)
        after = measure.total(lighter)
    else:
        kept, last, middle = len(plan.head), len(plan.request) + len(plan.tail), plan.middle
        changed, images = 0, count_images(middle)
        after = min(target_tokens, measure.total(plan.assemble(None)) + plan.record_tokens)
    return Preview(
        before_tokens=before,
        after_tokens=min(before, after),
        target_tokens=target_tokens,
        kept_first=kept,
        kept_last=last,
        summarised=len(middle),
        shortened=changed,
        images=images,
        previous_entries=entries,
        in_focus=sum(touches(text_of(m.get("content"))[:4000], focus) for m in middle),
        worthwhile=before > target_tokens,
    )


def shorten_old(messages: Sequence[Message], target_tokens: int, measure: Measure) -> list[Message]:
    """A valid history in which all but the newest messages have short tool outputs, no pictures
    and no reasoning. Nothing that was said is left out."""
    whole = valid(messages)
    room = (target_tokens - measure.base) * _RECENT_SHARE
    recent = len(whole)
    sizes = measure.sizes(whole)
    while recent and sizes[recent - 1] <= room:
        recent -= 1
        room -= sizes[recent]
    return [
        message if index >= recent or is_record(message) else lighten(message)
        for index, message in enumerate(whole)
    ]


async def _ask_for_entries(
    plan: Plan, ask: Ask | None, focus: str | None, prompt_tokens: int
) -> tuple[list[Entry], str | None]:
    """The entries after the model's changes, and why it could not make them all, if so."""
    entries = list(plan.previous.entries) if plan.previous else []
    if not plan.middle or not plan.record_tokens:
        return entries, None
    if ask is None:
        return entries, "there is no model to summarise with"
    standing = sum(text_tokens(entry.line()) + 4 for entry in entries)
    room = prompt_tokens - text_tokens(SYSTEM) - standing - 100
    if room < 200:
        return entries, f"the summarising model takes too little: {prompt_tokens} tokens"
    for stretch in stretches(plan.middle, room, MOST_PROMPTS):
        rows = frozenset(row for row in map(row_of, stretch) if row)
        prompt = build_prompt(labelled(entries), tell_all(stretch, room), focus)
        try:
            changes = read_reply(await ask(SYSTEM, prompt))
        except Exception as error:  # noqa: BLE001 - whatever a model does, compression goes on
            logger.warning("Summarising failed, going on without a model: %s", error)
            return entries, f"{type(error).__name__}: {error}"[:300]
        entries = apply_changes(entries, changes, rows)
    return entries, None


def _assemble(
    plan: Plan, entries: list[Entry], focus: str | None, target_tokens: int, measure: Measure
) -> tuple[list[Message], Summary | None] | None:
    """The conversation with a record that fits; None if there is no way to fit one."""
    if not plan.middle and plan.previous is None:
        shown = plan.assemble(None)
        return (shown, None) if shown and measure.total(shown) <= target_tokens else None
    if not plan.record_tokens:
        return None
    before = plan.previous or Summary()
    frame = Summary(
        (), before.covered + len(plan.middle), before.images + count_images(plan.middle)
    )
    # What the other parts did not need is the record's as well.
    left = target_tokens - measure.total(plan.assemble(frame))
    room = min(LARGEST_RECORD, left)
    for share in (1.0, 0.8, 0.6, 0.4, 0.2, 0.0):
        kept = fit_entries(entries, int(room * share), focus) if room * share >= 1 else []
        summary = replace(frame, entries=tuple(kept))
        shown = plan.assemble(summary)
        if measure.total(shown) <= target_tokens:
            return shown, summary
    return None


def _only_request(messages: Sequence[Message], target_tokens: int, measure: Measure) -> Message:
    """One message of the user's that fits: the newest, cut as far as it must be."""
    spoken = said(messages)[0]
    request = next((m for m in reversed(spoken) if m["role"] == "user"), None)
    if request is None:
        return {"role": "user", "content": NO_REQUEST}
    row = row_of(request)
    text = text_of(request.get("content"))
    room = max(0, target_tokens - measure.base - text_tokens(LEFT_OUT) - 20)
    while True:
        shown = {"role": "user", "content": f"{LEFT_OUT}\n{cut(text, room, row)}"}
        if room == 0 or measure.total([shown]) <= target_tokens:
            return shown
        room //= 2


def _result(
    shown: list[Message],
    summary: Summary | None,
    method: str,
    before: int,
    measure: Measure,
    given: Sequence[Message],
    error: str | None,
) -> Compressed:
    rows = [row for row in map(row_of, given) if row]
    after = measure.total(shown)
    return Compressed(shown, summary, method, before, after, max(rows, default=None), error)
