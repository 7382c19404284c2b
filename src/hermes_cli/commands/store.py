"""`hermes store`: check where conversations are stored, and move them elsewhere."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.config.schema import FILE_STORE, StoreSettings
from agent.config.store import VARIABLE, address_of, bucket_settings
from agent.config.write import set_config_value, set_dotenv_value
from agent.home import hermes_home
from agent.store import StorePlace, find_store, open_if_server, open_place, require_driver
from gateway.status import GatewayLock, GatewayRunningError
from hermes_base.redaction import register_secret
from hermes_cli.command_run import UserError
from hermes_cli.home_backup import require_idle
from hermes_state import StoreError
from hermes_state.address import (
    is_server,
    password_of,
    passwords_of,
    problem_of,
    with_password_from,
)
from tools import shared_files
from tools.objects import every

from .output import confirm, print_json, progress, size

if TYPE_CHECKING:
    from hermes_state import SessionDB
    from hermes_state.server_report import Remark

EXAMPLES = """\
hermes store check                                  how it is where conversations are kept
hermes store check --url postgresql://me@host/db    the same for another server
hermes store move --to postgresql://me@host/db      copy everything there, verified, and use it
hermes store move --to file                         back into state.db in the home
hermes store put-files                              put up files that are missing there
"""
PASSWORD_NAME = "HERMES_STORE_PASSWORD"
"""The variable in .env that a password is put into, so that none stands in config.yaml."""

_MARKS = {"fine": "✓", "hint": "!", "wrong": "✗"}


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "store", help="check where conversations are stored, or move them", examples=EXAMPLES
    )
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    action = actions.add_parser("check", help="diagnose the store; 1 if something is wrong")
    action.add_argument("--url", metavar="URL", help="another server than the configured one")
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=check)
    action = actions.add_parser(
        "move", help="copy everything elsewhere, row by row, verify it, and use it"
    )
    action.add_argument(
        "--to", metavar="URL|file", required=True, help="a server, or `file` for the home"
    )
    action.add_argument("--copy-only", action="store_true", help="leave the configuration as it is")
    action.add_argument("-y", "--yes", action="store_true", help="do not ask")
    action.set_defaults(act=move)
    action = actions.add_parser(
        "put-files",
        help="put files of this home that messages name into the store, where they are missing",
    )
    action.set_defaults(act=put_files)


def _place(given: str, home: Path) -> StorePlace:
    """Where an address on the command line leads; raises UserError if it cannot be used."""
    here = find_store(home)
    if given in FILE_STORE or (not is_server(given) and Path(given).absolute() == here.path):
        return here._replace(server=None)
    if not is_server(given):
        raise UserError("Name a server (postgresql://…), or `file` for state.db in the home.")
    for password in passwords_of(given):
        register_secret(password)
    if problem := problem_of(given):
        raise UserError(f"The address cannot be used: {problem}.")
    place = here._replace(
        server=address_of(StoreSettings(store=given), home, os.environ),
        bucket=bucket_settings(home, os.environ),
    )
    require_driver(place)
    return place


def check(args: argparse.Namespace) -> int:
    """Report the state of the store."""
    home = hermes_home()
    place = _place(args.url, home) if args.url else find_store(home)
    if place.server is None:
        return _check_file(place, args.json)
    require_driver(place)
    from hermes_state.server_report import examine

    remarks = [*examine(place.server, place.connections), *_check_files(place)]
    is_well = all(remark.level != "wrong" for remark in remarks)
    if args.json:
        facts = [remark._asdict() for remark in remarks]
        print_json({"ok": is_well, "store": str(place), "remarks": facts})
        return 0 if is_well else 1
    for remark in remarks:
        print(f"{_MARKS[remark.level]} {remark.text}")
        if remark.advice:
            print(f"  → {remark.advice}")
    if not args.url and place.path.exists():
        print(
            f"! {place.path} is there too and is not used. Copy it with hermes store move while"
            " `store` is file, or move it away."
        )
    return 0 if is_well else 1


def _check_files(place: StorePlace) -> Iterator[Remark]:
    """How the files are that messages name, wherever they are kept."""
    from hermes_state.server_report import Remark, holds_current_store
    from tools.objects.every import examine, probe

    if not holds_current_store(place.server or ""):
        return  # looking changes nothing
    try:
        with open_place(place) as db:
            probe(db)
            examined = examine(db, progress("Reading files:"))
    except StoreError as error:
        yield Remark("wrong", str(error), "See store_objects in docs/configuration.md")
        return
    for problem in examined.wrong:
        yield Remark(
            "wrong", problem, "Run hermes store put-files on a machine that has the file, or put it"
            " back from a backup.",
        )  # fmt: skip
    if examined.files:
        right = examined.files - len(examined.wrong)
        yield Remark(
            "fine", f"{right} of {examined.files} files that messages name are as they were put"
            f" ({size(examined.size)}).",
        )  # fmt: skip


def _check_file(place: StorePlace, as_json: bool) -> int:
    findings: list[str] = []
    if place.path.exists():
        with open_place(place) as db:
            findings = [finding.problem for finding in db.check_store()]
    if as_json:
        print_json({"ok": not findings, "store": str(place), "remarks": findings})
        return 1 if findings else 0
    said = "a file in the home" if place.path.exists() else "a file that is made with the first use"
    print(f"{_MARKS['fine']} {place}: {said}.")
    for problem in findings:
        print(f"{_MARKS['wrong']} {problem}\n  → hermes doctor --fix")
    return 1 if findings else 0


def move(args: argparse.Namespace) -> int:
    """Copy everything, verify it, and switch to the copy."""
    home = hermes_home()
    here, target = find_store(home), _place(args.to, home)
    if str(here) == str(target):
        raise UserError(f"Conversations are kept in {here} already.")
    if here.server is not None:
        require_driver(here)
    elif not here.path.exists():
        raise UserError(
            f"There is nothing to move yet. To use the server: hermes config set store {args.to}"
            if not password_of(args.to)
            else "There is nothing to move yet. To use the server, set `store` in config.yaml."
        )
    require_idle(home)
    lock = GatewayLock(home)
    try:
        lock.acquire()
    except GatewayRunningError as error:
        raise UserError(str(error)) from error
    try:
        confirm(f"Copy everything from {here} to {target}{_and_use(args)}?", args.yes)
        with open_if_server(here) as db:
            shared_files.refresh_all(db, home)
            _fetch_files(db, home)
        _copy(here, target)
        with open_if_server(target) as db:
            brought = shared_files.refresh_all(db, home)
            is_whole = _put_files(db, home)
        if brought:
            print(f"{brought} files of memories/ and skills/ went along.")
        if not args.copy_only:
            _use(home, here, target, args.to)
    finally:
        lock.release()
    return 0 if is_whole else 1


def _fetch_files(db: SessionDB | None, home: Path) -> None:
    """Have the files here that messages name, wherever they were."""
    fetched = every.fetch_all(db, home)
    if fetched.files:
        print(f"{fetched.files} files that messages name were fetched into {home}.")
    for lost in fetched.lost:
        print(f"Left behind: {lost}")


def _put_files(db: SessionDB | None, home: Path) -> bool:
    """Put the files of this home that messages name where they belong; False if not all are."""
    try:
        count = every.put_all(db, home)
    except (StoreError, OSError) as error:
        print(
            f"Files that messages name are on this machine only, in {home}: {error}\n"
            "Put them up with hermes store put-files."
        )
        return False
    if count:
        print(f"{count} files that messages name went along.")
    return True


def put_files(args: argparse.Namespace) -> int:
    """Put up what is missing where files are kept: after a move whose bucket could not be reached,
    or a bucket that lost something. May be run at any time, on every machine."""
    home = hermes_home()
    place = find_store(home)
    if place.server is None:
        raise UserError("Conversations are kept in a file here: their files are in the home.")
    require_driver(place)
    try:
        with open_place(place) as db:
            repaired = every.put_lost_again(db, home, progress("Reading files:"))
            put = every.put_all(db, home)
    except (StoreError, OSError) as error:
        raise UserError(f"{error} Run it again when that is mended.") from error
    print(f"{put} files of this machine that messages name are in the store.")
    if repaired.files:
        print(f"{repaired.files} files that were lost there have been put again.")
    for problem in repaired.wrong:
        print(f"{_MARKS['wrong']} {problem} This machine does not have it.")
    return 1 if repaired.wrong else 0


def _and_use(args: argparse.Namespace) -> str:
    return "" if args.copy_only else ", and use that from now on"


def _copy(here: StorePlace, target: StorePlace) -> None:
    from hermes_state.move import move_store

    shown: dict[str, Any] = {}

    def show(what: str, done: int, total: int) -> None:
        shown.setdefault(what, progress(f"{what} rows:"))(done, total)

    report = move_store(here.server or here.path, target.server or target.path, show)
    count = sum(report.rows.values())
    tables = ", ".join(f"{rows} {table}" for table, rows in report.rows.items() if rows)
    print(f"{target} holds everything: {count} rows ({tables or 'none'}), each compared.")
    if report.resumed:
        print(f"{report.resumed} rows of these were there from an earlier attempt.")
    if report.texts_with_nul or report.texts_with_half_pairs:
        print(
            f"Kept as they were: {report.texts_with_nul} texts with NUL characters (messages with"
            f" parts have one), {report.texts_with_half_pairs} with halves of surrogate pairs."
        )
    if report.left_behind:
        print(f"Not ours, and left behind: {', '.join(report.left_behind)}")


def _use(home: Path, here: StorePlace, target: StorePlace, given: str) -> None:
    """Write the setting, and put the old file aside."""
    path = home / "config.yaml"
    is_set = VARIABLE in os.environ
    if is_set or VARIABLE in _dotenv(home):
        where = "the environment" if is_set else home / ".env"
        print(f"{VARIABLE} in {where} decides where the store is: change it there to use it.")
        return
    if target.server is None:
        set_config_value(path, "store", FILE_STORE[1])
    elif password_of(given):
        set_dotenv_value(home / ".env", PASSWORD_NAME, password_of(given))
        set_config_value(path, "store", with_password_from(given, PASSWORD_NAME))
        print(f"The password is kept in {home / '.env'} as {PASSWORD_NAME}.")
    else:
        set_config_value(path, "store", given)
    print(f"{path}: store is {target} now.")
    if here.server is not None:
        print(f"{here} still holds everything; nothing of Hermes reads it from here any more.")
        return
    aside = here.path.with_name(f"{here.path.name}.moved-{time.strftime('%Y%m%d-%H%M%S')}")
    here.path.rename(aside)
    print(f"The old file is kept as {aside}.")


def _dotenv(home: Path) -> dict[str, str]:
    from agent.config.env import load_dotenv

    return load_dotenv(home / ".env")[0]
