"""`hermes setup`: from nothing to a model that answers, with few questions."""

from __future__ import annotations

import argparse
from typing import Any

from agent.home import hermes_home
from hermes_cli.setup_wizard import Wizard

EXAMPLES = """\
hermes setup                a model first, then a chat platform if you like
hermes setup --model-only   only the model
hermes setup --no-check     do not ask the model anything to see whether the key works
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "setup", help="connect a model and a chat platform, step by step", examples=EXAMPLES
    )
    parser.add_argument("--model-only", action="store_true", help="no chat platform")
    parser.add_argument("--no-check", action="store_true", help="do not try the key")


def run(args: argparse.Namespace) -> int:
    """Ask, try, and write what was chosen."""
    return Wizard(hermes_home(), check=not args.no_check).run(platform=not args.model_only)
