"""Background processes of a chat keep its session open and its agent in memory, for a while."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .config import ResetPolicy

Entry = tuple[Any, ...]
"""As the agent cache keeps it: the agent comes first."""


def works_in(
    session_id: str, agents: Mapping[str, Entry], policy_of: Callable[[str], ResetPolicy]
) -> bool:
    """Whether something still runs in the background of a session."""
    return any(
        getattr(entry[0], "session_id", None) == session_id
        and works_for(entry, partial(policy_of, key))
        for key, entry in list(agents.items())
    )


def works_for(entry: Entry | None, policy: Callable[[], ResetPolicy]) -> bool:
    """Whether a kept agent has a process in the background that is not too old to count."""
    workspace = getattr(entry[0], "workspace", None) if entry else None
    processes: Any = sys.modules.get("tools.processes.background")  # not imported: none was started
    if workspace is None or processes is None:
        return False
    oldest = time.time() - policy().bg_process_max_age_hours * 3600
    return any(
        not process.done.is_set() and process.started > oldest
        for process in processes.table_of(workspace).all()
    )
