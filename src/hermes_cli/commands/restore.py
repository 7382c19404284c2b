"""`hermes restore`: go back to a backup; what was there before is kept aside."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from .output import confirm, print_json, when

EXAMPLES = """\
hermes restore backup.tar.gz           go back to it
hermes restore backup.tar.gz --check   only look whether it is whole
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("restore", help="go back to a backup", examples=EXAMPLES)
    parser.add_argument("file", metavar="FILE", help="what hermes backup wrote")
    parser.add_argument("--check", action="store_true", help="only look whether it is whole")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> int:
    """Check a backup, put it in place, and open the store once to see that it works."""
    from agent.home import hermes_home
    from hermes_cli.home_backup import STORE, put_in_place, require_idle, unpack

    from .home import store

    home = hermes_home()
    path = Path(args.file).expanduser()
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as scratch:
        facts = unpack(path, Path(scratch))
        held = f"{facts['sessions']} sessions and {facts['messages']} messages"
        if args.check:
            if args.json:
                print_json(facts)
            else:
                print(f"{path} is whole: {held} of {when(facts['created_at'])}.")
            return 0
        require_idle(home)
        confirm(f"Go back to {held} of {when(facts['created_at'])}?", args.yes)
        require_idle(home)  # somebody may have come while the person was thinking
        aside = put_in_place(Path(scratch), home)
    if STORE in facts["files"]:
        with store(home) as db:
            problems = db.check_store()
    else:
        problems = []
    if args.json:
        print_json({**facts, "kept_aside": aside and str(aside)})
    else:
        print(f"{home} holds {held} again.")
        if aside is not None:
            print(f"What was there before is in {aside}.")
    for one in problems:
        print(f"{one.problem} See: hermes doctor")
    return 0
