"""`hermes memory`: what the agent remembers from one conversation to the next."""

from __future__ import annotations

import argparse
from typing import Any

from agent.home import hermes_home
from agent.store import find_store, open_if_server
from hermes_cli.command_run import UserError
from tools import shared_files
from tools.base import ToolError
from tools.memory import FILES, Operation, change_entries, memory_path, read_entries

from .output import bold, print_json, visible

EXAMPLES = """\
hermes memory                                     what is remembered
hermes memory add "The project is called Hermes"  remember something
hermes memory add --user "Prefers short answers"  about you
hermes memory remove "called Hermes"              forget the entry with this in it
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("memory", help="what the agent remembers", examples=EXAMPLES)
    parser.set_defaults(act=show, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("show", help="what is remembered")
    action.add_argument("--json", action="store_true", help="for scripts")
    action = actions.add_parser("add", help="remember something")
    action.add_argument("text", help="one fact, in a sentence or two")
    action.add_argument("--user", action="store_true", help="it is about the person")
    action.set_defaults(act=change)
    action = actions.add_parser("remove", help="forget an entry")
    action.add_argument("text", help="a part of it that no other entry has")
    action.add_argument("--user", action="store_true", help="it is about the person")
    action.set_defaults(act=change)


def show(args: argparse.Namespace) -> int:
    """Print both files, entry by entry."""
    home = hermes_home()
    with open_if_server(find_store(home)) as db:
        shared_files.refresh(db, home)
    remembered = {target: read_entries(memory_path(home, target)) for target in FILES}
    if args.json:
        print_json(remembered)
        return 0
    for target, entries in remembered.items():
        name, limit = FILES[target]
        print(bold(f"{name} ({len(''.join(entries))} of {limit} characters)"))
        print("\n".join(f"- {visible(entry)}" for entry in entries) or "  nothing yet")
    return 0


def change(args: argparse.Namespace) -> int:
    """Add or remove an entry; the next conversation reads it."""
    target = "user" if args.user else "memory"
    operation = Operation(action=args.action, content=args.text, old_text=args.text)
    try:
        home = hermes_home()
        with open_if_server(find_store(home)) as db:
            entries = change_entries(home, target, [operation], db)
    except ToolError as error:
        raise UserError(str(error)) from error
    print(f"There are {len(entries)} entries now. The next conversation reads them.")
    return 0
