"""`hermes gateway matrix`: the keys of encrypted rooms, and the devices that are known."""

from __future__ import annotations

import argparse
import getpass
import sys
from pathlib import Path
from typing import Any

from agent.store import open_store
from tools.extras import install_hint

from .commands.output import visible


def add_parser(actions: Any) -> None:
    """Add it to `hermes gateway`."""
    matrix = actions.add_parser("matrix", help="keys and devices for encrypted Matrix rooms")
    steps = matrix.add_subparsers(dest="matrix_action", metavar="action", required=True)
    steps.add_parser("devices", help="the devices that are known, with their keys")
    keys = steps.add_parser("keys", help="the keys of encrypted rooms")
    ways = keys.add_subparsers(dest="keys_action", metavar="action", required=True)
    for name, text in (
        ("export", "write them to a file, protected by a passphrase"),
        ("import", "add those in a file, from here or from another client"),
    ):
        way = ways.add_parser(name, help=text)
        way.add_argument("file", metavar="FILE", type=Path)


def run(home: Path, args: argparse.Namespace) -> int:
    """Carry out `hermes gateway matrix …`; returns the exit code."""
    try:
        from gateway.platforms.matrix import keys_file
    except ImportError:
        print(
            f"hermes: the package for this is missing. Run: {install_hint('matrix')}",
            file=sys.stderr,
        )
        return 2
    try:
        if args.matrix_action == "devices":
            with open_store(home) as db:
                devices = keys_file.read_devices(db)
            for device in devices:
                whose = "this Hermes" if device.is_ours else visible(device.name)
                print(
                    f"{visible(device.user_id)}  {visible(device.device_id)}  {device.key}  {whose}"
                )
            if not devices:
                print("None yet: they are known once Matrix has been connected.")
            return 0
        if args.keys_action == "export":
            if args.file.exists():
                raise keys_file.KeysFileError(f"{args.file} exists already; name another file.")
            passphrase = _ask_passphrase(twice=True)
            with open_store(home) as db:
                count = keys_file.export_keys(db, args.file, passphrase)
            print(f"{count} keys were written to {args.file}.")
            return 0
        passphrase = _ask_passphrase(twice=False)
        with open_store(home) as db:
            added, count = keys_file.import_keys(db, args.file, passphrase)
    except (keys_file.KeysFileError, OSError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 1
    print(f"{added} of {count} keys are new. A gateway that runs reads them at its next start.")
    return 0


def _ask_passphrase(*, twice: bool) -> str:
    """A passphrase from the keyboard, or one line of what is piped in."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    passphrase = getpass.getpass("Passphrase for the file: ")
    if twice and getpass.getpass("Once more: ") != passphrase:
        raise OSError("the two passphrases differ")
    return passphrase
