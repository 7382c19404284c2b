"""`hermes plugins` and `hermes hooks`, and the subcommands that plugins bring."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.config import Config, ConfigError, load_config
from agent.config.write import set_plugin_enabled
from agent.plugin_loading import load_plugins
from conversation.event_hooks import NOT_AGREED, hooks_in
from hermes_base import plugins
from hermes_base.plugins.calls import TookTooLong
from hermes_base.plugins.discovery import find_plugins, is_true, read_choice
from tools.hook_consents import agree, read_consents, revoke
from tools.shell_hooks import accepts_all, read_hooks, run_hook

Subparsers = Any
"""What `ArgumentParser.add_subparsers` returns."""


def add_parsers(commands: Subparsers) -> None:
    """Add `plugins` and `hooks` to the command line."""
    parser = commands.add_parser("plugins", help="list, enable or disable plugins")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    _add(actions, "list", "what is there, and whether it is loaded", list_plugins)
    for name, help in (("enable", "load a plugin from now on"), ("disable", "load it no more")):
        parser = _add(actions, name, help, change_plugin)
        parser.add_argument("name", help="the plugin, as `hermes plugins list` names it")
    parser = commands.add_parser("hooks", help="list, try or forbid the shell hooks of config.yaml")
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    _add(actions, "list", "every hook, and whether it may run", list_hooks)
    _add(actions, "doctor", "diagnose problems with the shell hooks", check_hooks)
    parser = _add(actions, "accept", "agree that hooks may run", accept_hooks)
    parser.add_argument(
        "command_text",
        nargs="?",
        metavar="COMMAND",
        help="only this command, or event hook",
    )
    parser = _add(actions, "revoke", "withdraw consent", revoke_hook)
    parser.add_argument("command_text", metavar="COMMAND")
    parser.add_argument("--event", help="for this hook only")
    parser = _add(actions, "test", "run the shell hooks of an event with made-up data", try_hooks)
    parser.add_argument("event", help="e.g. pre_tool_call")
    parser.add_argument("--tool", default="terminal", help="the tool to pretend (terminal)")


def _add(
    actions: Subparsers, name: str, help: str, run: Callable[..., int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=help)
    parser.set_defaults(run=run)
    return parser


def run(args: argparse.Namespace) -> int:
    """Carry out what `add_parsers` understood; returns the exit code."""
    try:
        return int(args.run(args, load_config()))
    except (ConfigError, OSError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 2


# Plugins


def list_plugins(args: argparse.Namespace, config: Config) -> int:
    """Print every plugin with its state."""
    choice = read_choice(config.raw)
    plugins = find_plugins(config.home, config.environ)
    if is_true(config.environ, "HERMES_SAFE_MODE"):
        print("Safe mode is on: no plugin is loaded.")
    for plugin in plugins:
        manifest = plugin.manifest
        missing = [name for name in manifest.requires_env if not config.environ.get(name)]
        state = choice.why_not(plugin) or (f"needs {', '.join(missing)}" if missing else "enabled")
        title = " ".join(filter(None, (manifest.name, manifest.version)))
        print(f"{title} ({plugin.source}): {state}")
        if manifest.description:
            print(f"    {manifest.description}")
    for name in sorted(choice.enabled - {name for plugin in plugins for name in plugin.names}):
        print(f"{name}: enabled, but not there")
    if not plugins:
        print(f"There are no plugins. Put one into {config.home / 'plugins'}.")
    return 0


def change_plugin(args: argparse.Namespace, config: Config) -> int:
    """Enable or disable a plugin in config.yaml."""
    enabled = args.action == "enable"
    known = {name for plugin in find_plugins(config.home, config.environ) for name in plugin.names}
    if enabled and args.name not in known:
        there = ", ".join(sorted(known)) or "none"
        print(f"hermes: there is no plugin {args.name!r}. There are: {there}.", file=sys.stderr)
        return 2
    changed = set_plugin_enabled(config.home / "config.yaml", args.name, enabled)
    state = "enabled" if enabled else "disabled"
    print(f"{args.name} {'is now' if changed else 'was already'} {state}.")
    return 0


# Shell hooks


def list_hooks(args: argparse.Namespace, config: Config) -> int:
    """Print every shell hook and every event hook, with whether it may run."""
    hooks, problems = read_hooks(config.raw)
    agreed, all_agreed = read_consents(config.home), accepts_all(config.raw, config.environ)
    for hook in hooks:
        may = all_agreed or (hook.event, hook.command) in agreed
        matcher = f" [{hook.matcher.pattern}]" if hook.matcher else ""
        print(f"{hook.event}{matcher}: {hook.command}: {'may run' if may else 'not agreed to'}")
    for problem in problems:
        print(f"{problem}: left out")
    events = hooks_in(config.home / "hooks")
    for name, may in events.items():
        print(f"{name} (event hook): {'may run' if may else 'not agreed to'}")
    if not hooks and not problems and not events:
        print(f"There are no shell hooks in {config.home / 'config.yaml'}.")
    return 0


def accept_hooks(args: argparse.Namespace, config: Config) -> int:
    """Agree to the configured shell hooks and the event hooks, or to one of them."""
    wanted = [
        (hook.event, hook.command)
        for hook in read_hooks(config.raw)[0]
        if args.command_text in (None, hook.command)
    ]
    events = [
        name
        for name, may in hooks_in(config.home / "hooks").items()
        if args.command_text == name or (args.command_text is None and not may)
    ]
    if not wanted and not events:
        print("hermes: there is no such hook in config.yaml or hooks/.", file=sys.stderr)
        return 2
    agree(config.home, wanted)
    for name in events:
        (config.home / "hooks" / name / NOT_AGREED).unlink(missing_ok=True)
        print(f"{name}: may run, from the next start on")
    for event, command in wanted:
        print(f"{event}: {command}: may run")
    return 0


def revoke_hook(args: argparse.Namespace, config: Config) -> int:
    """Take consent to a command, or an event hook, back."""
    if hooks_in(config.home / "hooks").get(args.command_text):
        (config.home / "hooks" / args.command_text / NOT_AGREED).touch(mode=0o600)
        print(f"{args.command_text} may not run any more, from the next start on.")
        return 0
    count = revoke(config.home, args.command_text, args.event)
    if not count:
        print("hermes: nobody had agreed to that. See: hermes hooks list", file=sys.stderr)
        return 2
    print(f"{args.command_text} may not run any more.")
    return 0


def try_hooks(args: argparse.Namespace, config: Config) -> int:
    """Run the agreed hooks of an event once and print what they answer."""
    agreed, all_agreed = read_consents(config.home), accepts_all(config.raw, config.environ)
    failed = False
    hooks = [hook for hook in read_hooks(config.raw)[0] if hook.event == args.event]
    for hook in hooks:
        if hook.matcher and not hook.matcher.fullmatch(args.tool):
            print(f"{hook.command}: does not match the tool {args.tool}")
            continue
        if not (all_agreed or (hook.event, hook.command) in agreed):
            print(f"{hook.command}: not agreed to (hermes hooks accept)")
            failed = True
            continue
        facts = {"tool_name": args.tool, "args": {"command": "echo hello"}, "session_id": "test"}
        try:
            answer = run_hook(hook, config.home, facts, config.environ)
        except (OSError, TookTooLong) as error:
            print(f"{hook.command}: {error}")
            failed = True
            continue
        failed = failed or bool(answer.code)
        print(f"{hook.command}: exit code {answer.code}, asks for: {answer.value or 'nothing'}")
        if answer.errors:
            print(f"    {answer.errors}")
    if not hooks:
        print(f"hermes: there is no shell hook for {args.event!r}.", file=sys.stderr)
        return 2
    return 1 if failed else 0


def check_hooks(args: argparse.Namespace, config: Config) -> int:
    """Print what keeps shell hooks from working; 1 if anything does."""
    hooks, findings = read_hooks(config.raw)
    agreed, all_agreed = read_consents(config.home), accepts_all(config.raw, config.environ)
    for hook in hooks:
        program = Path(shlex.split(hook.command)[0]).expanduser()
        if shutil.which(str(program)) is None:
            findings.append(f"{hook.command}: {program} is not there or not executable")
        if not (all_agreed or (hook.event, hook.command) in agreed):
            findings.append(f"{hook.command}: not agreed to; run: hermes hooks accept")
    configured = {(hook.event, hook.command) for hook in hooks}
    for event, command in sorted(agreed.keys() - configured):
        findings.append(f"{command}: agreed to for {event}, but not configured any more")
    print("\n".join(findings) if findings else "All shell hooks look well.")
    return 1 if findings else 0


# Subcommands of plugins


def run_plugin_command(parser: argparse.ArgumentParser, arguments: list[str]) -> int | None:
    """Run `hermes <name> …` if `parser` does not know it and a plugin does; None if none does."""
    if not arguments or arguments[0].startswith("-") or arguments[0] in _commands(parser):
        return None
    try:
        config = load_config()
    except ConfigError:
        return None  # reported by the caller
    load_plugins(config.raw, config.home, config.environ)
    command = plugins.registered().cli_commands.get(arguments[0])
    if command is None:
        return None
    own = argparse.ArgumentParser(
        prog=f"hermes {command.name}", description=command.description or command.help
    )
    command.setup_fn(own)
    args = own.parse_args(arguments[1:])
    handler = command.handler_fn or getattr(args, "func", None)
    if handler is None:
        own.print_help()
        return 2
    code = handler(args)
    return code if isinstance(code, int) else 0


def _commands(parser: argparse.ArgumentParser) -> set[str]:
    """The commands that the command line has of itself."""
    return {
        name
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name in action.choices
    }
