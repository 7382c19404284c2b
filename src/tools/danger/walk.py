"""Following a command through a shell, without running anything.

Every way that could be taken is taken. What a command prints is followed into pipes, substitutions
and files, so that what one part hides is seen where another part runs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import dispatch
from .budget import Budget
from .disguises import disguises, plain
from .expand import expand, expand_text
from .marks import UNKNOWN, as_literal, has_unknown, without_unknown
from .parse import parse
from .simple import DEEPEST, SimpleWalker
from .state import (
    ANYTHING,
    LONGEST_VALUE,
    State,
    Values,
    as_array,
    elements_of,
    values_of,
)
from .syntax import (
    Branches,
    Function,
    Group,
    Item,
    Loop,
    Node,
    Script,
    Simple,
    Test,
    Text,
)

_SCRIPT_COST = 20_000
"""So that a command cannot have the same large script looked into for ever."""
_LEAVING = frozenset({"exit", "return", "break", "continue"})


class Walker(SimpleWalker):
    """One analysis: `script` is where it begins."""

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
        return self.follow_script(parsed.script, stdin)

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
        self.budget.spend(_SCRIPT_COST)
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
            # Whatever it is told, a program cannot change the shell that started it.
            return self.apart(lambda: self.follow(command, stdin))
        finally:
            self._depth -= 1

    def follow(self, fields: list[str], stdin: str | None) -> str:
        """Follow a command of the script itself."""
        return dispatch.follow(self, fields, stdin)

    def set_variable(self, name: str, values: Values) -> None:
        """Set a variable, and note if that makes other programs run something."""
        self.state.assign(name, values)
        dispatch.check_variable(self, name, values)

    # Scripts

    def follow_script(self, script: Script, stdin: str | None) -> str:
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
        before = self.fork_state()
        printed.append(self._item(items[index], stdin))
        while items[index].connector in ("&&", "||") and index + 1 < len(items):
            connector = items[index].connector
            index += 1
            after = self.fork_state()
            if connector == "&&":
                not_taken += [before, after]
            else:
                self.state.join(before)
            before = self.fork_state()
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
            return self.simple(node, stdin)
        if isinstance(node, Function):
            return self._define(node)
        stdin, targets = self.redirected(node.redirects, stdin)
        if isinstance(node, Group):
            if node.is_subshell:
                printed = self.apart(lambda: self.follow_script(node.script, stdin))
            else:
                printed = self.follow_script(node.script, stdin)
        elif isinstance(node, Branches):
            printed = self._branches(node, stdin)
        elif isinstance(node, Loop):
            printed = self._loop(node, stdin)
        else:
            printed = self._test(node)
        return self.delivered(printed, targets)

    def _branches(self, node: Branches, stdin: str | None) -> str:
        for word in node.words:
            expand_text(self, word)
        printed = [self.follow_script(node.first, stdin)]
        entry, results = self.state, []
        for script in node.others:
            self.state = entry
            self.state = self.fork_state()
            printed.append(self.follow_script(script, stdin))
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
                values = [element for value in values for element in elements_of(value)]
            self.state.assign(node.variable, values)
        self._endless(node)
        printed = ""
        for turn in range(3):
            before = self.fork_state()
            printed = self.follow_script(node.condition, stdin) + self.follow_script(
                node.body, stdin
            )
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
        """Report a loop that starts processes without end: a slow fork bomb."""
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
