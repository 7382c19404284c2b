"""The store of a Hermes home, for everybody who opens it for users.

Files that belong to a conversation are deleted with it, however it is deleted: by name, with its
session, or because of its age.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import hermes_state
from hermes_state.address import shown

log = logging.getLogger(__name__)


class StorePlace(NamedTuple):
    """Where the store of a home is."""

    path: Path
    """The file; on a server only a name beside which this machine keeps what it can make anew."""
    server: str | None
    """The server's address, with its password; None for a file."""
    connections: int
    bucket: hermes_state.BucketSettings | None = None
    """Where a server's large objects are kept, if not in it."""

    def __str__(self) -> str:
        return str(self.path) if self.server is None else shown(self.server)

    def __repr__(self) -> str:
        return f"StorePlace({self})"  # a repr ends up in logs


def is_named(home: Path, environ: Mapping[str, str] | None = None) -> bool:
    """Whether anything may name a store elsewhere than in the home.

    A quick look: a home without a server starts as if there were none.
    """
    environ = os.environ if environ is None else environ
    if environ.get("HERMES_STORE"):
        return True
    for name, word in ((".env", b"HERMES_STORE"), ("config.yaml", b"store")):
        try:
            if word in (home / name).read_bytes():
                return True
        except FileNotFoundError:
            continue
        except OSError:
            return True  # reading it for good says what is wrong
    return False


def find_store(home: Path, environ: Mapping[str, str] | None = None) -> StorePlace:
    """Where the store of a home is, as configured; raises ConfigError if that cannot be read."""
    environ = os.environ if environ is None else environ
    path = home / "state.db"
    if not is_named(home, environ):
        return StorePlace(path, None, 1)
    from agent.config.store import address_of, bucket_settings, store_settings

    settings = store_settings(home, environ)
    server = address_of(settings, home, environ) or None
    bucket = bucket_settings(home, environ) if server is not None else None
    return StorePlace(path, server, settings.store_connections, bucket)


def has_store(home: Path) -> bool:
    """Whether anything may have been said in this home: there is a file, or a server is named."""
    return (home / "state.db").exists() or find_store(home).server is not None


def open_place(place: StorePlace) -> hermes_state.SessionDB:
    """Open a store; StoreUnavailableError says what to install if a server's driver is missing."""
    if place.server is None:
        return hermes_state.SessionDB(place.path)
    require_driver(place)
    db = hermes_state.SessionDB(place.path, server=place.server, connections=place.connections)
    db.bucket = place.bucket
    return db


def require_driver(place: StorePlace) -> None:
    """Raise StoreUnavailableError if the package that speaks to a server is not installed."""
    from importlib.util import find_spec

    if find_spec("psycopg") is None:
        from tools.extras import install_hint

        raise hermes_state.StoreUnavailableError(
            f"Conversations are kept on {place}, and the package psycopg, which speaks to it, is"
            f" not installed. Run: {install_hint('postgres')}"
        )


def open_store(home: Path, environ: Mapping[str, str] | None = None) -> hermes_state.SessionDB:
    """Open the store of a home: `state.db` in it, or the server that `store` names.

    Deleting a conversation also deletes its files in the home.
    """
    from agent.meaning.choose import ChosenModel

    db = open_place(find_store(home, environ))
    db.on_conversations_deleted = lambda conversations: forget(home, conversations, db)
    db.embedder = ChosenModel(home)
    return db


@contextlib.contextmanager
def open_if_server(place: StorePlace) -> Iterator[hermes_state.SessionDB | None]:
    """A store on a server, which has the memories and skills of all machines (see
    `tools.shared_files`); None for a file, which is not opened."""
    if place.server is None:
        yield None
        return
    with open_place(place) as db:
        yield db


def forget(home: Path, conversations: list[str], db: hermes_state.SessionDB | None = None) -> None:
    """Remove what is kept in files of conversations that are no longer in the store."""
    if db is not None and db.is_on_server:
        from tools.objects import sweep

        try:
            sweep(db)
        except hermes_state.StoreError as error:
            # Nothing names them any more: the next one to look deletes them.
            log.warning("The files of deleted conversations are left in the store: %s", error)
    from tools.own_folders import CHECKPOINT_FOLDER, output_folder_of

    for conversation in conversations:
        shutil.rmtree(output_folder_of(home, conversation), ignore_errors=True)
    if not (home / CHECKPOINT_FOLDER).is_dir():
        return
    from tools.base import ToolError
    from tools.checkpoints import forget_conversation

    for conversation in conversations:
        try:
            forget_conversation(home, conversation)
        except (OSError, ToolError) as error:
            # The conversation itself is gone; what is left of it lapses with its age.
            log.warning("The checkpoints of %s could not be removed: %s", conversation, error)
