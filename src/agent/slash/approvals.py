"""Permanent approvals: listed and revoked by the person who gave them.

At the machine itself everybody's are shown, in a chat only one's own. Tools check the store each
time, so a revoked approval is asked for again at once, in every process.
"""

from __future__ import annotations

import time
from typing import Any

from tools.approval_words import grant_text

from .owner import view_of
from .surface import CommandError, Surface
from .table import command

NONE = 'Nothing is always allowed. "always" as the answer to a tool\'s question does that.'


def grants_of(surface: Surface) -> list[dict[str, Any]]:
    """What the person may see and take back, in the order of its numbers."""
    return view_of(surface, "approvals").grants()


def _numbers(surface: Surface, typed: str) -> list[tuple[str, str]]:
    return [("revoke", "ask again"), ("list", "")] if not typed.startswith("revoke ") else []


@command("approvals", category="Settings", args="[revoke <number> | all]", complete=_numbers)
def approvals(surface: Surface, args: str) -> str:
    """List what is always allowed, or revoke some of it."""
    grants = grants_of(surface)
    words = args.split()
    if not words or words == ["list"]:
        lines = [f"{number}. {_line(grant)}" for number, grant in enumerate(grants, 1)]
        hint = "/approvals revoke NUMBER has it asked again."
        return "\n".join([*lines, hint]) if lines else NONE
    if words[0] != "revoke" or len(words) != 2:
        raise CommandError("/approvals lists what is always allowed, /approvals revoke 2 ends it.")
    chosen = grants if words[1] == "all" else [_chosen(grants, words[1])]
    for grant in chosen:
        view_of(surface, "approvals").revoke(grant)
    names = ", ".join(grant_text(grant["pattern_key"]) for grant in chosen)
    return f"Asked again from now on: {names}" if chosen else NONE


def _chosen(grants: list[dict[str, Any]], wanted: str) -> dict[str, Any]:
    """The grant of a number, or of a pattern's own name."""
    if wanted.isdecimal() and 0 < int(wanted) <= len(grants):
        return grants[int(wanted) - 1]
    named = [grant for grant in grants if grant["pattern_key"] == wanted]
    if len(named) != 1:
        raise CommandError(f"There is no approval {wanted!r}. /approvals lists them.")
    return named[0]


def _line(grant: dict[str, Any]) -> str:
    day = time.strftime("%Y-%m-%d", time.localtime(grant["granted_at"]))
    whose = f", {grant['granted_by']}" if grant["granted_by"] else ""
    return f"{grant_text(grant['pattern_key'])} (since {day}{whose})"
