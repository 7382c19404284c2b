"""Permanent approvals: listed and revoked as /approvals does."""

from __future__ import annotations

from tools.approval_words import grant_text

from .. import shapes
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

UNKNOWN_GRANT = 4033


@method("approval.list", scope=READ)
def list_grants(call: Call, session_id: str) -> shapes.Grants:
    """What tools may always do, as far as the session's owner may see it."""
    return {"grants": _grants(call, session_id)}


@method("approval.revoke", scope=TALK)
def revoke(
    call: Call,
    session_id: str,
    pattern_key: str = "",
    granted_by: str = "",
    all: bool = False,
) -> shapes.Revoked:
    """Have something asked again that is always allowed, at once and in every process."""
    grants = _grants(call, session_id)
    wanted = (pattern_key, granted_by)
    chosen = [
        grant for grant in grants if all or (grant["pattern_key"], grant["granted_by"]) == wanted
    ]
    if not chosen and not all:
        raise RpcError(
            UNKNOWN_GRANT, f"{pattern_key[:80]!r} is not always allowed. See approval.list."
        )
    here = call.view_in(call.session(session_id))
    return {"revoked": sum(here.revoke(grant) for grant in chosen)}


def _grants(call: Call, session_id: str) -> list[shapes.Grant]:
    from agent.slash.approvals import grants_of

    from ..surface import LiveSurface

    session = call.session(session_id)
    return [
        {
            "pattern_key": str(grant["pattern_key"]),
            "description": grant_text(str(grant["pattern_key"])),
            "granted_by": str(grant["granted_by"]),
            "granted_at": float(grant["granted_at"]),
        }
        for grant in grants_of(LiveSurface(call.hub, session_id, session, call.principal))
    ]
