"""What a method gets of its request: who asks, and what of the server they may reach.

Methods find live sessions and stored conversations through it, so that none of them can forget
whose they are. What is another person's is answered exactly as what does not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import live
from .clients import LOCAL, Principal
from .hub import Hub, Session
from .peers import Peer
from .permitted import access_of

if TYPE_CHECKING:
    from agent.access import Access
    from agent.config import Config
    from hermes_state import PersonView, SessionDB


@dataclass(slots=True)
class Call:
    """What a method knows of the request besides its parameters."""

    hub: Hub
    peer: Peer | None
    """Who asked; None when called from within the process."""

    principal: Principal = LOCAL
    """Who that is."""

    @property
    def db(self) -> SessionDB:
        """The store."""
        return self.hub.get_db()

    @property
    def access(self) -> Access:
        """What whoever asks may use."""
        return access_of(self.hub, self.principal)

    @property
    def mine(self) -> PersonView:
        """What may be shown to whoever asks."""
        return self.db.view(self.principal.owner)

    def session(self, sid: str) -> Session:
        """The live session of that id; RpcError if there is none, or it is another person's."""
        return live.require(self.hub, sid, self.principal)

    def idle_session(self, sid: str, what: str) -> Session:
        """The same, if no turn runs in it."""
        return live.require_idle(self.hub, sid, what, self.principal)

    def live_sessions(self) -> list[tuple[str, Session]]:
        """The live sessions that may be shown to whoever asks, by their live ids."""
        return live.visible(self.hub, self.principal)

    def here(self, session: Session) -> PersonView:
        """What may be shown to whoever asks, with the conversation of a live session of theirs."""
        return self.db.view(self.principal.owner, live.current_key(session))

    def view_in(self, session: Session | None) -> PersonView:
        """What may be shown in a session: an operator who looks into somebody's conversation
        searches as that person would."""
        whose = session.get("user_id") if session else None
        return self.db.view(whose) if whose and self.principal.is_operator else self.mine

    @property
    def config(self) -> Config:
        """The configuration."""
        return self.hub.get_config()
