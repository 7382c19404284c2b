"""A session store made with plain SQL, and the search index over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw

from hermes_state import schema
from hermes_state.search.engine import SearchIndex


class SearchStore:
    """state.db and search.db in a folder; times are small numbers that only ever grow."""

    def __init__(self, folder: Path, store_id: str = "store-1") -> None:
        self.state_path = folder / "state.db"
        self.search_path = folder / "search.db"
        self.db = apsw.Connection(str(self.state_path))
        self.db.execute("PRAGMA journal_mode = WAL").fetchall()
        self.db.execute("PRAGMA synchronous = OFF")
        for table in schema.TABLES:
            self.db.execute(schema.create_table_sql(table))
        for statement in schema.create_index_sql():
            self.db.execute(statement)
        self.db.execute("INSERT INTO state_meta VALUES ('store_id', ?)", (store_id,))
        self.clock = 1000.0
        self.index = SearchIndex(self.state_path, self.search_path)

    def session(self, session_id: str, source: str = "cli", **columns: Any) -> str:
        self.clock += 1
        row = {"id": session_id, "source": source, "started_at": self.clock}
        row |= {"conversation_id": session_id} | columns
        self.db.execute(
            f"INSERT INTO sessions ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )
        if "title" in columns:
            self.changed(session_id, "title")
        return session_id

    def message(self, session_id: str, content: Any, role: str = "user", **columns: Any) -> int:
        self.clock += 1
        if not isinstance(content, str | None):
            content = "\x00json:" + json.dumps(content)
        row = {"session_id": session_id, "role": role, "content": content}
        row |= {"timestamp": self.clock} | columns
        self.db.execute(
            f"INSERT INTO messages ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )
        return self.db.last_insert_rowid()

    def changed(self, session_id: str, kind: str = "session") -> None:
        self.db.execute(
            "INSERT INTO search_changes (session_id, kind) VALUES (?, ?)", (session_id, kind)
        )

    def clear(self) -> None:
        """Forget all sessions, as if the store were new."""
        for table in ("messages", "sessions", "search_changes"):
            self.db.execute(f"DELETE FROM {table}")
        self.index.rebuild()

    def ids(self, query: str, **options: Any) -> list[int | None]:
        return [hit["id"] for hit in self.index.search_messages(query, **options)]

    def found(self, query: str, match: str = "exact", **options: Any) -> set[int]:
        options = {"limit": 1000, **options}
        hits = self.index.search_messages(query, **options)
        return {hit["id"] for hit in hits if hit["match"] == match}

    def close(self) -> None:
        self.index.close()
        self.db.close()
