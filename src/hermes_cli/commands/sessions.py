"""`hermes sessions`: every conversation, whichever front end it was held in."""

from __future__ import annotations

import argparse
import importlib
import re
from typing import Any

EXAMPLES = """\
hermes sessions list                              the last conversations
hermes sessions search "train to rome"            where something was said
hermes sessions show "Trip to Rome"               read one
hermes sessions tree "Trip to Rome"               its continuations and branches
hermes sessions export "Trip to Rome" -f html -o trip.html
hermes sessions export --all -o everything.jsonl  every conversation, without secrets
hermes sessions import everything.jsonl           bring them in again
hermes sessions rename "Trip to Rome" "Roman holiday"
hermes sessions prune --older-than 180 --dry-run  what would be deleted
"""

_READ = "hermes_cli.commands.sessions_read"
_CHANGE = "hermes_cli.commands.sessions_change"
_TRANSFER = "hermes_cli.commands.sessions_transfer"


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "sessions", help="list, search, read, export and tidy conversations", examples=EXAMPLES
    )
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    _add_reading(actions)
    _add_transfer(actions)
    _add_changes(actions)
    _add_upkeep(actions)


def run(args: argparse.Namespace) -> int:
    """Carry one of the actions out."""
    module, name = args.where
    return int(getattr(importlib.import_module(module), name)(args))


def _action(
    actions: Any, name: str, help_: str, module: str, examples: str = ""
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=help_, description=help_, examples=examples
    )
    parser.set_defaults(where=(module, f"{name}_sessions"))
    return parser


def _add_reading(actions: Any) -> None:
    action = _action(
        actions, "list", "the last conversations, the newest first", _READ,
        "hermes sessions list --source telegram   only those from Telegram\n"
        "hermes sessions list --json              for scripts\n",
    )  # fmt: skip
    action.add_argument("-n", "--limit", type=_count, default=20, help="at most so many (20)")
    action.add_argument("--source", help="only from here: cli, tui, telegram, …")
    action.add_argument("--archived", action="store_true", help="the archived ones")
    action.add_argument("--all", action="store_true", help="helpers and earlier parts too")
    _json(action)
    action = _action(
        actions, "search", "find what was said", _READ,
        'hermes sessions search when does the train leave\n'
        'hermes sessions search train OR plane      one word or the other\n'
        'hermes sessions search \'"exact words"\'     in this order\n',
    )  # fmt: skip
    action.add_argument(
        "words",
        nargs="+",
        help='a question or words; exact: "a phrase", begin*, this OR that, -without',
    )
    action.add_argument("-n", "--limit", type=_count, default=10, help="at most so many (10)")
    action.add_argument("--source", help="only from here")
    action.add_argument("--role", choices=("user", "assistant", "tool"), help="only said by these")
    action.add_argument("--newest", action="store_true", help="the newest first, not the best")
    action.add_argument(
        "--why", action="store_true", help="say for each hit what matched and how it was ranked"
    )
    _json(action)
    action = _action(actions, "show", "read a conversation from its beginning", _READ)
    _session(action)
    action.add_argument("-n", "--limit", type=_count, help="only the last so many messages")
    action.add_argument("--tools", action="store_true", help="tool calls and results too")
    _json(action)
    action = _action(actions, "tree", "continuations, branches and helpers, drawn as a tree", _READ)
    _session(action)
    _json(action)
    action = _action(actions, "stats", "the store in numbers", _READ)
    _json(action)


def _add_transfer(actions: Any) -> None:
    action = _action(
        actions, "export", "write conversations to a file, without the secrets in them", _TRANSFER,
        'hermes sessions export "Trip to Rome" -f markdown   to read\n'
        'hermes sessions export --all --raw -o all.jsonl     to keep, with secrets\n',
    )  # fmt: skip
    action.add_argument("session", nargs="?", metavar="ID|TITLE", help="which conversation")
    action.add_argument("--all", action="store_true", help="every conversation")
    action.add_argument("--source", help="with --all: only from here")
    action.add_argument(
        "-f", "--format", choices=("jsonl", "markdown", "html"),
        help="jsonl can be imported again; told from the file's name, else jsonl",
    )  # fmt: skip
    action.add_argument("-o", "--output", metavar="FILE", help="where to; standard output without")
    action.add_argument("--raw", action="store_true", help="leave secrets in")
    action = _action(actions, "import", "bring exported conversations in", _TRANSFER)
    action.add_argument("file", metavar="FILE", help="what export wrote as jsonl; - for a pipe")
    _json(action)


def _add_changes(actions: Any) -> None:
    action = _action(actions, "rename", "give a conversation a title", _CHANGE)
    _session(action)
    action.add_argument("title", metavar="TITLE", help="the new one; an empty text removes it")
    action = _action(actions, "branch", "copy a conversation, to continue it in two ways", _CHANGE)
    _session(action)
    action.add_argument("--title", help="of the copy")
    _json(action)
    action = _action(
        actions, "delete", "delete conversations for good", _CHANGE,
        'hermes sessions delete "Trip to Rome" --yes\n',
    )  # fmt: skip
    action.add_argument("sessions", nargs="+", metavar="ID|TITLE", help="which")
    _yes(action)
    action = _action(
        actions, "prune", "delete ended conversations that were not used for long", _CHANGE,
        "hermes sessions prune --older-than 30 --source cron --yes\n",
    )  # fmt: skip
    _old(action, 90)
    _yes(action)
    action = _action(
        actions, "archive", "put conversations away; they stay findable", _CHANGE,
        'hermes sessions archive "Trip to Rome"\n'
        "hermes sessions archive --older-than 30 --yes\n",
    )  # fmt: skip
    action.add_argument("sessions", nargs="*", metavar="ID|TITLE", help="which")
    action.add_argument("--undo", action="store_true", help="bring them back")
    _old(action, None)
    _yes(action)


def _add_upkeep(actions: Any) -> None:
    _action(
        actions, "repair", "salvage a damaged store, fix its problems, rebuild its index", _CHANGE
    )
    action = _action(
        actions, "meaning", "search by meaning: fetch its model, look at what was said", _CHANGE,
        "hermes sessions meaning --status   how far it is\n",
    )  # fmt: skip
    action.add_argument("--status", action="store_true", help="only say how far it is")
    action.add_argument("--anew", action="store_true", help="from the beginning")
    _action(actions, "optimize", "make the store and its index small and quick again", _CHANGE)


def _session(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "session", metavar="ID|TITLE", help="the conversation: its id, how it begins, or its title"
    )


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="for scripts")


def _yes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _old(parser: argparse.ArgumentParser, days: int | None) -> None:
    shown = "" if days is None else f" ({days})"
    parser.add_argument(
        "--older-than",
        type=_days,
        default=days,
        metavar="DAYS",
        help=f"not used since{shown}: 365, 365d or 12w",
    )
    parser.add_argument("--source", help="only from here")
    parser.add_argument("--dry-run", action="store_true", help="only say which")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def _days(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([dw]?)", text.strip().lower())
    days = float(match[1]) * (7 if match[2] == "w" else 1) if match else -1.0
    if not 0 <= days < 1e6:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time: give days or weeks, such as 365, 365d or 12w"
        )
    return days
