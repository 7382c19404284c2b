"""What the suite asks of an implementation: a handful of verbs, each with real processes behind it.

A *home* is a folder that holds everything one conversation needs. `talk`, `recover` and `fork` each
start a process, let it work and end it with SIGKILL: at the point that was asked for, or when it
has nothing more to do. `history`, `waiting`, `forks` and `faults` only look at what is left.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from .counter import counter
from .script import Message

SERVER_DEATHS = {"backend": 6, "crash": 3, "postmaster": 1}
"""What of a server may die, and how often each does among these."""

SUBJECTS = ("turn", "inbox", "approval", "compression")
"""What only one of many processes may take."""

ATTEMPTS = 3
"""A turn may be closed when so many processes have died in it and got nowhere; not sooner."""


class Death(NamedTuple):
    """Where a process is to die."""

    where: str
    """`before`, `during` or `after` its n-th write to the store; `tool-before` or `tool-after` the
    n-th effect of a tool; at a `moment`, so many seconds after the first prompt was sent."""
    number: float
    what: str = ""
    """What dies there instead of the process, which has to go on: with a store on a server, the
    process's connections (`backend`), the server's own process behind one of them (`crash`), or the
    whole server, which is started again (`postmaster`)."""

    @property
    def is_named(self) -> bool:
        """Whether the process itself knows the point when it comes."""
        return self.where != "moment"

    def __str__(self) -> str:
        return f"{self.where}:{self.number:g}" + (f" {self.what}" if self.what else "")


class Talk(NamedTuple):
    """What a process said of the prompts it got before it died."""

    accepted: list[str]
    """Those it took: from then on they must not be lost."""
    answered: list[str]
    """Those whose answer it gave."""


class Race(NamedTuple):
    """What became of one thing that several processes tried to take."""

    claimed: int
    """How many said that they have it."""
    taken: int
    """How often the store says that it was taken."""


class Implementation(Protocol):
    """An agent that keeps conversations in a home."""

    name: str
    forks_anywhere: bool | None
    """Whether it can fork at any message (True), only at the last one (False) or not at all."""
    subjects: tuple[str, ...]
    """Which of `SUBJECTS` its processes can compete for."""

    def begin(self, home: Path) -> None:
        """Make a home (the folder exists) ready for its one conversation."""

    def talk(self, home: Path, prompts: list[str], death: Death | None = None) -> Talk:
        """Start, recover, go on with the conversation: each prompt when the last is answered.

        Each prompt's turn is that of `script.turn`. Without `death` every prompt must be answered.
        """

    def recover(self, home: Path, death: Death | None = None) -> None:
        """Start, do whatever is done after a crash until nothing is left to do, and stop.

        A turn that was cut off is finished; it may be closed if `ATTEMPTS` processes died in it.
        """

    def writes(self, home: Path) -> int:
        """How many writes the last process in this home began."""

    def reached(self, home: Path) -> bool:
        """Whether the last process in this home that was given a named point died there."""

    def history(self, home: Path) -> list[Message]:
        """The conversation as it is stored."""

    def waiting(self, home: Path) -> list[str]:
        """The prompts that were accepted and not begun with."""

    def faults(self, home: Path) -> list[str]:
        """What the implementation's own check of its store finds wrong; opening it may raise."""

    def fork(self, home: Path, at: int, death: Death | None = None) -> None:
        """Branch the conversation behind its first `at` messages."""

    def forks(self, home: Path) -> list[list[Message]]:
        """The histories of all branches, oldest first."""

    def compete(self, home: Path, subject: str, processes: int, death: Death | None) -> Race:
        """Let processes race to take one of `SUBJECTS`; the first of them has the `death`.

        A process that took it and was killed leaves it to be recovered; that is done here too.
        """


def effects(home: Path) -> list[str]:
    """The marks that tools have left: lines in a file, and counts of the counter over HTTP."""
    file = home / "effects"
    lines = file.read_text().split() if file.exists() else []
    return lines + counter().marks(home.name)
