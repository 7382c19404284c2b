"""What a person set for one conversation, put into effect on its agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.config import Config

EFFORTS = ("low", "medium", "high")
BUSY_MODES = ("interrupt", "queue", "steer")


def apply_options(agent: AIAgent, config: Config, options: Mapping[str, Any]) -> None:
    """Make the agent follow the options: "yolo" (bool) and "reasoning" (an effort or "")."""
    if "yolo" in options:
        mode = "off" if options["yolo"] else config.approvals.mode
        settings = dict(agent.workspace.settings)
        settings["approvals"] = {**(settings.get("approvals") or {}), "mode": mode}
        agent.workspace.settings = settings
    if "reasoning" in options:
        agent.set_request_option("reasoning_effort", options["reasoning"] or None)
