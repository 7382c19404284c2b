"""The `hermes` command line.

Only what every command needs is imported here; a command's own module is imported when it is
called, so that `hermes --version` and `hermes --help` answer at once.
"""

from __future__ import annotations

import sys

from hermes_cli import __version__

TYPE_CHECKING = False  # importing typing would take longer than all of this
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from typing import Any

    from hermes_cli.command_parser import Parser

EXAMPLES = """\
hermes                               talk, in the terminal
hermes chat -q "What is new here?"   one question, one answer
git diff | hermes chat -q "Review"   a question about what is piped in
hermes chat --continue               continue the last conversation
hermes setup                         connect a model
hermes sessions list                 what was talked about
"""
CHAT_EXAMPLES = """\
hermes chat                          talk, in the terminal
hermes chat -q "What is new here?"   one question, one answer
git diff | hermes chat -q "Review"   a question about what is piped in
hermes chat --continue               continue the last conversation
hermes chat --resume "Trip to Rome"  resume this one
hermes chat --mode plan              only look and plan; nothing is changed
"""
_WITH_VALUE = ("-q", "--query", "-r", "--resume", "-m", "--model", "--mode", "--add-dir")
EVERY = "*"
"""Stands for every command: the parser is then complete, and slow to make."""


def build_parser(command: str | None = EVERY) -> Parser:
    """The parser: every command by its name, and the wanted one (or every one) in full."""
    from hermes_cli.command_parser import Parser
    from hermes_cli.commands.table import COMMANDS, module_of

    parser = Parser(
        prog="hermes",
        description="A self-hosted AI agent that cannot lose the thread.",
        examples=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"hermes {__version__}")
    add_chat_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="command", prog="hermes")
    wanted = "" if command is None else module_of(command)
    added: set[str] = set()
    for name, help_, module in COMMANDS:
        if not module:
            add_chat_options(commands.add_parser(name, help=help_, examples=CHAT_EXAMPLES))
        elif module in added:
            continue  # it brought this one along
        elif module == wanted or command == EVERY:
            _describe(module, commands)
            added.add(module)
        else:
            commands.add_parser(name, help=help_, add_help=False)
    return parser


def _describe(module: str, commands: Any) -> None:
    from importlib import import_module

    command_module = import_module(module)
    describe = getattr(command_module, "add_parser", None) or command_module.add_parsers
    describe(commands)


def add_chat_options(parser: argparse.ArgumentParser) -> None:
    """The options of a chat; each is absent unless it is given."""
    from argparse import SUPPRESS

    # SUPPRESS: an option given before the command must not be undone by the command's default.
    def add(*names: str, **options: Any) -> None:
        parser.add_argument(*names, default=SUPPRESS, **options)

    add("-q", "--query", metavar="PROMPT", help="ask one question and exit")
    add("-Q", "--quiet", action="store_true", help="only the answer on standard output")
    add("-r", "--resume", metavar="ID|TITLE", help="resume this conversation")
    add(
        "-c", "--continue", dest="continue_last", action="store_true",
        help="continue the last conversation",
    )  # fmt: skip
    add("-m", "--model", metavar="MODEL", help="ask this model, e.g. anthropic:claude-sonnet-5-5")
    add("--plain", action="store_true", help="a plain conversation, line by line")
    add(
        "--mode", choices=("plan", "guarded", "full"),
        help="what it may do: only look, ask before it leaves its wall, or everything",
    )  # fmt: skip
    add(
        "--add-dir", metavar="PATH", dest="folders", action="append",
        help="let it write to this folder too; may be repeated",
    )  # fmt: skip
    add("--yolo", action="store_true", help="do everything without asking; for a sandbox")
    add("--safe-mode", action="store_true", help="load no plugins and run no shell hooks")
    add("--accept-hooks", action="store_true", help="agree to the shell hooks in config.yaml")


def command_in(argv: list[str]) -> str | None:
    """The command that is called: the first word that is neither an option nor its value."""
    takes_value = False
    for word in argv:
        if takes_value:
            takes_value = False
        elif not word.startswith("-"):
            return word
        else:
            takes_value = word in _WITH_VALUE
    return None


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    argv = sys.argv[1:] if argv is None else argv
    if argv == ["--version"]:
        print(f"hermes {__version__}")
        return 0
    command = command_in(argv)
    parser = build_parser(command)
    if command is not None:
        from hermes_cli.commands.table import module_of

        if not module_of(command) and command != "chat":
            from hermes_cli.commands import plugins as plugin_commands

            code = plugin_commands.run_plugin_command(parser, argv)
            if code is not None:
                return code
    args = parser.parse_args(argv)
    _set_environment(args)
    if args.command in (None, "chat"):
        return _chat(args)
    from hermes_cli.command_run import carry_out

    return carry_out(module_of(args.command), args)


def _set_environment(args: argparse.Namespace) -> None:
    for option, variable in (
        ("yolo", "HERMES_YOLO_MODE"),
        ("safe_mode", "HERMES_SAFE_MODE"),
        ("accept_hooks", "HERMES_ACCEPT_HOOKS"),
    ):
        if getattr(args, option, False):
            import os

            os.environ[variable] = "1"


def _chat(args: argparse.Namespace) -> int:
    if not any(hasattr(args, name) for name in ("plain", "quiet", "query")):
        from hermes_cli.tui import start

        if start.is_possible():
            return start.run(
                resume=getattr(args, "resume", None),
                continue_last=getattr(args, "continue_last", False),
                model=getattr(args, "model", None),
                mode=getattr(args, "mode", None),
                folders=_absolute(getattr(args, "folders", ())),
            )
    from hermes_cli.chat import ChatOptions, run_chat

    return run_chat(
        ChatOptions(
            query=getattr(args, "query", None),
            quiet=getattr(args, "quiet", False),
            resume=getattr(args, "resume", None),
            continue_last=getattr(args, "continue_last", False),
            model=getattr(args, "model", None),
            mode=getattr(args, "mode", None),
            folders=_absolute(getattr(args, "folders", ())),
        )
    )


def _absolute(folders: Iterable[str]) -> tuple[str, ...]:
    """Folders as seen from here; a conversation that is resumed may be somewhere else."""
    import os.path

    return tuple(os.path.abspath(os.path.expanduser(folder)) for folder in folders)  # noqa: PTH100,PTH111


if __name__ == "__main__":
    sys.exit(main())
