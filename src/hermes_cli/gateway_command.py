"""`hermes gateway` and `hermes pairing`: the agent in chats, and who may talk to it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from agent.config import ConfigError, load_config
from agent.home import hermes_home
from agent.store import open_store
from gateway.status import GatewayRunningError, read_runtime_status, running_pid
from gateway.systemd import install_unit
from hermes_state import OPERATOR, StoreError

from . import matrix_keys, replica_status
from .commands.output import visible
from .gateway_setup import set_up

EXAMPLES = """\
examples:
  hermes gateway setup          connect a first platform
  hermes gateway run            serve in this terminal, until Ctrl-C
  hermes gateway start          serve in the background
  hermes pairing approve CODE   let somebody in who wrote to the bot
"""


def add_parsers(commands: Any) -> None:
    """Add both to the command line."""
    gateway = commands.add_parser(
        "gateway",
        help="serve chat platforms and API clients",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = gateway.add_subparsers(dest="gateway_action", metavar="action", required=True)
    actions.add_parser("run", help="serve in the foreground")
    actions.add_parser("start", help="serve in the background")
    actions.add_parser(
        "stop", help="end the running gateway; running turns get some time to finish"
    )
    actions.add_parser("restart", help="let it end and start again; chats are notified")
    shown = actions.add_parser("status", help="the state of the gateway")
    shown.add_argument("--json", action="store_true", help="for scripts")
    actions.add_parser("setup", help="connect a platform, step by step")
    actions.add_parser("install", help="let systemd keep it running")
    made = actions.add_parser("new-platform", help="write a plugin with a platform of your own")
    made.add_argument("name", metavar="NAME", help="small letters, digits and _")
    made.add_argument("--in", dest="folder", default=".", metavar="FOLDER", help="where (here)")
    matrix_keys.add_parser(actions)
    pairing = commands.add_parser("pairing", help="who may talk to the gateway")
    steps = pairing.add_subparsers(dest="pairing_action", metavar="action", required=True)
    steps.add_parser("list", help="who was let in, and who asks")
    approve = steps.add_parser("approve", help="let in whoever was given this code")
    approve.add_argument("code", metavar="CODE")
    approve.add_argument(
        "--as", dest="person", metavar="NAME", help="who they are: somebody known, or `me`"
    )
    revoke = steps.add_parser("revoke", help="let somebody in no longer")
    revoke.add_argument("platform", metavar="PLATFORM")
    revoke.add_argument("user_id", metavar="USER")


def run(args: argparse.Namespace) -> int:
    """Carry out `hermes gateway …` or `hermes pairing …`; returns the exit code."""
    home = hermes_home()
    try:
        if args.command == "pairing":
            return _pairing(home, args)
        return _ACTIONS[args.gateway_action](home, args)
    except (ConfigError, StoreError, GatewayRunningError, RuntimeError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 2


def _tell_notices(home: Path) -> None:
    for notice in load_config(home).notices():
        print(f"hermes: {notice}", file=sys.stderr)


def _run(home: Path, args: argparse.Namespace) -> int:
    from gateway.process import run_gateway

    _tell_notices(home)
    return run_gateway(home)


def _start(home: Path, args: argparse.Namespace) -> int:
    from gateway.process import start_gateway

    _tell_notices(home)
    print(f"The gateway runs (process {start_gateway(home)}).")
    return 0


def _stop(home: Path, args: argparse.Namespace) -> int:
    from gateway.process import stop_gateway

    print("The gateway has ended." if stop_gateway(home) else "No gateway was running.")
    return 0


def _restart(home: Path, args: argparse.Namespace) -> int:
    from gateway.process import restart_gateway

    print(f"The gateway runs again (process {restart_gateway(home)}).")
    return 0


def _status(home: Path, args: argparse.Namespace) -> int:
    pid = running_pid(home)
    facts: dict[str, Any] = {"state": "stopped"}
    if pid is not None:
        facts = read_runtime_status(home)
    if args.json:
        shown = {**facts, "running": pid is not None, "pid": pid, **_shared(home)}
        print(json.dumps(shown))
        return 0 if pid is not None else 3
    if pid is None:
        print("No gateway is running. Start it with: hermes gateway start")
        for line in replica_status.describe(home, pid):
            print(line)
        return 3
    age = time.time() - float(facts.get("updated_at") or 0)
    print(f"The gateway runs (process {pid}), last heard of {age:.0f} s ago.")
    for name, state in sorted((facts.get("platforms") or {}).items()):
        print(f"  {name:12} {state}")
    print(f"  {facts.get('turns_running', 0)} turns running, {facts.get('chats', 0)} chats known")
    for line in replica_status.describe(home, pid):
        print(line)
    return 0


def _shared(home: Path) -> dict[str, Any]:
    try:
        replicas, waiting = replica_status.read_shared(home)
    except (StoreError, ConfigError):
        replicas, waiting = [], []  # without --json the reason is printed
    return {"replicas": replicas, "waiting_for_newer": waiting}


def _setup(home: Path, args: argparse.Namespace) -> int:
    return set_up(home)


def _install(home: Path, args: argparse.Namespace) -> int:
    path = install_unit(home)
    print(f"Wrote {path}. Now run:\n  systemctl --user enable --now {path.name}")
    return 0


def _new_platform(home: Path, args: argparse.Namespace) -> int:
    from .new_platform import NewPlatformError, write_platform

    try:
        folder = write_platform(args.name, Path(args.folder))
    except (NewPlatformError, OSError) as error:
        print(f"hermes: {error}", file=sys.stderr)
        return 2
    print(f"{folder} is a plugin that works as it is.")
    print(f"  its checks   cd {folder} && pytest   (needs: pip install 'hermes-thread[testing]')")
    print(f"  using it     {folder / 'README.md'}")
    return 0


_ACTIONS = {
    "new-platform": _new_platform,
    "run": _run,
    "start": _start,
    "stop": _stop,
    "restart": _restart,
    "status": _status,
    "setup": _setup,
    "install": _install,
    "matrix": matrix_keys.run,
}


def _pairing(home: Path, args: argparse.Namespace) -> int:
    with open_store(home) as db:
        if args.pairing_action == "list":
            people = db.list_paired()
            for person in people:
                state = "asks to be let in" if person["waiting"] else "may talk"
                user, name = visible(person["user_id"]), visible(person["user_name"] or "")
                print(f"{person['platform']:12} {user:20} {name:20} {state}")
            if not people:
                print("Nobody yet.")
            return 0
        if args.pairing_action == "approve":
            named = OPERATOR if str(args.person).lower() == "me" else args.person
            paired = db.approve_pairing(args.code, named)
            if paired is None and (pause := db.pairing_pause()):
                print(
                    f"hermes: too many wrong codes; none is taken for {pause / 60:.0f} minutes."
                    " Meanwhile, allowed_users in config.yaml lets people in.",
                    file=sys.stderr,
                )
                return 1
            if paired is None:
                print("hermes: that code is wrong, used or too old.", file=sys.stderr)
                return 1
            name = visible(paired.user_name or paired.user_id)
            print(f"{name} may now talk on {paired.platform}.")
            who = db.find_person(f"{paired.platform}:{paired.user_id}")
            if who is not None and args.person:
                print(f"They are {visible(who.name)} ({who.role}).")
            return 0
        if db.revoke_pairing(args.platform, args.user_id):
            print(f"{args.user_id} may no longer talk on {args.platform}.")
            return 0
        print(f"hermes: {args.user_id} was not let in on {args.platform}.", file=sys.stderr)
        return 1
