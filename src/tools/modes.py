"""What a conversation may do: `plan`, `guarded` or `full`.

In `plan` nothing is written and nothing connects: commands run in a wall that lets nothing out, and
tools that would change or reach something are refused. `guarded` is the default: commands run in
the conversation's wall, and what leaves it is asked. `full` has neither wall nor questions.
"""

from __future__ import annotations

from hermes_state import WALL_MODES as MODES

from .base import Mode, Tool, ToolContext, ToolError

__all__ = ["MEANINGS", "MODES", "PLAN_NOTE", "check_mode"]

MEANINGS: dict[Mode, str] = {
    "plan": "nothing can be written and nothing connects; the answer is a plan",
    "guarded": "commands run inside a wall where there is one, and what is to leave it is asked",
    "full": "neither wall nor questions; for a container",
}
PLAN_NOTE = (
    "[Plan mode: nothing can be written and nothing connects. Look at what there is, then answer "
    "with a plan of what you would do, step by step. Do not try to carry it out.]"
)
_KEPT_IN = frozenset({"terminal", "process", "execute_code", "todo", "delegate_task"})
"""Tools that a plan may use although they have effects: the wall keeps those in."""
_REACH_OUT = frozenset({"web", "browser"})
"""Toolsets that connect to other machines."""


def check_mode(context: ToolContext, tool: Tool) -> None:
    """Return if a tool may be used in the conversation's mode; ToolError if not."""
    if context.workspace.mode != "plan" or tool.name in _KEPT_IN:
        return
    if tool.effect != "none" or tool.toolset in _REACH_OUT:
        raise ToolError(
            f"{tool.name} is not used in plan mode, where nothing is written and nothing connects. "
            "Say in the plan what it is needed for."
        )
