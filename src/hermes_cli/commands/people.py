"""`hermes people`: who there is, and by which doors they come."""

from __future__ import annotations

import argparse
from typing import Any

from agent import people_actions as people
from hermes_cli.command_run import UserError
from hermes_state import OPERATOR, ROLES, PersonError

from .home import store
from .output import print_json, print_table, when

EXAMPLES = """\
hermes people                                everybody, with their chat accounts and API keys
hermes people merge telegram:42 me           that account is mine: find its conversations here
hermes people code                           a code that makes another chat, key or terminal me
hermes people role Ada guest                 what Ada may do
hermes people limit Ada usd_per_day 2        how much Ada may use
hermes people unmerge Bob                    two who were not one after all
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "people", help="who there is, and by which accounts they come", examples=EXAMPLES
    )
    parser.set_defaults(act=list_all, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")

    def add(name: str, help_: str, *arguments: str) -> Any:
        action = actions.add_parser(name, help=help_)
        for argument in arguments:
            action.add_argument(argument.lower(), metavar=argument)
        action.set_defaults(act=_act, arguments=[argument.lower() for argument in arguments])
        return action

    action = actions.add_parser("list", help="everybody")
    action.add_argument("--json", action="store_true", help="for scripts")
    add("show", "one of them: doors, limits, merges", "NAME")
    action = add("add", "somebody who has no account here yet", "NAME")
    action.add_argument("--role", choices=ROLES, default="member")
    add("rename", "call somebody by another name", "NAME", "NEW")
    add("merge", "two who are one: the first becomes the second", "NAME", "INTO")
    add("unmerge", "undo the last merge of this name (or id); `show` lists them", "NAME")
    add("role", f"what somebody may do: {', '.join(ROLES)}", "NAME", "ROLE")
    add("limit", "how much somebody may use; `none` for no limit", "NAME", "KIND", "AMOUNT")
    add("workspace", "where the agent works for somebody in chats; `default`", "NAME", "FOLDER")
    add("remove", "forget somebody and let them in no longer", "NAME")
    add("code", "a code that makes another chat, API key or terminal you")
    add("join", "be who was given this code elsewhere", "CODE")


def list_all(args: argparse.Namespace) -> int:
    """Print everybody."""
    with store() as db:
        everybody = people.list_people(db)
    if args.json:
        print_json(everybody)
        return 0
    print_table(
        ("name", "role", "last used", "conversations", "comes by"),
        [
            (
                person["name"],
                person["role"],
                when(person["last_active"]),
                person["conversations"],
                ", ".join(person["doors"]) or "no door yet",
            )
            for person in everybody
        ],
    )
    return 0


def _act(args: argparse.Namespace) -> int:
    words = [args.action, *(getattr(args, name) for name in args.arguments)]
    if args.action == "add":
        words.append(args.role)
    with store() as db:
        try:
            print(people.run(db, words, OPERATOR))
        except PersonError as error:
            raise UserError(str(error)) from error
    return 0
