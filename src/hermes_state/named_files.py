"""Which files of the home are named in what is stored: those that a conversation still needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from .dialect import Connection

_COLUMNS = {
    "messages": ("content", "tool_calls", "api_content"),
    "inbox": ("content", "facts"),
}


_LONGEST_PATH, _LONGEST_NAME = 4096, 255
"""What a file system takes; longer ones name no file."""


def list_named_files(conn: Connection, paths: list[str]) -> set[str]:
    """Those of `paths` (`media/telegram/42/7-plan.pdf`, relative to the home) that any message, or
    anything in the inbox, names."""
    wanted = set(paths)
    named: set[str] = set()
    for folder in {path.partition("/")[0] for path in wanted}:
        # Letters that are not ASCII may be written as JSON writes them.
        pattern = re.compile(rf"\b{re.escape(folder)}/(?:\\u[0-9a-fA-F]{{4}}|[\w./-])+")
        for table, columns in _COLUMNS.items():
            for column in columns:
                query = f"SELECT {column} FROM {table} WHERE instr({column}, ?) > 0"
                for (text,) in conn.execute(query, (f"{folder}/",)):
                    named |= wanted.intersection(_paths_in(pattern, text))
    return named


def _paths_in(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    for written in pattern.findall(text):
        path = written
        if "\\" in written:
            try:
                path = json.loads(f'"{written}"')
            except ValueError:
                path = written  # not JSON after all
        # The sentence may end here, and so may the name: as much of the end as could be its own.
        bare = len(path.rstrip(".-"))
        if bare <= _LONGEST_PATH:
            for end in range(bare, min(len(path), bare + _LONGEST_NAME) + 1):
                yield path[:end]
