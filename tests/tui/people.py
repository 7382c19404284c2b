"""Clients of the session protocol that are persons, each by a web device."""

from __future__ import annotations

import itertools
import json
from typing import Any

from method_calls import Gateway

from hermes_state import NewDevice, SessionDB
from tui_gateway import rpc, server
from tui_gateway.peers import Peer


class Client(Gateway):
    """A connected client that came by a device's key."""

    def __init__(self, gateway: Gateway, device: NewDevice) -> None:
        super().__init__(gateway.home)
        self.device = device.device
        self.lines: list[dict[str, Any]] = []
        self.is_dropped = False
        self.peer = Peer(
            lambda line: self.lines.append(json.loads(line)),
            on_given_up=self._drop,
            door=device.device.door,
        )
        server.connect(self.peer)
        self._numbers = itertools.count(1)

    def _drop(self) -> None:
        self.is_dropped = True

    def request(self, method: str, params: Any) -> dict[str, Any]:
        frame = {"jsonrpc": "2.0", "id": next(self._numbers), "method": method, "params": params}
        response = rpc.answer(frame, server.hub(), self.peer)
        assert response is not None
        return response

    def open(self, **params: Any) -> str:
        return str(self.call("session.create", **params)["session_id"])

    def told(self, kind: str) -> list[dict[str, Any]]:
        """The events of a kind that reached it."""
        self.peer.drain(10)
        return [line["params"] for line in self.lines if line.get("params", {}).get("type") == kind]


def device(db: SessionDB, person_id: str, scope: str = "full") -> NewDevice:
    """A device of somebody."""
    code = db.offer_device_code(person_id, scope)
    assert code is not None
    new = db.make_device(code, "browser", "test")
    assert isinstance(new, NewDevice)
    return new


def client(gateway: Gateway, door: str, name: str) -> Client:
    """Somebody who comes by a chat account, with a device of theirs."""
    return Client(gateway, device(gateway.db, gateway.db.ensure_person(door, name).id))
