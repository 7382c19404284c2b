"""Changing conversations: names, branches, deletion, archive, care of the store."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from agent.home import hermes_home
from agent.ids import new_session_id
from agent.kept_files import prune_kept_files
from agent.store import find_store
from hermes_cli.command_run import UserError
from hermes_state import EmbedderError
from tools.objects import sweep

from .home import find_session, find_tip, store
from .output import confirm, one_line, print_json, progress, size, when

if TYPE_CHECKING:
    from hermes_state import SessionDB


def rename_sessions(args: argparse.Namespace) -> int:
    """Give a conversation a title, or take it away."""
    with store() as db:
        tip = find_tip(db, args.session)
        try:
            db.set_session_title(tip, args.title)
        except ValueError as error:
            raise UserError(str(error)) from error
        title = db.get_session_title(tip)
    print(f"{tip} is now called {title!r}." if title else f"{tip} has no title any more.")
    return 0


def branch_sessions(args: argparse.Namespace) -> int:
    """Copy a conversation into one of its own."""
    with store() as db:
        tip = find_tip(db, args.session)
        try:
            made = db.branch_session(tip, new_session_id(), title=args.title)
        except ValueError as error:
            raise UserError(str(error)) from error
        title = db.get_session_title(made)
    if args.json:
        print_json({"id": made, "title": title, "branched_from": tip})
    else:
        print(f"{title or made}: go on with hermes chat --resume {made}")
    return 0


def delete_sessions(args: argparse.Namespace) -> int:
    """Delete conversations for good, each with all its parts."""
    with store() as db:
        wanted = list(dict.fromkeys(find_session(db, session) for session in args.sessions))
        for session_id in wanted:
            print(_described(db.get_session(session_id) or {"id": session_id}), file=sys.stderr)
        count = len(wanted)
        what = "this conversation" if count == 1 else f"these {count} conversations"
        confirm(f"Delete {what} for good?", args.yes)
        gone = sum(db.delete_conversation(session_id, _transcripts(db)) for session_id in wanted)
    print(f"Deleted {count} conversations ({gone} sessions).")
    return 0


def prune_sessions(args: argparse.Namespace) -> int:
    """Delete what has ended and was not used for long, and the files it came with."""
    with store() as db:
        sessions = db.list_prune_candidates(args.older_than, args.source)
        _list(sessions)
        if not sessions or args.dry_run:
            print(f"{len(sessions)} sessions {'would be deleted' if sessions else 'are that old'}.")
            return 0
        confirm(f"Delete these {len(sessions)} sessions for good?", args.yes)
        gone = db.prune_sessions(args.older_than, args.source, _transcripts(db))
        files = prune_kept_files(db, hermes_home(), args.older_than) + sweep(db)
    files_note = f" and {files} files that nothing names any more" if files else ""
    print(f"Deleted {gone} sessions{files_note}.")
    return 0


def archive_sessions(args: argparse.Namespace) -> int:
    """Put conversations away, or bring them back."""
    if bool(args.sessions) == (args.older_than is not None):
        raise UserError("Name conversations, or say --older-than DAYS.")
    with store() as db:
        if args.sessions:
            for wanted in args.sessions:
                db.set_session_archived(find_tip(db, wanted), not args.undo)
            done = "back again" if args.undo else "archived"
            print(f"{len(args.sessions)} conversations are {done}.")
            return 0
        if args.undo:
            raise UserError("Which ones? --undo takes titles or ids.")
        sessions = db.list_prune_candidates(args.older_than, args.source, archived=False)
        _list(sessions)
        if not sessions or args.dry_run:
            print(
                f"{len(sessions)} sessions {'would be archived' if sessions else 'are that old'}."
            )
            return 0
        confirm(f"Archive these {len(sessions)} sessions?", args.yes)
        print(f"Archived {db.archive_sessions(args.older_than, args.source)} sessions.")
    return 0


def repair_sessions(args: argparse.Namespace) -> int:
    """Salvage a damaged store, fix what is inconsistent, and rebuild the search index."""
    from hermes_state import damage_marker, is_damaged

    place = find_store(hermes_home())
    if place.server is None and place.path.is_file() and is_damaged(place.path):
        # Opening it salvages it, which happens below.
        damage_marker(place.path).touch(mode=0o600)
    with store() as db:
        if db.is_on_server:
            print(f"{place}: its server looks after its files itself, so none is salvaged here.")
        elif db.salvage_report is None:
            print(f"{place} can be read from beginning to end.")
        fixed = db.fix_store()
        for rule, count in fixed.items():
            print(f"Fixed: {rule} ({count})")
        indexed = db.search_index.rebuild(progress("Building the search index:"))
        print(f"The search index was rebuilt: {indexed} messages.")
        left = db.check_store()
    for finding in left:
        print(f"hermes: {finding.problem}", file=sys.stderr)
    return 1 if left else 0


def meaning_sessions(args: argparse.Namespace) -> int:
    """Fetch the model of search by meaning and make the vectors that are missing."""
    from agent.config import load_config
    from agent.meaning.choose import missing
    from agent.meaning.fetch import ensure_model
    from agent.providers.embedded_progress import terminal_progress

    home = hermes_home()
    settings = load_config(home).search
    if settings.meaning == "off":
        print("Search by meaning is off (search.meaning).")
        return 1
    problem = missing(settings)
    if problem:
        print(f"hermes: {problem}", file=sys.stderr)
        return 1
    with store() as db:
        meaning = db.search_index.meaning
        assert meaning is not None  # `store` sets a model
        try:
            if not settings.model and not args.status:
                ensure_model(home, terminal_progress("Fetching the model of search by meaning"))
            if not args.status:
                db.search_index.catch_up()  # of a store on a server, what search reads here
                meaning.catch_up(progress("Looking at what was said:"), anew=args.anew)
        except EmbedderError as error:
            print(f"hermes: {error}", file=sys.stderr)
            return 1
        status = meaning.status()
    if status is None:
        print("There is no model yet. Fetch it: hermes sessions meaning")
        return 0
    done = status.done / status.total if status.total else 1.0
    print(
        f"Search by meaning ({status.model}) has looked at {done:.0%} of what was said:"
        f" {status.stored} messages, {size(status.size)}."
    )
    return 0


def optimize_sessions(args: argparse.Namespace) -> int:
    """Merge the index and give unused space back."""
    with store() as db:
        db.optimize_fts()
        print(f"Gave {size(db.vacuum())} back.")
    return 0


def _transcripts(db: SessionDB) -> Any:
    return db.db_path.parent / "sessions"


def _list(sessions: list[dict[str, Any]]) -> None:
    for session in sessions:
        print(_described(session))


def _described(session: dict[str, Any]) -> str:
    title = one_line(str(session.get("title") or "(no title)"), 60)
    count = session.get("message_count", 0)
    return f"{when(session.get('started_at'))}  {session['id']}  {title}  ({count} messages)"
