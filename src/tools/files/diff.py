"""What changed between two texts, as a unified diff that is quick to make and short to read."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from .encoding import split_lines

_COMPARED = 3_000
"""Where more lines differ than this, they are shown as one block: comparing would take too long."""
_CONTEXT = 3
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True)
class Diff:
    """The difference between two texts."""

    text: str
    added: int
    removed: int

    def shortened(self, limit: int = 80) -> str:
        """The diff, at most about `limit` lines of it."""
        lines = [
            line if len(line) <= _LONGEST_LINE else line[:_LONGEST_LINE] + "…"
            for line in self.text.split("\n")
        ]
        if len(lines) <= limit:
            return "\n".join(lines)
        left_out = len(lines) - limit
        return "\n".join([*lines[:limit], f"[… {left_out:,} more lines of the diff left out …]"])

    def summary(self) -> str:
        """How many lines came and went."""
        return f"+{self.added:,} −{self.removed:,} lines"


def diff_of(before: str, after: str, old_name: str, new_name: str) -> Diff:
    """The unified diff that turns `before` into `after`."""
    old, new = split_lines(before), split_lines(after)
    out = [f"--- {old_name}", f"+++ {new_name}"]
    added = removed = 0
    for group in _groups(_operations(old, new)):
        first, last = group[0], group[-1]
        spans = _span(first[1], last[2]), _span(first[3], last[4])
        out.append(f"@@ -{spans[0]} +{spans[1]} @@")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                out += [line for text in old[i1:i2] for line in _marked(" ", text)]
                continue
            removed += i2 - i1
            added += j2 - j1
            out += [line for text in old[i1:i2] for line in _marked("-", text)]
            out += [line for text in new[j1:j2] for line in _marked("+", text)]
    return Diff("\n".join(out) if len(out) > 2 else "", added, removed)


Operation = tuple[str, int, int, int, int]


def _operations(old: list[str], new: list[str]) -> list[Operation]:
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    operations: list[Operation] = [("equal", 0, head, 0, head)] if head else []
    if max(old_end, new_end) - head > _COMPARED:
        operations.append(("replace", head, old_end, head, new_end))
    elif head < old_end or head < new_end:
        matcher = difflib.SequenceMatcher(None, old[head:old_end], new[head:new_end])
        operations += [
            (tag, i1 + head, i2 + head, j1 + head, j2 + head)
            for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        ]
    if tail:
        operations.append(("equal", old_end, len(old), new_end, len(new)))
    return operations


def _groups(operations: list[Operation]) -> list[list[Operation]]:
    """The operations with only a few equal lines around each change."""
    groups: list[list[Operation]] = [[]]
    for index, (tag, i1, i2, j1, j2) in enumerate(operations):
        if tag != "equal":
            groups[-1].append((tag, i1, i2, j1, j2))
            continue
        first, last = index == 0, index == len(operations) - 1
        if not first and not last and i2 - i1 <= 2 * _CONTEXT:
            groups[-1].append((tag, i1, i2, j1, j2))
            continue
        if not first:
            length = min(_CONTEXT, i2 - i1)
            groups[-1].append(("equal", i1, i1 + length, j1, j1 + length))
        if not last:
            length = min(_CONTEXT, i2 - i1)
            groups.append([("equal", i2 - length, i2, j2 - length, j2)])
    return [group for group in groups if any(operation[0] != "equal" for operation in group)]


def _span(start: int, stop: int) -> str:
    length = stop - start
    first = start + 1 if length else start
    return f"{first}" if length == 1 else f"{first},{length}"


def _marked(mark: str, line: str) -> list[str]:
    if line.endswith("\n"):
        return [mark + line[:-1]]
    return [mark + line, "\\ No newline at end of file"]
