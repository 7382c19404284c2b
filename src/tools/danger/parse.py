"""The grammar of the shell, read tolerantly.

`parse` never raises for what is in the text: it gives every command that a shell could see in it,
and says what was not well-formed. It follows bash, and takes both views where shells differ.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .budget import Budget
from .command_reader import CommandReader
from .marks import UNKNOWN
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
    Word,
)
from .word_reader import TooDeep

_PREFIX = re.compile(r"(?:!|time(?:[ \t]+-p)?|coproc)(?=[ \t\n(]|\\\n)")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEST_END = re.compile(r"\]\](?=[ \t\n|&;()<>]|\\\n|\Z)")
_TEST_SIGN = re.compile(r"[()|&;<>]+")
_CLOSERS = frozenset({"then", "else", "elif", "fi", "do", "done", "esac", "}"})
_NO_ENDS: frozenset[str] = frozenset()
_NOTHING = Script()


class Parsed(NamedTuple):
    """The commands in a text, and what was not understood of it."""

    script: Script
    errors: list[str]


def parse(text: str, budget: Budget, depth: int = 0) -> Parsed:
    """Read a text as a shell would."""
    parser = Parser(text, budget, depth)
    try:
        script = parser.commands(_NO_ENDS)
        parser.finish()
    except TooDeep:
        return Parsed(_NOTHING, ["nested too deeply"])
    return Parsed(script, parser.errors)


def parse_document(text: str, budget: Budget) -> Word:
    """Read a text in which only variables and substitutions mean something."""
    try:
        return Parser(text, budget).document()
    except TooDeep:
        return (Text(UNKNOWN, quoted=True),)


class Parser(CommandReader):
    """Lists, pipelines and compound commands."""

    def nested(self, text: str) -> Parser:
        """A parser for a text within this one, one level deeper."""
        reader = Parser(text, self._budget, self.depth)
        reader.deeper()
        return reader

    # Lists and pipelines

    def commands(self, ends: frozenset[str]) -> Script:
        """Read commands up to one of `ends`, which stays unread."""
        self.deeper()
        items: list[Item] = []
        while True:
            self._skip_separators()
            if self.is_at_end or self._is_end(ends):
                break
            start = self.position
            items.append(self._item())
            if self.position == start:
                self._stray()
        self.depth -= 1
        return Script(tuple(items))

    def _is_end(self, ends: frozenset[str]) -> bool:
        if self.at(")"):
            return ")" in ends
        if self.at(";;") or self.at(";&"):
            return ";;" in ends
        return bool(ends) and self._reserved() in ends

    def _stray(self) -> None:
        """Something that cannot begin a command: note it, step over it, go on."""
        word = self._reserved()
        what = word if word in _CLOSERS else self.text[self.position]
        self.error(f"an unexpected {what!r}")
        self.position += len(what)

    def _item(self) -> Item:
        commands = [*self._command()]
        while True:
            self._skip_blanks()
            if self.at("||") or not self.at("|"):
                break
            self.position += 2 if self.at("|&") else 1
            self._skip_separators()
            commands += self._command()
        for connector in ("&&", "||", "&"):
            if self.at(connector):
                self.position += len(connector)
                return Item(tuple(commands), connector)
        return Item(tuple(commands))

    # Commands

    def _command(self) -> list[Node]:
        """Read a command; none if nothing here can begin one."""
        self._skip_blanks()
        while prefix := _PREFIX.match(self.text, self.position):
            self.position = prefix.end()
            self._skip_blanks()
        if self.at("(("):
            inside = self.arithmetic_text()
            if inside is not None:
                words = (self.words_in(inside),)
                script = self.as_commands(inside)
                return [Test(words, self._redirects(), script)]
        if self.at("("):
            self.position += 1
            script = self.substitution(")")
            return [Group(script, self._redirects(), is_subshell=True)]
        reserved = self._reserved()
        compound = {
            "{": self._braces, "if": self._if, "while": self._while, "until": self._while,
            "for": self._for, "select": self._for, "case": self._case, "[[": self._test,
            "function": self._function,
        }.get(reserved)  # fmt: skip
        if compound:
            self.position += len(reserved)
            return [compound()]
        if reserved in _CLOSERS:
            return []
        return self._simple()

    def defined(self, name: Word) -> list[Node]:
        """Behind a name, at a parenthesis: the definition of a function."""
        self.position += 1
        self._skip_blanks()
        if not self.at(")"):
            self.error("an unexpected '('")
            return [Simple((), (name,), ())]
        self.position += 1
        plain = "".join(part.text if isinstance(part, Text) else "?" for part in name)
        return [self._function_body(plain)]

    def _function(self) -> Node:
        self._skip_blanks()
        name = "".join(part.text if isinstance(part, Text) else "?" for part in self.word())
        self._skip_blanks()
        if self.at("("):
            self.position += 1
            self._skip_blanks()
            self.position += 1 if self.at(")") else 0
        return self._function_body(name)

    def _function_body(self, name: str) -> Node:
        self._skip_separators()
        self.deeper()
        body = self._command()
        self.depth -= 1
        if not body:
            self.error("a function without a body")
        return Function(name, body[0] if body else Group(_NOTHING))

    def _braces(self) -> Node:
        script = self.commands(frozenset({"}"}))
        self._expect("}")
        return Group(script, self._redirects())

    def _if(self) -> Node:
        first = self.commands(frozenset({"then"}))
        self._expect("then")
        others = []
        while True:
            others.append(self.commands(frozenset({"elif", "else", "fi"})))
            if self._take("elif"):
                others.append(self.commands(frozenset({"then"})))
                self._expect("then")
            elif not self._take("else"):
                break
        self._expect("fi")
        return Branches(first, tuple(others), self._redirects())

    def _body(self) -> Script:
        self._skip_separators()
        if self._take("{"):
            body = self.commands(frozenset({"}"}))
            self._expect("}")
        else:
            self._expect("do")
            body = self.commands(frozenset({"done"}))
            self._expect("done")
        return body

    def _while(self) -> Node:
        condition = self.commands(frozenset({"do"}))
        body = self._body()
        return Loop(condition, body, self._redirects())

    def _for(self) -> Node:
        self._skip_blanks()
        if self.at("(("):
            inside = self.arithmetic_text()
            if inside is None:
                self.error("a loop that no shell knows")
                return Group(_NOTHING)
            condition = Item((Test((self.words_in(inside),), (), self.as_commands(inside)),))
            body = self._body()
            return Loop(Script((condition,)), body, self._redirects())
        name = _IDENTIFIER.match(self.text, self.position)
        if name is None:
            self.error("a loop without a variable")
        else:
            self.position = name.end()
        self._skip_separators()
        words: list[Word] | None = None
        if self._take("in"):
            words = []
            while True:
                self._skip_blanks()
                word = self.word()
                if not word:
                    break
                words.append(word)
        body = self._body()
        given = None if words is None else tuple(words)
        return Loop(_NOTHING, body, self._redirects(), name[0] if name else "", given)

    def _case(self) -> Node:
        self._skip_blanks()
        words = [self.word()]
        self._expect("in")
        others = []
        while True:
            self._skip_separators()
            if self._take("esac"):
                break
            if self.is_at_end:
                self.error("'esac' is missing")
                break
            start = self.position
            self.position += 1 if self.at("(") else 0
            while True:
                self._skip_blanks()
                words.append(self.word())
                self._skip_blanks()
                if not self.at("|"):
                    break
                self.position += 1
            if self.at(")"):
                self.position += 1
            else:
                self.error("a pattern without its closing parenthesis")
            others.append(self.commands(frozenset({";;", "esac"})))
            while self.at(";") or self.at("&"):
                self.position += 1
            if self.position == start:
                self._stray()
        return Branches(_NOTHING, tuple(others), self._redirects(), tuple(words))

    def _test(self) -> Node:
        words = []
        start = self.position
        while True:
            self._skip_blanks()
            if self.is_at_end:
                self.error("']]' is missing")
                break
            if _TEST_END.match(self.text, self.position):
                self.position += 2
                break
            if self.at("\n"):
                self._newline()
            elif sign := _TEST_SIGN.match(self.text, self.position):
                self.position = sign.end()
            else:
                words.append(self.word())
        # A shell that does not know `[[` sees commands in it.
        script = self.as_commands(self.text[start : self.position - 2])
        return Test(tuple(words), self._redirects(), script)
