"""What a front end offers to commands.

A front end subclasses `Surface` for one conversation of one person. What it leaves out is answered
with "not available here", so a small front end stays small. Nothing here may block for long except
where a command is marked slow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from agent.access import OPERATORS, Access
from agent.wall_choices import add_folders, choose_mode, remove_folder
from hermes_state import EVERYONE, NOBODY, person_of
from tools.memory_scope import MemoryScope

if TYPE_CHECKING:
    from agent.agent import AIAgent
    from agent.config import Config
    from hermes_state import PersonView, SessionDB
    from tools.base import Mode

    from .table import Scope


LOCAL = frozenset({"cli", "tui", "desktop", "acp"})
"""Platforms of whoever sits at the machine."""


class CommandError(Exception):
    """Something the person can correct; the message says how."""


def require_idle(surface: Surface) -> None:
    """CommandError while a turn runs: what it has read must not change under it."""
    if surface.running:
        raise CommandError("An answer is being written. Wait for it, or /stop it first.")


def _not_here(what: str) -> NoReturn:
    raise CommandError(f"{what} is not available here.")


class Surface:
    """One conversation of one person, as commands see it."""

    scope: Scope = "cli"
    """Which commands there are: "cli" with a screen and an input line, "gateway" without."""
    platform: str = "cli"
    """Where it is: the session's source."""
    reads_while_busy: bool = True
    """Whether a message that comes while an answer is being written is looked at at once."""
    user_id: str | None = None
    """Whose it is; None only for whoever sits at the machine."""
    actor: str | None = None
    """Who uses it in the place of whoever sits at the machine."""
    access: Access = OPERATORS
    """What whoever gives the command may use."""

    def __init__(self, db: SessionDB, config: Config) -> None:
        self.db = db
        self.config = config
        self.options: dict[str, Any] = {}
        """What was set for this conversation: "reasoning", "busy"."""

    @property
    def memory(self) -> MemoryScope:
        """Whose memories and skills there are."""
        return MemoryScope(person_of(self.user_id), is_operator=self.user_id is None)

    # The conversation

    @property
    def session_id(self) -> str:
        """The session the conversation is in now; it may have no row yet."""
        raise NotImplementedError

    @property
    def agent(self) -> AIAgent | None:
        """The conversation's agent, if it was built already."""
        return None

    def build_agent(self) -> AIAgent:
        """The conversation's agent, built now if need be."""
        return self.agent or _not_here("The agent")

    @property
    def running(self) -> bool:
        """Whether a turn runs in the conversation."""
        return False

    @property
    def here(self) -> PersonView:
        """What may be shown here: the person's things, and the conversation that this is."""
        at_machine = self.platform in LOCAL and self.actor is None and self.user_id is None
        owner = EVERYONE if at_machine else self.user_id or self.actor or NOBODY
        return self.db.view(owner, self.session_id)

    def session_facts(self) -> dict[str, Any]:
        """Whose a new session is, and where: columns of its row."""
        return {"user_id": self.user_id}

    def new_session(self, title: str | None) -> None:
        """End this conversation and begin another; a running turn is stopped first."""
        _not_here("A new conversation")

    def switch_session(self, session_id: str) -> None:
        """Leave this conversation and resume that one."""
        _not_here("Going to another conversation")

    def link(self, code: str) -> str:
        """A code for this conversation, or with one: join the conversation it is for."""
        _not_here("Linking chats")

    def unlink_person(self) -> str:
        """Undo how this chat's account came to its person."""
        _not_here("Linking chats")

    def require_own(self) -> None:
        """Raise CommandError where the conversation is another's, who has let this chat in."""

    def unlink(self, everybody: bool) -> str:
        """Leave a conversation that is shared, or send the others out of it."""
        _not_here("Linking chats")

    def follow(self, wanted: bool | None) -> bool:
        """Whether the chat is shown what its person says elsewhere; changed first, if wanted."""
        _not_here("Following")

    def set_home(self) -> str:
        """Make this chat the one that conversations are handed over to."""
        _not_here("A home chat")

    def job_place(self) -> dict[str, Any]:
        """Where a job that is made here runs and answers: settings of it. Without a chat, in this
        conversation, and in the home chat if there is one."""
        place: dict[str, Any] = {"deliver": "home"}
        if self.here.session(self.session_id) is not None:
            place |= {"where": "session", "session_id": self.session_id}
        return place

    def set_title(self, title: str) -> bool:
        """Name the conversation; False if the name waits for its first message.

        Raises ValueError for a name that is invalid or taken.
        """
        return self.here.set_title(self.session_id, title)

    # The turn

    def stop(self) -> bool:
        """Stop the running turn, here or in another process; False if none runs."""
        agent = self.agent
        return (agent is not None and agent.interrupt()) or self.stop_elsewhere()

    def stop_elsewhere(self) -> bool:
        """Stop the turn that another process runs in the conversation; False if none does."""
        from agent.elsewhere import NotHeardError, stop_elsewhere

        try:
            return stop_elsewhere(self.db, self.session_id)
        except NotHeardError as error:
            raise CommandError(str(error)) from error

    def queue(self, text: str) -> int:
        """Keep a message until the running turn is over; returns how many wait."""
        _not_here("Queueing")

    def steer(self, text: str) -> bool:
        """Add a message to the running turn, stored before this returns; False if none runs.

        If the turn ends before it has read it, the message is answered by itself.
        """
        agent = self.agent
        return agent is not None and agent.steer(text)

    def answer_approvals(self, choice: str, everything: bool = False) -> int:
        """Answer the oldest question of a tool (or all); returns how many were answered."""
        _not_here("Answering approvals")

    def answer_question(self, text: str) -> bool:
        """Answer the oldest question of the conversation's turn that is no approval, wherever that
        runs; False if none is open."""
        from agent.elsewhere import NotHeardError, answer_elsewhere

        try:
            return answer_elsewhere(self.db, self.session_id, None, text)
        except NotHeardError as error:
            raise CommandError(str(error)) from error

    def set_model(self, name: str) -> str:
        """Switch to another model; returns its name. Raises ConfigError."""
        _not_here("Changing the model")

    def apply_options(self) -> None:
        """Apply `options` to the agent; the front end calls it for an agent it has built."""
        from .options import apply_options

        if self.agent is not None:
            apply_options(self.agent, self.options)

    # The wall

    @property
    def root(self) -> Path:
        """Where the person put the conversation."""
        if self.agent is not None:
            return self.agent.workspace.root
        return Path.cwd()

    def set_mode(self, mode: Mode) -> None:
        """Choose what the agent may do from now on, also in a running turn; CommandError."""
        choose_mode(self.db, self.session_id, mode, self.agent)

    def add_folder(self, folder: Path) -> None:
        """Let the agent write to a further folder."""
        add_folders(self.db, self.session_id, [folder], self.agent)

    def remove_folder(self, folder: Path) -> None:
        """Take a folder back; WallChoiceError if it was not added."""
        remove_folder(self.db, self.session_id, folder, self.agent)

    # The screen

    def say(self, text: str) -> None:
        """Show something while a slow command works."""

    def attach_image(self, path: Path) -> None:
        """Send a picture along with the next message."""
        _not_here("Attaching pictures")

    def copy(self, text: str) -> None:
        """Put text on the clipboard."""
        _not_here("The clipboard")

    def clear_screen(self) -> None:
        """Clear what is shown."""

    def leave(self) -> None:
        """End the front end after this command."""
        _not_here("Leaving")
