"""/compress: make room in a conversation that has grown long."""

from __future__ import annotations

from typing import Any

from .surface import CommandError, Surface, require_idle
from .table import command


@command(
    "compress",
    category="Conversation",
    aliases=("compact",),
    args="[what matters] [--preview]",
    slow=True,
)
def compress(surface: Surface, args: str) -> str:
    """Sum up what was said so far to make room; everything stays findable."""
    require_idle(surface)
    words = args.split()
    preview = any(word in ("--preview", "--dry-run") for word in words)
    focus = " ".join(word for word in words if word not in ("--preview", "--dry-run")) or None
    if surface.here.session(surface.session_id) is None:
        raise CommandError("Nothing was said yet, so there is nothing to compress.")
    agent = surface.build_agent()
    if not preview:
        surface.say("Compressing …")
    result = agent.compress(focus=focus, dry_run=preview)
    return _preview(result) if preview else _report(result)


def _report(result: Any) -> str:
    if not result.compressed:
        return str(result.reason or "Nothing was compressed: it would not have saved anything.")
    # An engine of a plugin needs no model; only a summary that failed has an error.
    how = f" (without a model's summary: {result.error})" if result.error else ""
    return f"Compressed{how}: {_sizes(result.before_messages, result.before_tokens)} → " + _sizes(
        result.after_messages, result.after_tokens
    )


def _preview(result: Any) -> str:
    plan = result.preview
    if plan is None:
        return str(result.reason or "Nothing would be compressed.")
    worth = "" if plan.worthwhile else " It would not be worth it."
    return (
        f"Would sum up {plan.summarised} messages and keep {plan.kept_first} at the beginning and "
        f"{plan.kept_last} at the end: {plan.before_tokens} → about {plan.after_tokens} tokens."
        f"{worth}"
    )


def _sizes(messages: int, tokens: int) -> str:
    return f"{messages} messages, {tokens} tokens"
