"""`hermes backup`: back up everything that cannot be rebuilt, while Hermes runs."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from hermes_cli.command_run import UserError
from hermes_cli.home_backup import write_backup

from .backup_points import add_actions
from .output import print_json, size

EXAMPLES = """\
hermes backup                         into backups/ in the Hermes home
hermes backup -o ~/copies/            into another folder
hermes backup -o mine.tar.gz          into this file
hermes backup --no-secrets -l travel  without keys and tokens, with a label
hermes backup watch --every 60        every minute what has changed, until Ctrl-C
hermes backup increment --keep 48     the same once, for cron
hermes backup verify                  restore the newest aside, and look at it
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "backup", help="back up everything, while Hermes runs", examples=EXAMPLES
    )
    parser.add_argument("-o", "--output", metavar="FILE|FOLDER", help="where to")
    parser.add_argument("-l", "--label", default="", help="a word for the file's name")
    parser.add_argument("--no-secrets", action="store_true", help="leave keys and tokens out")
    parser.add_argument("--json", action="store_true", help="for scripts")
    parser.set_defaults(act=write)
    add_actions(parser)


def write(args: argparse.Namespace) -> int:
    """Write a backup, read it again, and say where it is."""
    import time

    home = hermes_home()
    if not re.fullmatch(r"[\w.-]*", args.label):
        raise UserError("A label may have letters, digits, dots and dashes.")
    label = f"-{args.label}" if args.label else ""
    name = f"hermes-{time.strftime('%Y%m%d-%H%M%S')}{label}.tar.gz"
    target = Path(args.output).expanduser() if args.output else home / "backups" / name
    if args.output and (target.is_dir() or args.output.endswith("/")):
        target = target / name
    if target.exists():
        raise UserError(f"{target} is there already; it is not overwritten.")
    written = write_backup(home, target, secrets=not args.no_secrets)
    if args.json:
        print_json({"path": str(target), **written})
        return 0
    print(
        f"{target} ({size(target.stat().st_size)}): {written['sessions']} sessions,"
        f" {written['messages']} messages, {len(written['files'])} files; read again, all is there."
    )
    if "server" in written:
        print(
            f"Conversations are on {written['server']}, and not in this archive: copy them with the"
            " server's own tools, pg_dump or pg_basebackup. See docs/postgres.md"
        )
    if written["left_out"]:
        print("Left out; set these again after a restore elsewhere:")
        for place in written["left_out"]:
            print(f"  {place}")
    if args.no_secrets:
        print("Conversations are included unchanged, with any secrets that were said in them.")
    print(f"Go back to it with: hermes restore {target}")
    return 0
