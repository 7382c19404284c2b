"""The state of one analysis: what is known, the findings so far, where things are."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from .budget import Budget
from .marks import CONTENT, UNKNOWN, has_marks, has_unknown
from .paths import Danger, Places, absolute, is_scratch, read_danger, write_danger
from .state import LONGEST_VALUE, State, Values

_LONGEST_APPENDED = 4_000
"""Characters; what grows piece by piece is not followed for ever."""
_PATH_COST = 32
_MOST_WRITTEN = 1_000
_UNCLEAR = frozenset({"unclear", "unclear-script", "obscured", "write-unknown", "complex"})


class Shell:
    """One analysis: its findings, and the state of the shell at this point."""

    def __init__(
        self, places: Places, environ: Mapping[str, str], budget: Budget, directory: str
    ) -> None:
        self.places = places
        self.user_home = places.user_home
        self.is_plain_sh = False
        """Whether the commands are read by a shell that knows nothing but the standard."""
        self.budget = budget
        self.state = State(frozenset({directory}), environ)
        self.dangers: dict[tuple[str, bool], Danger] = {}
        self.commands: list[str] = []
        """Every program with its arguments, as far as known."""
        self.own_files: frozenset[str] = frozenset()
        """Real paths of files that this conversation wrote before this command."""
        self.wrote: set[str] = set()
        """Files that this command writes, as far as they are known."""
        self.script_budget = Budget(300_000)
        """For all such files together, beside what the command itself may cost."""
        self.followed: set[str] = set()
        """Files of its own whose text is being followed."""
        self.links = False
        """Whether a link was made that leads beside the workspace."""
        self._depth = 0
        self._doubtful = 0
        self._only_hard = 0
        self._active: dict[int, int] = {}
        self._spawning = 0
        self._pipes = 0

    def report(self, key: str, description: str, hard: bool = False) -> None:
        """Note a danger."""
        if (self._doubtful and key in _UNCLEAR) or (self._only_hard and not hard):
            return
        self.dangers.setdefault((key, hard), Danger(key, description, hard))

    def judge(self, danger: Danger | None) -> None:
        """Note a danger, if there is one."""
        if danger:
            self.report(*danger)

    def paths(self, text: str) -> Values:
        """Where a path as it is written may lead."""
        # Following a path costs as much as reading dozens of characters.
        self.budget.spend(_PATH_COST * len(self.state.directories))
        return frozenset(absolute(text, directory) for directory in self.state.directories)

    def reads(self, text: str) -> None:
        """Report why a file should not be read."""
        for path in self.paths(text):
            self.judge(read_danger(path, self.places))

    def writes(self, text: str, content: str | None = None, *, appends: bool = False) -> None:
        """Report why a file should not be written, and remember what is written."""
        scratch = is_scratch(text)
        for path in self.paths(text):
            self.judge(write_danger(path, self.places, scratch=scratch))
            if not has_marks(path) and len(self.wrote) < _MOST_WRITTEN:
                self.wrote.add(path)
        if content is not None:
            self.remember(text, content, appends=appends)

    def remember(self, text: str, content: str, *, appends: bool) -> None:
        """Keep what is written to a file, in case it is read or run later on."""
        for path in self.paths(text):
            if not has_marks(path):
                before = self.state.files.get(path, CONTENT) if appends else ""
                whole = before + content
                longest = _LONGEST_APPENDED if appends else LONGEST_VALUE
                is_known = len(whole) <= longest and not has_unknown(before)
                self.budget.spend(len(whole) // 16)
                self.state.files[path] = whole if is_known else UNKNOWN

    def written(self, text: str, otherwise: str) -> str:
        """What the command itself has written to a file."""
        self.reads(text)
        contents = {self.state.files[path] for path in self.paths(text) if path in self.state.files}
        return contents.pop() if len(contents) == 1 else (UNKNOWN if contents else otherwise)

    def doubted(self, work: Callable[[], str]) -> str:
        """Follow something that was already reported as unclear."""
        self._doubtful += 1
        try:
            return work()
        finally:
            self._doubtful -= 1

    def apart(self, work: Callable[[], str]) -> str:
        """Do something in a subshell: its changes may or may not hold afterwards."""
        parent = self.state
        self.budget.spend(parent.size)
        self.state = parent.fork()
        try:
            return work()
        finally:
            parent.join(self.state)
            self.state = parent

    def fork_state(self) -> State:
        """A copy of the state, at its price."""
        self.budget.spend(self.state.size)
        return self.state.fork()
