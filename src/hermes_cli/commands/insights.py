"""`hermes insights`: usage, cost and activity, drawn in the terminal."""

from __future__ import annotations

import argparse
import time
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

from hermes_state import EVERYONE

from .home import store
from .output import bold, dim, one_line, print_json, width
from .plots import bar, columns, spark

if TYPE_CHECKING:
    from hermes_state import LimitUse, SessionDB

EXAMPLES = """\
hermes insights                     the last 30 days
hermes insights --days 7            the last week
hermes insights --source telegram   only what was said on Telegram
hermes insights --json              for scripts
"""
WEEKDAYS = ("Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat")
HEIGHT = 6
MOST_CHATS = 20


def add_parser(commands: Any) -> None:
    """Describe it on the command line."""
    parser = commands.add_parser(
        "insights", help="usage, cost and activity, drawn in the terminal", examples=EXAMPLES
    )
    parser.add_argument("--days", type=_days, default=30, help="how far to look back (30)")
    parser.add_argument("--source", help="only from here: cli, tui, telegram, …")
    parser.add_argument("--json", action="store_true", help="for scripts")


def _days(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 3650:
        raise argparse.ArgumentTypeError("must be from 1 to 3650")
    return number


def run(args: argparse.Namespace) -> int:
    """Print what happened."""
    first = date.today() - timedelta(days=args.days - 1)
    since = time.mktime(first.timetuple())
    with store() as db:
        used = db.view(EVERYONE).usage(since, args.source)
        activity = db.activity_since(since, source=args.source)
        names = {person["id"]: person["name"] for person in db.list_persons()}
        uses = _limit_uses(db, [person["user_id"] for person in used["people"]])
    if args.json:
        limits = [{**use.limit._asdict(), **_amounts(use)} for use in uses]
        print_json({"days": args.days, **used, "activity": activity, "limits": limits})
        return 0
    cost = sum(model["cost_usd"] or 0 for model in used["models"])
    tokens = sum(model["input_tokens"] + model["output_tokens"] for model in used["models"])
    print(bold(f"The last {args.days} days"))
    print(
        f"{used['conversations']} conversations · {used['messages']} messages · "
        f"{used['tool_calls']} tool calls · {short(tokens)} tokens · about ${cost:.2f}"
    )
    if not used["messages"]:
        return 0
    days = [(first + timedelta(days=number)).isoformat() for number in range(args.days)]
    _draw_days(
        "Messages per day", days, [activity["days"].get(d, {}).get("messages", 0) for d in days]
    )
    if cost:
        spent = [activity["days"].get(d, {}).get("cost_usd", 0.0) for d in days]
        _draw_days("Dollars per day", days, spent, "{:.2f}")
    hours = [activity["hours"].get(hour, 0) for hour in range(24)]
    print(f"\n{bold('Your messages by hour')}\n  {'0     6     12    18'}\n  {spark(hours)}")
    _bars(
        "Your messages by day of the week",
        [(WEEKDAYS[(day + 1) % 7], activity["weekdays"].get((day + 1) % 7, 0)) for day in range(7)],
    )
    _bars("Tools", [(name, count) for name, count in list(activity["tools"].items())[:10]])
    _models(used["models"])
    _people(used["people"], names)
    _chats(used["chats"])
    _limits(uses, names)
    if used["exact_since"] is not None:
        began = date.fromtimestamp(used["exact_since"]).isoformat()
        print(dim(f"\nCost from before {began} stands on the day its conversation was last used."))
    return 0


def _draw_days(label: str, days: list[str], values: list[float], form: str = "{:.0f}") -> None:
    room = max(10, min(width(), 100) - 10)
    per_column = -(-len(values) // room)
    grouped = [
        sum(values[start : start + per_column]) for start in range(0, len(values), per_column)
    ]
    most = form.format(max(grouped, default=0))
    print(f"\n{bold(label)}" + (dim(f" (each column {per_column} days)") if per_column > 1 else ""))
    for number, line in enumerate(columns(grouped, HEIGHT)):
        print(f"{most if number == 0 else '':>8} {line}".rstrip())
    print(f"{'':>8} {days[0][5:]}{days[-1][5:]:>{max(6, len(grouped) - 5)}}")


def _bars(label: str, entries: list[tuple[str, float]]) -> None:
    most = max((value for _, value in entries), default=0)
    if not most:
        return
    print(f"\n{bold(label)}")
    wide = max(len(name) for name, _ in entries)
    for name, value in entries:
        print(f"  {name:{wide}} {value:>6} {bar(value, most, 40)}".rstrip())


def _models(models: list[dict[str, Any]]) -> None:
    if not models:
        return
    print(f"\n{bold('Models')}")
    most = max(model["input_tokens"] + model["output_tokens"] for model in models)
    for model in models:
        tokens = model["input_tokens"] + model["output_tokens"]
        cost = model["cost_usd"] or 0
        print(
            f"  {one_line(model['model'], 32):32} {model['api_calls']:>6} calls"
            f" {short(tokens):>7} tokens ${cost:>8.2f} {bar(tokens, most, 20)}".rstrip()
        )


def _people(people: list[dict[str, Any]], names: dict[str, str]) -> None:
    if len(people) < 2:
        return
    print(f"\n{bold('People')}")
    most = max(person["cost_usd"] for person in people)
    for person in people:
        tokens = person["input_tokens"] + person["output_tokens"]
        name = names.get(person["user_id"] or "", person["user_id"]) or "(this machine)"
        print(
            f"  {one_line(name, 32):32} {person['api_calls']:>6} calls {short(tokens):>7} tokens"
            f" ${person['cost_usd']:>8.2f} {bar(person['cost_usd'], most, 20)}".rstrip()
        )


def _chats(chats: list[dict[str, Any]]) -> None:
    if len(chats) < 2:
        return
    print(f"\n{bold('Chats')}")
    most = max(chat["cost_usd"] for chat in chats)
    for chat in chats[:MOST_CHATS]:
        tokens = chat["input_tokens"] + chat["output_tokens"]
        name = chat["session_key"].removeprefix("agent:main:")
        print(
            f"  {one_line(name, 32):32} {chat['api_calls']:>6} calls {short(tokens):>7} tokens"
            f" ${chat['cost_usd']:>8.2f} {bar(chat['cost_usd'], most, 20)}".rstrip()
        )


def _limit_uses(db: SessionDB, people: list[str | None]) -> list[LimitUse]:
    """How much is used of the limits of chats, and of people who used something."""
    from agent.config import load_config
    from agent.limits import find_limits, list_chat_limits

    config = load_config()
    tables = [find_limits(config, db, person) for person in people]
    of_people = [limit for table in tables if table for limit in table.list_limits(None)]
    return db.list_limit_uses([*of_people, *list_chat_limits(config.limits)])


def _amounts(use: LimitUse) -> dict[str, float]:
    return {"spent": use.spent, "reserved": use.reserved, "ends_at": use.ends_at}


def _limits(uses: list[LimitUse], names: dict[str, str]) -> None:
    if not uses:
        return
    from agent.limits import amount

    print(f"\n{bold('Limits')}")
    for use in uses:
        limit = use.limit
        name = names.get(limit.name or "", limit.name) or "(this machine)"
        used = f"{amount(limit.unit, use.spent)} of {amount(limit.unit, limit.most)}"
        print(f"  {one_line(name, 32):32} {used:>28} per {limit.period}")


def short(count: float) -> str:
    """A large number in few characters."""
    for unit in ("", "k", "M"):
        if count < 1000:
            return f"{count:.0f}{unit}" if not unit else f"{count:.1f}{unit}"
        count /= 1000
    return f"{count:.1f}G"
