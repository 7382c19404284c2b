"""Reading the words of a shell command: quotes, escapes, variables and substitutions.

The reader goes over the text once, whatever is in it. What is not well-formed is read as far as
possible and noted in `errors`; a caller must take a note as "not understood".
"""

from __future__ import annotations

import re

from .budget import Budget
from .syntax import (
    Ansi,
    Arithmetic,
    Choice,
    HereDocument,
    Output,
    Part,
    Process,
    Script,
    Text,
    Variable,
    Word,
)

DEEPEST = 40
"""Levels of nesting that are followed."""

_PLAIN = re.compile(r"[^ \t\n|&;()<>\\'\"$`?*+@!]+")
_IN_DOUBLE_QUOTES = re.compile(r'[^"\\$`]+')
_IN_DOCUMENT = re.compile(r"[^\\$`]+")
_IN_OPERAND = re.compile(r"[^}\\'\"$`]+")
_IN_PATTERN = re.compile(r"[^)(\\'\"$`]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-]")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*#?$!_-]")
_OPERATOR = re.compile(r":[-=+?]|[-=+?]|##?|%%?|//|/[#%]?|\^\^?|,,?|~~?|@[A-Za-z]|:")
_SINGLE_QUOTED = re.compile(r"'([^']*)'")
_ANSI_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKED = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c(.)|(.))",
    re.DOTALL,
)
_ARITHMETIC_SIGN = re.compile(r"[()\\'\"`]")
_ANSI_LETTERS = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t",
    "v": "\v",
}  # fmt: skip


def decode_ansi(text: str) -> str:
    """What `$'text'` stands for; bytes that are written one by one are put together."""
    if "\\" not in text:
        return text

    def one(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits:
            code = int(digits, 16)
            return chr(code) if 0 < code < 0x110000 else ""
        if match[4]:
            return chr(int(match[4], 8) & 0xFF)
        if match[5]:
            return chr(ord(match[5]) & 0x1F)
        return _ANSI_LETTERS.get(match[6], match[6] if match[6] in "\\'\"?" else "\\" + match[6])

    decoded = _ANSI_ESCAPE.sub(one, text)
    try:
        return decoded.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return decoded


class TooDeep(Exception):
    """More levels of nesting than anybody writes."""


class WordReader:
    """A position in a text, and what can be read there."""

    def __init__(self, text: str, budget: Budget, depth: int = 0) -> None:
        budget.spend(len(text))
        self.text = text
        self.position = 0
        self.depth = depth
        self.errors: list[str] = []
        self.documents: list[HereDocument] = []
        self._budget = budget

    def commands(self, ends: frozenset[str]) -> Script:
        """Read commands up to one of `ends`; the grammar is in parse."""
        raise NotImplementedError

    def nested(self, text: str) -> WordReader:
        """A reader for a text within this one."""
        raise NotImplementedError

    def deeper(self) -> None:
        """Enter a level of nesting."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise TooDeep

    def error(self, what: str) -> None:
        """Note that the text is not well-formed."""
        if what not in self.errors:
            self.errors.append(what)

    def at(self, text: str) -> bool:
        """Whether `text` comes next."""
        return self.text.startswith(text, self.position)

    @property
    def is_at_end(self) -> bool:
        """Whether everything has been read."""
        return self.position >= len(self.text)

    def word(self) -> Word:
        """Read a word; empty if none begins here."""
        parts: list[Part] = []
        while not self.is_at_end:
            char = self.text[self.position]
            if char in "<>" and self.at(char + "("):
                parts.append(self._process(char))
            elif char in "?*+@!":
                self._maybe_choice(parts, char)
            elif char in " \t\n|&;()<>":
                break
            elif not self._quoted_or_expanded(parts, char):
                plain = _PLAIN.match(self.text, self.position)
                assert plain is not None
                parts.append(Text(plain[0]))
                self.position = plain.end()
        return tuple(parts)

    def _maybe_choice(self, parts: list[Part], char: str) -> None:
        self.position += 1
        is_first_bang = char == "!" and not parts
        if not self.at("(") or self.at("()") or is_first_bang:
            parts.append(Text(char))
            return
        self.position += 1
        self.deeper()
        inner: list[Part] = []
        open_parens = 1
        while not self.is_at_end:
            char = self.text[self.position]
            if char in "()":
                open_parens += 1 if char == "(" else -1
                self.position += 1
                if not open_parens:
                    break
            elif not self._quoted_or_expanded(inner, char):
                plain = _IN_PATTERN.match(self.text, self.position)
                assert plain is not None
                self.position = plain.end()
        else:
            self.error("a pattern without its closing parenthesis")
        self.depth -= 1
        parts.append(Choice(tuple(inner)))

    def _quoted_or_expanded(self, parts: list[Part], char: str) -> bool:
        """Read a quoted or expanded part if `char` begins one."""
        if char == "\\":
            self._backslash(parts)
        elif char == "'":
            self._single_quotes(parts)
        elif char == '"':
            self.position += 1
            self._double_quotes(parts)
        elif char == "$":
            self._dollar(parts, quoted=False)
        elif char == "`":
            parts.append(self._backticks(quoted=False))
        else:
            return False
        return True

    def _backslash(self, parts: list[Part]) -> None:
        following = self.text[self.position + 1 : self.position + 2]
        self.position += 2
        if not following:
            parts.append(Text("\\", quoted=True))
        elif following != "\n":
            parts.append(Text(following, quoted=True))

    def _single_quotes(self, parts: list[Part]) -> None:
        match = _SINGLE_QUOTED.match(self.text, self.position)
        if match:
            parts.append(Text(match[1], quoted=True))
            self.position = match.end()
        else:
            self._unbalanced(parts, "a ' without its partner")

    def _unbalanced(self, parts: list[Part], what: str) -> None:
        self.error(what)
        parts.append(Text(self.text[self.position + 1 :], quoted=True))
        self.position = len(self.text)

    def _double_quotes(self, parts: list[Part]) -> None:
        """Read up to the closing quote."""
        before = len(parts)
        self._inside(parts, _IN_DOUBLE_QUOTES, '"')
        if len(parts) == before:
            parts.append(Text("", quoted=True))
        if self.is_at_end:
            self.error('a " without its partner')
        self.position += 1

    def document(self) -> Word:
        """Read all of the text as the body of a here-document that is expanded."""
        parts: list[Part] = []
        self._inside(parts, _IN_DOCUMENT, "")
        return tuple(parts)

    def _inside(self, parts: list[Part], plain: re.Pattern[str], end: str) -> None:
        """Read text in which only `$`, backticks and some escapes mean something."""
        while not self.is_at_end:
            char = self.text[self.position]
            if char == end:
                return
            if char == "\\":
                following = self.text[self.position + 1 : self.position + 2]
                if following and following in f"$`\\\n{end}":
                    if following != "\n":
                        parts.append(Text(following, quoted=True))
                    self.position += 2
                else:
                    parts.append(Text("\\", quoted=True))
                    self.position += 1
            elif char == "$":
                self._dollar(parts, quoted=True)
            elif char == "`":
                parts.append(self._backticks(quoted=True))
            else:
                match = plain.match(self.text, self.position)
                assert match is not None
                parts.append(Text(match[0], quoted=True))
                self.position = match.end()

    def _dollar(self, parts: list[Part], quoted: bool) -> None:
        self.position += 1
        if self.at("\\\n"):
            self.error("a line that is broken behind a $")
        if self.at("(("):
            parts.append(self._arithmetic_or_output(quoted))
        elif self.at("("):
            self.position += 1
            parts.append(Output(self.substitution(")"), quoted))
        elif self.at("["):
            parts.append(self._old_arithmetic())
        elif self.at("{"):
            self.position += 1
            parts.append(self._braced(quoted))
        elif self.at("'") and not quoted:
            match = _ANSI_QUOTED.match(self.text, self.position)
            if match:
                parts.append(Ansi(decode_ansi(match[1]), "$" + match[1]))
                self.position = match.end()
                if "\\'" in match[1]:
                    self.error("a \\' that shells take in different ways")
            else:
                self._unbalanced(parts, "a $' without its partner")
        elif self.at('"') and not quoted:
            self.error('a $" that shells take in different ways')
            self.position += 1
            self._double_quotes(parts)
        elif name := _PLAIN_NAME.match(self.text, self.position):
            parts.append(Variable(name[0], quoted))
            self.position = name.end()
            if self.at("\\\n"):
                self.error("a line that is broken within a name")
        else:
            parts.append(Text("$", quoted))

    def substitution(self, end: str) -> Script:
        """Read commands up to and with their closing parenthesis or brace."""
        script = self.commands(frozenset({end}))
        if self.at(end):
            self.position += 1
        else:
            self.error(f"a {end} is missing")
        return script

    def _arithmetic_or_output(self, quoted: bool) -> Part:
        inside = self.arithmetic_text()
        if inside is None:  # `$((cmd); …)`
            self.position += 1
            return Output(self.substitution(")"), quoted)
        return Arithmetic(self.words_in(inside), self.as_commands(inside))

    def _old_arithmetic(self) -> Part:
        end = self.text.find("]", self.position)
        if end < 0:
            self.error("a $[ without its closing ]")
            end = len(self.text)
        inside = self.text[self.position + 1 : end]
        self.position = end + 1
        return Arithmetic(self.words_in(inside), Script())

    def arithmetic_text(self) -> str | None:
        """At `((`: read up to the matching `))` and give what is between, or None if it is none.

        What does not end in `))` are commands in nested subshells.
        """
        level = 0
        read_to = self.position
        for match in _ARITHMETIC_SIGN.finditer(self.text, self.position):
            self._budget.spend(match.end() - read_to)
            read_to = match.end()
            if match[0] not in "()":
                break  # quotes may hide a parenthesis; commands are read with care for them
            level += 1 if match[0] == "(" else -1
            if level == 1 and match[0] == ")":
                if not self.text.startswith(")", match.end()):
                    return None
                inside = self.text[self.position + 2 : match.start()]
                self.position = match.end() + 1
                return inside
        return None

    def words_in(self, text: str) -> Word:
        """The text of an expression with its variables and substitutions."""
        reader = self.nested(text)
        parts: list[Part] = []
        reader._inside(parts, _IN_DOCUMENT, "")
        self.errors += [error for error in reader.errors if error not in self.errors]
        return tuple(parts)

    def as_commands(self, text: str) -> Script:
        """An expression read as commands, just in case; its being malformed means nothing."""
        return self.nested(text).commands(frozenset())

    def _backticks(self, quoted: bool) -> Part:
        match = _BACKTICKED.match(self.text, self.position)
        if not match:
            self.error("a ` without its partner")
            inside = self.text[self.position + 1 :]
            self.position = len(self.text)
        else:
            inside = match[1]
            self.position = match.end()
        inside = re.sub(r'\\([\\$`"])' if quoted else r"\\([\\$`])", r"\1", inside)
        reader = self.nested(inside)
        script = reader.commands(frozenset())
        self.errors += [error for error in reader.errors if error not in self.errors]
        return Output(script, quoted)

    def _process(self, direction: str) -> Part:
        self.position += 2
        return Process(self.substitution(")"), reads=direction == ">")

    def _braced(self, quoted: bool) -> Part:
        """Read `${…}` behind its brace."""
        if self.text[self.position : self.position + 1] in (" ", "\t", "\n", "|"):
            self.position += 1  # `${ commands; }` of newer shells
            return Output(self.substitution("}"), quoted)
        self.deeper()
        operator = ""
        if self.at("#") and not self.at("#}"):
            operator = "length"
            self.position += 1
        elif self.at("!") and not self.at("!}"):
            operator = "indirect"
            self.position += 1
        name = _NAME.match(self.text, self.position)
        if name:
            self.position = name.end()
        subscript = self._subscript()
        operand: Word = ()
        if not self.at("}"):
            match = _OPERATOR.match(self.text, self.position)
            if match:
                self.position = match.end()
                operator = f"{operator} {match[0]}" if operator else match[0]
            operand = self._operand(quoted)
            if not name or not match:
                self.error("an expansion that no shell knows")
        elif not name:
            self.error("an expansion without a name")
        if self.at("}"):
            self.position += 1
        else:
            self.error("a ${ without its closing brace")
        self.depth -= 1
        return Variable(name[0] if name else "", quoted, operator, operand, subscript, True)

    def _subscript(self) -> Word | None:
        if not self.at("["):
            return None
        end = self.text.find("]", self.position)
        if end < 0:
            self.error("a [ without its closing ]")
            end = len(self.text)
        inside = self.text[self.position + 1 : end]
        self.position = end + 1
        return self.words_in(inside)

    def _operand(self, quoted: bool) -> Word:
        parts: list[Part] = []
        while not self.is_at_end and not self.at("}"):
            char = self.text[self.position]
            if char == "'" and quoted:
                self.error("a ' that shells take in different ways")
                parts.append(Text("'", quoted=True))
                self.position += 1
            elif not self._quoted_or_expanded(parts, char):
                plain = _IN_OPERAND.match(self.text, self.position)
                assert plain is not None
                parts.append(Text(plain[0]))
                self.position = plain.end()
        return tuple(parts)
