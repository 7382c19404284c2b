"""The session store: every conversation, in one SQLite file, kept for good.

from hermes_state import SessionDB

with SessionDB("state.db") as db:
    db.create_session("s1", "cli")
    db.append_message("s1", "user", "Hello")
    db.get_messages_as_conversation("s1")
"""

from typing import TYPE_CHECKING

from .errors import (
    AlreadyTakenError,
    ConversationBusyError,
    InvalidMessageError,
    JobError,
    LeaseLostError,
    NewerStoreError,
    ObjectLostError,
    PersonError,
    SessionEndedError,
    StoreBusyError,
    StoreClosedError,
    StoreCorruptedError,
    StoreError,
    StoreFullError,
    StoreIOError,
    StoreOutcomeUnknownError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UnknownSessionError,
    UnsafeSQLiteError,
)

if TYPE_CHECKING:
    from .aio import AsyncSessionDB, at_hand
    from .codec import plain_text
    from .connection import damage_marker
    from .db import SessionDB
    from .devices import DEVICE_SCOPES, Device, NewDevice
    from .inbox import INBOX_ID
    from .kept_files import KEPT_FILE_BYTES, FileChange, KeptChanges, KeptFile, KeptHead
    from .lineage import SUB_AGENT
    from .link_codes import LinkOffer, NoLink
    from .locks import EVENTS, SIGNALS
    from .losses import acknowledge_losses, list_losses
    from .meaning.embedder import Embedder, EmbedderError
    from .meaning.texts import rank_texts
    from .model_calls import ModelCall
    from .objects import CHUNK_BYTES, OBJECT_BYTES, BucketSettings, StoredObject, object_names
    from .outbox import OUTBOX
    from .owners import (
        EVERYONE,
        LOCAL_DOOR,
        NOBODY,
        OPERATOR,
        Owner,
        is_owned,
        person_of,
        stored_owner,
    )
    from .person_merges import Merge
    from .person_view import PersonView
    from .persons import ROLES, Person
    from .replicas import UNDER, Beat, PlatformLease
    from .reservations import CallRefused, CallReserved, Limit, LimitUse
    from .rotation import Rotation
    from .salvage import is_damaged
    from .search.check import count_unread, missing_from_index
    from .take_over import TakenTurn
    from .tool_runs import Started
    from .turn_log import ROW_ID, Recorded
    from .turns import LEASE_SECONDS, TURN_RUNNING, Lease, is_abandoned
    from .wake import Wake
    from .wall_settings import WALL_MODES
    from .watches import EVERYBODY, WATCH_SECONDS, EventBatch

__all__ = [
    "CHUNK_BYTES",
    "DEVICE_SCOPES",
    "EVENTS",
    "EVERYBODY",
    "EVERYONE",
    "INBOX_ID",
    "KEPT_FILE_BYTES",
    "LEASE_SECONDS",
    "LOCAL_DOOR",
    "NOBODY",
    "OBJECT_BYTES",
    "OPERATOR",
    "OUTBOX",
    "ROLES",
    "ROW_ID",
    "SIGNALS",
    "SUB_AGENT",
    "TURN_RUNNING",
    "UNDER",
    "WALL_MODES",
    "WATCH_SECONDS",
    "AlreadyTakenError",
    "AsyncSessionDB",
    "Beat",
    "BucketSettings",
    "CallRefused",
    "CallReserved",
    "ConversationBusyError",
    "Device",
    "Embedder",
    "EmbedderError",
    "EventBatch",
    "FileChange",
    "InvalidMessageError",
    "JobError",
    "KeptChanges",
    "KeptFile",
    "KeptHead",
    "Lease",
    "LeaseLostError",
    "Limit",
    "LimitUse",
    "LinkOffer",
    "Merge",
    "ModelCall",
    "NewDevice",
    "NewerStoreError",
    "NoLink",
    "ObjectLostError",
    "Owner",
    "Person",
    "PersonError",
    "PersonView",
    "PlatformLease",
    "Recorded",
    "Rotation",
    "SessionDB",
    "SessionEndedError",
    "Started",
    "StoreBusyError",
    "StoreClosedError",
    "StoreCorruptedError",
    "StoreError",
    "StoreFullError",
    "StoreIOError",
    "StoreOutcomeUnknownError",
    "StoreReadOnlyError",
    "StoreUnavailableError",
    "StoredObject",
    "TakenTurn",
    "UnknownSessionError",
    "UnsafeSQLiteError",
    "Wake",
    "acknowledge_losses",
    "at_hand",
    "count_unread",
    "damage_marker",
    "is_abandoned",
    "is_damaged",
    "is_owned",
    "list_losses",
    "missing_from_index",
    "object_names",
    "person_of",
    "plain_text",
    "rank_texts",
    "stored_owner",
]

PUBLIC_MODULES = (
    "address", "backup", "goals", "history", "jobs", "move", "notes", "server_report", "webhooks",
)  # fmt: skip
"""What other packages may import besides the names above: addresses of servers and how one is,
copies of a store, moving one, what makes a history valid, the kinds of notes, what a claim of a job
consists of, and the events that programs are told of. Everything else in here is this package's own
business."""

# Each is loaded when it is first used: code that needs only an error or a name does not load
# SQLite, nor asyncio.
_LATER = {
    "AsyncSessionDB": "aio",
    "Beat": "replicas",
    "BucketSettings": "objects",
    "CHUNK_BYTES": "objects",
    "DEVICE_SCOPES": "devices",
    "Device": "devices",
    "EVENTS": "locks",
    "Embedder": "meaning.embedder",
    "EmbedderError": "meaning.embedder",
    "EVERYBODY": "watches",
    "EVERYONE": "owners",
    "EventBatch": "watches",
    "FileChange": "kept_files",
    "INBOX_ID": "inbox",
    "KEPT_FILE_BYTES": "kept_files",
    "KeptChanges": "kept_files",
    "KeptFile": "kept_files",
    "KeptHead": "kept_files",
    "LEASE_SECONDS": "turns",
    "LOCAL_DOOR": "owners",
    "Lease": "turns",
    "CallRefused": "reservations",
    "CallReserved": "reservations",
    "Limit": "reservations",
    "LimitUse": "reservations",
    "LinkOffer": "link_codes",
    "Merge": "person_merges",
    "NOBODY": "owners",
    "NewDevice": "devices",
    "NoLink": "link_codes",
    "OBJECT_BYTES": "objects",
    "ModelCall": "model_calls",
    "OPERATOR": "owners",
    "OUTBOX": "outbox",
    "Owner": "owners",
    "Person": "persons",
    "PersonView": "person_view",
    "PlatformLease": "replicas",
    "ROLES": "persons",
    "ROW_ID": "turn_log",
    "Recorded": "turn_log",
    "Rotation": "rotation",
    "SIGNALS": "locks",
    "SUB_AGENT": "lineage",
    "SessionDB": "db",
    "Started": "tool_runs",
    "StoredObject": "objects",
    "TURN_RUNNING": "turns",
    "TakenTurn": "take_over",
    "UNDER": "replicas",
    "WALL_MODES": "wall_settings",
    "WATCH_SECONDS": "watches",
    "Wake": "wake",
    "acknowledge_losses": "losses",
    "at_hand": "aio",
    "damage_marker": "connection",
    "is_abandoned": "turns",
    "is_damaged": "salvage",
    "is_owned": "owners",
    "list_losses": "losses",
    "count_unread": "search.check",
    "missing_from_index": "search.check",
    "object_names": "objects",
    "person_of": "owners",
    "rank_texts": "meaning.texts",
    "stored_owner": "owners",
    "plain_text": "codec",
}


if not TYPE_CHECKING:  # or every misspelt name would pass for one of these

    def __getattr__(name: str) -> object:
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f".{_LATER[name]}", __name__), name)
        globals()[name] = value
        return value
