"""Reading conversations: lists, search, one as a whole, its family as a tree, numbers."""

from __future__ import annotations

import argparse
from typing import Any

from hermes_state import EVERYONE, plain_text

from .home import find_session, find_tip, store
from .output import bold, dim, one_line, print_json, print_table, size, visible, when, width

SHOWN = (
    "id", "title", "preview", "source", "model", "started_at", "last_active", "ended_at",
    "end_reason", "message_count", "tool_call_count", "input_tokens", "output_tokens",
    "estimated_cost_usd", "cwd", "archived", "conversation_id", "parent_session_id",
)  # fmt: skip
"""What scripts get of a session."""


def list_sessions(args: argparse.Namespace) -> int:
    """Print the last conversations."""
    with store() as db:
        sessions = db.view(EVERYONE).list_sessions(
            source=args.source,
            limit=args.limit,
            order_by_last_active=True,
            archived_only=args.archived,
            include_archived=args.all,
            include_children=args.all,
            compact_rows=True,
        )
    if args.json:
        print_json([{name: session[name] for name in SHOWN} for session in sessions])
    elif sessions:
        print_table(
            ("last used", "id", "source", "messages", "title"),
            [
                (
                    when(session["last_active"]),
                    session["id"],
                    session["source"],
                    session["message_count"],
                    session["title"] or session["preview"] or "(empty)",
                )
                for session in sessions
            ],
        )
    else:
        print("There are no such conversations yet. Begin one: hermes chat")
    return 0


def search_sessions(args: argparse.Namespace) -> int:
    """Print where the words were said; 1 if nowhere."""
    with store() as db:
        hits = db.view(EVERYONE).search(
            " ".join(args.words),
            source_filter=[args.source] if args.source else None,
            role_filter=[args.role] if args.role else None,
            limit=args.limit,
            sort="newest" if args.newest else None,
            explain=args.why,
        )
    if args.json:
        print_json(hits)
    elif not hits:
        print("Nothing was found.")
    for hit in hits if not args.json else ():
        title = one_line(str(hit["title"] or hit["session_id"]), 60)
        print(f"{when(hit['timestamp'])}  {bold(title)}  {dim(hit['session_id'])}")
        print(f"    {one_line(str(hit['snippet']), max(20, width() - 4))}")
        if args.why:
            print(f"    {dim(_why(hit['why']))}")
    return 0 if hits else 1


_HOW = {
    "exact": "has all words",
    "partial": "has all words, or longer words that contain them",
    "title": "by its title",
}
_WHERE = {"message": "", "beside": ", in a turn beside it", "nowhere": ", not there"}


def _why(why: dict[str, Any]) -> str:
    """How a hit was found and ranked, in one line."""
    if why["how"] != "related":
        return f"{_HOW[why['how']]}; score {why['score']:.2f}"
    terms = [
        f"{term['term']} {term['adds']:.1f} of {term['weight']:.1f}{_WHERE[term['where']]}"
        for term in why["terms"]
    ]
    if why.get("meaning"):
        terms.append(f"by meaning {why['meaning']:.1f}")
    if why["time"]:
        terms.append("at the time that was named")
    return f"fits the question by {why['covers']:.0%}: " + "; ".join(terms)


def show_sessions(args: argparse.Namespace) -> int:
    """Print a conversation as it was had, from before its compressions on."""
    with store() as db:
        tip = find_tip(db, args.session)
        session = db.get_session(tip) or {}
        said = db.get_messages_as_conversation(tip, include_ancestors=True)
    if not args.tools:
        said = [message for message in said if message["role"] in ("user", "assistant")]
    shown = said[-args.limit :] if args.limit else said
    if args.json:
        print_json({**{name: session.get(name) for name in SHOWN}, "messages": shown})
        return 0
    print(bold(visible(str(session["title"] or tip))))
    print(dim(f"{tip} · {session['source']} · {session['model'] or 'no model'}"))
    if len(shown) < len(said):
        print(dim(f"[{len(said) - len(shown)} earlier messages]"))
    for message in shown:
        _print_message(message, args.tools)
    return 0


def _print_message(message: dict[str, Any], tools: bool) -> None:
    text = visible(plain_text(message.get("content")))
    calls = message.get("tool_calls") if tools else None
    if not text.strip() and not calls:
        return
    who = message["role"]
    if who == "tool" and message.get("tool_name"):
        who = f"tool {message['tool_name']}"
    print(f"\n{bold(who)}  {dim(when(message.get('timestamp')))}")
    if text.strip():
        print(text)
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") or call
        print(f"→ {function.get('name')} {one_line(str(function.get('arguments') or ''), 500)}")


def tree_sessions(args: argparse.Namespace) -> int:
    """Draw the family of a conversation."""
    with store() as db:
        wanted = find_session(db, args.session)
        family = db.get_family(wanted)
    if args.json:
        print_json(family)
        return 0
    for line in tree_lines(family, wanted):
        print(line)
    return 0


_MARKS = {"continuation": "↓ ", "branch": "⑂ ", "delegate": "⚙ ", "child": "", "root": ""}


def tree_lines(family: list[dict[str, Any]], here: str = "") -> list[str]:
    """A family as lines: continuations go straight down, everything else is indented."""
    children: dict[str | None, list[dict[str, Any]]] = {}
    for member in family:
        children.setdefault(member["parent_session_id"], []).append(member)
    lines: list[str] = []
    # A conversation may have gone on a thousand times: no recursion.
    waiting = [(member, "", "") for member in reversed(children.get(None, []))]
    while waiting:
        member, before, branch = waiting.pop()
        lines.append(f"{before}{branch}{_member(member, here)}")
        inside = before + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        below = children.get(member["id"], [])
        on = [child for child in below if child["relation"] == "continuation"]
        aside = [child for child in below if child["relation"] != "continuation"]
        deeper = [
            (child, inside, "├─ " if on or place < len(aside) - 1 else "└─ ")
            for place, child in enumerate(aside)
        ]
        waiting += reversed([*deeper, *((child, inside, "") for child in on)])
    return lines


def _member(member: dict[str, Any], here: str) -> str:
    title = one_line(str(member["title"]), 60) + "  " if member["title"] else ""
    ended = member["end_reason"] or ("ended" if member["ended_at"] else "open")
    arrow = "  ← here" if member["id"] == here else ""
    facts = f"{when(member['started_at'])} · {member['message_count']} messages · {ended}"
    return f"{_MARKS[member['relation']]}{bold(title)}{member['id']}  {dim(facts)}{arrow}"


def stats_sessions(args: argparse.Namespace) -> int:
    """Print the store in numbers."""
    with store() as db:
        stats = db.store_stats()
        path = db.location
    if args.json:
        print_json({**stats, "path": str(path)})
        return 0
    print(f"{path}: {size(stats['bytes'])}, of it {size(stats['unused_bytes'])} unused")
    print(
        f"{stats['conversations']} conversations in {stats['sessions']} sessions"
        f" ({stats['open']} open, {stats['archived']} archived), {stats['messages']} messages"
    )
    print(
        f"{stats['input_tokens']} tokens in, {stats['output_tokens']} out,"
        f" about ${stats['cost_usd']:.2f}"
    )
    if stats["first_at"]:
        print(f"from {when(stats['first_at'])} to {when(stats['last_at'])}")
        print_table(
            ("source", "sessions", "messages"),
            [
                (source["source"], source["sessions"], source["messages"])
                for source in stats["sources"]
            ],
        )
    return 0
