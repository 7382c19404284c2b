"""What is said and done about persons, the same from the command line and from a chat.

Each action takes the store and the words of a line, and returns what to tell; `me` is whoever asks.
What cannot be done raises PersonError, whose message says what to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_state import OPERATOR, Merge, NoLink, Person, PersonError

if TYPE_CHECKING:
    from hermes_state import SessionDB

CODE_MINUTES = 10
LIMITS = ("usd_per_day", "usd_per_month", "tokens_per_day", "tokens_per_month", "turns_at_once")
"""What can be limited; the names under which the store keeps it."""

ONE_ALREADY = "That is you already."
_NO_CODE = {
    NoLink.WRONG: "That code is wrong, used or too old. Ask for a new one where you are known.",
    NoLink.TOO_MANY_TRIES: "Too many wrong codes were tried. Try again in ten minutes.",
}


def find(db: SessionDB, me: str, wanted: str) -> Person:
    """The person that is meant by a name, a door such as telegram:42, or "me"."""
    person = db.get_person(me) if wanted.lower() == "me" else db.resolve_person(wanted)
    if person is None:
        raise PersonError(f"There is nobody called {wanted!r}. `people list` names everybody.")
    return person


def list_people(db: SessionDB) -> list[dict[str, Any]]:
    """Everybody, with those whom another version or an import brought."""
    db.adopt_owners()
    return db.list_persons()


def describe_all(db: SessionDB) -> str:
    """A line for each."""
    return "\n".join(
        f"{person['name']} ({person['role']}): {', '.join(person['doors']) or 'no door yet'};"
        f" {person['conversations']} conversations"
        for person in list_people(db)
    )


def describe(db: SessionDB, me: str, wanted: str) -> str:
    """What is known of one."""
    person = find(db, me, wanted)
    facts = next(one for one in list_people(db) if one["id"] == person.id)
    limits = ", ".join(f"{name} {amount:g}" for name, amount in person.limits.items())
    lines = [
        f"{person.name} ({person.role})",
        f"Doors: {', '.join(facts['doors']) or 'none yet'}",
        f"Conversations: {facts['conversations']}, last used {_day(facts['last_active'])}",
        f"Limits: {limits or 'none'}",
        *([f"Workspace: {person.workspace}"] if person.workspace else ()),
        *(
            f"Merged with {merge.merged} ({', '.join(merge.doors) or 'no door'}) on"
            f" {_day(merge.made_at)}; people unmerge {merge.id} undoes that"
            for merge in db.list_merges(person.id)
        ),
    ]
    return "\n".join(lines)


def add(db: SessionDB, name: str, role: str = "member") -> str:
    """Somebody who has no door yet."""
    person = db.add_person(name, role)
    return (
        f"{person.name} is known now ({person.role}). Their first door: pairing approve CODE --as"
        f" {person.name!r}"
    )


def rename(db: SessionDB, me: str, wanted: str, name: str) -> str:
    """Another name for somebody."""
    before = find(db, me, wanted)
    return f"{before.name} is called {db.rename_person(before.id, name).name} now."


def merge(db: SessionDB, me: str, wanted: str, into: str) -> str:
    """Two who are one."""
    return merged(db.merge_persons(find(db, me, wanted).id, find(db, me, into).id))


def merged(merge: Merge) -> str:
    """What is told of a merge."""
    return (
        f"{merge.merged} is {merge.person.name} now, with {', '.join(merge.doors) or 'no door'} and"
        f" {merge.conversations} conversations. Undo: people unmerge {merge.merged!r}"
    )


def unmerge(db: SessionDB, wanted: str) -> str:
    """Two who were not one after all: by the merge's id, or the name of whom it took in."""
    merge_id = next(
        (
            merge.id
            for merge in db.list_merges()
            if wanted.lower() in (merge.id, merge.merged.lower())
        ),
        wanted,
    )
    person = db.unmerge_persons(merge_id)
    return (
        f"{person.name} is a person of their own again, with what was theirs before; what was begun"
        " since stays where it is."
    )


def set_role(db: SessionDB, me: str, wanted: str, role: str) -> str:
    """What somebody may do."""
    person = db.set_person_role(find(db, me, wanted).id, role)
    return f"{person.name} is {'an' if person.role[0] in 'aeiou' else 'a'} {person.role} now."


def set_limit(db: SessionDB, me: str, wanted: str, limit: str, amount: str) -> str:
    """How much somebody may use."""
    if limit not in LIMITS:
        raise PersonError(f"A limit is one of {', '.join(LIMITS)}, not {limit!r}.")
    person = find(db, me, wanted)
    if amount.lower() in ("none", "off"):
        db.set_person_limit(person.id, limit, None)
        return f"{person.name} has no limit {limit} any more."
    try:
        number = float(amount)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e15 or (not limit.startswith("usd") and number % 1):
        raise PersonError(f"{amount!r} is no amount for {limit}: give a number, or none.")
    kept = number if limit.startswith("usd") else int(number)
    db.set_person_limit(person.id, limit, kept)
    return f"{person.name}: {limit} {kept:g} holds from their next message on."


def set_workspace(db: SessionDB, me: str, wanted: str, folder: str) -> str:
    """Where the agent works for somebody."""
    person = find(db, me, wanted)
    if folder == "default":
        db.set_person_workspace(person.id, None)
        return f"{person.name} has a folder as everybody has."
    path = Path(folder).expanduser()
    if not path.is_absolute() or not path.is_dir():
        raise PersonError(f"{folder!r} is no folder: give a whole path that exists, or default.")
    db.set_person_workspace(person.id, str(path))
    return (
        f"The agent works for {person.name} in {path} from now on, where gateway.workspaces is set."
        " Restart the gateway, so that nobody else's agent sees it."
    )


def remove(db: SessionDB, me: str, wanted: str) -> str:
    """Somebody who is let in no longer."""
    person = find(db, me, wanted)
    doors = db.remove_person(person.id)
    listed = f" Whoever is in allowed_users may still talk: {', '.join(doors)}." if doors else ""
    return (
        f"{person.name} is forgotten, and their pairings are revoked; their conversations stay, and"
        f" are nobody else's.{listed}"
    )


def offer_code(db: SessionDB, person_id: str) -> str | None:
    """A code by which another door becomes a person's; None if they were given too many."""
    return db.offer_person_code(person_id)


def code_for(db: SessionDB, person_id: str) -> str:
    """A code, with what to do with it."""
    code = offer_code(db, person_id)
    if code is None:
        raise PersonError("Too many codes were asked for. Try again in ten minutes.")
    return (
        f"Within ten minutes, from the other place: /link person {code} in a chat, hermes people"
        f" join {code} in a terminal, or POST /api/person/join with an API key. Whoever does so is"
        " you from then on, and sees all that is yours; the code works once."
    )


def join(db: SessionDB, me: str, code: str) -> str:
    """Be the person who was given a code."""
    outcome = db.join_by_code(code, me)
    if isinstance(outcome, NoLink):
        raise PersonError(_NO_CODE[outcome])
    return ONE_ALREADY if outcome is None else merged(outcome)


def leave(db: SessionDB, door: str) -> str:
    """Undo the merge that a door came by, or the last one of its person."""
    person = db.find_person(door)
    merges = db.list_merges(person.id) if person is not None else []
    last = db.find_merge(door) or next(iter(merges), None)
    if last is None:
        raise PersonError("Nobody was merged with you, so there is nothing to undo.")
    return unmerge(db, last.id)


def run(db: SessionDB, words: list[str], me: str = OPERATOR) -> str:
    """Carry out the words behind /people; PersonError for what they do not say."""
    action, *given = words or ["list"]
    if action not in _ACTIONS:
        raise PersonError(f"/people knows {', '.join(_ACTIONS)}; there is no {action!r}.")
    usage, least, most, act = _ACTIONS[action]
    if not least <= len(given) <= most:
        raise PersonError(f'Write it like this: /people {usage} (a name with spaces in "quotes")')
    return act(db, given, me)


_Act = Callable[["SessionDB", list[str], str], str]
_ACTIONS: dict[str, tuple[str, int, int, _Act]] = {
    "list": ("list", 0, 0, lambda db, words, me: describe_all(db)),
    "show": ("show NAME", 1, 1, lambda db, words, me: describe(db, me, *words)),
    "add": ("add NAME [ROLE]", 1, 2, lambda db, words, me: add(db, *words)),
    "rename": ("rename NAME NEW", 2, 2, lambda db, words, me: rename(db, me, *words)),
    "merge": ("merge NAME INTO", 2, 2, lambda db, words, me: merge(db, me, *words)),
    "unmerge": ("unmerge NAME", 1, 1, lambda db, words, me: unmerge(db, *words)),
    "role": ("role NAME ROLE", 2, 2, lambda db, words, me: set_role(db, me, *words)),
    "limit": ("limit NAME KIND AMOUNT", 3, 3, lambda db, words, me: set_limit(db, me, *words)),
    "workspace": (
        "workspace NAME FOLDER",
        2,
        2,
        lambda db, words, me: set_workspace(db, me, *words),
    ),
    "remove": ("remove NAME", 1, 1, lambda db, words, me: remove(db, me, *words)),
    "code": ("code", 0, 0, lambda db, words, me: code_for(db, me)),
    "join": ("join CODE", 1, 1, lambda db, words, me: join(db, me, *words)),
}
ACTIONS = tuple(_ACTIONS)


def _day(at: float | None) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at)) if at else "never"
