"""`hermes memory`: what the agent remembers from one conversation to the next."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from agent import memory_actions as actions
from agent.home import hermes_home
from agent.memory_find import describe
from agent.store import has_store, open_store
from hermes_cli.command_run import UserError
from hermes_state import OPERATOR
from tools.base import ToolError
from tools.memory import FILES
from tools.memory_history import Author
from tools.memory_scope import SHARED, Space

from .output import bold, print_json, visible

EXAMPLES = """\
hermes memory                                     what is remembered, and where it came from
hermes memory add "The project is called Hermes"  remember something
hermes memory add --user "Prefers short answers"  about you
hermes memory edit 3fa2c1 "Prefers long answers"  say an entry in other words, by its id
hermes memory remove "called Hermes"              forget the entry with this in it
hermes memory find "where is the office"          what fits, with what it was before
hermes memory history                             what was learnt and changed
hermes memory undo                                undo the last of it
hermes memory add --shared "Closed on Mondays"    for everybody who talks to it
hermes memory show --person Ada                   what it remembers of somebody else
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("memory", help="what the agent remembers", examples=EXAMPLES)
    parser.set_defaults(act=show, json=False, where=False, person="", group="", shared=False)
    parsers = parser.add_subparsers(dest="action", metavar="action")

    def add(name: str, help_: str, act: Any) -> Any:
        action = parsers.add_parser(name, help=help_)
        whose = action.add_mutually_exclusive_group()
        whose.add_argument("--shared", action="store_true", help="what everybody gets")
        whose.add_argument("--person", metavar="NAME", default="", help="somebody else's")
        whose.add_argument("--group", metavar="CHAT", default="", help="of a group: telegram:-100")
        action.set_defaults(act=act)
        return action

    action = add("show", "what is remembered", show)
    action.add_argument("--json", action="store_true", help="for scripts")
    action.add_argument("--where", action="store_true", help="with --json: with where it is from")
    action = add("find", "what fits a question, with what it was before", find)
    action.add_argument("words", nargs="+", help="a question or words")
    action = add("add", "remember something", change)
    action.add_argument("text", help="one fact, in a sentence or two")
    action.add_argument("--user", action="store_true", help="it is about the person")
    action = add("edit", "say an entry in other words", change)
    action.add_argument("entry", help="its id, or a part of it that no other entry has")
    action.add_argument("text", help="what it is to say")
    action = add("remove", "forget an entry", change)
    action.add_argument("text", help="its id, or a part of it that no other entry has")
    action.add_argument("--user", action="store_true", help="it is about the person")
    action.add_argument(
        "--for-good", action="store_true", help="so that it cannot be undone, nor be read again"
    )
    action = add("history", "what was learnt and changed, the newest first", history)
    action.add_argument("--json", action="store_true", help="for scripts")
    action.add_argument("-n", "--limit", type=int, default=actions.MOST_CHANGES, help="how many")
    action = add("undo", "undo a change", change)
    action.add_argument("change", nargs="?", default="", help="its id; the last one if left out")


@contextlib.contextmanager
def _desk(args: argparse.Namespace) -> Iterator[actions.Desk]:
    """Whose memories are meant."""
    home = hermes_home()
    with contextlib.ExitStack() as stack:
        # Without a store nobody has talked to it yet: there is one person, and the files.
        db = stack.enter_context(open_store(home)) if has_store(home) else None
        person = OPERATOR
        if args.person:
            known = None if db is None else db.resolve_person(args.person)
            if known is None:
                raise UserError(f"There is nobody called {args.person!r}. See: hermes people list")
            person = known.id
        names = [person] if db is None else db.list_memory_spaces(person).spaces
        own = tuple(Space("person", name) for name in names)
        if args.group:
            own = (Space("chat", args.group),)
        if args.shared:
            own = (SHARED,)
        try:
            yield actions.Desk(home, db, (*own, *(() if args.shared else (SHARED,))), own, Author())
        except ToolError as error:
            raise UserError(str(error)) from error


def show(args: argparse.Namespace) -> int:
    """Print what is remembered, entry by entry."""
    with _desk(args) as desk:
        entries = actions.list_entries(desk)
        if args.json:
            own = [entry for entry in entries if entry.space in desk.change]
            print_json(
                [_facts(desk, entry) for entry in entries]
                if args.where
                else {name: [e.text for e in own if e.target == name] for name in FILES}
            )
            return 0
        for target, (name, limit) in FILES.items():
            own = [e for e in entries if e.target == target and e.space in desk.change]
            if args.shared and target == "user":
                continue
            used = len("".join(entry.text for entry in own))
            print(bold(f"{name} ({used} of {limit} characters)"))
            print("\n".join(_line(desk, entry) for entry in own) or "  nothing yet")
        shared = [entry for entry in entries if entry.space not in desk.change]
        if shared:
            print(bold("For everybody"))
            print("\n".join(_line(desk, entry) for entry in shared))
    return 0


def find(args: argparse.Namespace) -> int:
    """Print what fits, and struck what it was before."""
    with _desk(args) as desk:
        print(visible(describe(desk, " ".join(args.words))))
    return 0


def _line(desk: actions.Desk, entry: actions.Remembered) -> str:
    return f"- [{entry.id}] {visible(entry.text)} ({actions.origin_in_words(desk, entry)})"


def _facts(desk: actions.Desk, entry: actions.Remembered) -> dict[str, Any]:
    origin = entry.origin
    return {
        "id": entry.id,
        "target": entry.target,
        "text": entry.text,
        "shared": entry.space == SHARED,
        "how": "hand" if origin is None else origin.how,
        "at": None if origin is None else origin.at,
        "session_id": None if origin is None else origin.session_id or None,
    }


def history(args: argparse.Namespace) -> int:
    """Print what was learnt and changed."""
    with _desk(args) as desk:
        if args.json:
            changes = actions.list_changes(desk, args.limit)
            print_json([dataclasses.asdict(change) for change in changes])
        else:
            print(visible(actions.describe_changes(desk, args.limit)))
    return 0


def change(args: argparse.Namespace) -> int:
    """Add, edit, forget or undo; the next conversation reads it."""
    with _desk(args) as desk:
        if args.action == "add":
            told = actions.add(desk, args.text, "user" if args.user else "memory")
        elif args.action == "edit":
            told = actions.edit(desk, args.entry, args.text)
        elif args.action == "undo":
            told = actions.undo(desk, args.change)
        else:
            target = "user" if args.user else "memory"
            told = actions.forget(desk, args.text, target=target, for_good=args.for_good)
    print(visible(told))
    return 0
