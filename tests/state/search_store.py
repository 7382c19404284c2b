"""A session store made with plain SQL, and the search index over it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import apsw

import hermes_state.db
from hermes_state import schema
from hermes_state.search.engine import SearchIndex
from hermes_state.search.mirror import Mirror
from hermes_state.server_connection import ServerConnection, ServerCursor


class ServerRows:
    """The store's rows on a server; what is written is committed before the next search."""

    def __init__(self, raw: Any) -> None:
        self.connection = ServerConnection(raw)
        self._lock = threading.Lock()
        self._is_open = False

    def execute(self, sql: str, values: Any = ()) -> ServerCursor:
        with self._lock:
            if not self._is_open:
                self.connection.run_script("BEGIN")
                self._is_open = True
            return self.connection.execute(sql, values)

    def commit(self) -> None:
        with self._lock:
            if self._is_open:
                self.connection.run_script("COMMIT")
                self._is_open = False

    def close(self) -> None:
        self.connection.raw.close()


class SearchStore:
    """A store and search.db in a folder; times are small numbers that only ever grow."""

    def __init__(
        self, folder: Path, database: str = "sqlite", *, store_id: str = "store-1"
    ) -> None:
        """`database` is what the fixture of that name says."""
        self.state_path = folder / "state.db"
        self.search_path = folder / "search.db"
        self.server: Any = None
        self.db: Any
        if database == "sqlite":
            self.db = apsw.Connection(str(self.state_path))
            self.db.execute("PRAGMA journal_mode = WAL").fetchall()
            self.db.execute("PRAGMA synchronous = OFF")
            for table in schema.TABLES:
                self.db.execute(schema.create_table_sql(table))
            for statement in schema.create_index_sql():
                self.db.execute(statement)
            self.db.execute("INSERT INTO state_meta VALUES ('store_id', ?)", (store_id,))
        else:
            self.server, _ = hermes_state.db.open_store(self.state_path, 30.0)
            self.db = ServerRows(self.server.connect())
        self.clock = 1000.0
        self._index = self.open_index()

    def open_index(self, **options: Any) -> SearchIndex:
        """The index, opened once more."""
        if self.server is None:
            return SearchIndex(self.state_path, self.search_path, **options)
        mirror = Mirror(self.server, self.state_path.with_name("search-mirror.db"))
        return SearchIndex(mirror.path, self.search_path, mirror=mirror, **options)

    @property
    def index(self) -> SearchIndex:
        """The index over what was written until now."""
        if self.server is not None:
            self.db.commit()
        return self._index

    @index.setter
    def index(self, index: SearchIndex) -> None:
        self._index = index

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
        ((message_id,),) = self.db.execute(
            f"INSERT INTO messages ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
            " RETURNING id",
            tuple(row.values()),
        ).fetchall()
        return int(message_id)

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
        if self.server is not None:
            self.server.close()
