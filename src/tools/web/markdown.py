"""A web page as readable text: headings, links, lists, tables and code, in the manner of Markdown.

What a reader of the page would not see is left out, so that nothing can be whispered to the model
behind a person's back by ordinary means: scripts, comments, and elements that are marked hidden.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urljoin

from ..fences import fence_for
from .html import Start, Text, tokens

_UNSEEN = {
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "canvas",
    "select", "button", "textarea", "datalist", "noframes", "noembed", "audio", "video",
}  # fmt: skip
_VOID = {
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr",
}  # fmt: skip
_BLOCKS = {
    "address", "article", "aside", "body", "center", "details", "dialog", "div", "dl", "fieldset",
    "figcaption", "figure", "footer", "form", "header", "main", "nav", "p", "section", "summary",
    "blockquote", "caption",
}  # fmt: skip
_CLOSED_BY_NEXT = {"p", "li", "dt", "dd", "tr", "td", "th", "option"}
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d])|opacity\s*:\s*0(?![.\d])",
    re.IGNORECASE,
)
_WHITESPACE = re.compile(r"\s+")
_MAX_DEPTH = 8
_MAX_LINK = 500
_MAX_CELL = 300


@dataclass(slots=True)
class _Flow:
    """Text under construction; knows what space is due before the next word."""

    pieces: list[str] = field(default_factory=list)
    gap: str = ""
    prefix: str = ""
    """Stands at the beginning of every line: the marks of a quotation."""
    last_prefix: str = ""

    def need(self, gap: str) -> None:
        """Ask for at least this much space before whatever comes next."""
        if len(gap) + gap.count("\n") * 2 > len(self.gap) + self.gap.count("\n") * 2:
            self.gap = gap

    def put(self, text: str) -> None:
        """Write something as it is."""
        if not self.pieces:
            self.pieces.append(self.prefix)
        elif self.gap:
            blank = self.prefix.rstrip() if self.prefix == self.last_prefix else ""
            lines = {" ": " ", "\n": f"\n{self.prefix}", "\n\n": f"\n{blank}\n{self.prefix}"}
            self.pieces.append(lines[self.gap])
        self.last_prefix = self.prefix
        self.gap = ""
        self.pieces.append(text)

    def words(self, text: str) -> None:
        """Write running text: any whitespace is one space."""
        if text[:1].isspace():
            self.need(" ")
        core = _WHITESPACE.sub(" ", text).strip()
        if not core:
            return
        self.put(core)
        if text[-1:].isspace():
            self.need(" ")

    def text(self) -> str:
        return "".join(self.pieces)


@dataclass(slots=True)
class _Table:
    rows: list[list[str]] = field(default_factory=list)
    is_layout: bool = False
    cell: _Flow | None = None


@dataclass(slots=True)
class _List:
    numbered: bool
    count: int = 0


@dataclass(frozen=True, slots=True)
class Readable:
    """A page's title and text."""

    title: str
    text: str


def readable(page: str, base: str, stopped: Callable[[], bool] = lambda: False) -> Readable:
    """The title and the readable text of an HTML page that was found at `base`.

    `stopped` is asked now and then; when it says yes, what was read so far is returned.
    """
    reader = _Reader(base)
    for number, token in enumerate(tokens(page)):
        if number % 2_000 == 0 and stopped():
            break
        if isinstance(token, Text):
            reader.text(token.text)
        elif isinstance(token, Start):
            reader.start(token.name, token.attributes)
        else:
            reader.end(token.name)
    return reader.result()


class _Reader:
    def __init__(self, base: str) -> None:
        self._base = base
        self._title: list[str] = []
        self._in_title = False
        self._skipped = ""
        self._skip_depth = 0
        self._body = _Flow()
        self._tables: list[_Table] = []
        self._lists: list[_List] = []
        self._quotes = 0
        self._pre = 0
        self._fence = (self._body, 0)
        """Where the outermost preformatted block began."""
        self._link: tuple[_Flow, int, str] | None = None
        self._main: tuple[int, int] | None = None
        self._main_start: int | None = None

    @property
    def _flow(self) -> _Flow:
        table = self._tables[-1] if self._tables else None
        return table.cell if table and table.cell else self._body

    def text(self, text: str) -> None:
        """Running text, or text of a preformatted block."""
        if self._skipped:
            return
        if self._in_title:
            self._title.append(text)
        elif self._pre and text:
            self._flow.put(text)
        else:
            self._flow.words(text)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An opening tag."""
        if self._skipped:
            if name == self._skipped and name not in _CLOSED_BY_NEXT:
                self._skip_depth += 1
                return
            if name != self._skipped:
                return
            self._skipped = ""
        if name in _UNSEEN or (name not in _VOID and _is_hidden(attributes)):
            self._skipped, self._skip_depth = name, 1
            return
        if name == "title" and not self._title:
            self._in_title = True
        elif name in ("main", "article") or attributes.get("role") == "main":
            self._flow.need("\n\n")
            if self._main_start is None and self._main is None and not self._tables:
                self._main_start = len(self._body.pieces) if name != "article" else None
        elif name in ("table", "tr", "td", "th"):
            self._start_table(name)
        elif name == "a":
            self._end_link()
            self._link = (self._flow, len(self._flow.pieces), attributes.get("href", ""))
        else:
            self._start_other(name, attributes)

    def _start_other(self, name: str, attributes: dict[str, str]) -> None:
        flow = self._flow
        if len(name) == 2 and name[0] == "h" and name[1] in "123456":
            flow.need("\n\n")
            flow.put("#" * int(name[1]))
            flow.need(" ")
        elif name in ("ul", "ol", "menu"):
            flow.need("\n" if self._lists else "\n\n")
            self._lists.append(_List(name == "ol"))
        elif name == "li":
            self._item()
        elif name in ("dt", "dd", "option", "tbody", "thead", "br"):
            flow.need("\n")
        elif name == "hr":
            flow.need("\n\n")
            flow.put("---")
            flow.need("\n\n")
        elif name == "pre":
            self._pre += 1
            if self._pre == 1:
                flow.need("\n\n")
                flow.put("```\n")
                self._fence = (flow, len(flow.pieces) - 1)
        elif name == "code" and not self._pre:
            flow.put("`")
        elif name == "img" and attributes.get("alt", "").strip():
            flow.words(f"[image: {attributes['alt'].strip()[:200]}]")
        elif name in _BLOCKS:
            flow.need("\n\n")
            if name == "blockquote":
                self._quotes += 1
                self._set_prefix()

    def end(self, name: str) -> None:
        """A closing tag."""
        if self._skipped:
            if name == self._skipped:
                self._skip_depth -= 1
                if self._skip_depth <= 0:
                    self._skipped = ""
            return
        flow = self._flow
        if name == "title":
            self._in_title = False
        elif name == "a":
            self._end_link()
        elif name in ("table", "tr", "td", "th"):
            self._end_table(name)
        elif name in ("ul", "ol", "menu"):
            if self._lists:
                self._lists.pop()
            flow.need("\n" if self._lists else "\n\n")
        elif name == "pre" and self._pre:
            self._pre -= 1
            if not self._pre:
                self._end_preformatted()
        elif name == "code" and not self._pre:
            flow.gap = ""
            flow.put("`")
        elif name in _BLOCKS or (len(name) == 2 and name[0] == "h" and name[1].isdigit()):
            flow.need("\n\n")
            if name == "blockquote" and self._quotes:
                self._quotes -= 1
                self._set_prefix()
            elif name == "main" and self._main_start is not None and not self._tables:
                self._main = (self._main_start, len(self._body.pieces))
                self._main_start = None

    def _end_preformatted(self) -> None:
        flow, fence = self._flow, "```"
        if flow is self._fence[0]:
            begin = self._fence[1]
            fence = fence_for("".join(flow.pieces[begin + 1 :]))
            flow.pieces[begin] = f"{fence}\n"
        if not (flow.pieces and flow.pieces[-1].endswith("\n")):
            flow.pieces.append("\n")
        flow.put(fence)
        flow.need("\n\n")

    def _set_prefix(self) -> None:
        self._body.prefix = "> " * min(self._quotes, _MAX_DEPTH)

    def _item(self) -> None:
        self._flow.need("\n")
        depth = min(len(self._lists), _MAX_DEPTH)
        mark = "-"
        if self._lists and self._lists[-1].numbered:
            self._lists[-1].count += 1
            mark = f"{self._lists[-1].count}."
        self._flow.put("  " * (depth - 1) + mark)
        self._flow.need(" ")

    def _end_link(self) -> None:
        if self._link is None:
            return
        flow, start, target = self._link
        self._link = None
        if flow is not self._flow or self._pre:
            return
        first = next((n for n in range(start, len(flow.pieces)) if flow.pieces[n].strip()), None)
        target = _absolute(self._base, target)
        if first is None or not target:
            return
        if "".join(flow.pieces[first:]) == target:
            return
        flow.pieces[first] = f"[{flow.pieces[first]}"
        flow.pieces.append(f"]({target})")

    def _start_table(self, name: str) -> None:
        self._end_link()
        if name == "table":
            if len(self._tables) >= _MAX_DEPTH:
                return
            for table in self._tables:
                table.is_layout = True
            self._tables.append(_Table())
            return
        if not self._tables:
            self._flow.need("\n" if name == "tr" else " ")
            return
        table = self._tables[-1]
        self._end_cell(table)
        if name == "tr" or not table.rows:
            table.rows.append([])
        if name != "tr":
            table.cell = _Flow()

    def _end_table(self, name: str) -> None:
        self._end_link()
        if not self._tables:
            return
        table = self._tables[-1]
        self._end_cell(table)
        if name == "table":
            self._tables.pop()
            self._write(table)

    def _end_cell(self, table: _Table) -> None:
        if table.cell is not None:
            table.rows[-1].append(table.cell.text().strip())
            table.cell = None

    def _write(self, table: _Table) -> None:
        flow = self._flow
        flow.need("\n\n")
        rows = [row for row in table.rows if any(row)]
        cells = [cell for row in rows for cell in row]
        if not rows:
            return
        if (
            table.is_layout
            or max(len(row) for row in rows) < 2
            or any(len(cell) > _MAX_CELL for cell in cells)
        ):
            for row in rows:
                flow.put(" ".join(cell for cell in row if cell))
                flow.need("\n")
        else:
            for number, row in enumerate(rows):
                shown = (_WHITESPACE.sub(" ", cell).replace("|", "\\|") for cell in row)
                flow.put(f"| {' | '.join(shown)} |")
                flow.need("\n")
                if number == 0:
                    flow.put("|" + " --- |" * len(row))
                    flow.need("\n")
        flow.need("\n\n")

    def result(self) -> Readable:
        """Everything read so far; the page's main part alone if it has one worth the name."""
        self._end_link()
        while self._tables:
            self._end_table("table")
        pieces = self._body.pieces
        title = _WHITESPACE.sub(" ", "".join(self._title)).strip()[:300]
        if self._main:
            part = "".join(pieces[slice(*self._main)]).strip()
            if len(part) >= 200:
                return Readable(title, part)
        return Readable(title, "".join(pieces).strip())


def _is_hidden(attributes: dict[str, str]) -> bool:
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden", "").lower() == "true"
        or bool(_HIDDEN_STYLE.search(attributes.get("style", "")))
    )


def _absolute(base: str, target: str) -> str:
    """Where a link leads; empty if nowhere worth naming."""
    target = "".join(target.split())
    if not target or target.startswith("#") or len(target) > _MAX_LINK:
        return ""
    try:
        joined = urljoin(base, target)
    except ValueError:
        return ""
    return joined if joined.startswith(("http://", "https://", "mailto:")) else ""
