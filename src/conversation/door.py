"""A front end's side of one conversation: what it has to run there, and how a turn is shown.

A front end has a door for each conversation that it reaches: a chat, the conversation of an API
client, a window, a terminal. The worker (`service`) asks the door what comes next and tells it what
happens; a door holds no queue, no lease and no recovery of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from agent.ids import new_session_id

if TYPE_CHECKING:
    from agent.events import Watcher
    from agent.outcome import NotStarted, TurnOutcome
    from agent.request import TurnRequest

    from .room import Share

W = TypeVar("W")
"""What a door has to run: its own kind of message."""


class Origin(NamedTuple):
    """Where a turn comes from, as its tools, its hooks and its child processes are told."""

    platform: str
    session_id: str
    session_key: str = ""
    chat_id: str | None = None
    chat_name: str | None = None
    chat_type: str = "dm"
    thread_id: str | None = None
    user_id: str | None = None
    user_name: str | None = None
    message_id: str | None = None
    ui_session_id: str | None = None

    def context(self) -> dict[str, str | None]:
        """The values of the session's context variables."""
        values: dict[str, str | None] = self._asdict()
        del values["chat_type"]
        return {**values, "source": self.platform}


class Abandoned(NamedTuple):
    """A turn that nobody runs any more, to be brought to its end."""

    row: Mapping[str, Any]
    """As `list_abandoned_turns` found it."""

    @property
    def session_id(self) -> str:
        """A session of its conversation."""
        return str(self.row["session_id"])


class NotNowError(Exception):
    """Raised by `Door.prepare`: the message is not to be run now."""


class Door(Generic[W]):
    """What the worker asks of a front end. Every method but the first five has a default."""

    key: str
    """Its name in this process; the turns of one key run one after the other."""

    stopped_by = "/stop"
    """What the person does to stop a turn."""

    def session_id(self) -> str:
        """The session its conversation is in now."""
        raise NotImplementedError

    async def next(self) -> W | None:
        """What is to be run next: the oldest that waits. None ends the worker."""
        raise NotImplementedError

    async def prepare(self, work: W) -> Any:
        """The agent that runs it, in the session the conversation is in now.

        Raises NotNowError, or whatever keeps the turn from being run: then that is told.
        """
        raise NotImplementedError

    def request(self, work: W) -> TurnRequest:
        """The turn that is asked for."""
        raise NotImplementedError

    def origin(self, work: W) -> Origin:
        """Where it comes from; asked after `prepare`."""
        raise NotImplementedError

    def asked(self, work: W) -> str:
        """The text of the message, as event hooks and linked chats are shown it."""
        return ""

    def name(self, work: W) -> str:
        """The name of the message or the turn, under which linked chats are shown it once."""
        return new_session_id()

    async def gather(self, work: W) -> bool:
        """Before the conversation's place is waited for: whatever the message still needs.

        False if it is not to be run now.
        """
        return True

    async def confirm(self, work: W) -> W | None:
        """After a wait: what is run now, as others had the conversation and may have read the
        message. None if nothing is to be run any more."""
        return work

    def share(self, work: W) -> Share | None:
        """How many turns of its person may run at once; None for any number."""
        return None

    async def collect(self, work: W) -> W:
        """At the last moment: the message with all that came and belongs to it."""
        return work

    async def begin(self, work: W, agent: Any) -> None:
        """The turn is about to run: show that."""

    def begun(self, work: W) -> None:
        """The turn is being run from this moment on."""

    def watch(self, work: W, agent: Any) -> Watcher | None:
        """What hears the events of the turn."""
        return None

    async def run(self, agent: Any, request: TurnRequest, watch: Watcher) -> TurnOutcome:
        """Run the turn."""
        outcome: TurnOutcome = await agent.run(request, watch=watch)
        return outcome

    def keeps(self, work: W, outcome: NotStarted) -> bool:
        """Whether a message that was not begun with waits on in the inbox."""
        return False

    async def close(self, work: W) -> None:
        """The turn is over, however it went: show no more of it."""

    async def settle(self, work: W, outcome: TurnOutcome, agent: Any | None) -> None:
        """Before anybody else has the conversation: follow where it has moved to.

        `agent` is None if there was none. A StoreError is logged, and the answer goes out all the
        same.
        """

    async def deliver(self, work: W, outcome: TurnOutcome) -> None:
        """See the answer out; others may have the conversation meanwhile."""

    async def fault(self, item: W | Abandoned, error: Exception) -> bool:
        """Something failed around a turn, such as looking what waits. False ends the worker."""
        return False

    def release(self) -> None:
        """The worker runs no more, whatever the reason."""

    async def ended(self) -> None:
        """The worker has come to its end: look whether something came in that moment."""

    # While it runs

    async def say(self, work: W, text: str) -> None:
        """Tell the person something that is not part of the answer."""

    def is_asking(self) -> bool:
        """Whether the turn waits for an answer of the person."""
        return False

    # Turns of other processes

    def waits_for(self, turn: Mapping[str, Any]) -> bool:
        """Whether a turn of another process is waited for here; otherwise its agent waits."""
        return True

    def wait_begins(self, work: W, text: str) -> None:
        """Another process runs a turn; `text` says so."""

    async def offer(self, work: W, turn: Mapping[str, Any]) -> None:
        """While a turn of another process is waited for, at every look, or once before an agent
        waits for it: let it read what waits here, or make way for it, if that is what messages are
        to do while a turn runs."""

    def gives_up(self, work: W) -> bool:
        """Whether the person does not want to wait any longer."""
        return False

    async def wait_ends(self, work: W, has_ended: bool) -> None:
        """The other process's turn has ended, or the person gave up: then the work is not run."""

    def door_of(self, turn: Abandoned) -> Door[Any] | None:
        """The door that brings an abandoned turn of this conversation to its end.

        None if that is nobody's here: then the next turn closes it.
        """
        return self

    async def take_over(self, turn: Abandoned) -> W | None:
        """Take the turn over; None if it is not resumed here."""
        raise NotImplementedError
