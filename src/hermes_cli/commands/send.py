"""`hermes send`: a text, what is piped in, or files, to a chat."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermes_cli.command_run import UserError
from hermes_state import JobError

from .home import store

if TYPE_CHECKING:
    from hermes_state import SessionDB

LONGEST = 200_000
EXAMPLES = """\
hermes send --to telegram "The backup is done."       into its home chat
df -h | hermes send --to telegram:42                  what is piped in, into this chat
hermes send --to home --file report.pdf               a file; several: --file again
hermes send --to home --id backup-today "Done."       once under this name, however often
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "send", help="send a text to a chat, through the outbox", examples=EXAMPLES
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say, or pipe it in")
    parser.add_argument("--to", required=True, metavar="CHAT", help="home, telegram or telegram:ID")
    parser.add_argument(
        "--file", metavar="PATH", action="append", default=[], help="also this file, as it is now"
    )
    parser.add_argument("--id", metavar="NAME", help="sent once under this name, however often")
    parser.set_defaults(act=send)


def send(args: argparse.Namespace) -> int:
    """Put a text into the outbox; the gateway sends it."""
    from agent.config import load_config
    from agent.jobs.targets import home_chat, parse_target
    from gateway.media import FILE
    from gateway.platforms.registry import capabilities_of
    from gateway.status import running_pid

    config = load_config()
    files = [_file(name) for name in args.file]
    text = args.text if args.text is not None else _piped(is_needed=not files)
    if not text.strip() and not files:
        raise UserError("There is nothing to send: give a text, or pipe one in.")
    if len(text) > LONGEST:
        raise UserError(f"That is too long for a chat: {LONGEST:,} characters at most.")
    with store() as db:
        try:
            deliver, to = parse_target(config, db, args.to)
        except JobError as error:
            raise UserError(str(error)) from error
        address = home_chat(config, db, None) if deliver == "home" else to
        if not address:
            problem = "There is no home chat" if deliver == "home" else "That is no chat"
            raise UserError(f"{problem}. Say /sethome in one, or name a chat: telegram:ID")
        if files and not capabilities_of(str(address["platform"])).media:
            raise UserError(f"{address['platform']} takes no files.")
        name = f"send:{args.id or os.urandom(8).hex()}"
        is_new = bool(text.strip()) and db.add_delivery(f"say:{name}", text.strip(), **address)
        for number, file in enumerate(files):
            is_new |= _enqueue(db, config.home, f"{FILE}{name}:{number}", file, address)
    if not is_new:
        print("It was sent before under this name.")
    elif running_pid(config.home) is None:
        print("Kept. No gateway runs here now; it is sent when one does.")
    else:
        print("Handed to the gateway.")
    return 0


def _file(name: str) -> Path:
    path = Path(name).expanduser()
    if not path.is_file():
        raise UserError(f"There is no file {name}.")
    return path


def _enqueue(
    db: SessionDB, home: Path, delivery_id: str, file: Path, address: Mapping[str, Any]
) -> bool:
    """Keep a copy of a file as it is now, and put it into the outbox; False if it was before."""
    from gateway.media import safe_name, sent_folder

    folder = sent_folder(home) / os.urandom(8).hex()
    folder.mkdir(mode=0o700, parents=True)
    copy = folder / safe_name(file.name)
    try:
        shutil.copyfile(file, copy)
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error
    is_new = db.add_delivery(delivery_id, str(copy), **address)
    if not is_new:
        shutil.rmtree(folder)
    return is_new


def _piped(*, is_needed: bool) -> str:
    if sys.stdin.isatty():
        if not is_needed:
            return ""
        raise UserError('What is to be sent? hermes send --to telegram "…", or pipe it in.')
    return sys.stdin.read(LONGEST + 1)
