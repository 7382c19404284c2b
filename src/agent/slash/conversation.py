"""Commands for conversations: begin, find, name, branch, read and keep them."""

from __future__ import annotations

import json
import re
import time

from agent.ids import new_session_id
from hermes_base.files import write_private
from hermes_base.redaction import redact_value
from hermes_state import is_owned, person_of, plain_text

from .owner import find_own, own_sessions, titles, view_of
from .surface import CommandError, Surface, require_idle
from .table import command

CATEGORY = "Conversation"
LONGEST_SHOWN = 2000


@command("new", category=CATEGORY, aliases=("reset",), args="[title]")
def new(surface: Surface, args: str) -> str:
    """Begin a new conversation."""
    title = _free_title(surface, args) if args else None
    surface.new_session(title)
    return f"New conversation: {title}" if title else "New conversation."


def _free_title(surface: Surface, wanted: str) -> str:
    """A title as it can be stored, or CommandError."""
    try:
        title = surface.db.sanitize_title(wanted)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if title is None:
        raise CommandError("Nothing is left of that title. Use letters or digits.")
    mine = surface.db.view(person_of(surface.user_id))  # others may have the same titles
    if mine.find_title(title) is not None:
        free = mine.next_title(title)
        raise CommandError(f"The title {title!r} is taken. {free!r} is free.")
    return title


@command("clear", category=CATEGORY, scope="cli")
def clear(surface: Surface, args: str) -> str:
    """Clear the screen and begin a new conversation."""
    surface.new_session(None)
    surface.clear_screen()
    return "New conversation."


@command("title", category=CATEGORY, args="[title]")
def title(surface: Surface, args: str) -> str:
    """Show the conversation's title, or give it one."""
    if not args:
        current = surface.here.title(surface.session_id)
        return f"Title: {current}" if current else "No title yet. Give it one with /title NAME."
    try:
        surface.require_own()
        now = surface.set_title(args)
        cleaned = surface.db.sanitize_title(args)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return f"Title: {cleaned}" if now else f"Title: {cleaned} (kept with the first message)"


@command("branch", category=CATEGORY, aliases=("fork",), args="[title]")
def branch(surface: Surface, args: str) -> str:
    """Go on in a copy of this conversation; the original stays as it is."""
    require_idle(surface)
    if surface.here.session(surface.session_id) is None:
        raise CommandError("Nothing was said yet, so there is nothing to branch from.")
    wanted = _free_title(surface, args) if args else None
    origin = surface.here.tip(surface.session_id)
    is_guest = surface.user_id is not None and not is_owned(
        surface.here.session(origin), surface.user_id
    )
    branched = surface.here.branch(
        origin,
        new_session_id(),
        title=wanted,
        source=surface.platform if is_guest else None,
        new_owner=surface.session_facts() if is_guest else None,
    )
    surface.switch_session(branched)
    name = surface.here.title(branched) or branched
    if is_guest:
        return (
            f"Now in the branch {name}. It is yours alone: the others do not see what is said here."
            " To come back, ask for another /link code."
        )
    return f"Now in the branch {name}. Back: /resume {origin}"


@command("resume", category=CATEGORY, args="[title|id|number]", complete=titles)
def resume(surface: Surface, args: str) -> str:
    """Resume an earlier conversation."""
    if not args:
        return sessions(surface, "") + "\n/resume and a number, title or id goes on with one."
    require_idle(surface)
    session = find_own(surface, args)
    if session["id"] == surface.here.tip(surface.session_id):
        return "You are in that conversation already."
    surface.switch_session(session["id"])
    name = session["title"] or session["preview"]
    return f"Going on with: {name} ({session['message_count']} messages)"


@command("sessions", category=CATEGORY, args="[words in the title]")
def sessions(surface: Surface, args: str) -> str:
    """List your conversations, the last used first."""
    own = own_sessions(surface, 20, args or None)
    if not own:
        return "No conversation fits." if args else "There are no conversations yet."
    current = surface.here.tip(surface.session_id)
    return "\n".join(
        f"{'→' if session['id'] == current else ' '}{number:>2}. {_when(session['last_active'])}  "
        f"{session['title'] or session['preview'] or '(empty)'}  [{session['id']}]"
        for number, session in enumerate(own, 1)
    )


@command("search", category=CATEGORY, args="<words>", slow=True)
def search(surface: Surface, args: str) -> str:
    """Search everything that was said in your conversations."""
    if not args:
        raise CommandError("What for? For instance: /search backup script")
    hits = view_of(surface).search(args, limit=10, one_per_conversation=True)
    if not hits:
        return f"Nothing was found for {args!r}."
    return "\n".join(
        f"{_when(hit['timestamp'])}  {hit['title'] or hit['session_id']}: {hit['snippet']}"
        f"  [/resume {hit['session_id']}]"
        for hit in hits
    )


@command("history", category=CATEGORY, args="[number]", scope="cli")
def history(surface: Surface, args: str) -> str:
    """Show what was said in this conversation."""
    if args and not args.isdigit():
        raise CommandError("How many messages? For instance: /history 50")
    said = [
        message
        for message in surface.here.conversation(surface.session_id, include_ancestors=True)
        if message["role"] in ("user", "assistant") and message.get("content")
    ]
    if not said:
        return "Nothing was said yet."
    wanted = int(args or 20)
    lines = [f"{message['role']}: {_short(plain_text(message['content']))}" for message in said]
    left_out = [f"[{len(lines) - wanted} earlier messages]"] if len(lines) > wanted else []
    return "\n".join([*left_out, *lines[-wanted:]])


@command("save", category=CATEGORY, scope="cli", slow=True)
def save(surface: Surface, args: str) -> str:
    """Write the whole conversation into a file, without secrets."""
    exported = surface.here.export(surface.session_id)
    if exported is None:
        raise CommandError("Nothing was said yet, so there is nothing to save.")
    folder = surface.config.home / "exports"
    folder.mkdir(mode=0o700, exist_ok=True)
    name = re.sub(r"[^\w.-]", "_", surface.session_id).lstrip(".")  # an old id may be a path
    path = folder / f"{name}.json"
    text = json.dumps(redact_value(exported), ensure_ascii=False, indent=1)
    write_private(path, text)
    return f"Saved: {path}"


def _when(at: float | None) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "undated"


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"
