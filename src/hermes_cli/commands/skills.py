"""`hermes skills`: what the agent has learnt to do."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import Any

from agent.config import Config, load_config
from agent.store import has_store, open_store
from hermes_cli.command_parser import meant
from hermes_cli.command_run import UserError
from hermes_state import SessionDB
from tools import shared_files
from tools.base import ToolError
from tools.memory_scope import SHARED, MemoryScope
from tools.skills.index import Skill, skills_of
from tools.skills.sharing import remove_skill, share_skill

from .output import print_json, print_table

EXAMPLES = """\
hermes skills                     what it has learnt
hermes skills show release-notes  read one
hermes skills list --json         for scripts
hermes skills share release-notes  let everybody who talks to it use one
hermes skills remove knitting     forget one; hermes memory undo brings it back
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "skills", help="what the agent has learnt to do", examples=EXAMPLES
    )
    parser.set_defaults(act=list_all, json=False)
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser("list", help="every skill")
    action.add_argument("--json", action="store_true", help="for scripts")
    action = actions.add_parser("show", help="read a skill")
    action.add_argument("name", metavar="SKILL")
    action.set_defaults(act=show)
    action = actions.add_parser("share", help="let everybody who talks to it use a skill of yours")
    action.add_argument("name", metavar="SKILL")
    action.set_defaults(act=share)
    action = actions.add_parser("remove", help="forget a skill")
    action.add_argument("name", metavar="SKILL")
    action.add_argument("--shared", action="store_true", help="one that everybody may use")
    action.set_defaults(act=remove)


def list_all(args: argparse.Namespace) -> int:
    """Print every skill with what it is for."""
    config = load_config()
    folder = config.home / "skills"
    skills = _current_skills(config)
    if args.json:
        print_json([{**skill._asdict(), "folder": str(skill.folder)} for skill in skills])
    elif skills:
        print_table(
            ("skill", "what it is for"), [(skill.name, skill.description) for skill in skills]
        )
    else:
        print(f"There are no skills yet. The agent makes them as it learns; they are in {folder}.")
    return 0


def _current_skills(config: Config) -> list[Skill]:
    """The skills, with what other machines have changed."""
    with _opened(config) as db:
        spaces = MemoryScope().spaces(db, "")
        shared_files.refresh(db, config.home, spaces.prefixes)
    return skills_of(config.home, config.skills, spaces.read)


@contextlib.contextmanager
def _opened(config: Config) -> Iterator[SessionDB | None]:
    """The store, if there is one: it knows who was merged with whoever sits here."""
    if not has_store(config.home):
        yield None
        return
    with open_store(config.home) as db:
        yield db


def share(args: argparse.Namespace) -> int:
    """Move a skill to where everybody's are."""
    config = load_config()
    with _opened(config) as db, _refusing():
        share_skill(config.home, db, MemoryScope().spaces(db, ""), args.name)
    print(f"Everybody who talks to me can use {args.name} from their next conversation on.")
    return 0


def remove(args: argparse.Namespace) -> int:
    """Forget a skill."""
    config = load_config()
    with _opened(config) as db, _refusing():
        spaces = MemoryScope().spaces(db, "")
        places = (SHARED,) if args.shared else spaces.own
        remove_skill(config.home, db, places, args.name)
    shared = " --shared" if args.shared else ""
    print(f"Forgotten: {args.name}. hermes memory undo{shared} brings it back.")
    return 0


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except ToolError as error:
        raise UserError(str(error)) from error


def show(args: argparse.Namespace) -> int:
    """Print a skill's SKILL.md."""
    config = load_config()
    skills = {skill.name: skill for skill in _current_skills(config)}
    if args.name not in skills:
        raise UserError(f"There is no skill {args.name!r}.{meant(args.name, skills)}")
    path = skills[args.name].folder / "SKILL.md"
    print(path.read_text(encoding="utf-8", errors="replace").rstrip())
    return 0
