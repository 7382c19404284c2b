"""Shapes of work beside the conversation: processes, background tasks, hand-off, rollback."""

from __future__ import annotations

from typing import TypedDict


class ProcessInfo(TypedDict):
    """A background process of a session's terminal."""

    process_id: str
    session_id: str
    command: str
    status: str
    running: bool
    pid: int | None
    started_at: float
    exit_code: int | None
    log: str
    """The file with all of its output."""


class Processes(TypedDict):
    """Background processes."""

    processes: list[ProcessInfo]


class Killed(TypedDict):
    """How many processes were ended."""

    killed: int


class KilledOne(TypedDict):
    """A process that was ended."""

    process_id: str
    killed: bool
    """False if it had ended before."""
    status: str


class TaskInfo(TypedDict):
    """Work that sub-agents do in the background."""

    task_id: str
    session_id: str
    goals: list[str]
    state: str
    """running, completed, failed, interrupted or lost."""
    subagents: list[str]
    """The stored sessions of the sub-agents."""
    started_at: float
    ended_at: float | None


class Agents(TypedDict):
    """What runs beside the conversations of this server."""

    processes: list[ProcessInfo]
    tasks: list[TaskInfo]


class DelegationStatus(TypedDict):
    """The background tasks that run, and how many may."""

    active: list[TaskInfo]
    paused: bool
    max_spawn_depth: int
    max_concurrent_children: int


class SubagentStopped(TypedDict):
    """Whether there was such a sub-agent."""

    found: bool
    subagent_id: str


class Started(TypedDict):
    """Work that has begun in the background."""

    task_id: str


class HandoffRequested(TypedDict):
    """A conversation that waits for the gateway to take it over."""

    queued: bool
    session_key: str
    platform: str
    home_name: str
    """The chat it goes on in, if it has a name."""


class HandoffState(TypedDict):
    """How far a hand-off is."""

    state: str
    """none, pending, running, completed or failed."""
    platform: str
    error: str


class HandoffFailed(TypedDict):
    """Whether there was a hand-off to give up."""

    failed: bool
    state: str


class CheckpointFile(TypedDict):
    """A file that a turn changed."""

    path: str
    change: str
    """created, edited or deleted."""


class CheckpointInfo(TypedDict):
    """All that one turn changed."""

    hash: str
    at: float
    tools: list[str]
    files: list[CheckpointFile]


class Checkpoints(TypedDict):
    """What turns did to files, newest first."""

    enabled: bool
    checkpoints: list[CheckpointInfo]


class CheckpointDiff(TypedDict):
    """What differs from before a turn."""

    hash: str
    diff: str


class RolledBack(TypedDict):
    """What was put back."""

    restored: list[str]
    not_kept: list[str]
    """Files that were too large to be kept, and stay as they are."""
    undo: str | None
    """The checkpoint that undoes this."""


class Text(TypedDict):
    """An answer."""

    text: str


class ShellResult(TypedDict):
    """What a command printed and how it ended."""

    stdout: str
    stderr: str
    code: int
