"""The `hermes` command line.

Only the standard library is imported here: what a command needs, it imports itself, so that
`hermes --version` and `hermes --help` answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys

from hermes_cli import __version__, gateway_command, mcp_command, plugin_commands

EXAMPLES = """\
examples:
  hermes                               talk, in the terminal
  hermes chat -q "What is new here?"   one question, one answer
  git diff | hermes chat -q "Review"   a question about what is piped in
  hermes chat --continue               go on with the last conversation
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser for every command and option."""
    parser = argparse.ArgumentParser(
        prog="hermes",
        description="A self-hosted AI agent that cannot lose the thread.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hermes {__version__}")
    _add_chat_options(parser)
    commands = parser.add_subparsers(dest="command", metavar="command")
    chat = commands.add_parser("chat", help="talk to the agent (the default)")
    _add_chat_options(chat)
    commands.add_parser("version", help="print the version")
    plugin_commands.add_parsers(commands)
    mcp_command.add_parsers(commands)
    gateway_command.add_parsers(commands)
    return parser


def _add_chat_options(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: an option given before the command must not be undone by the command's default.
    parser.add_argument(
        "-q", "--query", metavar="PROMPT", default=argparse.SUPPRESS,
        help="ask one question and exit",
    )  # fmt: skip
    parser.add_argument(
        "-Q", "--quiet", action="store_true", default=argparse.SUPPRESS,
        help="only the answer on standard output",
    )  # fmt: skip
    parser.add_argument(
        "-r", "--resume", metavar="ID|TITLE", default=argparse.SUPPRESS,
        help="go on with this conversation",
    )  # fmt: skip
    parser.add_argument(
        "-c", "--continue", dest="continue_last", action="store_true", default=argparse.SUPPRESS,
        help="go on with the last conversation",
    )  # fmt: skip
    parser.add_argument(
        "-m", "--model", metavar="MODEL", default=argparse.SUPPRESS,
        help="ask this model, e.g. anthropic:claude-sonnet-5-5",
    )  # fmt: skip
    parser.add_argument(
        "--safe-mode", action="store_true", default=argparse.SUPPRESS,
        help="load no plugins and run no shell hooks",
    )  # fmt: skip
    parser.add_argument(
        "--accept-hooks", action="store_true", default=argparse.SUPPRESS,
        help="agree to the shell hooks in config.yaml",
    )  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    parser = build_parser()
    code = plugin_commands.run_plugin_command(parser, sys.argv[1:] if argv is None else argv)
    if code is not None:
        return code
    args = parser.parse_args(argv)
    for name in ("safe_mode", "accept_hooks"):
        if getattr(args, name, False):
            os.environ[f"HERMES_{name.upper()}"] = "1"
    if args.command in ("plugins", "hooks"):
        return plugin_commands.run(args)
    if args.command == "mcp":
        return mcp_command.run(args)
    if args.command in ("gateway", "pairing"):
        return gateway_command.run(args)
    if args.command == "version":
        print(f"hermes {__version__}")
        return 0
    from hermes_cli.chat import ChatOptions, run_chat

    return run_chat(
        ChatOptions(
            query=getattr(args, "query", None),
            quiet=getattr(args, "quiet", False),
            resume=getattr(args, "resume", None),
            continue_last=getattr(args, "continue_last", False),
            model=getattr(args, "model", None),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
