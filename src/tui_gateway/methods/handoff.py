"""Handing a conversation over to a chat platform."""

from __future__ import annotations

from collections.abc import Mapping

from .. import live
from .. import shapes_work as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

NO_PLATFORM = 4023
UNKNOWN_PLATFORM = 4024
NOTHING_SAID = 4025
UNDER_WAY = 4026


@method("handoff.request", scope=TALK)
def request(call: Call, session_id: str, platform: str) -> wire.HandoffRequested:
    """Ask the gateway to continue the conversation on a chat platform."""
    session = call.idle_session(session_id, "hand it over")
    name = platform.strip().lower()
    if not name:
        raise RpcError(NO_PLATFORM, "To which platform?")
    section = call.config.section("platforms")
    settings = section.get(name)
    if not isinstance(settings, Mapping) or settings.get("enabled") is False:
        there = ", ".join(map(str, section)) or "none; see platforms in config.yaml"
        raise RpcError(UNKNOWN_PLATFORM, f"{name[:80]!r} is not set up. There are: {there}.")
    here = call.here(session)
    key = here.tip(live.current_key(session))
    if here.session(key) is None:
        raise RpcError(NOTHING_SAID, "Nothing was said yet, so there is nothing to hand over.")
    if not here.hand_over(key, name):
        raise RpcError(UNDER_WAY, "This conversation is being handed over already.")
    home = settings.get("home_channel") if call.principal.is_operator else None
    named = home.get("name") or home.get("chat_id") if isinstance(home, Mapping) else home
    return {
        "queued": True,
        "session_key": key,
        "platform": name,
        "home_name": str(named or ""),
    }


def _state(call: Call, session_id: str) -> tuple[str, wire.HandoffState]:
    session = call.session(session_id)
    here = call.here(session)
    key = here.tip(live.current_key(session))
    handoff = here.handoff(key) or {"state": "none", "platform": None, "error": None}
    return key, {
        "state": handoff["state"],
        "platform": handoff["platform"] or "",
        "error": handoff["error"] or "",
    }


@method("handoff.state", scope=READ)
def state(call: Call, session_id: str) -> wire.HandoffState:
    """How far the conversation's hand-off is."""
    return _state(call, session_id)[1]


@method("handoff.fail", scope=TALK)
def fail(call: Call, session_id: str, error: str = "given up") -> wire.HandoffFailed:
    """Give a hand-off up that has not come to an end."""
    key, before = _state(call, session_id)
    call.here(call.session(session_id)).give_up_handoff(key, error[:500])
    return {
        "failed": before["state"] in ("pending", "running"),
        "state": _state(call, session_id)[1]["state"],
    }
