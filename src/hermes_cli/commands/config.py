"""`hermes config`: the configuration, one value at a time."""

from __future__ import annotations

import argparse
import json
import os
import re
from typing import Any

from agent.config import Config, load_config
from agent.config.foreign import RENAMED
from agent.config.schema import FREE_FORM, KEYS, SECTIONS
from agent.config.values import shown_value
from agent.config.write import set_config_value, set_dotenv_value, with_values
from agent.home import ConfigError, hermes_home, home_path
from hermes_base.redaction import redact, redact_value
from hermes_cli.command_parser import meant
from hermes_cli.command_run import UserError

from .output import print_json

EXAMPLES = """\
hermes config get                        every key with its value
hermes config get model.default          one value
hermes config set approvals.mode smart   change one; comments in the file stay
hermes config set OPENAI_API_KEY sk-…    a secret goes into .env
hermes config check                      what is wrong with it
hermes config path                       where it is
"""
_ENVIRONMENT_NAME = re.compile(r"[A-Z][A-Z0-9_]+")


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "config", help="read, change and check the configuration", examples=EXAMPLES
    )
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    action = actions.add_parser("get", help="print values; secrets only as set or not set")
    action.add_argument("key", nargs="?", help="e.g. model.default; without, every key")
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=get)
    action = actions.add_parser("set", help="change a value in config.yaml, or a secret in .env")
    action.add_argument("key", help="e.g. display.show_reasoning, or OPENAI_API_KEY")
    action.add_argument("value", help="as in YAML: true, 5, text, [a, b]")
    action.add_argument("--force", action="store_true", help="also a key that Hermes does not know")
    action.set_defaults(act=set_)
    action = actions.add_parser("check", help="say what is wrong; 1 if anything is")
    action.set_defaults(act=check)
    action = actions.add_parser("path", help="print where config.yaml is")
    action.add_argument("--env", action="store_true", help="where .env is")
    action.set_defaults(act=path)


def get(args: argparse.Namespace) -> int:
    """Print one value, a section, or all."""
    config = load_config()
    values: dict[str, Any] = {}
    for key in KEYS:
        value: Any = config
        for part in key.name.split("."):
            value = getattr(value, part)
        values[key.name] = shown_value(key, value)
    for name in sorted(FREE_FORM & set(config.raw)):
        values[name] = redact_value(config.raw[name])
    if args.key is not None:
        chosen = {
            name: value
            for name, value in values.items()
            if name == args.key or name.startswith(f"{args.key}.")
        }
        if not chosen and (inner := _inside(values, args.key)) is not None:
            chosen = {args.key: inner}
        if not chosen:
            raise UserError(f"There is no key {args.key!r}.{meant(args.key, values)}")
        values = chosen
    if args.json:
        print_json(values)
    elif list(values) == [args.key]:
        print(_shown(values[args.key]))
    else:
        for name, value in values.items():
            print(f"{name}: {_shown(value)}")
    return 0


def _inside(values: dict[str, Any], key: str) -> Any:
    """A value within a section that other parts of Hermes check, e.g. platforms.telegram."""
    head, *rest = key.split(".")
    value = values.get(head)
    for part in rest:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)


def set_(args: argparse.Namespace) -> int:
    """Change one value; everything else in the file stays as it stands."""
    home = hermes_home()
    if _ENVIRONMENT_NAME.fullmatch(args.key):
        changed = set_dotenv_value(home / ".env", args.key, args.value or None)
        done = "is kept in" if args.value else "was taken out of"
        kept = f"{done} {home / '.env'}" if changed else "had that value already"
        print(f"{args.key} {kept}.")
        return 0
    if not args.force:
        _refuse_unknown(args.key)
    value = _parsed(args.value)
    if args.key.split(".")[0] in ("toolsets", "tools", "platform_toolsets"):
        from agent.build import check_tool_choice

        wanted = with_values(load_config(home).raw, {args.key: value})
        check_tool_choice(load_config(home, raw=wanted))
    changed = set_config_value(home / "config.yaml", args.key, value)
    shown = redact(args.value)
    print(f"{args.key}: {shown}" if changed else f"{args.key} was {shown} already.")
    if args.key == "store" and changed and (home / "state.db").exists():
        print(f"What is in {home / 'state.db'} stays there; hermes store move brings it along.")
    return 0


def _refuse_unknown(key: str) -> None:
    head = key.split(".")[0]
    known = [key.name for key in KEYS]
    if head in FREE_FORM or key in known or key == "model":
        return
    hint = meant(key, [*known, *FREE_FORM])
    if key in RENAMED:
        hint = f" It is {RENAMED[key]} here."
    if key in SECTIONS or any(name.startswith(f"{key}.") for name in known):
        hint = f" It is a section: {', '.join(n for n in known if n.startswith(f'{key}.'))}."
    raise UserError(f"There is no key {key!r}.{hint} Keep it anyway with --force.")


def _parsed(text: str) -> Any:
    import yaml

    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text  # e.g. a value with a colon: the text itself is meant
    return text if value is None and text.strip() not in ("", "null", "~") else value


def check(args: argparse.Namespace) -> int:
    """Print every problem and warning."""
    try:
        config = load_config()
    except ConfigError as error:
        print(error)
        return 1
    wrong = [*config.warnings, *_no_tools(config)]
    for line in wrong:
        print(line)
    if config.ignored:
        print(f"{config.home / 'config.yaml'}: these keys mean nothing here:")
        for line in ignored_lines(config):
            print(f"  {line}")
    elif not wrong:
        print(f"{config.home / 'config.yaml'}: all is well.")
    return 1 if wrong else 0


def _no_tools(config: Config) -> list[str]:
    from agent.build import check_tool_choice

    try:
        check_tool_choice(config)
    except ConfigError as error:
        return [str(error)]
    return []


def ignored_lines(config: Config) -> list[str]:
    """The keys that mean nothing here: a line per section, and one for each with a reason."""
    plain: dict[str, list[str]] = {}
    explained = []
    for key, why in config.ignored.items():
        head, _, name = key.partition(".")
        if why:
            explained.append(f"{key}: {why}")
        elif name and " " not in key:
            plain.setdefault(f"{head}: ", []).append(name)
        else:
            plain.setdefault("", []).append(key)
    return [*(f"{head}{', '.join(names)}" for head, names in sorted(plain.items())), *explained]


def path(args: argparse.Namespace) -> int:
    """Print where the file is, whether or not it is there yet."""
    print(home_path(os.environ) / (".env" if args.env else "config.yaml"))
    return 0
