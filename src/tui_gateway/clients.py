"""Who a client is: whose things it sees, and which methods it may call.

A client of standard input, or one that knows the token of this machine, is whoever sits at it. Any
other comes by a web device's key. What that device may do, and who its person is, stands in the
store and is read again with each request: a revoked device, a changed role, a person who was merged
with another count from the next request on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from hermes_state import EVERYONE, LOCAL_DOOR, OPERATOR

if TYPE_CHECKING:
    from hermes_state import Owner

    from .hub import Hub
    from .peers import Peer

Scope = Literal["read", "talk", "operate"]
READ: Final = "read"
"""Looks at what is one's own, and changes nothing."""
TALK: Final = "talk"
"""Does something with what is one's own."""
OPERATE: Final = "operate"
"""Concerns this machine, its configuration or everybody: for operators."""

_WEB = "web:"


class Principal(NamedTuple):
    """Who asks."""

    person_id: str
    role: str
    scopes: frozenset[str]
    """Which methods they may call."""

    @property
    def is_operator(self) -> bool:
        """Whether they may do everything."""
        return self.role == "operator"

    @property
    def owner(self) -> Owner:
        """Whose things they see: operators see everybody's."""
        return EVERYONE if self.is_operator else self.person_id


LOCAL: Final = Principal(OPERATOR, "operator", frozenset({READ, TALK, OPERATE}))
"""Whoever sits at the machine."""


def principal_of(hub: Hub, peer: Peer | None) -> Principal | None:
    """Who a client is now; None if its device was revoked. Without a client: the operator."""
    if peer is None or peer.door == LOCAL_DOOR:
        return LOCAL
    device = hub.get_db().get_device(peer.door.removeprefix(_WEB))
    if device is None:
        return None
    scopes = {READ}
    if device.scope == "full":
        scopes |= {TALK, OPERATE} if device.person.is_operator else {TALK}
    return Principal(device.person.id, device.person.role, frozenset(scopes))
