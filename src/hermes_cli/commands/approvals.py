"""`hermes approvals`: list and revoke what was approved for good."""

from __future__ import annotations

import argparse
from typing import Any

from hermes_cli.command_run import UserError
from hermes_state import EVERYONE
from tools.approval_words import grant_text

from .home import store
from .output import print_json, print_table, when

EXAMPLES = """\
hermes approvals                what is always allowed, and for whom
hermes approvals revoke 2       ask again about the second of them
hermes approvals revoke --all   ask again about everything
hermes approvals list --json    for scripts
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "approvals", help="list and revoke what tools are always allowed to do", examples=EXAMPLES
    )
    parser.set_defaults(act=list_all, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("list", help="what is always allowed")
    action.add_argument("--json", action="store_true", help="for scripts")
    action = actions.add_parser("revoke", help="ask again, at once, also in programs that run")
    action.add_argument("number", nargs="?", metavar="NUMBER", help="as hermes approvals lists it")
    action.add_argument("--all", action="store_true", help="everything, of everybody")
    action.set_defaults(act=revoke)


def list_all(args: argparse.Namespace) -> int:
    """Print the permanent approvals, numbered."""
    with store() as db:
        grants = db.view(EVERYONE).grants()
    if args.json:
        print_json(grants)
    elif grants:
        rows = [
            (number, when(grant["granted_at"]), grant["granted_by"] or "you", _text(grant))
            for number, grant in enumerate(grants, 1)
        ]
        print_table(("", "since", "for", "what"), rows)
    else:
        print('Nothing is always allowed. "always" as the answer to a tool\'s question does that.')
    return 0


def revoke(args: argparse.Namespace) -> int:
    """Revoke one or all of them."""
    with store() as db:
        grants = db.view(EVERYONE).grants()
        if not args.all:
            grants = [_chosen(grants, args.number)]
        for grant in grants:
            db.revoke_grant(grant["pattern_key"], grant["granted_by"])
            whose = f" for {grant['granted_by']}" if grant["granted_by"] else ""
            print(f"Asked again from now on{whose}: {_text(grant)}")
    if not grants:
        print("Nothing is always allowed.")
    return 0


def _text(grant: dict[str, Any]) -> str:
    return grant_text(grant["pattern_key"])


def _chosen(grants: list[dict[str, Any]], number: str | None) -> dict[str, Any]:
    if number is None:
        raise UserError("Which one? Give its number (hermes approvals lists them), or --all.")
    if not number.isdecimal() or not 0 < int(number) <= len(grants):
        raise UserError(f"There is no approval {number!r}. See: hermes approvals list")
    return grants[int(number) - 1]
