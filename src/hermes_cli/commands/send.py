"""`hermes send`: a text, or what is piped in, to a chat."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from hermes_cli.command_run import UserError
from hermes_state import JobError

from .home import store

LONGEST = 200_000
EXAMPLES = """\
hermes send --to telegram "The backup is done."       into its home chat
df -h | hermes send --to telegram:42                  what is piped in, into this chat
hermes send --to home --id backup-today "Done."       once under this name, however often
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "send", help="send a text to a chat, through the outbox", examples=EXAMPLES
    )
    parser.add_argument("text", metavar="TEXT", nargs="?", help="what to say, or pipe it in")
    parser.add_argument("--to", required=True, metavar="CHAT", help="home, telegram or telegram:ID")
    parser.add_argument("--id", metavar="NAME", help="sent once under this name, however often")
    parser.set_defaults(act=send)


def send(args: argparse.Namespace) -> int:
    """Put a text into the outbox; the gateway sends it."""
    from agent.config import load_config
    from agent.jobs.targets import home_chat, parse_target
    from gateway.status import running_pid

    config = load_config()
    text = args.text if args.text is not None else _piped()
    if not text.strip():
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
        name = f"say:send:{args.id or os.urandom(8).hex()}"
        is_new = db.add_delivery(name, text.strip(), **address)
    if not is_new:
        print("It was sent before under this name.")
    elif running_pid(config.home) is None:
        print("Kept. No gateway runs here now; it is sent when one does.")
    else:
        print("Handed to the gateway.")
    return 0


def _piped() -> str:
    if sys.stdin.isatty():
        raise UserError('What is to be sent? hermes send --to telegram "…", or pipe it in.')
    return sys.stdin.read(LONGEST + 1)
