"""Processes that a chat left running keep its session open and its agent in memory, for a while."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .run import GatewayRunner


def works_in(runner: GatewayRunner, session_id: str) -> bool:
    """Whether something still runs in the background of a session."""
    for key, entry in list(runner._agent_cache.items()):
        if getattr(entry[0], "session_id", None) == session_id and works_for(runner, key):
            return True
    return False


def works_for(runner: GatewayRunner, session_key: str) -> bool:
    """Whether a chat's agent has a process in the background that is not too old to count."""
    entry = runner._agent_cache.get(session_key)
    workspace = getattr(entry[0], "workspace", None) if entry else None
    processes: Any = sys.modules.get("tools.processes.background")  # not imported: none was started
    if workspace is None or processes is None:
        return False
    kept = runner.session_store._entries.get(session_key)
    platform = kept.platform.value if kept and kept.platform else ""
    policy = runner.config.policy_for(platform, kept.chat_type if kept else "dm")
    oldest = time.time() - policy.bg_process_max_age_hours * 3600
    return any(
        not process.done.is_set() and process.started > oldest
        for process in processes.table_of(workspace).all()
    )
