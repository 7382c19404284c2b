"""`hermes backup increment`, `watch`, `points` and `verify`: continuous backup."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from agent.store import find_store
from hermes_cli.command_run import NotDone, UserError
from hermes_cli.home_backup import STORE, kept_files
from hermes_cli.home_backup import verify as verify_archive
from hermes_state import StoreError
from hermes_state.backup.point import Point, list_points

from .output import print_json, print_table, size, when

_A_DAY = 86400.0


def add_actions(parser: Any) -> None:
    """Describe them on the command line."""
    actions = parser.add_subparsers(dest="action", metavar="action")
    action = actions.add_parser(
        "increment", help="add what changed since the last time to a folder, for cron",
        examples="hermes backup increment --to ~/points --keep 48\n",
    )  # fmt: skip
    _add_destination(action)
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=increment)
    action = actions.add_parser(
        "watch", help="the same again and again, until Ctrl-C",
        examples="hermes backup watch --every 60\n",
    )  # fmt: skip
    _add_destination(action)
    action.add_argument(
        "--every", type=_at_least(1.0), default=60.0, metavar="SECONDS", help="how often (60)"
    )
    action.set_defaults(act=watch)
    action = actions.add_parser("points", help="list the points in time that can be restored")
    action.add_argument("folder", nargs="?", metavar="FOLDER", help="of the points")
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=points)
    action = actions.add_parser(
        "verify", help="restore into a temporary folder, and check that everything is there",
        examples="hermes backup verify\nhermes backup verify ~/points --all\n",
    )  # fmt: skip
    action.add_argument("path", nargs="?", metavar="PATH", help="a folder of points, or an archive")
    action.add_argument("--all", action="store_true", help="every point, not only the newest")
    action.add_argument("--json", action="store_true", help="for scripts")
    action.set_defaults(act=verify)


def _add_destination(action: argparse.ArgumentParser) -> None:
    action.add_argument("--to", metavar="FOLDER", help="where to (backups/continuous)")
    action.add_argument(
        "--keep", type=_at_least(1), metavar="N",
        help="thin out: the newest N points, and one for each of the last N hours and days",
    )  # fmt: skip
    action.add_argument("--no-secrets", action="store_true", help="leave keys and tokens out")


def _at_least(least: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        if (value := type(least)(text)) < least:
            raise ValueError
        return value

    number.__name__ = f"number (at least {least:g})"  # argparse says "invalid … value"
    return number


def points_folder(given: str | None) -> Path:
    """The folder of points that is meant."""
    return Path(given).expanduser() if given else hermes_home() / "backups" / "continuous"


def increment(args: argparse.Namespace) -> int:
    """Add one point and say so."""
    folder = points_folder(args.to)
    point, thinned = _step(args, folder)
    if args.json:
        print_json(
            {
                "folder": str(folder),
                "point": point and point.number,
                "bytes": point.path.stat().st_size if point else 0,
                "thinned": thinned,
            }
        )
    else:
        print(_said(folder, point, thinned))
    return 0


def _step(args: argparse.Namespace, folder: Path) -> tuple[Point | None, int]:
    from hermes_state.backup.chain import add_point
    from hermes_state.backup.thin import thin

    home = hermes_home()
    place = find_store(home)
    if place.server is not None:
        raise UserError(
            f"Conversations are on {place}, which this cannot copy: archive the server's log"
            " (docs/postgres.md). The rest of the home: hermes backup"
        )
    with tempfile.TemporaryDirectory(prefix="hermes-masked-") as scratch:
        files = kept_files(home, scratch=Path(scratch) if args.no_secrets else None)
        point = add_point(home / STORE, folder, files)
    return point, thin(folder, args.keep) if args.keep else 0


def _said(folder: Path, point: Point | None, thinned: int) -> str:
    merged = f" {thinned} older points were merged." if thinned else ""
    if point is None:
        return f"Nothing has changed since the last point in {folder}.{merged}"
    kind = "with everything" if point.parent is None else f"after {point.parent}"
    count = size(point.path.stat().st_size)
    return f"Point {point.number} in {folder}: {count}, {kind}.{merged}"


def watch(args: argparse.Namespace) -> int:
    """Add points until Ctrl-C; a failure is reported and retried. Verifies once a day."""
    folder = points_folder(args.to)
    verified_at = -_A_DAY
    try:
        while True:
            began = time.monotonic()
            try:
                point, thinned = _step(args, folder)
                if point is not None or thinned:
                    print(f"{_clock()} {_said(folder, point, thinned)}", flush=True)
                if began - verified_at >= _A_DAY:
                    verified_at = began
                    print(f"{_clock()} {_newest_verified(folder)}", flush=True)
            except (StoreError, OSError, NotDone) as error:
                print(f"{_clock()} hermes: {error}", file=sys.stderr, flush=True)
            time.sleep(max(0.0, args.every - (time.monotonic() - began)))
    except KeyboardInterrupt:
        print(f"\nGo back with: hermes restore --from {folder} --at TIME")
        return 0


def _clock() -> str:
    return time.strftime("%H:%M:%S")


def _newest_verified(folder: Path) -> str:
    from hermes_state.backup.verify import verify_points

    newest = verify_points(folder)[-1]
    if newest.damage:
        raise NotDone(f"{newest.damage} The next point will have everything.")
    return f"Point {newest.number} was restored aside: {newest.messages} messages, all is there."


def points(args: argparse.Namespace) -> int:
    """List the points of a folder."""
    folder = points_folder(args.folder)
    saved = list_points(folder)
    if not saved:
        raise UserError(f"There are no points in {folder}. Add one: hermes backup increment")
    rows = [(point.number, point.at, point.path.stat().st_size, point.parent) for point in saved]
    if args.json:
        names = ("number", "at", "bytes", "builds_on")
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(
            ("POINT", "TIME", "SIZE", "BUILDS ON"),
            [(a, _seconds(b), size(c), "-" if d is None else d) for a, b, c, d in rows],
        )
    return 0


def _seconds(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))


def verify(args: argparse.Namespace) -> int:
    """Restore into a temporary folder and report good and damaged points; 1 if any is damaged."""
    path = points_folder(args.path)
    if path.is_file():
        return _verify_archive(path, args.json)
    from hermes_state.backup.verify import verify_points

    if not path.is_dir():
        raise UserError(f"There is nothing at {path}. Begin with: hermes backup increment")
    verified = verify_points(path, all_points=args.all)
    good = [point for point in verified if not point.damage]
    is_well = len(good) == len(verified) and not any(point.findings for point in verified)
    if args.json:
        print_json({"ok": is_well, "points": [point._asdict() for point in verified]})
        return 0 if is_well else 1
    for point in verified:
        time_ = _seconds(point.at) if point.at else "-"
        said = f"good, {point.sessions} sessions, {point.messages} messages"
        if point.damage:
            said = f"DAMAGED: {point.damage}"
        print(f"{point.number:>6}  {time_}  {said}")
        for finding in point.findings:
            print(f"        The store had a problem then: {finding} After a restore: hermes doctor")
    if len(good) < len(verified):
        newest = f"The newest good point is {good[-1].number}." if good else "No point is good."
        print(f"{len(verified) - len(good)} of {len(verified)} points are damaged. {newest}")
    return 0 if is_well else 1


def _verify_archive(path: Path, as_json: bool) -> int:
    try:
        facts = verify_archive(path)
    except UserError as error:  # here the archive is at fault, not the person
        raise NotDone(str(error)) from error
    if as_json:
        print_json({"ok": True, **facts})
    else:
        held = f"{facts['sessions']} sessions and {facts['messages']} messages"
        print(f"{path} is whole: {held} of {when(facts['created_at'])}.")
    return 0
