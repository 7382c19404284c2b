"""Background processes that sessions' terminals have started."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import shapes_work as wire
from ..clients import READ, TALK
from ..hub import Session
from ..rpc import Call, RpcError, method

if TYPE_CHECKING:
    from tools.processes.background import Background

NO_PROCESS = 4012
UNKNOWN_PROCESS = 4044


def processes_of(session: Session) -> list[Background]:
    """The processes of a live session."""
    module = sys.modules.get("tools.processes.background")  # not imported: there are none
    agent = session.get("agent")
    if module is None or agent is None:
        return []
    processes: list[Background] = module.table_of(agent.workspace).all()
    return processes


def _all(call: Call, session_id: str | None) -> Iterator[tuple[str, Background]]:
    chosen = [(session_id, call.session(session_id))] if session_id else call.live_sessions()
    for sid, session in chosen:
        for process in processes_of(session):
            yield sid, process


def process_info(sid: str, process: Background) -> wire.ProcessInfo:
    """A process as clients get it."""
    return {
        "process_id": process.id,
        "session_id": sid,
        "command": process.command,
        "status": process.status(),
        "running": not process.done.is_set(),
        "pid": process.run.child.pid,
        "started_at": process.started,
        "exit_code": process.ending.code if process.ending else None,
        "log": str(process.log.path),
    }


@method("process.list", scope=READ)
def list_processes(call: Call, session_id: str | None = None) -> wire.Processes:
    """The background processes of a session, or of all."""
    return {"processes": [process_info(sid, process) for sid, process in _all(call, session_id)]}


@method("process.kill", scope=TALK, slow=True)
def kill(call: Call, process_id: str, session_id: str | None = None) -> wire.KilledOne:
    """End a background process and everything it started."""
    if not process_id.strip():
        raise RpcError(NO_PROCESS, "Which process? process.list has their ids.")
    for _, process in _all(call, session_id):
        if process.id == process_id:
            running = not process.done.is_set()
            process.kill()
            return {"process_id": process.id, "killed": running, "status": process.status()}
    raise RpcError(UNKNOWN_PROCESS, f"There is no background process {process_id[:80]!r}.")


@method("process.stop", scope=TALK, slow=True)
def stop(call: Call, session_id: str | None = None) -> wire.Killed:
    """End every background process of a session, or of all."""
    running = [process for _, process in _all(call, session_id) if not process.done.is_set()]
    for process in running:
        process.kill()
    return {"killed": len(running)}
