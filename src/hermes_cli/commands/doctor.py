"""`hermes doctor`: diagnose problems and fix them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from agent.store import has_store
from hermes_cli.command_run import UserError

from .doctor_checks import CHECKS, Ailment
from .home import store
from .output import bold, print_json

EXAMPLES = """\
hermes doctor          what is wrong, and what to do about it
hermes doctor --fix    fix what can be fixed
hermes doctor --fix search   in one part alone
hermes doctor --acknowledge   you know what a salvage could not read; do not report it again
hermes doctor --json   for scripts
"""


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser("doctor", help="diagnose problems and fix them", examples=EXAMPLES)
    parser.add_argument("parts", nargs="*", metavar="PART", help="examine these alone")
    parser.add_argument("--fix", action="store_true", help="fix what can be fixed")
    parser.add_argument(
        "--acknowledge", action="store_true", help="do not report earlier losses again"
    )
    parser.add_argument("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> int:
    """Check every part; 1 if a problem remains."""
    home = hermes_home()
    if unknown := [part for part in args.parts if part not in CHECKS]:
        raise UserError(f"There is no part {unknown[0]!r}. There are: {', '.join(CHECKS)}.")
    if args.acknowledge and has_store(home):
        _acknowledge(home)
    ailing: dict[str, list[Ailment]] = {}
    cured: dict[str, list[str]] = {}
    for name in args.parts or CHECKS:
        check = CHECKS[name]
        ailments = check(home)
        if args.fix and any(ailment.fix for ailment in ailments):
            for ailment in ailments:
                if ailment.fix is not None:
                    ailment.fix()
            left = check(home)
            still = {ailment.problem for ailment in left}
            cured[name] = [ailment.problem for ailment in ailments if ailment.problem not in still]
            ailments = left
        ailing[name] = ailments
        if not args.json:
            _print(name, ailments, cured.get(name, []))
    every = [ailment for ailments in ailing.values() for ailment in ailments]
    wrong = sum(not ailment.is_hint for ailment in every)
    if args.json:
        parts = {
            name: {
                "ailments": [ailment.facts() for ailment in ailments],
                "fixed": cured.get(name, []),
            }
            for name, ailments in ailing.items()
        }
        print_json({"ok": not wrong, "parts": parts})
    elif wrong:
        can = any(ailment.fix for ailment in every) and not args.fix
        hint = " Fix what can be fixed with: hermes doctor --fix" if can else ""
        print(f"\nWrong: {wrong}.{hint}")
    elif any(not ailment.is_fine for ailment in every):
        print("\nThere are no problems; see the hints above.")
    else:
        print("\nAll is well.")
    return 1 if wrong else 0


def _acknowledge(home: Path) -> None:
    from hermes_state import acknowledge_losses

    with store(home) as db:
        acknowledge_losses(db)


def _print(name: str, ailments: list[Ailment], fixed: list[str]) -> None:
    mark = "!" if any(not ailment.is_fine for ailment in ailments) else "✓"
    if any(not ailment.is_hint for ailment in ailments):
        mark = "✗"
    print(f"{mark} {bold(name)}")
    for problem in fixed:
        print(f"    fixed: {problem}")
    for ailment in ailments:
        print(f"    {ailment.problem}")
        if ailment.advice:
            print(f"    → {ailment.advice}")
