"""`hermes setup`: from nothing to a model that answers, with few questions."""

from __future__ import annotations

import argparse
from typing import Any

from agent.home import hermes_home
from hermes_cli.setup.changes import undo_all
from hermes_cli.setup.talk import Talk
from hermes_cli.setup.wizard import Wizard

EXAMPLES = """\
hermes setup                model, chat platform, web page, wall and a backup
hermes setup --model-only   only the model
hermes setup --yes          in a script: what needs the least, nothing is asked
hermes setup --undo         take back what the last set-up changed
hermes setup --no-check     do not ask the model anything to see whether it works
"""
QUESTION = "Say hello, in one short sentence."


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "setup", help="connect a model and a chat platform, step by step", examples=EXAMPLES
    )
    parser.add_argument("--model-only", action="store_true", help="only the model")
    parser.add_argument("--yes", action="store_true", help="answer every question by its default")
    parser.add_argument("--undo", action="store_true", help="undo the last set-up")
    parser.add_argument("--no-check", action="store_true", help="do not try the model")


def run(args: argparse.Namespace) -> int:
    """Ask, try, write what was chosen, and end with an answer."""
    home = hermes_home()
    if args.undo:
        for line in undo_all(home) or ["nothing"]:
            print(f"Undone: {line}")
        return 0
    talk = Talk(is_silent=args.yes)
    code = Wizard(home, talk, check=not args.no_check).run(model_only=args.model_only)
    if code or args.no_check:
        return code
    return _show_answer(talk)


def _show_answer(talk: Talk) -> int:
    """A first turn, through everything that was set up."""
    from hermes_cli.chat import ChatOptions, run_chat

    talk.say(f"\nA first question: {QUESTION}")
    code = run_chat(ChatOptions(query=QUESTION, quiet=True))
    if code:
        talk.say("It did not answer. hermes doctor says what may be wrong.")
        return code
    talk.say("\nReady. Begin with: hermes")
    return 0
