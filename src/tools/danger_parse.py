"""The grammar of the shell, read tolerantly.

`parse` never raises for what is in the text: it gives every command that a shell could see in it,
and says what was not well-formed. It follows bash, and takes both views where shells differ.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .danger_budget import Budget
from .danger_marks import UNKNOWN
from .danger_syntax import (
    Assignment,
    Branches,
    Function,
    Group,
    HereDocument,
    Item,
    Loop,
    Node,
    Redirect,
    Script,
    Simple,
    Test,
    Text,
    Word,
)
from .danger_words import TooDeep, WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[ \t\n|&;()<>]|\\\n|\Z)")
_PREFIX = re.compile(r"(?:!|time(?:[ \t]+-p)?|coproc)(?=[ \t\n(]|\\\n)")
_REDIRECT = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|(&>>|&>)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\n]*\])?(\+?)=")
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=\(")
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


class Parser(WordReader):
    """Commands, from the words that WordReader reads."""

    def nested(self, text: str) -> Parser:
        """A parser for a text within this one, one level deeper."""
        reader = Parser(text, self._budget, self.depth)
        reader.deeper()
        return reader

    def finish(self) -> None:
        """At the end of the text: here-documents that were announced and never came."""
        for document in self.documents:
            self.error(f"a here-document without its end, {document.delimiter}")
        self.documents.clear()

    # Between commands

    def _skip_blanks(self) -> None:
        blanks = _BLANKS.match(self.text, self.position)
        if blanks:
            self.position = blanks.end()
        if comment := _COMMENT.match(self.text, self.position):
            self.position = comment.end()

    def _skip_separators(self) -> None:
        while True:
            self._skip_blanks()
            if self.at("\n"):
                self._newline()
            elif self.at(";") and not self.at(";;") and not self.at(";&"):
                self.position += 1
            else:
                return

    def _newline(self) -> None:
        self.position += 1
        waiting, self.documents = self.documents, []
        for document in waiting:
            self._read_document(document)

    def _read_document(self, document: HereDocument) -> None:
        start = self.position
        lines: list[str] = []
        while not self.is_at_end:
            end = self.text.find("\n", self.position)
            end = len(self.text) if end < 0 else end
            line = self.text[self.position : end]
            self.position = min(end + 1, len(self.text))
            if document.strips_tabs:
                line = line.lstrip("\t")
            if line == document.delimiter:
                if lines and lines[-1].endswith("\\\n") and not document.quoted:
                    self.error("a here-document whose end may be part of its text")
                break
            lines.append(line + "\n")
        else:
            self.error(f"a here-document without its end, {document.delimiter}")
        self._budget.spend(self.position - start)
        body = "".join(lines)
        if document.quoted:
            document.body = (Text(body, quoted=True),)
        else:
            reader = self.nested(body)
            document.body = reader.document()
            self.errors += [error for error in reader.errors if error not in self.errors]

    def _reserved(self) -> str:
        """The reserved word that comes next, or nothing."""
        match = _RESERVED.match(self.text, self.position)
        return match[0] if match else ""

    def _take(self, word: str) -> bool:
        """Read a reserved word if it comes next."""
        if self._reserved() != word:
            return False
        self.position += len(word)
        return True

    def _expect(self, word: str) -> None:
        self._skip_separators()
        if not self._take(word):
            self.error(f"{word!r} is missing")

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

    def _redirects(self) -> tuple[Redirect, ...]:
        found: list[Redirect] = []
        while True:
            self._skip_blanks()
            redirect = self._redirect()
            if redirect is None:
                return tuple(found)
            found.append(redirect)

    def _redirect(self) -> Redirect | None:
        match = _REDIRECT.match(self.text, self.position)
        if match is None:
            return None
        self.position = match.end()
        operator = match[2] or match[3]
        self._skip_blanks()
        start = self.position
        if operator in (">&", "<&") and self.at("-"):
            self.position += 1  # whatever follows is a word of its own
            return Redirect(operator, (Text("-"),), match[1] or "")
        target = self.word()
        if not target:
            self.error("a redirection to nowhere")
        document = None
        if operator in ("<<", "<<-"):
            raw = self.text[start : self.position].replace("\\\n", "")
            quoted = any(sign in raw for sign in "'\"\\")
            delimiter = "".join(part.text for part in target if isinstance(part, Text))
            if any(not isinstance(part, Text) for part in target):
                self.error("a here-document whose end is computed")
            document = HereDocument(delimiter, quoted, strips_tabs=operator == "<<-")
            self.documents.append(document)
        return Redirect(operator, target, match[1] or "", document)

    def _simple(self) -> list[Node]:
        assignments: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self._skip_blanks()
            if redirect := self._redirect():
                redirects.append(redirect)
                continue
            if not self._is_command_end() and any(one.operator[0] == "&" for one in redirects):
                self.error("words behind a &>, which shells take in different ways")
            if _ARRAY.match(self.text, self.position):
                assignments.append(self._array())
                continue
            if not words and (match := _ASSIGNMENT.match(self.text, self.position)):
                self.position = match.end()
                subscript = self.words_in(match[2][1:-1]) if match[2] else None
                assignments.append(
                    Assignment(match[1], self.word(), None, subscript, bool(match[3]))
                )
                continue
            start = self.position
            word = self.word()
            if word:
                if not words and "\\\n" in self.text[start : self.position]:
                    self.error("a line that is broken within the name of a command")
                words.append(word)
                continue
            if self.at("(") and len(words) == 1 and not assignments and not redirects:
                return self._defined(words[0])
            if not words and not assignments and not redirects:
                return []
            if self.at("("):
                self.error("an unexpected '('")
            return [Simple(tuple(assignments), tuple(words), tuple(redirects))]

    def _is_command_end(self) -> bool:
        return self.is_at_end or self.text[self.position] in "\n;&|)"

    def _array(self) -> Assignment:
        match = _ARRAY.match(self.text, self.position)
        assert match is not None
        self.position = match.end()
        values = []
        while True:
            self._skip_separators()
            value = self.word()
            if not value:
                break
            values.append(value)
        if self.at(")"):
            self.position += 1
        else:
            self.error("an array without its closing parenthesis")
        return Assignment(match[1], (), tuple(values), None, bool(match[2]))

    def _defined(self, name: Word) -> list[Node]:
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
