"""Files of a home that messages name, as objects that every machine of a server's store can have.

An object is a name (the file's path below the home) with a *blob*: bytes that never change, under
an id of their own, in chunks of a table or elsewhere (`place`). Objects with the same content share
a blob. A conversation that was sent a file, or whose tool wrote it, has a *link* to the object:
who may have it, and for how long it is kept, are both decided by links. (With a store in a file the
files of the home are the only ones, and no row is made.)

A blob is `arriving` while its bytes are brought, `kept` from when an object names it, and `going`
once none does; its bytes are deleted after that commit, and whoever brings the same content then
brings a blob of its own. Names, links and states are changed under one lock (`locks.NAMED`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from .codec import decode_json, encode_text
from .dialect import Blob, Connection, column, tuples, value
from .inbox import INBOX_ID
from .lineage import get_conversation_root
from .object_links import add_links

OBJECT_BYTES = 1024**3
"""Bytes of one object at most."""
CHUNK_BYTES = 1024**2
"""Bytes of one row at most."""

OUTPUT = "tool-output"
DEPTHS = {"media": 4, OUTPUT: 3, "uploads": 2, "pastes": 2}
"""The folders of a home whose files are objects; how many parts the names of such files have."""

GRACE_SECONDS = 86_400.0
"""How long an object is kept that no conversation has (yet), by the store's clock."""
UNSENT_SECONDS = 7 * GRACE_SECONDS
"""The same for one that was given to a conversation which has no message yet."""
OUTPUT_SECONDS = 7 * GRACE_SECONDS
"""How long the output of a tool is kept, as in the home of one machine."""

_MOST_RELEASED = 10_000


class BucketSettings(NamedTuple):
    """A bucket of an S3-compatible store."""

    endpoint: str
    bucket: str
    region: str
    prefix: str
    access_key: str
    secret_key: str
    is_used: bool = True
    """Whether new objects are put there; others may be there from before."""

    def __repr__(self) -> str:
        # Ends up in logs, and has no key in it.
        return f"BucketSettings({self.endpoint}/{self.bucket}/{self.prefix})"


class StoredObject(NamedTuple):
    """An object, and where its bytes are."""

    name: str
    blob: str
    digest: str
    """SHA-256 of its bytes, in hexadecimal digits."""
    size: int
    place: str
    """Empty: in chunks of the store."""
    put_at: float


class GoingBlob(NamedTuple):
    """A blob that nothing names any more, whose bytes are to be deleted."""

    id: str
    place: str


_OBJECT = (
    "SELECT o.name, o.blob, b.digest, b.size, b.place, o.put_at"
    " FROM objects o JOIN object_blobs b ON b.id = o.blob"
)


def object_names(path: str) -> list[str]:
    """What a file may be called as an object, by its path on whichever machine, longest first."""
    parts = path.split("/")
    return [
        "/".join(parts[-depth:])
        for folder, depth in DEPTHS.items()
        if len(parts) > depth and parts[-depth] == folder and _is_plain(parts[-depth:])
    ]


def _is_plain(parts: list[str]) -> bool:
    return not any(part in ("", ".", "..") for part in parts)


# Bringing one


def find_blob(conn: Connection, digest: str, size: int) -> str | None:
    """A blob with this content that is kept; None if it has to be brought."""
    return value(
        conn,
        "SELECT id FROM object_blobs WHERE digest = ? AND size = ? AND state = 'kept' LIMIT 1",
        (digest, size),
    )


def begin_blob(conn: Connection, blob: str, digest: str, size: int, place: str = "") -> None:
    """Note a blob whose bytes are brought from now on, so that they are found if that ends."""
    conn.execute(
        "INSERT INTO object_blobs (id, digest, size, place, state, changed_at)"
        " VALUES (?, ?, ?, ?, 'arriving', ?)",
        (encode_text(blob, "blob"), digest, size, encode_text(place, "place"), conn.now()),
    )


def add_chunk(conn: Connection, blob: str, number: int, content: bytes) -> None:
    """Store the next bytes of a blob."""
    conn.execute(
        "INSERT INTO object_chunks (blob, number, content) VALUES (?, ?, ?)"
        " ON CONFLICT (blob, number) DO NOTHING",
        (blob, number, Blob(content)),
    )


def put_object(conn: Connection, name: str, blob: str, session_id: str | None = None) -> bool:
    """Let an object have a blob whose bytes are there, in the place of what it had; the
    conversation of the session has it too.

    False, and nothing is changed, if the blob is going by now: bring its bytes anew.
    """
    now = conn.now()
    conn.execute(
        "UPDATE object_blobs SET state = 'kept', changed_at = ?"
        " WHERE id = ? AND state IN ('arriving', 'kept')",
        (now, blob),
    )
    if not conn.changes():
        return False
    before = column(conn, "SELECT blob FROM objects WHERE name = ?", (encode_text(name, "name"),))
    conn.execute(
        "INSERT INTO objects (name, blob, put_at) VALUES (?, ?, ?)"
        " ON CONFLICT (name) DO UPDATE SET blob = excluded.blob, put_at = excluded.put_at",
        (encode_text(name, "name"), blob, now),
    )
    if session_id is not None:
        add_links(conn, [name], get_conversation_root(conn, session_id))
    _let_go(conn, before)
    return True


# Having one


def get_object(conn: Connection, name: str, session_id: str | None = None) -> StoredObject | None:
    """An object by its name; with a session, only if its conversation has it."""
    matching = tuples(conn, f"{_OBJECT} WHERE o.name = ?", (encode_text(name, "name"),))
    if matching and session_id is not None:
        has_it = value(
            conn,
            "SELECT 1 FROM object_links WHERE name = ? AND conversation_id = ?",
            (name, get_conversation_root(conn, session_id)),
        )
        matching = matching if has_it else []
    return StoredObject(*matching[0]) if matching else None


def list_objects(conn: Connection, after: str = "", limit: int = 1000) -> list[StoredObject]:
    """Objects in the order of their names, behind one of them."""
    page = tuples(conn, f"{_OBJECT} WHERE o.name > ? ORDER BY o.name LIMIT ?", (after, limit))
    return [StoredObject(*row) for row in page]


def read_chunk(conn: Connection, blob: str, number: int) -> bytes | None:
    """One chunk of a blob; None if it is not there."""
    return value(
        conn, "SELECT content FROM object_chunks WHERE blob = ? AND number = ?", (blob, number)
    )


# Whose they are


def link_taken(conn: Connection, session_id: str, messages: Iterable[Mapping[str, Any]]) -> None:
    """Give a conversation the files that came with messages which it takes from the inbox.

    For the transaction that takes them, before it does. What counts is what the front end has noted
    about a message, never what is said in it.
    """
    if not conn.is_server:
        return
    for message in messages:
        inbox_id = message.get(INBOX_ID)
        if inbox_id is None or not _may_name_files(message.get("content")):
            continue
        for part_id in (inbox_id,) if isinstance(inbox_id, str) else inbox_id:
            names = _files_of(value(conn, "SELECT facts FROM inbox WHERE id = ?", (part_id,)))
            if names:
                add_links(conn, names, get_conversation_root(conn, session_id))


def _may_name_files(content: Any) -> bool:
    """Whether a message may name a file that came with it; without one, the store is not asked."""
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return any(isinstance(text, str) and "media/" in text for text in texts)


def _files_of(facts: str | None) -> list[str]:
    """The objects that the facts of an inbox row name."""
    if not facts or "media/" not in facts:
        return []
    known = decode_json(facts)
    paths = known.get("media") if isinstance(known, dict) else None
    if not isinstance(paths, list):
        return []
    return [name for path in paths if isinstance(path, str) for name in object_names(path)[:1]]


# Letting them go


def forget_conversations(conn: Connection, conversations: Iterable[str]) -> None:
    """Take their links from conversations that are deleted, and delete what their tools wrote."""
    if not conn.is_server:
        return
    for conversation in conversations:
        written = column(
            conn,
            f"SELECT name FROM object_links WHERE conversation_id = ? AND name LIKE '{OUTPUT}/%'",
            (conversation,),
        )
        _delete(conn, written)
        conn.execute("DELETE FROM object_links WHERE conversation_id = ?", (conversation,))


def release_objects(conn: Connection) -> int:
    """Delete objects that no conversation has any more, and old output of tools; returns how many.

    One that no conversation has yet is kept for a day, one whose message waits in the inbox for as
    long as it waits.
    """
    # Before links are looked at: what is taken from the inbox meanwhile has one by then.
    waiting = {
        name
        for facts in column(
            conn,
            "SELECT facts FROM inbox WHERE state IN ('waiting', 'begun')"
            " AND instr(facts, 'media/') > 0",
        )
        for name in _files_of(facts)
    }
    now = conn.now()
    old = column(
        conn,
        f"SELECT name FROM objects o WHERE (name LIKE '{OUTPUT}/%' AND put_at < ?)"
        " OR (put_at < ? AND NOT EXISTS (SELECT 1 FROM object_links l WHERE l.name = o.name"
        " AND (o.put_at >= ? OR EXISTS"
        " (SELECT 1 FROM sessions s WHERE s.conversation_id = l.conversation_id))))"
        " ORDER BY put_at LIMIT ?",
        (now - OUTPUT_SECONDS, now - GRACE_SECONDS, now - UNSENT_SECONDS, _MOST_RELEASED),
    )
    released = [name for name in old if name not in waiting]
    _delete(conn, released)
    conn.execute(
        "UPDATE object_blobs SET state = 'going', changed_at = ?"
        " WHERE state = 'arriving' AND changed_at < ?",
        (now, now - GRACE_SECONDS),
    )
    return len(released)


def _delete(conn: Connection, names: Iterable[str]) -> None:
    for name in names:
        blobs = column(conn, "DELETE FROM objects WHERE name = ? RETURNING blob", (name,))
        conn.execute("DELETE FROM object_links WHERE name = ?", (name,))
        _let_go(conn, blobs)


def _let_go(conn: Connection, blobs: Iterable[str]) -> None:
    """Those of these blobs that no object has are going from now on."""
    for blob in blobs:
        conn.execute(
            "UPDATE object_blobs SET state = 'going', changed_at = ? WHERE id = ?"
            " AND state = 'kept' AND NOT EXISTS (SELECT 1 FROM objects WHERE blob = ?)",
            (conn.now(), blob, blob),
        )


def list_going_blobs(conn: Connection, limit: int = 1000) -> list[GoingBlob]:
    """Blobs whose bytes are to be deleted where they are."""
    going = tuples(
        conn, "SELECT id, place FROM object_blobs WHERE state = 'going' LIMIT ?", (limit,)
    )
    return [GoingBlob(*row) for row in going]


def drop_blob(conn: Connection, blob: str) -> None:
    """Forget a blob that is going, with its chunks."""
    conn.execute(
        "DELETE FROM object_chunks WHERE blob IN"
        " (SELECT id FROM object_blobs WHERE id = ? AND state = 'going')",
        (blob,),
    )
    conn.execute("DELETE FROM object_blobs WHERE id = ? AND state = 'going'", (blob,))
