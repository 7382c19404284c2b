"""Which conversations have which objects (`objects`)."""

from __future__ import annotations

from collections.abc import Iterable

from .codec import encode_text
from .dialect import Connection


def add_links(conn: Connection, names: Iterable[str], conversation_id: str) -> None:
    """A conversation has these objects."""
    for name in names:
        conn.execute(
            "INSERT INTO object_links (name, conversation_id) VALUES (?, ?)"
            " ON CONFLICT (name, conversation_id) DO NOTHING",
            (encode_text(name, "name"), encode_text(conversation_id, "conversation_id")),
        )


def copy_links(conn: Connection, conversation_id: str, to_conversation: str) -> None:
    """A conversation that gets the messages of another has its objects too."""
    if conn.is_server:
        conn.execute(
            "INSERT INTO object_links (name, conversation_id) SELECT name, CAST(? AS TEXT)"
            " FROM object_links WHERE conversation_id = ?"
            " ON CONFLICT (name, conversation_id) DO NOTHING",
            (to_conversation, conversation_id),
        )
