"""`hermes version`: which Hermes this is, and on what it runs."""

from __future__ import annotations

import argparse
import platform
from typing import Any

from hermes_cli import __version__

from .output import print_json

EXAMPLES = """\
hermes version          the version, and what it runs on
hermes version --json   for scripts
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("version", help="print the version", examples=EXAMPLES)
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> int:
    """Print it."""
    import os

    import apsw

    from agent.home import home_path

    facts = {
        "version": __version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "platform": platform.platform(),
        "home": str(home_path(os.environ)),
    }
    if args.json:
        print_json(facts)
        return 0
    print(f"hermes {facts.pop('version')}")
    for name, fact in facts.items():
        print(f"{name}: {fact}")
    return 0
