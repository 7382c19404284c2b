"""A live session as slash commands see it.

The session a command works in is looked up at each use, so that a slow command follows the
conversation when a compression moves it on. A command that must not meet a turn holds the session
while it works; prompts that come meanwhile wait.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.access import OPERATORS, Access
from agent.ids import new_session_id
from agent.slash import Alias, CommandError, Result, Surface, lookup, run
from agent.slash.table import parse
from conversation.abandoned import runs_elsewhere
from hermes_state import person_of, stored_owner
from tools.memory_scope import MemoryScope

from . import agents, asking, fetching, inbox, live, prompts, walls
from .clients import LOCAL, Principal
from .hub import Hub, Session
from .media import BadMediaError, attach_image
from .rpc import RpcError

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from hermes_state import PersonView
    from tools.base import Mode

HOLDING = frozenset(
    {"branch", "compress", "model", "persona", "resume", "retry", "rollback", "undo"}
)
"""Commands during which no turn may begin."""


class LiveSurface(Surface):
    """One live session of this server."""

    platform = "tui"

    def __init__(
        self,
        hub: Hub,
        sid: str,
        session: Session,
        principal: Principal = LOCAL,
        access: Access = OPERATORS,
    ) -> None:
        """`principal` is who uses it, `access` what they may use."""
        super().__init__(hub.get_db(), hub.get_config())
        self.access = access
        self._hub, self._sid, self._session = hub, sid, session
        self._principal = principal
        self.user_id = session.get("user_id")
        self.actor = stored_owner(principal.person_id)
        self.options = session.setdefault("options", {})
        self.is_holding = False
        """Whether this command itself keeps turns out."""
        self.is_leaving = False
        """Whether the client is to leave after this command."""

    @property
    def memory(self) -> MemoryScope:
        """Whose memories and skills there are: the conversation's person's."""
        who, asks = person_of(self.user_id), self._principal
        return MemoryScope(who, is_operator=asks.is_operator and who == asks.person_id)

    @property
    def session(self) -> Session:
        """The live session; another one after the command has gone to another conversation."""
        return self._session

    @property
    def session_id(self) -> str:
        """The stored session the conversation is in now."""
        return live.current_key(self._session)

    @property
    def agent(self) -> AIAgent | None:
        """The session's agent, if it was built."""
        agent: AIAgent | None = self._session.get("agent")
        return agent

    def build_agent(self) -> AIAgent:
        """The session's agent, built if need be."""
        agent: AIAgent = agents.ensure_agent(self._hub, self._sid, self._session)
        return agent

    @property
    def running(self) -> bool:
        """Whether a turn runs."""
        return bool(self._session.get("running")) and not self.is_holding

    def new_session(self, title: str | None) -> None:
        """Begin an empty conversation under the same live id."""
        fresh = live.new_session(new_session_id(), cwd=self._session["cwd"])
        fresh["user_id"] = self.user_id
        fresh["pending_title"] = title
        self._go(fresh, "new_session")

    def switch_session(self, session_id: str) -> None:
        """Resume a stored conversation under the same live id."""
        from .revive import revived

        tip = self.here.tip(session_id)
        elsewhere = live.find_by_key(self._hub, tip, self._principal)
        if elsewhere is not None:
            raise CommandError(
                f"That conversation is open already, as {elsewhere}; go there instead."
            )
        self._go(revived(self._hub, tip, self._session.get("cols", 80)), "session_switch")

    def _go(self, new: Session, reason: str) -> None:
        old = self._session
        if self.is_holding:
            old["turn_done"].set()  # no turn runs there whose end would be worth waiting for
        try:
            live.switch(self._hub, self._sid, old, new, reason)
        except RpcError as error:
            raise CommandError(str(error)) from error
        self._session, self.options = new, new["options"]
        prompts.run_waiting(self._hub, self._sid, new, is_opened=True)

    def set_title(self, title: str) -> bool:
        """Name the conversation, now or with its first message."""
        return set_title(self._hub, self._sid, self._session, title)

    def stop(self) -> bool:
        """Stop the running turn and withdraw its questions; or stop the turn of another process."""
        stopped = prompts.interrupt(self._session)
        asking.withdraw_all(self._session)
        return stopped or self.stop_elsewhere()

    def queue(self, text: str) -> int:
        """Keep a message until the turn is over."""
        inbox.accept(self._hub, self._session, text)
        prompts.run_waiting(self._hub, self._sid, self._session)
        return len(self.here.waiting(self.session_id))

    def steer(self, text: str) -> bool:
        """Add a message to the running turn, here or in another process; it is stored like every
        prompt."""
        if not self.running and not runs_elsewhere(self.db, self.session_id):
            return False
        prompts.steer(self._hub, self._sid, self._session, text)
        return True

    def answer_approvals(self, choice: str, everything: bool = False) -> int:
        """Answer a pending approval request."""
        return asking.answer_approvals(
            self._session, choice, everything=everything
        ) or asking.answer_approvals_elsewhere(
            self._hub, self._session, choice, everything=everything
        )

    def set_model(self, name: str) -> str:
        """Go on with another model."""
        return set_model(self._hub, self._sid, self._session, name)

    @property
    def root(self) -> Path:
        """Where the person put the conversation."""
        agent = self.agent
        return agent.workspace.root if agent is not None else Path(self._session["cwd"])

    def set_mode(self, mode: Mode) -> None:
        """Choose what the agent may do, and tell every client."""
        walls.set_mode(self._hub, self._sid, self._session, mode)

    def add_folder(self, folder: Path) -> None:
        """Let the agent write to a further folder, and tell every client."""
        walls.add_folders(self._hub, self._sid, self._session, [folder])

    def remove_folder(self, folder: Path) -> None:
        """Take a folder back, and tell every client."""
        walls.remove_folder(self._hub, self._sid, self._session, folder)

    def say(self, text: str) -> None:
        """Show a line to the clients."""
        self._hub.emit("status.update", self._sid, {"kind": "notice", "text": text})

    def attach_image(self, path: Path) -> None:
        """Send a picture along with the next message."""
        try:
            attach_image(self._session, path)
        except BadMediaError as error:
            raise CommandError(str(error)) from error

    def copy(self, text: str) -> None:
        """Have the clients put text on their clipboards."""
        self._hub.emit("clipboard.copy", self._sid, {"text": text})

    def clear_screen(self) -> None:
        """Have the clients clear what they show."""
        self._hub.emit("screen.clear", self._sid)

    def leave(self) -> None:
        """Let the client know that it is to leave."""
        self.is_leaving = True


def run_line(surface: LiveSurface, hub: Hub, sid: str, line: str) -> Result:
    """Carry a command out in a live session."""
    result = _run(surface, hub, sid, line)
    if isinstance(result, Alias):
        result = _run(surface, hub, sid, f"/{result.target}")
    surface.session["busy_mode"] = surface.options.get("busy")
    return result


def _run(surface: LiveSurface, hub: Hub, sid: str, line: str) -> Result:
    command = lookup(parse(line)[0], surface.scope)
    if command is None or command.name not in HOLDING:
        return run(surface, line)
    session = surface.session
    try:
        with prompts.occupied(hub, sid, session, f"use /{command.name}"):
            surface.is_holding = True
            result = run(surface, line)
            if surface.session is session:
                follow(hub, session)
            return result
    except RpcError:
        # A turn runs: the command itself decides what it can still do.
        return run(surface, line)
    finally:
        surface.is_holding = False


def follow(hub: Hub, session: Session) -> None:
    """Bring the live session's copies up to date after something else than a turn changed it."""
    messages = _here(hub, session).conversation(live.current_key(session))
    with session["history_lock"]:
        session["history"] = messages
        session["history_version"] = session.get("history_version", 0) + 1


def _here(hub: Hub, session: Session) -> PersonView:
    """What is of a live session's person, with its conversation."""
    return hub.get_db().view(person_of(session.get("user_id")), live.current_key(session))


def set_title(hub: Hub, sid: str, session: Session, title: str) -> bool:
    """Name the conversation, now or with its first message; ValueError if it cannot be had."""
    db = hub.get_db()
    cleaned = db.sanitize_title(title)
    if cleaned is None:
        raise ValueError("Nothing is left of that title. Use letters or digits.")
    key = live.current_key(session)
    own = _here(hub, session)  # others may have the same titles
    if not own.set_title(key, cleaned):
        if own.find_title(cleaned) is not None:
            free = own.next_title(cleaned)
            raise ValueError(f"The title {cleaned!r} is taken. {free!r} is free.")
        session["pending_title"] = cleaned
        return False
    session["pending_title"], session["title"] = None, cleaned
    hub.emit("session.title", sid, {"session_id": key, "title": cleaned})
    return True


def set_model(hub: Hub, sid: str, session: Session, name: str) -> str:
    """Switch to another model from the next turn on; ConfigError if it cannot be asked."""
    from agent.build import build_models

    model = build_models(hub.get_config(), name)
    agent = session.get("agent")
    if agent is not None:
        agent.switch_model(model)
        fetching.follow(hub, sid, model)
    session["model"], session["provider"] = name, None
    hub.emit("session.info", sid, live.info(hub, sid, session))
    return str(model.name)
