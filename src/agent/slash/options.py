"""What a person set for one conversation, put into effect on its agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.agent import AIAgent

EFFORTS = ("low", "medium", "high")
BUSY_MODES = ("interrupt", "queue", "steer")


def apply_options(agent: AIAgent, options: Mapping[str, Any]) -> None:
    """Make the agent follow the options: "reasoning" (an effort or ""), "persona" (a name)."""
    agent.persona = str(options.get("persona") or "")
    if "reasoning" in options:
        agent.set_request_option("reasoning_effort", options["reasoning"] or None)
