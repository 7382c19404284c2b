"""Which methods a person may call, of those that their client's scope lets them: each by the slash
command that does the same. What concerns this machine has its scope (`clients.OPERATE`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent.access import Access

    from .clients import Principal
    from .hub import Hub

NEEDS: dict[str, str] = {
    "agents.list": "agents", "delegation.status": "agents", "subagent.interrupt": "stop",
    "process.list": "agents", "process.kill": "agents", "process.stop": "agents",
    "approval.list": "approvals", "approval.revoke": "approvals",
    "handoff.fail": "handoff", "handoff.request": "handoff", "handoff.state": "handoff",
    "grant.revoke": "approvals", "insights.activity": "insights",
    "insights.day": "insights",
    "conversation.turns": "history", "conversation.family": "history",
    "conversation.messages": "history",
    "device.code": "link", "device.list": "link", "device.rename": "link",
    "device.revoke": "unlink",
    "cron.list": "cron", "cron.history": "cron", "cron.manage": "cron",
    "insights.get": "insights", "model.options": "model", "prompt.background": "background",
    "llm.oneshot": "background",
    **dict.fromkeys((
        "memory.list", "memory.add", "memory.edit", "memory.forget", "memory.history",
        "memory.undo",
    ), "memory"),
    "rollback.diff": "rollback", "rollback.list": "rollback", "rollback.restore": "rollback",
    "session.branch": "branch", "session.compress": "compress",
    "session.context_breakdown": "usage", "session.delete": "resume",
    "session.folders": "mode", "session.history": "history",
    "session.interrupt": "stop", "session.list": "sessions", "session.mode": "mode",
    "session.mode.set": "mode", "session.resume": "resume", "session.save": "save",
    "session.search": "search", "session.status": "status", "session.steer": "steer",
    "session.title": "title", "session.undo": "undo", "session.usage": "usage",
    "tools.list": "tools", "tools.show": "tools", "toolsets.list": "toolsets",
    **dict.fromkeys((
        "hello", "sessions.watch", "approval.inbox", "approval.decide",
        "prompt.submit", "clarify.respond", "session.activate", "session.close", "session.create",
        "session.events.since", "session.most_recent", "session.active_list", "terminal.resize",
        "paste.collapse", "command.dispatch", "command.resolve", "commands.catalog",
        "complete.slash", "slash.exec", "image.attach_bytes", "image.detach", "file.attach",
        "pdf.attach", "setup.status", "approval.pending", "approval.respond",
    ), ""),
}  # fmt: skip
"""By method: the command that whoever calls it must be allowed to use; none to talk, to be asked or
watch. Methods for operators are not in it."""


def access_of(hub: Hub, principal: Principal) -> Access:
    """What a client's person may use."""
    from agent.access import OPERATORS, table_of

    if principal.is_operator:
        return OPERATORS
    table, person = table_of(hub.get_config()), principal.person_id
    doors = hub.get_db().list_doors(person) if table.names_people else []
    return table.find(principal.role, [person, *doors])


def why_not(method: str, access: Access) -> str | None:
    """Why a method may not be called; None if it may."""
    command = NEEDS.get(method)
    if command == "" or (command is not None and access.commands.allow(command)):
        return None
    from tools.permissions import some

    return f"{method} is not for {some(access.role)} here; the operator decides that."
