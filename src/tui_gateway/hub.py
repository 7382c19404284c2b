"""What the parts of the session server need of its centre.

The centre is the module `server`; its functions are looked up when they are called, so that what
replaces one of them there is what everybody uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from agent.config import Config
    from hermes_state import SessionDB

Session = dict[str, Any]
"""A live session; its keys are made in `live.new_session`."""


class Hub(Protocol):
    """The module `tui_gateway.server`."""

    def get_sessions(self) -> dict[str, Session]:
        """Live sessions by their live id."""
        ...

    def get_db(self) -> SessionDB:
        """The store, opened when it is first needed."""
        ...

    def get_config(self) -> Config:
        """The configuration, read when it is first needed."""
        ...

    def check_peers(self) -> None:
        """Disconnect clients whose device was revoked, and show none what is not theirs."""
        ...

    def emit(self, event: str, sid: str, payload: Mapping[str, Any] | None = None) -> None:
        """Send an event to the clients of a session."""
        ...

    def reload_config(self) -> Config:
        """Read the configuration again."""
        ...

    def reap_orphans(self) -> None:
        """End orphaned processes: those that tools of a killed server had started."""
        ...

    def _finalize_session(self, session: Session, end_reason: str = "tui_close") -> None:
        """End a live session."""
        ...

    def _sync_session_key_after_compress(
        self,
        sid: str,
        session: Session,
        *,
        clear_pending_title: bool = False,
        restart_slash_worker: bool = False,
    ) -> None:
        """Follow the agent to the session it is in."""
        ...

    def _notify_session_boundary(self, event: str, session_id: str | None) -> None:
        """Fire a boundary hook."""
        ...

    def make_stream_renderer(self, cols: int) -> Any:
        """Something that renders pieces of an answer, or None."""
        ...

    def render_message(self, raw: str, cols: int) -> str | None:
        """A whole answer rendered, or None."""
        ...
