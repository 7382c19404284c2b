"""The public methods of SessionDB, and arguments for each, found from their signatures."""

import inspect
from typing import Any

from hermes_state import FileChange, Limit, LimitUse, ModelCall, SessionDB
from hermes_state.dialect import rows
from hermes_state.jobs import Claim, Settled
from hermes_state.replicas import PlatformLease
from hermes_state.schema import TABLES
from hermes_state.turns import Lease
from hermes_state.watches import EventBatch
from hermes_state.webhooks import Webhook

from .raw import query

UNKNOWN = "nobody"

_LIMIT = Limit("person", UNKNOWN, "dollars", "day", 1.0)

_PLAUSIBLE: dict[str, Any] = {
    "str": UNKNOWN,
    "str | None": UNKNOWN,
    "Owner": UNKNOWN,
    "int": 10**9,
    "float": 1.0,
    "float | None": 1.0,
    "bool": True,
    "Any": "text",
    "bytes": b"text",
    "Lease": Lease(UNKNOWN, 1, "nobody"),
    "Iterable[Lease]": [Lease(UNKNOWN, 1, "nobody")],
    "Iterable[FileChange]": [FileChange(UNKNOWN, b"text")],
    "PlatformLease": PlatformLease(UNKNOWN, 1, "nobody"),
    "Iterable[EventBatch]": [EventBatch(1, UNKNOWN, "{}")],
    "ModelCall": ModelCall("turn", "m"),
    "Iterable[Limit]": [_LIMIT],
    "LimitUse": LimitUse(_LIMIT, 1.0, 0.0, 1.0),
    "Claim": Claim(None, None, (1,)),
    "Settled": Settled("done"),
    "Iterable[Subgoal]": [{"text": "text", "reached": False}],
    "Iterable[Webhook]": [Webhook(UNKNOWN, (), UNKNOWN)],
    "list[str]": [UNKNOWN],
    "list[int]": [10**9],
    "dict[str, str]": {UNKNOWN: "text"},
    "list[dict[str, Any]]": [],
    "Mapping[str, int]": {UNKNOWN: 1},
    "Mapping[str, str]": {UNKNOWN: "text"},
    "Mapping[str, str | None]": {UNKNOWN: "text"},
    "Mapping[str, Mapping[str, Any]]": {UNKNOWN: {"session_id": UNKNOWN}},
    "Mapping[str, Any]": {"role": "user", "content": "text"},
    "Mapping[str, Any] | None": {"role": "user", "content": "text"},
    "Iterable[Mapping[str, Any]]": [{"role": "user", "content": "text"}],
}
_BY_NAME: dict[str, Any] = {"facts": {}, "day": "2026-11-18"}

# The search index has tests of its own; closing ends every test.
_LEFT_OUT = {"close", "view", "search_index", "search_messages", "optimize_fts", "rebuild_fts"}


def method_names() -> list[str]:
    """Every public method of the store."""
    return sorted(
        name
        for name, member in vars(SessionDB).items()
        if not name.startswith("_") and name not in _LEFT_OUT and callable(member)
    )


def parameters(name: str) -> list[inspect.Parameter]:
    """The parameters a caller of a method may give."""
    member = inspect.getattr_static(SessionDB, name)
    if isinstance(member, staticmethod):
        return list(inspect.signature(member.__func__).parameters.values())
    return [
        parameter
        for parameter in list(inspect.signature(member).parameters.values())[1:]
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD
    ]


def arguments(name: str, **given: Any) -> dict[str, Any]:
    """Arguments of the right types for what a method requires; ids are unknown ones."""
    found = {}
    for parameter in parameters(name):
        if parameter.name in given:
            found[parameter.name] = given[parameter.name]
        elif parameter.default is inspect.Parameter.empty:
            kind = str(parameter.annotation)
            assert kind in _PLAUSIBLE, f"{name}: what is a plausible {parameter.name} ({kind})?"
            found[parameter.name] = _BY_NAME.get(parameter.name, _PLAUSIBLE[kind])
    return found


def dump(db: SessionDB) -> dict[str, list[tuple[Any, ...]]]:
    """Everything in the store, to be compared."""
    if db.is_on_server:  # in one statement: each is a round trip
        everything = " UNION ALL ".join(
            f"SELECT '{table}', array_agg(CAST(t AS text) ORDER BY CAST(t AS text)) FROM {table} t"
            for table in TABLES
        )
        return {table: [(row,) for row in kept or ()] for table, kept in query(db, everything)}
    return db._database.read(
        lambda conn: {
            table: [tuple(found.values()) for found in rows(conn, f"SELECT * FROM {table}")]
            for table in TABLES
        }
    )
