"""Simple commands: their assignments, words and redirections, and what becomes of their output."""

from __future__ import annotations

import re

from .expand import expand, expand_target, expand_text
from .marks import CONTENT, UNKNOWN, as_literal
from .parse import parse_document
from .shell import Shell
from .state import ANYTHING, Values, as_array, elements_of, values_of
from .syntax import Assignment, Process, Redirect, Script, Simple, Word

DEEPEST = 24
"""Levels of scripts within scripts that are followed."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SimpleWalker(Shell):
    """Follows simple commands; what they are part of is followed in walk."""

    def follow_script(self, script: Script, stdin: str | None) -> str:
        """Follow commands in their order; gives what they print."""
        raise NotImplementedError

    def follow(self, fields: list[str], stdin: str | None) -> str:
        """Follow a program with its arguments; gives what it prints."""
        raise NotImplementedError

    def set_variable(self, name: str, values: Values) -> None:
        """Set a variable."""
        raise NotImplementedError

    # What expansion uses

    def output(self, script: Script) -> str:
        """What a script in a subshell prints."""
        return self.apart(lambda: self.follow_script(script, None))

    def pipe(self, part: Process) -> str:
        """The path of a pipe to a script."""
        self._pipes += 1
        path = f"/dev/fd/{1000 + self._pipes}"
        if part.reads:
            self.apart(lambda: self.follow_script(part.script, UNKNOWN))
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
        """Follow the substitutions in a text that the shell expands a second time."""
        if ("$(" in text or "`" in text) and self._depth < DEEPEST:
            self._depth += 1
            expand_text(self, parse_document(as_literal(text), self.budget))
            self._depth -= 1

    # Commands

    def simple(self, node: Simple, stdin: str | None) -> str:
        """Follow a simple command; gives what it prints."""
        alternatives = expand(self, node.words)
        before = {
            assignment.name: self.state.variables.get(assignment.name)
            for assignment in node.assignments
        }
        exported = before.keys() & self.state.exported
        for assignment in node.assignments:
            self._assign(assignment, is_for_command=bool(node.words))
        stdin, targets = self.redirected(node.redirects, stdin)
        if not node.words:
            return self.delivered("", targets)
        outputs = self._each(alternatives, stdin)
        for name, values in before.items():
            # Some shells keep what was set for a command, some do not.
            now = self.state.variables.get(name, ANYTHING)
            self.state.variables[name] = values_of(now | (ANYTHING if values is None else values))
        self.state.exported -= before.keys() - exported
        return self.delivered(outputs.pop() if len(outputs) == 1 else UNKNOWN, targets)

    def _each(self, alternatives: list[list[str]], stdin: str | None) -> set[str]:
        """Follow every reading of a command; gives what each prints."""
        if len(alternatives) == 1:
            return {self.follow(alternatives[0], stdin)}
        entry, outputs, results = self.state, set(), []
        for fields in alternatives:
            self.state = entry
            self.state = self.fork_state()
            outputs.add(self.follow(fields, stdin))
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
                as_array([*(word for word in elements_of(start) if word), *more])
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
                    elements_of(array)[0] if elements_of(array) else ""
                    for array in self.state.lookup(name)
                )
                values = values_of(start + more for start in old for more in values)
        self.set_variable(name, values)
        if is_for_command:
            self.state.exported.add(name)

    def redirected(
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

    def delivered(self, printed: str, targets: list[tuple[str, bool]]) -> str:
        """Put what was printed where it goes; gives what is left for the pipe."""
        for target, appends in targets:
            self.remember(target, printed, appends=appends)
        return "" if targets else printed


def _only(values: Values) -> str:
    return next(iter(values)) if len(values) == 1 else UNKNOWN
