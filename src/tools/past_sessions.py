"""Looking into past conversations: find, then read around a hit.

Only conversations of whom the agent may read for (`ToolContext.owner`) are shown: the person's, and
everyone's in the operator's terminal. In a group chat others read the answer, so there it is only
what was said in it, unless the person has said that their memory may be read there.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

from hermes_state import plain_text

from .base import Tool, ToolContext, ToolError, tool
from .memory_scope import chat_of

if TYPE_CHECKING:
    from hermes_state import PersonView

LONGEST_MESSAGE = 2000
LONGEST_ASKED_FOR = 12_000
"""Characters of the message that was asked for."""
LOOKED_THROUGH = 100
"""Hits or conversations that are looked through for those of one group."""
ONLY_HERE = (
    " Others read along here, so only what was said in this group was looked through. For more, the"
    " person may write /memory here on."
)


@tool(toolset="session_search", effect="none")
def session_search(
    context: ToolContext,
    query: str | None = None,
    limit: int = 5,
    sort: Literal["relevance", "newest", "oldest"] = "relevance",
    session_id: str | None = None,
    around_message_id: int | None = None,
    window: int = 5,
    role_filter: list[str] | None = None,
) -> str:
    """Search everything that was said in past conversations, also what was compressed away.

    With a query: the best hits, one per conversation. With session_id and around_message_id: the
    messages around a hit. With around_message_id alone: the messages around #n of this
    conversation. With neither: the most recent conversations.

    query: a question or words; exact: "phrases", begin*, this OR that, -without
    limit: how many hits or conversations
    sort: relevance, newest or oldest
    session_id: search only in this conversation, or read it around a message
    around_message_id: read around this message, as a hit names it
    window: how many messages before and after
    role_filter: only messages of these roles: user, assistant, tool
    """
    if context.db is None:
        raise ToolError("There is no session store here, so there are no past conversations.")
    limit, window = max(1, min(limit, 20)), max(1, min(window, 20))
    if around_message_id is not None:
        return read_around(context, session_id, around_message_id, window)
    if query and query.strip():
        return find(context, query, limit, sort, session_id, role_filter)
    return recent(context, limit)


def find(
    context: ToolContext,
    query: str,
    limit: int,
    sort: str,
    session_id: str | None,
    role_filter: list[str] | None,
) -> str:
    """The best hits, with how to read around them."""
    assert context.db is not None
    mine = _mine(context)
    options: dict[str, Any] = {}
    if session_id is not None:
        own_session(context, session_id)
        options["conversation_id"] = mine.root(session_id)
    group = group_only(context)
    hits = mine.search(
        query,
        role_filter=role_filter,
        limit=limit if group is None else LOOKED_THROUGH,
        sort=None if sort == "relevance" else sort,
        one_per_conversation=session_id is None,
        **options,
    )
    if group is not None:
        hits = [hit for hit in hits if _is_said_in(context, hit["session_id"], group)][:limit]
    if not hits:
        only = ONLY_HERE if group is not None else ""
        return f"Nothing was found for {query!r}. Try fewer or other words.{only}"
    lines = []
    for hit in hits:
        title = f" “{hit['title']}”" if hit["title"] else ""
        where = f"session_id={hit['session_id']} around_message_id={hit['id']}"
        lines.append(f"{day(hit['timestamp'])}{title} ({hit['role']}): {hit['snippet']}\n  {where}")
    return "\n".join(lines)


def read_around(context: ToolContext, session_id: str | None, message_id: int, window: int) -> str:
    """The messages around a hit, and how the session began and ended."""
    mine = _mine(context)
    place = mine.session_of_message(message_id)
    bookend = 3
    if place in mine.lineage(session_id or context.session_id):
        session_id = place  # an earlier stretch of the same conversation
    if not session_id:
        raise ToolError(
            f"There is no message {message_id} in this conversation. To read another one,"
            " around_message_id needs the session_id that was given with the hit."
        )
    own_session(context, session_id)
    if session_id in mine.lineage(context.session_id):
        bookend = 0  # the model knows its own conversation
    view = mine.around_message(session_id, message_id, window=window, bookend=bookend)
    if not view["window"]:
        raise ToolError(f"Session {session_id} has no message {message_id}. Search again.")
    parts = []
    for heading, key in (
        ("The session began:", "bookend_start"),
        ("Around the message:", "window"),
        ("The session ended:", "bookend_end"),
    ):
        if view[key]:
            parts.append("\n".join([heading, *(transcript_line(m, message_id) for m in view[key])]))
    return "\n\n".join(parts)


def recent(context: ToolContext, limit: int) -> str:
    """The conversations last used, apart from this one."""
    mine = _mine(context)
    current, group = mine.root(context.session_id), group_only(context)
    most = limit + 1 if group is None else LOOKED_THROUGH
    sessions = [
        session
        for session in mine.list_sessions(
            limit=most, order_by_last_active=True, min_message_count=1
        )
        if session["conversation_id"] != current and group in (None, chat_of(session))
    ][:limit]
    if not sessions:
        only = ONLY_HERE if group is not None else ""
        return f"There are no other conversations yet.{only}"
    return "\n".join(
        f"{day(s['last_active'])} {s['title'] or s['preview']} (session_id={s['id']})"
        for s in sessions
    )


def _mine(context: ToolContext) -> PersonView:
    """What the person of this conversation may see; and the conversation itself."""
    assert context.db is not None
    return context.db.view(context.owner, context.session_id)


def own_session(context: ToolContext, session_id: str) -> None:
    """Raise ToolError unless the session is this person's; others are as if they did not exist."""
    assert context.db is not None
    session, group = context.db.view(context.owner).session(session_id), group_only(context)
    if session is None or (group is not None and not _is_said_in(context, session_id, group)):
        raise ToolError(f"There is no session {session_id!r}. Search for what was said instead.")


def group_only(context: ToolContext) -> str | None:
    """The group whose conversations alone may be looked through; None if all of the person's."""
    memory = context.memory
    if memory.chat is None:
        return None
    return None if memory.spaces(context.db, context.session_id).shown else memory.chat


def _is_said_in(context: ToolContext, session_id: str, group: str) -> bool:
    """Whether a session is of a group, or of the conversation that the agent is in."""
    mine = _mine(context)
    is_here = mine.root(session_id) == mine.root(context.session_id)
    return is_here or chat_of(mine.session(session_id)) == group


def transcript_line(message: dict[str, Any], marked: int) -> str:
    """One message as a line of a transcript."""
    text = plain_text(message["content"])
    longest = LONGEST_ASKED_FOR if message["id"] == marked else LONGEST_MESSAGE
    if len(text) > longest:
        text = f"{text[:longest]} [… {len(text) - longest} more characters]"
    sign = "→" if message["id"] == marked else " "
    return f"{sign} [{message['id']}] {message['role']}: {text}"


def day(at: float | None) -> str:
    """A date as people write it in lists."""
    return time.strftime("%Y-%m-%d", time.localtime(at)) if at else "undated"


TOOLS: list[Tool] = [session_search]
