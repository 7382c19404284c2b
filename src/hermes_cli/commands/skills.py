"""`hermes skills`: what the agent has learnt to do."""

from __future__ import annotations

import argparse
from typing import Any

from agent.config import Config, load_config
from agent.store import find_store, open_if_server
from hermes_cli.command_parser import meant
from hermes_cli.command_run import UserError
from tools import shared_files
from tools.skills.index import Skill, skills_of

from .output import print_json, print_table

EXAMPLES = """\
hermes skills                     what it has learnt
hermes skills show release-notes  read one
hermes skills list --json         for scripts
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
    with open_if_server(find_store(config.home)) as db:
        shared_files.refresh(db, config.home)
    return skills_of(config.home, config.skills)


def show(args: argparse.Namespace) -> int:
    """Print a skill's SKILL.md."""
    config = load_config()
    skills = {skill.name: skill for skill in _current_skills(config)}
    if args.name not in skills:
        raise UserError(f"There is no skill {args.name!r}.{meant(args.name, skills)}")
    path = skills[args.name].folder / "SKILL.md"
    print(path.read_text(encoding="utf-8", errors="replace").rstrip())
    return 0
