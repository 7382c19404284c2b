"""Which files of the home are named in what is stored: those that a conversation still needs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

from .dialect import Connection, tuples

_COLUMNS = {
    "messages": ("content", "tool_calls", "api_content"),
    "inbox": ("content", "facts"),
}
_KEYS = {"messages": ("id", 0), "inbox": ("id", "")}
"""By what a table is walked, and what is before all of it."""


_LONGEST_PATH, _LONGEST_NAME = 4096, 255
"""What a file system takes; longer ones name no file."""
_BATCH = 200
_ENDS = ".-+()"
"""With which a sentence may end behind a name, and a name too."""


def list_named_files(conn: Connection, paths: list[str]) -> set[str]:
    """Those of `paths` (`media/telegram/42/7-plan.pdf`, relative to the home) that any message, or
    anything in the inbox, names."""
    return {path for table in _COLUMNS for path, _ in _named_in(conn, table, set(paths))}


def list_naming_conversations(conn: Connection, paths: list[str]) -> dict[str, list[str]]:
    """By path, the conversations with a message that names it."""
    sessions: dict[str, set[str]] = {}
    for path, session_id in _named_in(conn, "messages", set(paths)):
        sessions.setdefault(session_id, set()).add(path)
    naming: dict[str, set[str]] = {}
    for session_id, named in sessions.items():
        query = "SELECT COALESCE(conversation_id, id) FROM sessions WHERE id = ?"
        for (conversation,) in tuples(conn, query, (session_id,)):
            for path in named:
                naming.setdefault(path, set()).add(conversation)
    return {path: sorted(conversations) for path, conversations in naming.items()}


def _named_in(conn: Connection, table: str, wanted: set[str]) -> Iterator[tuple[str, str]]:
    """Every mention of a wanted path in a table, with its session."""
    key, before = _KEYS[table]
    for folder in {path.partition("/")[0] for path in wanted}:
        # Letters that are not ASCII may be written as JSON writes them.
        pattern = re.compile(rf"\b{re.escape(folder)}/(?:\\u[0-9a-fA-F]{{4}}|[\w./()+-])+")
        for column in _COLUMNS[table]:
            query = (
                f"SELECT {key}, session_id, {column} FROM {table}"
                f" WHERE {key} > ? AND instr({column}, ?) > 0 ORDER BY {key} LIMIT {_BATCH}"
            )
            after = before
            while batch := tuples(conn, query, (after, f"{folder}/")):
                after = batch[-1][0]
                for _, session_id, text in batch:
                    for path in wanted.intersection(_paths_in(pattern, text)):
                        yield path, session_id


def _paths_in(pattern: re.Pattern[str], text: str) -> Iterable[str]:
    for written in pattern.findall(text):
        path = written
        if "\\" in written:
            try:
                path = json.loads(f'"{written}"')
            except ValueError:
                path = written  # not JSON after all
        # The sentence may end here, and so may the name: as much of the end as could be its own.
        bare = len(path.rstrip(_ENDS))
        if bare <= _LONGEST_PATH:
            for end in range(bare, min(len(path), bare + _LONGEST_NAME) + 1):
                yield path[:end]
