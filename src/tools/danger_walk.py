"""Following a command through a shell, without running anything.

Every way that could be taken is taken. What a command prints is followed into pipes, substitutions
and files, so that what one part hides is seen where another part runs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from . import danger_dispatch
from .danger_budget import Budget
from .danger_expand import expand, expand_target, expand_text
from .danger_marks import (
    CONTENT,
    UNKNOWN,
    as_literal,
    has_marks,
    has_unknown,
    without_unknown,
)
from .danger_parse import parse, parse_document
from .danger_paths import Danger, Places, absolute, is_scratch, read_danger, write_danger
from .danger_state import ANYTHING, LONGEST_VALUE, State, Values, as_array, elements_of, values_of
from .danger_syntax import (
    Assignment,
    Branches,
    Function,
    Group,
    Item,
    Loop,
    Node,
    Process,
    Redirect,
    Script,
    Simple,
    Test,
    Text,
    Word,
)
from .danger_text import disguises, plain

DEEPEST = 24
"""Levels of scripts within scripts that are followed."""

_UNCLEAR = frozenset({"unclear", "unclear-script", "obscured", "write-unknown", "complex"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LEAVING = frozenset({"exit", "return", "break", "continue"})


class Walker:
    """One analysis: what was found, and the state of the shell at this point."""

    def __init__(
        self, places: Places, environ: Mapping[str, str], budget: Budget, directory: str
    ) -> None:
        self.places = places
        self.user_home = places.user_home
        self.is_plain_sh = False
        self.budget = budget
        self.state = State(frozenset({directory}), environ)
        self.dangers: dict[tuple[str, bool], Danger] = {}
        self.commands: list[str] = []
        """Every program with its arguments, as far as known."""
        self._depth = 0
        self._doubtful = 0
        self._only_hard = 0
        self._active: dict[int, int] = {}
        self._spawning = 0
        self._pipes = 0

    # What rules use

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
        return frozenset(absolute(text, directory) for directory in self.state.directories)

    def reads(self, text: str) -> None:
        """Note what speaks against reading a file."""
        for path in self.paths(text):
            self.judge(read_danger(path, self.places))

    def writes(self, text: str, content: str | None = None, *, appends: bool = False) -> None:
        """Note what speaks against writing a file, and remember what is written."""
        scratch = is_scratch(text)
        for path in self.paths(text):
            self.judge(write_danger(path, self.places, scratch=scratch))
            if content is not None and not has_marks(path):
                before = self.state.files.get(path, CONTENT if appends else "")
                whole = (before if appends else "") + content
                self.state.files[path] = whole if len(whole) <= LONGEST_VALUE else UNKNOWN

    def written(self, text: str, otherwise: str) -> str:
        """What the command itself has written to a file."""
        self.reads(text)
        found = {self.state.files[path] for path in self.paths(text) if path in self.state.files}
        return found.pop() if len(found) == 1 else (UNKNOWN if found else otherwise)

    def script(self, text: str, stdin: str | None = None) -> str:
        """Follow a text as commands of this shell; gives what they print."""
        if self._depth >= DEEPEST:
            self.report("complex", "Scripts within scripts, deeper than can be followed")
            return UNKNOWN
        if has_unknown(text):
            self.report("unclear-script", "Runs commands that cannot be known beforehand")
            if not without_unknown(text).strip():
                return UNKNOWN
        text = as_literal(text)
        for disguise in disguises(text):
            self.report("disguise", disguise)
        self._depth += 1
        try:
            looks_like = plain(text)
            if looks_like != text:
                self.apart(lambda: self._text(looks_like, stdin))
            return self._text(text, stdin)
        finally:
            self._depth -= 1

    def _text(self, text: str, stdin: str | None) -> str:
        parsed = parse(text, self.budget)
        for error in parsed.errors:
            self.report("unclear", f"The command cannot be read with certainty: {error}")
        return self._script(parsed.script, stdin)

    def child_script(
        self,
        text: str,
        stdin: str | None = None,
        arguments: Iterable[str] = (),
        name: str = "bash",
        *,
        is_plain_sh: bool = True,
    ) -> str:
        """Follow a text as commands of a shell that is started for it."""
        parent = self.state
        was_plain, self.is_plain_sh = self.is_plain_sh, is_plain_sh
        self.budget.spend(parent.size)
        self.state = parent.child(arguments, name)
        try:
            return self.script(text, stdin)
        finally:
            parent.files.update(self.state.files)
            self.state = parent
            self.is_plain_sh = was_plain

    def existing_script(self, text: str) -> None:
        """Look into a script that is on disk: only what must never be done counts."""
        self._only_hard += 1
        budget, self.budget = self.budget, Budget(300_000)
        try:
            self.child_script(text)
        finally:
            self._only_hard -= 1
            self.budget = budget

    def run(self, command: list[str], stdin: str | None = None) -> str:
        """Follow a program with its arguments; gives what it prints."""
        if self._depth >= DEEPEST:
            self.report("complex", "Commands within commands, deeper than can be followed")
            return UNKNOWN
        self._depth += 1
        try:
            return danger_dispatch.follow(self, command, stdin)
        finally:
            self._depth -= 1

    def doubted(self, work: Callable[[], str]) -> str:
        """Follow something of which it is known already that it is not clear."""
        self._doubtful += 1
        try:
            return work()
        finally:
            self._doubtful -= 1

    # What expansion uses

    def output(self, script: Script) -> str:
        """What a script in a subshell prints."""
        return self.apart(lambda: self._script(script, None))

    def pipe(self, part: Process) -> str:
        """The path of a pipe to a script."""
        self._pipes += 1
        path = f"/dev/fd/{1000 + self._pipes}"
        if part.reads:
            self.apart(lambda: self._script(part.script, UNKNOWN))
        else:
            self.state.files[path] = self.output(part.script)
        return path

    def evaluate(self, word: Word) -> None:
        """Follow what an arithmetic expression runs: subscripts are expanded once more."""
        for text in expand_text(self, word):
            self.expand_again(text)
            for name in set(_IDENTIFIER.findall(text)):
                for value in self.state.variables.get(name, ()):
                    self.expand_again(value)

    def expand_again(self, text: str) -> None:
        if ("$(" in text or "`" in text) and self._depth < DEEPEST:
            self._depth += 1
            expand_text(self, parse_document(as_literal(text), self.budget))
            self._depth -= 1

    # Scripts

    def apart(self, work: Callable[[], str]) -> str:
        """Do something in a subshell: what it changes may or may not be the case afterwards."""
        parent = self.state
        self.budget.spend(parent.size)
        self.state = parent.fork()
        try:
            return work()
        finally:
            parent.join(self.state)
            self.state = parent

    def _script(self, script: Script, stdin: str | None) -> str:
        printed: list[str] = []
        items = script.items
        index = 0
        while index < len(items):
            self.budget.spend()
            is_chain = items[index].connector in ("&&", "||") and index + 1 < len(items)
            if not is_chain:
                directories = self.state.directories
                printed.append(self._item(items[index], stdin))
                if directories != self.state.directories:
                    # It may have failed to change its directory, and gone on.
                    self.state.directories = values_of(self.state.directories | directories)
                index += 1
                continue
            index = self._chain(items, index, stdin, printed)
        text = "".join(printed)
        return text if len(text) <= LONGEST_VALUE else UNKNOWN

    def _chain(
        self, items: tuple[Item, ...], index: int, stdin: str | None, printed: list[str]
    ) -> int:
        """Follow `a && b || c`; returns the index of what comes behind it."""
        not_taken: list[State] = []
        before = self._fork()
        printed.append(self._item(items[index], stdin))
        while items[index].connector in ("&&", "||") and index + 1 < len(items):
            connector = items[index].connector
            index += 1
            after = self._fork()
            if connector == "&&":
                not_taken += [before, after]
            else:
                self.state.join(before)
            before = self._fork()
            printed.append(self._item(items[index], stdin))
            if connector == "||":
                if self._leaves(items[index]):
                    self.state = after
                else:
                    self.state.join(after)
        for state in not_taken:
            self.state.join(state)
        return index + 1

    def _leaves(self, item: Item) -> bool:
        """Whether nothing runs behind this: `… || exit 1`."""
        if len(item.commands) != 1:
            return False
        node = item.commands[0]
        if isinstance(node, Group) and node.script.items and not node.is_subshell:
            return self._leaves(node.script.items[-1])
        if not isinstance(node, Simple) or not node.words or len(node.words[0]) != 1:
            return False
        name = node.words[0][0]
        return (
            isinstance(name, Text)
            and name.text in _LEAVING
            and name.text not in self.state.functions
        )

    def _fork(self) -> State:
        self.budget.spend(self.state.size)
        return self.state.fork()

    def _item(self, item: Item, stdin: str | None) -> str:
        spawns = len(item.commands) > 1 or item.connector == "&"
        self._spawning += spawns
        try:
            if len(item.commands) == 1:
                return self._node(item.commands[0], stdin)
            for command in item.commands:
                stdin = self._piped(command, stdin)
            return stdin or ""
        finally:
            self._spawning -= spawns

    def _piped(self, command: Node, stdin: str | None) -> str:
        return self.apart(lambda: self._node(command, stdin))

    def _node(self, node: Node, stdin: str | None) -> str:
        self.budget.spend()
        if isinstance(node, Simple):
            return self._simple(node, stdin)
        if isinstance(node, Function):
            return self._define(node)
        stdin, targets = self._redirected(node.redirects, stdin)
        if isinstance(node, Group):
            if node.is_subshell:
                printed = self.apart(lambda: self._script(node.script, stdin))
            else:
                printed = self._script(node.script, stdin)
        elif isinstance(node, Branches):
            printed = self._branches(node, stdin)
        elif isinstance(node, Loop):
            printed = self._loop(node, stdin)
        else:
            printed = self._test(node)
        return self._delivered(printed, targets)

    def _branches(self, node: Branches, stdin: str | None) -> str:
        for word in node.words:
            expand_text(self, word)
        printed = [self._script(node.first, stdin)]
        entry, results = self.state, []
        for script in node.others:
            self.state = entry
            self.state = self._fork()
            printed.append(self._script(script, stdin))
            results.append(self.state)
        self.state = entry
        for result in results:
            entry.join(result)
        texts = [text for text in printed if text]
        return texts[0] if len(texts) == 1 else (UNKNOWN if texts else "")

    def _loop(self, node: Loop, stdin: str | None) -> str:
        if node.variable:
            values: Iterable[str] = self.state.lookup("@")
            if node.words is not None:
                values = (field for fields in expand(self, node.words) for field in fields)
            else:
                values = [one for value in values for one in elements_of(value)]
            self.state.assign(node.variable, values)
        self._endless(node)
        printed = ""
        for turn in range(3):
            before = self._fork()
            printed = self._script(node.condition, stdin) + self._script(node.body, stdin)
            self.state.join(before)
            changed = [
                name
                for name, known in self.state.variables.items()
                if before.variables.get(name) != known
            ]
            if not changed and before.directories == self.state.directories:
                break
            if turn == 1:
                for name in changed:
                    self.state.variables[name] = ANYTHING
                if before.directories != self.state.directories:
                    self.state.directories = ANYTHING
        return UNKNOWN if printed else ""

    def _endless(self, node: Loop) -> None:
        """A loop that starts processes without end is a fork bomb in slow motion."""
        items = node.condition.items
        if node.variable or len(items) != 1 or len(items[0].commands) != 1:
            return
        command = items[0].commands[0]
        is_true = isinstance(command, Simple) and command.words in (
            ((Text("true"),),),
            ((Text(":"),),),
        )
        if is_true and any(item.connector == "&" for item in node.body.items):
            self.report("endless", "Starts processes in an endless loop")

    def _test(self, node: Test) -> str:
        for word in node.words:
            self.evaluate(word)
        if node.script is not None:
            script = node.script
            self.doubted(lambda: self.output(script))
        return ""

    def _define(self, node: Function) -> str:
        self.state.functions[node.name] = node.body
        self.call(node.name, [UNKNOWN], None)
        return ""

    def call(self, name: str, arguments: list[str], stdin: str | None) -> str:
        """Follow a function of the script."""
        body = self.state.functions[name]
        if id(body) in self._active:
            if self._spawning > self._active[id(body)]:
                self.report("fork-bomb", "Starts itself again and again: a fork bomb", hard=True)
            return UNKNOWN
        before = self.state.variables.get("@")
        self._active[id(body)] = self._spawning

        def follow() -> str:
            self.state.variables["@"] = frozenset({as_array(arguments)})
            return self._node(body, stdin)

        try:
            return self.apart(follow)
        finally:
            del self._active[id(body)]
            if before is None:
                self.state.variables.pop("@", None)
            else:
                self.state.variables["@"] = before

    # Simple commands

    def _simple(self, node: Simple, stdin: str | None) -> str:
        alternatives = expand(self, node.words)
        before = {one.name: self.state.variables.get(one.name) for one in node.assignments}
        exported = before.keys() & self.state.exported
        for assignment in node.assignments:
            self._assign(assignment, is_for_command=bool(node.words))
        stdin, targets = self._redirected(node.redirects, stdin)
        if not node.words:
            return self._delivered("", targets)
        outputs = self._each(alternatives, stdin)
        for name, values in before.items():
            # Some shells keep what was set for a command, some do not.
            now = self.state.variables.get(name, ANYTHING)
            self.state.variables[name] = values_of(now | (ANYTHING if values is None else values))
        self.state.exported -= before.keys() - exported
        return self._delivered(outputs.pop() if len(outputs) == 1 else UNKNOWN, targets)

    def _each(self, alternatives: list[list[str]], stdin: str | None) -> set[str]:
        """Follow every reading of a command; gives what each prints."""
        if len(alternatives) == 1:
            return {danger_dispatch.follow(self, alternatives[0], stdin)}
        entry, outputs, results = self.state, set(), []
        for fields in alternatives:
            self.state = entry
            self.state = self._fork()
            outputs.add(danger_dispatch.follow(self, fields, stdin))
            results.append(self.state)
        self.state = results.pop()
        for result in results:
            self.state.join(result)
        return outputs

    def _assign(self, assignment: Assignment, is_for_command: bool) -> None:
        name = assignment.name
        if assignment.values is not None:
            fields = expand(self, assignment.values)
            old = self.state.lookup(name) if assignment.appends else frozenset({""})
            values = values_of(
                as_array([*(one for one in elements_of(start) if one), *more])
                for start in old
                for more in fields
            )
        else:
            values = expand_text(self, assignment.value)
            if assignment.subscript is not None:
                self.evaluate(assignment.subscript)
                for subscript in expand_text(self, assignment.subscript):
                    self.state.variables[f"{name}[{subscript}]"] = values
                values = ANYTHING
            elif assignment.appends:
                old = frozenset(
                    elements_of(one)[0] if elements_of(one) else ""
                    for one in self.state.lookup(name)
                )
                values = values_of(start + more for start in old for more in values)
        self.set(name, values)
        if is_for_command:
            self.state.exported.add(name)

    def set(self, name: str, values: Values) -> None:
        """Set a variable, and note if that makes other programs run something."""
        self.state.assign(name, values)
        danger_dispatch.check_variable(self, name, values)

    def _redirected(
        self, redirects: tuple[Redirect, ...], stdin: str | None
    ) -> tuple[str | None, list[tuple[str, bool]]]:
        """Input as redirected, and the files that output goes to (with whether it is appended)."""
        targets: list[tuple[str, bool]] = []
        for redirect in redirects:
            operator = redirect.operator
            if redirect.document is not None:
                stdin = _only(expand_text(self, redirect.document.body))
            elif operator == "<<<":
                stdin = _only(expand_text(self, redirect.target)) + "\n"
            else:
                for target in expand_target(self, redirect.target):
                    stdin = self._redirect(redirect, target, stdin, targets)
        return stdin, targets

    def _redirect(
        self,
        redirect: Redirect,
        target: str,
        stdin: str | None,
        targets: list[tuple[str, bool]],
    ) -> str | None:
        operator = redirect.operator
        if target.startswith(("/dev/tcp/", "/dev/udp/")):
            self.report("network-pipe", "Connects the shell to the network")
            return UNKNOWN
        if operator in (">&", "<&") and (target.rstrip("-").isdigit() or target == "-"):
            return stdin
        if self._doubtful:
            return stdin
        if operator in ("<", "<>", "<&"):
            stdin = self.written(target, CONTENT)
        if operator not in ("<", "<&"):
            goes_to_file = redirect.descriptor in ("", "1") or operator.startswith("&")
            if goes_to_file:
                targets.append((target, operator.endswith(">>")))
            self.writes(target)
        return stdin

    def _delivered(self, printed: str, targets: list[tuple[str, bool]]) -> str:
        """Put what was printed where it goes; gives what is left for the pipe."""
        for target, appends in targets:
            for path in self.paths(target):
                if not has_marks(path):
                    before = self.state.files.get(path, CONTENT) if appends else ""
                    self.state.files[path] = before + printed
        return "" if targets else printed


def _only(values: Values) -> str:
    return next(iter(values)) if len(values) == 1 else UNKNOWN
