"""`hermes memory`: what the agent remembers from one conversation to the next."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from hermes_base.files import write_private
from hermes_cli.command_run import UserError
from tools.base import ToolError
from tools.memory import FILES, SEPARATOR, Operation, changed, locked, memory_path, read_entries

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
    found = {target: read_entries(memory_path(home, target)) for target in FILES}
    if args.json:
        print_json(found)
        return 0
    for target, entries in found.items():
        name, limit = FILES[target]
        print(bold(f"{name} ({len(''.join(entries))} of {limit} characters)"))
        print("\n".join(f"- {visible(entry)}" for entry in entries) or "  nothing yet")
    return 0


def change(args: argparse.Namespace) -> int:
    """Add or remove an entry; the next conversation reads it."""
    target = "user" if args.user else "memory"
    operation = Operation(action=args.action, content=args.text, old_text=args.text)
    try:
        count = change_entries(hermes_home(), target, [operation])
    except ToolError as error:
        raise UserError(str(error)) from error
    print(f"There are {count} entries now. The next conversation reads them.")
    return 0


def change_entries(home: Path, target: str, operations: list[Operation]) -> int:
    """Change a memory file as the agent's own tool does; returns how many entries it has then.

    Raises ToolError if an entry is unfit, not there, or one too many.
    """
    path = memory_path(home, target)
    with locked(path):
        entries = read_entries(path)
        for operation in operations:
            entries = changed(entries, operation)
        text = SEPARATOR.join(entries)
        if len(text) > (limit := FILES[target][1]):
            raise ToolError(
                f"That makes {len(text)} characters; at most {limit} are kept in {path.name}. "
                "Remove something first, or say it more briefly."
            )
        write_private(path, text + "\n" if text else "")
    return len(entries)
