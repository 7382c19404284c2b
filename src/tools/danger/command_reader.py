"""Reading what commands consist of: separators, here-documents, redirections, assignments."""

from __future__ import annotations

import re

from .syntax import Assignment, HereDocument, Node, Redirect, Simple, Text, Word
from .word_reader import WordReader

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_RESERVED = re.compile(r"(?:[a-z]+|[{}!]|\[\[)(?=[ \t\n|&;()<>]|\\\n|\Z)")
_REDIRECT = re.compile(
    r"([0-9]+|\{[A-Za-z_][A-Za-z0-9_]*\})?(<<<|<<-|<<|<>|<&|>>|>\||>&|<(?!\()|>(?!\())|(&>>|&>)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*+)(\[[^\]\n]*+\])?(\+?)=")
_SUBSCRIPTED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+\[([^\]\n]*+)")
_ARRAY = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=\(")


class CommandReader(WordReader):
    """Simple commands, from the words that WordReader reads."""

    def defined(self, name: Word) -> list[Node]:
        """Read the definition of a function; the grammar is in parse."""
        raise NotImplementedError

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

    # Simple commands

    def _redirects(self) -> tuple[Redirect, ...]:
        redirects: list[Redirect] = []
        while True:
            self._skip_blanks()
            redirect = self._redirect()
            if redirect is None:
                return tuple(redirects)
            redirects.append(redirect)

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
            self.error("a redirection without a target")
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
            if not self._is_command_end() and any(
                redirect.operator[0] == "&" for redirect in redirects
            ):
                self.error("words behind a &>, which shells take in different ways")
            if _ARRAY.match(self.text, self.position):
                assignments.append(self._array())
                continue
            if subscripted := _SUBSCRIPTED.match(self.text, self.position):
                # Where a subscript does not end, each would be read to the end of the line.
                self._budget.spend(len(subscripted[1]))
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
                return self.defined(words[0])
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
