"""Stores to damage, ways to damage them, and what to look at afterwards."""

from pathlib import Path

import apsw

from hermes_state import SessionDB

from .children import killed

PAGE = 4096
Written = dict[int, tuple[str, str]]
"""Message id → session and content."""


def fill(path: Path, sessions: int = 4, each: int = 60, length: int = 300) -> Written:
    written = {}
    with SessionDB(path) as db:
        for number in range(sessions):
            db.create_session(f"s{number}", "cli", user_id="ada")
            db.set_session_title(f"s{number}", f"Title {number}")
            texts = [f"{number}:{n} ".ljust(length, "å") for n in range(each)]
            ids = db.append_messages(
                f"s{number}", [{"role": "user", "content": text} for text in texts]
            )
            written |= {one: (f"s{number}", text) for one, text in zip(ids, texts, strict=True)}
    return written


def read_back(db: SessionDB) -> Written:
    sessions = db.list_sessions_rich(limit=-1, include_children=True)
    return {
        message["id"]: (session["id"], message["content"])
        for session in sessions
        for message in db.get_messages(session["id"], include_inactive=True)
    }


def check_sound(db: SessionDB) -> None:
    """The store is whole, counts what it has, and takes further messages."""
    assert db._database.read(lambda conn: conn.pragma("integrity_check")) == "ok"
    assert not db._database.read(lambda c: c.execute("PRAGMA foreign_key_check").fetchall())
    for session in db.list_sessions_rich(limit=-1, include_children=True):
        assert session["message_count"] == len(db.get_messages(session["id"]))
    db.ensure_session("after", "cli")
    message_id = db.append_message("after", "user", "it goes on")
    assert [m["id"] for m in db.get_messages("after")] == [message_id]


def pages_of(path: Path, table: str) -> list[int]:
    """Numbers of the leaf pages that hold the rows of a table, in the order of the rows."""
    connection = apsw.Connection(str(path))
    try:
        return [
            number
            for (number,) in connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path",
                (table,),
            )
        ]
    finally:
        connection.close()


def overwrite(path: Path, page: int, data: bytes, offset: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE + offset)
        file.write(data)


def leave_wal(path: Path, texts: list[str]) -> Path:
    """Append in a process that is killed, so that the messages are only in the -wal."""

    def write() -> SessionDB:
        db = SessionDB(path)
        for text in texts:
            db.append_message("s0", "user", text)
        return db

    killed(write)
    return path.with_name(path.name + "-wal")


def damaged_files(path: Path) -> list[Path]:
    return sorted(
        found
        for found in path.parent.glob(f"{path.name}.damaged-*")
        if not found.name.endswith(("-wal", "-shm"))
    )
