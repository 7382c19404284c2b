"""A person's own memory in a group chat, where they said that it may be read.

It is sent along with their questions and never stored: the group's prompt stays what it is, and who
takes their word back is obeyed with the next message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermes_state import at_hand
from tools import shared_files

if TYPE_CHECKING:
    from agent.agent import AIAgent


async def shown_memory(agent: AIAgent) -> str:
    """What may be read of the memory of whoever asks in a group; empty anywhere else."""
    scope, db = agent.memory, agent.db
    if scope.chat is None or scope.person is None or db is None:
        return ""
    if not any(tool.toolset == "memory" for tool in agent.tools):
        return ""  # memory is switched off, or not for them
    return await at_hand(db, _shown, agent)


def _shown(agent: AIAgent) -> str:
    spaces = agent.memory.spaces(agent.db, agent.session_id).shown
    if not spaces:
        return ""
    from agent.system_prompt import remembered, skill_list

    workspace = agent.workspace
    shared_files.refresh(agent.db, workspace.home, [space.prefix for space in spaces])
    settings = workspace.settings.get("memory") or {}
    parts = remembered(workspace.home, spaces, bool(settings.get("user_profile", True)))
    skills = skill_list(workspace.home, spaces, None)
    told = "\n\n".join(part for part in (*parts, skills) if part)
    if not told:
        return ""
    return (
        "<memory-context>\nThe person who wrote this message lets you use what you remember of"
        f" them in this chat; it is not part of their message:\n{told}\n</memory-context>"
    )
