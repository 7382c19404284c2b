"""Whose conversations a person may see: their own, by whichever door they were had.

Whoever sits at the machine sees all of them, the file is theirs. Somebody of whom a platform does
not say who they are sees nothing.
"""

from __future__ import annotations

from typing import Any

from hermes_state import EVERYONE, PersonView

from .surface import LOCAL, CommandError, Surface


def is_at_machine(surface: Surface) -> bool:
    """Whether whoever uses it sits at the machine."""
    return surface.platform in LOCAL and surface.actor is None


def view_of(surface: Surface, what: str = "conversations") -> PersonView:
    """What the person may see."""
    if is_at_machine(surface) and surface.user_id is None:
        return surface.db.view(EVERYONE)
    whose = surface.user_id or surface.actor
    if not whose:
        raise CommandError(f"It is not known who you are here, so no {what} can be shown.")
    return surface.db.view(whose)


def own_sessions(
    surface: Surface, limit: int = 20, query: str | None = None, **more: Any
) -> list[dict[str, Any]]:
    """The person's conversations, most recently used first."""
    return view_of(surface).list_sessions(
        limit=limit,
        order_by_last_active=True,
        min_message_count=1,
        compact_rows=True,
        search_query=query,
        **more,
    )


def find_own(surface: Surface, wanted: str) -> dict[str, Any]:
    """The person's conversation with this id, beginning of an id, title, or number in the list."""
    if wanted.isdigit() and 0 < int(wanted) <= 20:
        recent = own_sessions(surface, int(wanted))
        if len(recent) == int(wanted):
            return recent[-1]
    by_title = view_of(surface).resolve_title(wanted)
    if by_title is not None:
        sessions = own_sessions(surface, 1, id_query=by_title)
        if sessions:
            return sessions[0]
    sessions = own_sessions(surface, 50, id_query=wanted)
    exact = [session for session in sessions if session["id"].startswith(wanted)] or sessions
    matches = exact or own_sessions(surface, 50, wanted)
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise CommandError(f"You have no conversation {wanted!r}. /sessions lists them.")
    several = "\n".join(
        f"  {match['id']}  {match['title'] or match['preview']}" for match in matches[:10]
    )
    raise CommandError(f"Several conversations match {wanted!r}:\n{several}")


def titles(surface: Surface, typed: str) -> list[tuple[str, str]]:
    """Candidates for an argument that names a conversation."""
    return [
        (session["title"] or session["id"], session["preview"])
        for session in own_sessions(surface, 50)
        if (session["title"] or session["id"]).lower().startswith(typed.lower())
    ]
