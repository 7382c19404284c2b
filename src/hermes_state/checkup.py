"""The store's invariants: checked row by row, and how violations are fixed.

Checking changes nothing. Fixing never deletes a message: it fills in, recounts, detaches dangling
references and answers tool calls whose outcome was never recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from . import checkup_turns
from .bindings import delete_gateway_routing_entries
from .changes import note_session_changed
from .codec import decode_json
from .dialect import Connection, column, tuples, value
from .history import OUTCOME_UNKNOWN, results_by_call, tool_result, unique_calls
from .messages import append_messages, count_tool_calls, recount
from .migrations import settle_old_rows
from .model_calls import FORGET_IDS
from .schema import UNIQUE_INDEXES, create_index_sql

MOST_NAMED = 5


class Finding(NamedTuple):
    """A violated invariant."""

    rule: str
    """Which rule, by a name that scripts can rely on."""
    problem: str
    """What is wrong, as a sentence."""
    concerned: tuple[str, ...]
    """The sessions, messages or keys it is about."""


def check_store(conn: Connection) -> list[Finding]:
    """Every violation in the store; an empty list if all is well."""
    findings = []
    for rule, (look, sentence, _) in _RULES.items():
        concerned = tuple(str(name) for name in look(conn))
        if concerned:
            named = ", ".join(concerned[:MOST_NAMED]) + ("…" if len(concerned) > MOST_NAMED else "")
            findings.append(Finding(rule, sentence.format(len(concerned), named), concerned))
    return findings


def fix_store(conn: Connection) -> dict[str, int]:
    """Fix what can be fixed; returns how many by rule. Check again for what is left."""
    fixed = {}
    for rule, (look, _, fix) in _RULES.items():
        concerned = look(conn) if fix is not None else []
        if fix is not None and concerned:
            fix(conn, concerned)
            fixed[rule] = len(concerned)
    return fixed


def _ids(sql: str) -> Callable[[Connection], list[Any]]:
    return lambda conn: column(conn, sql)


def _each(sql: str) -> Callable[[Connection, list[Any]], None]:
    def fix(conn: Connection, concerned: list[Any]) -> None:
        conn.executemany(sql, [(name,) for name in concerned])

    return fix


# What is looked for


def _damage(conn: Connection) -> list[str]:
    return conn.damage()


def _lost_tips(conn: Connection) -> list[str]:
    """Conversations that are not in exactly one session now."""
    return column(
        conn,
        "SELECT conversation_id FROM sessions s WHERE conversation_id IS NOT NULL"
        " GROUP BY conversation_id HAVING COUNT(*) FILTER (WHERE NOT EXISTS"
        " (SELECT 1 FROM sessions c WHERE c.continuation_of = s.id)) <> 1",
    )


def _wrong_counts(conn: Connection) -> list[str]:
    calls: dict[str, int] = {}
    for session_id, raw in conn.execute(
        "SELECT session_id, tool_calls FROM messages WHERE active = 1 AND tool_calls IS NOT NULL"
    ):
        calls[session_id] = calls.get(session_id, 0) + count_tool_calls(raw)
    return [
        session_id
        for session_id, messages, tool_calls, counted in tuples(
            conn,
            "SELECT id, COALESCE(message_count, 0), COALESCE(tool_call_count, 0),"
            " (SELECT COUNT(*) FROM messages WHERE session_id = sessions.id AND active = 1)"
            " FROM sessions",
        )
        if messages != counted or tool_calls != calls.get(session_id, 0)
    ]


def _unanswered(conn: Connection) -> list[str]:
    """Sessions with a tool call that has no result, unless it may still be running."""
    sessions = tuples(
        conn,
        "SELECT id FROM sessions WHERE EXISTS (SELECT 1 FROM messages"
        " WHERE session_id = sessions.id AND active = 1 AND tool_calls IS NOT NULL)",
    )
    return [name for (name,) in sessions if _missing_results(conn, name, _is_over(conn, name))]


def _is_over(conn: Connection, session_id: str) -> bool:
    """Whether no tool of a session can still be running: it, or its last turn, has ended."""
    return bool(
        value(
            conn,
            "SELECT ended_at IS NOT NULL OR EXISTS (SELECT 1 FROM turns t"
            " WHERE t.conversation_id = s.conversation_id AND t.state = 'ended')"
            " FROM sessions s WHERE id = ?",
            (session_id,),
        )
    )


def _missing_results(
    conn: Connection, session_id: str, at_the_end_too: bool
) -> list[dict[str, Any]]:
    history: list[dict[str, Any]] = []
    for role, raw, call_id in conn.execute(
        "SELECT role, tool_calls, tool_call_id FROM messages WHERE session_id = ? AND active = 1"
        " ORDER BY id",
        (session_id,),
    ):
        history.append(
            {"role": role, "tool_calls": unique_calls(decode_json(raw)), "tool_call_id": call_id}
        )
    answered = results_by_call(history)
    last = max(
        (index for index, message in enumerate(history) if message["role"] != "tool"), default=-1
    )
    return [
        tool_result(call, OUTCOME_UNKNOWN)
        for index, message in enumerate(history)
        if message["role"] == "assistant" and (at_the_end_too or index != last)
        for call in message["tool_calls"]
        if (index, str(call["id"])) not in answered
    ]


def _lost_routes(conn: Connection) -> list[tuple[str, str]]:
    """Chats that are bound to a session that is gone; one that was only begun has none yet."""
    lost = []
    for scope, key, raw in tuples(
        conn, "SELECT scope, session_key, entry_json FROM gateway_routing"
    ):
        entry = decode_json(raw)
        session_id = entry.get("session_id") if isinstance(entry, dict) else None
        known = session_id and value(conn, "SELECT 1 FROM sessions WHERE id = ?", (session_id,))
        was_used = not isinstance(entry, dict) or bool(
            entry.get("last_prompt_tokens") or entry.get("total_tokens")
        )
        if not known and (was_used or not session_id):
            lost.append((scope, key))
    return lost


def _missing_indexes(conn: Connection) -> list[str]:
    present = conn.index_names()
    return [name for name in UNIQUE_INDEXES if name not in present]


# How it is put right


def _adopt_messages(conn: Connection, sessions: list[str]) -> None:
    """Messages without a session get one, so that they can be found and read again."""
    for session_id in sessions:
        conn.execute(
            "INSERT INTO sessions (id, source, started_at, ended_at, end_reason, conversation_id)"
            " SELECT ?1, 'recovered', MIN(timestamp), MAX(timestamp), 'recovered', ?1"
            " FROM messages WHERE session_id = ?1",
            (session_id,),
        )
        recount(conn, session_id)
        note_session_changed(conn, session_id)


def _recount(conn: Connection, sessions: list[str]) -> None:
    for session_id in sessions:
        recount(conn, session_id)


def _answer(conn: Connection, sessions: list[str]) -> None:
    for session_id in sessions:
        ended = value(conn, "SELECT ended_at FROM sessions WHERE id = ?", (session_id,))
        append_messages(
            conn,
            session_id,
            [
                # At its own time: a message that is fixed today was not said today.
                {**result, "timestamp": ended} if ended else result
                for result in _missing_results(conn, session_id, _is_over(conn, session_id))
            ],
        )


def _one_tip(conn: Connection, conversations: list[str]) -> None:
    """Loose sessions become conversations of their own; a ring of continuations is opened."""
    for conversation in conversations:
        chain = tuples(
            conn,
            "SELECT id, continuation_of FROM sessions WHERE conversation_id = ?"
            " ORDER BY started_at, id",
            (conversation,),
        )
        heads = [head for head, before in chain if before is None]
        if not heads:
            heads = [chain[0][0]]
            conn.execute("UPDATE sessions SET continuation_of = NULL WHERE id = ?", (heads[0],))
        keeps_the_name = conversation if conversation in heads else heads[0]
        for head in heads:
            conn.execute(
                "WITH RECURSIVE chain(id) AS (SELECT CAST(?1 AS TEXT) UNION SELECT s.id"
                " FROM sessions s JOIN chain ON s.continuation_of = chain.id)"
                " UPDATE sessions SET conversation_id = ?2, version = version + 1"
                " WHERE id IN (SELECT id FROM chain)",
                (head, conversation if head == keeps_the_name else head),
            )


def _forget_routes(conn: Connection, routes: list[tuple[str, str]]) -> None:
    for scope, key in routes:
        delete_gateway_routing_entries(conn, [key], scope=scope)


def _index(conn: Connection, names: list[str]) -> None:
    for statement in create_index_sql():
        if any(name in statement for name in names):
            conn.execute(statement)


def _settle(conn: Connection, sessions: list[str]) -> None:
    settle_old_rows(conn)


def _first_telling(conn: Connection, messages: list[int]) -> None:
    _each("UPDATE messages SET origin_id = NULL WHERE id = ?")(conn, messages)
    concerned = {
        value(conn, "SELECT session_id FROM messages WHERE id = ?", (message_id,))
        for message_id in messages
    }
    for session_id in sorted(concerned - {None}):
        note_session_changed(conn, session_id)


Look = Callable[[Connection], list[Any]]
Fix = Callable[[Connection, list[Any]], None]

_NOWHERE = "AND NOT EXISTS (SELECT 1 FROM sessions o WHERE o.id = s.{})"
_RULES: dict[str, tuple[Look, str, Fix | None]] = {
    "readable": (
        _damage,
        "The file is damaged in {0} places: {1}. Run: hermes sessions repair",
        None,
    ),
    "messages_have_a_session": (
        _ids(
            "SELECT DISTINCT session_id FROM messages m"
            " WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = m.session_id)"
        ),
        "Messages belong to {0} sessions that are not there: {1}.",
        _adopt_messages,
    ),
    "parents_exist": (
        _ids(
            "SELECT id FROM sessions s WHERE parent_session_id IS NOT NULL "
            + _NOWHERE.format("parent_session_id")
        ),
        "{0} sessions name a parent that is not there: {1}.",
        _each("UPDATE sessions SET parent_session_id = NULL, version = version + 1 WHERE id = ?"),
    ),
    "continued_sessions_exist": (
        _ids(
            "SELECT id FROM sessions s WHERE continuation_of IS NOT NULL "
            + _NOWHERE.format("continuation_of")
        ),
        "{0} sessions go on from one that is not there: {1}.",
        _each("UPDATE sessions SET continuation_of = NULL, version = version + 1 WHERE id = ?"),
    ),
    "one_continuation": (
        _ids(
            "SELECT continuation_of FROM sessions WHERE continuation_of IS NOT NULL"
            " GROUP BY continuation_of HAVING COUNT(*) > 1"
        ),
        "{0} sessions go on in two places at once: {1}.",
        _each(
            "UPDATE sessions SET continuation_of = NULL, version = version + 1"
            " WHERE continuation_of = ?1 AND id <> (SELECT id FROM sessions"
            " WHERE continuation_of = ?1 ORDER BY COALESCE(last_active, started_at) DESC, id"
            " LIMIT 1)"
        ),
    ),
    "known_facts": (
        _ids(
            "SELECT id FROM sessions WHERE conversation_id IS NULL OR (last_active IS NULL"
            " AND EXISTS (SELECT 1 FROM messages WHERE session_id = sessions.id))"
        ),
        "{0} sessions lack their conversation or the time they were used: {1}.",
        _settle,
    ),
    "one_tip": (
        _lost_tips,
        "{0} conversations are not in exactly one session now: {1}.",
        _one_tip,
    ),
    "guards": (
        _missing_indexes,
        "{0} unique indexes are missing: {1}.",
        _index,
    ),
    "first_tellings_exist": (
        _ids(
            "SELECT id FROM messages m WHERE origin_id IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM messages WHERE id = m.origin_id)"
        ),
        "{0} messages repeat one that is not there, so search cannot find them: {1}.",
        _first_telling,
    ),
    "leases": (
        checkup_turns.impossible_leases,
        "{0} turns have an impossible owner or lease: {1}.",
        checkup_turns.fix_leases,
    ),
    "turns_end": (
        checkup_turns.long_abandoned_turns,
        "{0} turns were abandoned more than an hour ago, and no process took them over: {1}.",
        checkup_turns.close_turns,
    ),
    "calls_are_answered": (
        _unanswered,
        "{0} sessions have tool calls without a result: {1}.",
        _answer,
    ),
    "outbox_settled": (
        checkup_turns.unsettled_deliveries,
        "{0} answers were being sent when their process ended, and were never reported: {1}.",
        checkup_turns.report_deliveries,
    ),
    "outbox_delivered": (
        checkup_turns.late_deliveries,
        "{0} answers have waited for more than a day to be delivered: {1}."
        " Start the gateway: hermes gateway start",
        None,
    ),
    "counts": (
        _wrong_counts,
        "{0} sessions count their messages or tool calls wrongly: {1}.",
        _recount,
    ),
    "usage_has_a_session": (
        _ids(
            "SELECT DISTINCT session_id FROM session_model_usage u"
            " WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE id = u.session_id)"
        ),
        "Usage is kept of {0} sessions that are not there: {1}.",
        _each("DELETE FROM session_model_usage WHERE session_id = ?"),
    ),
    "calls_have_a_session": (
        _ids(
            "SELECT DISTINCT session_id FROM model_calls c WHERE session_id IS NOT NULL"
            " AND NOT EXISTS (SELECT 1 FROM sessions WHERE id = c.session_id)"
        ),
        "Model calls name {0} sessions that are not there: {1}.",
        _each(FORGET_IDS),
    ),
    "routes_lead_somewhere": (
        _lost_routes,
        "{0} chats are bound to a session that is not there: {1}.",
        _forget_routes,
    ),
}
"""In the order in which they are fixed: later rules rely on earlier ones."""
