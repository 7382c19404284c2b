"""Web devices: one's own, listed, revoked, and codes for further ones."""

from __future__ import annotations

from typing import Literal

from hermes_state import Device

from .. import server
from .. import shapes_reading as wire
from ..clients import READ, TALK
from ..rpc import Call, RpcError, method

NO_DEVICE = 4016
TOO_MANY = 4017


@method("device.list", scope=READ)
def list_devices(call: Call) -> wire.Devices:
    """The browsers that may come in: one's own, an operator's view has all."""
    own = call.peer.door if call.peer is not None else ""
    return {"devices": [_shown(device, own) for device in call.mine.devices()]}


def _shown(device: Device, own: str) -> wire.DeviceInfo:
    return {
        "id": device.id,
        "name": device.name,
        "person": device.person.name,
        "scope": device.scope,
        "made_at": device.made_at,
        "used_at": device.used_at,
        "current": device.door == own,
    }


@method("device.code", scope=TALK)
def offer_code(call: Call, scope: Literal["full", "read"] = "full") -> wire.DeviceCode:
    """A code of eight characters that lets one more browser of one's own in, for ten minutes."""
    code = call.db.offer_device_code(call.principal.person_id, scope, typed=True)
    if code is None:
        raise RpcError(TOO_MANY, "There were too many codes in the last minutes. Try again later.")
    return {"code": code}


@method("device.rename", scope=TALK)
def rename(call: Call, device_id: str, name: str) -> wire.Decided:
    """Call a browser by another name."""
    return {"decided": call.mine.name_device(device_id, name)}


@method("device.revoke", scope=TALK)
def revoke(call: Call, device_id: str) -> wire.Decided:
    """Let a browser in no longer; its sockets are closed at once."""
    if not call.mine.drop_device(device_id):
        raise RpcError(NO_DEVICE, f"There is no device {device_id[:40]!r}. See device.list.")
    for peer in list(server._peers):
        if peer.door == f"web:{device_id}" and peer is not call.peer:
            peer.drop()
    return {"decided": True}
