"""What a review proposes to keep, and doing it.

Whatever a model replied is taken apart strictly: only complete proposals of known kinds count, only
so many of them, and each goes through the tool that the agent itself would use, with that tool's
limits and its screening. A reply that cannot be read changes nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

from hermes_base.redaction import redact
from tools.base import Tool, ToolContext, ToolError
from tools.schema import fit

from .message_text import without_thoughts

log = logging.getLogger(__name__)

MOST_MEMORY_CHANGES = 6
MOST_SKILL_CHANGES = 2
LONGEST_ENTRY = 500
LONGEST_REPLY = 100_000

# For each kind and action: what must be there as text, and what may be.
_MEMORY = {
    "add": ({"target", "content"}, set[str]()),
    "replace": ({"target", "content", "old_text"}, set[str]()),
    "remove": ({"target", "old_text"}, set[str]()),
}
# A review does not delete skills, replace them as a whole, or write programs.
_SKILLS = {
    "create": ({"name", "content"}, {"category"}),
    "patch": ({"name", "old_string", "new_string"}, set[str]()),
}


class Proposal(NamedTuple):
    """One change that was proposed: the tool to make it with, and its arguments."""

    tool: str
    arguments: dict[str, str]

    def in_words(self) -> str:
        """The change as a person reads it."""
        given = self.arguments
        if self.tool == "skill_manage":
            done = "new skill" if given["action"] == "create" else "improved skill"
            return f"{done} {given['name']}"
        text = given.get("content") or f"forgot: {given['old_text']}"
        line = " ".join(text.split())
        return line if len(line) <= 80 else f"{line[:79]}…"


def read_proposals(reply: str) -> list[Proposal]:
    """The proposals in a model's reply; none if it is anything but the JSON that was asked for."""
    if len(reply) > LONGEST_REPLY:
        return []
    # Only thoughts that come first: the same marks within the JSON are text to keep.
    text = without_thoughts(reply) if reply.lstrip().startswith("<") else reply
    try:
        parsed = json.loads(_without_fence(text))
    except (ValueError, RecursionError):
        log.info("The review was not JSON: %.80r", reply)
        return []
    if not isinstance(parsed, dict):
        return []
    memory = _of_kind("memory", parsed.get("memory"), _MEMORY, MOST_MEMORY_CHANGES)
    skills = _of_kind("skill_manage", parsed.get("skills"), _SKILLS, MOST_SKILL_CHANGES)
    return [
        *(change for change in memory if change.arguments["target"] in ("memory", "user")),
        *skills,
    ]


def _without_fence(text: str) -> str:
    first, _, rest = text.strip().partition("\n")
    code, _, last = rest.rpartition("\n")
    is_fenced = first.strip() in ("```", "```json") and last.strip() == "```"
    return code if is_fenced else text


def _of_kind(
    tool: str, given: Any, actions: dict[str, tuple[set[str], set[str]]], most: int
) -> list[Proposal]:
    proposals = []
    for item in given if isinstance(given, list) else ():
        if not isinstance(item, dict) or not isinstance(item.get("action"), str):
            continue
        required, optional = actions.get(item["action"], ({""}, set[str]()))
        arguments = {name: value for name, value in item.items() if value is not None}
        names = set(arguments) - {"action"}
        if (
            all(isinstance(value, str) and value.strip() for value in arguments.values())
            and required <= names <= required | optional
            and len(arguments.get("content", "")) <= (LONGEST_ENTRY if tool == "memory" else 20_000)
        ):
            proposals.append(Proposal(tool, arguments))
    return proposals[:most]


def apply_proposals(
    proposals: Iterable[Proposal], tools: dict[str, Tool], context: ToolContext
) -> list[Proposal]:
    """Make the changes, each with its tool in `tools`; returns those that were made.

    What the tool refuses, has no tool here, or holds a secret is left out and logged.
    """
    made = []
    for proposal in proposals:
        tool, arguments = tools.get(proposal.tool), proposal.arguments
        if tool is None:
            continue
        if any(redact(value) != value for value in arguments.values()):
            log.warning("A review wanted to keep a secret; it was left out")
            continue
        try:
            tool.run(context, **fit(arguments, tool.parameters, tool.name))
        except (ToolError, OSError) as error:
            log.info("A review's proposal was refused: %s", error)
            continue
        # With what went, so that a person can bring it back.
        log.info("A review changed %s: %s", proposal.tool, arguments)
        made.append(proposal)
    return made
