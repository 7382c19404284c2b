"""`hermes restore`: go back to a backup; what was there before is kept aside."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from agent.store import StorePlace, find_store
from hermes_cli.command_run import UserError
from hermes_cli.home_backup import STORE, put_in_place, require_idle, unpack, unpack_point

from .backup_points import points_folder
from .home import store
from .output import confirm, print_json, when

EXAMPLES = """\
hermes restore backup.tar.gz            go back to it
hermes restore backup.tar.gz --check    only look whether it is whole
hermes restore --at "2026-11-15 14:00"  to this time, from backups/continuous
hermes restore --from ~/points --at 1   to the point of this number
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("restore", help="go back to a backup", examples=EXAMPLES)
    parser.add_argument("file", nargs="?", metavar="FILE", help="what hermes backup wrote")
    parser.add_argument("--from", dest="points", metavar="FOLDER", help="of a continuous backup")
    parser.add_argument("--at", metavar="TIME|POINT", help="the newest point not after this time")
    parser.add_argument("--check", action="store_true", help="only look whether it is whole")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> int:
    """Check a backup, put it in place, and open the store once to check that it works."""
    home = hermes_home()
    if args.file and (args.points or args.at):
        raise UserError("Give a file, or --from and --at for a continuous backup; not both.")
    if not args.file and not args.points and not args.at:
        raise UserError("Say what to go back to: a file, or --at a time. See: hermes restore -h")
    path = Path(args.file).expanduser() if args.file else points_folder(args.points)
    with tempfile.TemporaryDirectory(prefix=".restore-", dir=home) as scratch:
        if args.file:
            facts = unpack(path, Path(scratch))
        else:
            facts = unpack_point(path, args.at, Path(scratch))
        held = f"{facts['sessions']} sessions and {facts['messages']} messages"
        if args.check:
            if args.json:
                print_json(facts)
            else:
                print(f"{path} is whole: {held} of {when(facts['created_at'])}.")
            return 0
        require_idle(home)
        confirm(f"Go back to {held} of {when(facts['created_at'])}?", args.yes)
        require_idle(home)  # a program may have been started while the person was thinking
        aside = put_in_place(Path(scratch), home)
    place = find_store(home)
    problems = []
    if STORE in facts["files"] and place.server is None:
        with store(home) as db:
            problems = db.check_store()
    if args.json:
        print_json({**facts, "kept_aside": aside and str(aside)})
    else:
        print(f"{home} holds {held} again.")
        if aside is not None:
            print(f"What was there before is in {aside}.")
        if place.server is not None:
            print(_about_server(place, STORE in facts["files"]))
    for problem in problems:
        print(f"{problem.problem} See: hermes doctor")
    return 0


def _about_server(place: StorePlace, has_file: bool) -> str:
    if not has_file:
        return f"Conversations are on {place}, as they were: go back there with the server's tools."
    return (
        f"The conversations of the backup are in {place.path}, but Hermes is set to use {place}. To"
        " use the file: hermes config set store file"
    )
