"""Whose conversations a person may see: their own.

Whoever sits at the machine sees all of them, the file is theirs. On a chat platform a person is
known by platform and id together, and somebody without an id sees nothing.
"""

from __future__ import annotations

from typing import Any

from .surface import CommandError, Surface

LOCAL = frozenset({"cli", "tui", "desktop", "acp"})


def owned_by(surface: Surface) -> dict[str, Any]:
    """The filter for lists of sessions."""
    if surface.platform in LOCAL:
        return {} if surface.user_id is None else {"user_id": surface.user_id}
    if not surface.user_id:
        raise CommandError("It is not known who you are here, so no conversations can be shown.")
    return {"user_id": surface.user_id, "source": surface.platform}


def _owner(surface: Surface) -> dict[str, Any]:
    """The filter for titles."""
    return {name: value for name, value in owned_by(surface).items() if name == "user_id"}


def own_sessions(
    surface: Surface, limit: int = 20, query: str | None = None, **more: Any
) -> list[dict[str, Any]]:
    """The person's conversations, most recently used first."""
    return surface.db.list_sessions_rich(
        limit=limit,
        order_by_last_active=True,
        min_message_count=1,
        compact_rows=True,
        search_query=query,
        **owned_by(surface),
        **more,
    )


def find_own(surface: Surface, wanted: str) -> dict[str, Any]:
    """The person's conversation with this id, beginning of an id, title, or number in the list."""
    if wanted.isdigit() and 0 < int(wanted) <= 20:
        recent = own_sessions(surface, int(wanted))
        if len(recent) == int(wanted):
            return recent[-1]
    by_title = surface.db.resolve_session_by_title(wanted, **_owner(surface))
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
