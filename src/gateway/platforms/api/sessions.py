"""/api/sessions: an owner's conversations, and turns in them."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.outcome import usage_dict
from gateway.requests import Request
from gateway.session_store import new_gateway_session_id
from hermes_state import StoreError

from .chat_completions import streamed
from .context import Api, Place
from .errors import ApiError, json_response
from .names import shown_id, with_shown_ids
from .outcomes import http_outcome
from .reading import Said, chat_messages, flag, mode_in, number, session_name
from .session_events import SessionEvents
from .sse import SseResponse

_SHOWN = (
    "id", "source", "user_id", "model", "title", "started_at", "ended_at", "end_reason",
    "message_count", "tool_call_count", "input_tokens", "output_tokens", "cache_read_tokens",
    "cache_write_tokens", "reasoning_tokens", "estimated_cost_usd", "actual_cost_usd",
    "api_call_count", "parent_session_id", "last_active", "preview", "_lineage_root_id",
    "archived", "conversation_id",
)  # fmt: skip
_MESSAGE = (
    "id", "session_id", "role", "content", "tool_call_id", "tool_calls", "tool_name", "timestamp",
    "token_count", "finish_reason", "reasoning", "reasoning_content",
)  # fmt: skip


async def list_all(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: the newest first."""
    limit, offset = number(http, "limit", 50, 200), number(http, "offset", 0, 10**8)
    rows = await asyncio.to_thread(
        api.view(owner).list_sessions, limit=limit + 1, offset=offset, order_by_last_active=True,
        include_children=flag(http.query_params.get("include_children", "")),
        include_archived=flag(http.query_params.get("include_archived", "")),
        search_query=http.query_params.get("q") or None, compact_rows=True,
    )  # fmt: skip
    return json_response(
        {
            "object": "list",
            "data": [_shown(row, owner) for row in rows[:limit]],
            "limit": limit,
            "offset": offset,
            "has_more": len(rows) > limit,
        }
    )


async def create(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST: an empty conversation, under an id of the client's or a new one."""
    body = await api.body(http)
    given = body.get("id") or body.get("session_id")
    session_id = await _new_id(api, owner, given)
    if await api.at_hand(api.view(owner).session, session_id) is not None:
        raise _exists(owner, session_id)
    facts = {"user_id": api.person(owner).id, "model": str(body.get("model") or api.model)}
    if body.get("system_prompt") is not None:
        if not isinstance(body["system_prompt"], str):
            raise ApiError(400, "system_prompt must be text.", param="system_prompt")
        facts["system_prompt"] = body["system_prompt"]
    await api.store.create_session(session_id, "api_server", **facts)
    try:
        await _set_title(api, owner, session_id, body.get("title"))
    except ApiError:
        await api.change(api.view(owner).delete, session_id)
        raise
    return _session(await api.at_hand(api.owned, owner, session_id), owner, 201)


async def retrieve(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET /{id}."""
    return _session(await api.at_hand(api.owned, owner, await _id(api, owner, http)), owner)


async def update(api: Api, owner: str, http: HttpRequest) -> Response:
    """PATCH /{id}: title and archived."""
    session_id = await _id(api, owner, http)
    await api.at_hand(api.owned, owner, session_id)
    body = await api.body(http)
    unknown = body.keys() - {"title", "archived"}
    if unknown:
        raise ApiError(400, f"{min(unknown)} cannot be changed; title and archived can.")
    await _set_title(api, owner, session_id, body.get("title"))
    if "archived" in body:
        await api.change(api.view(owner).archive, session_id, flag(body["archived"]))
    return _session(await api.at_hand(api.owned, owner, session_id), owner)


async def delete(api: Api, owner: str, http: HttpRequest) -> Response:
    """DELETE /{id}: the whole conversation, for good."""
    session_id = await _id(api, owner, http)
    await api.at_hand(api.owned, owner, session_id)
    place = await api.at_hand(api.named, owner, session_id)
    if api.requests.is_busy(place.key):
        raise ApiError(409, "A turn runs in it; stop it first.", code="session_busy")
    api.host.forget_agent(place.key)
    await api.change(api.view(owner).delete, session_id)
    shown = {"object": "hermes.session.deleted", "id": shown_id(owner, session_id), "deleted": True}
    return json_response(shown)


async def messages(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET /{id}/messages: what was said, all of it unless `limit` says less."""
    session_id = await _id(api, owner, http)
    await api.at_hand(api.owned, owner, session_id)
    tip = await api.at_hand(api.view(owner).tip, session_id)
    limit, offset = number(http, "limit", 10**6, 10**6), number(http, "offset", 0, 10**8)
    if flag(http.query_params.get("include_ancestors", "")):
        rows = await asyncio.to_thread(api.view(owner).conversation, tip, include_ancestors=True)
        rows = rows[offset : offset + limit]
    else:
        rows = await asyncio.to_thread(api.view(owner).messages, tip, limit=limit, offset=offset)
    rows = [with_shown_ids(row, owner) for row in rows]
    listed = [{name: row[name] for name in _MESSAGE if name in row} for row in rows]
    return json_response({"object": "list", "session_id": shown_id(owner, tip), "data": listed})


async def fork(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST /{id}/fork: the same history as a conversation of its own; the first one stays."""
    session_id = await _id(api, owner, http)
    await api.at_hand(api.owned, owner, session_id)
    body = await api.body(http)
    given = body.get("id") or body.get("session_id")
    new_id = await _new_id(api, owner, given)
    if await api.at_hand(api.view(owner).session, new_id) is not None:
        raise _exists(owner, new_id)
    until = body.get("until_message_id")
    if until is not None and (not isinstance(until, int) or isinstance(until, bool)):
        raise ApiError(400, "until_message_id must be a number.", param="until_message_id")
    tip = await api.at_hand(api.view(owner).tip, session_id)
    await api.change(
        api.view(owner).branch, tip, new_id, until_message_id=until, source="api_server"
    )
    await _set_title(api, owner, new_id, body.get("title"))
    return _session(await api.at_hand(api.owned, owner, new_id), owner, 201)


async def chat(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST /{id}/chat: one turn."""
    place, request = await _asked(api, owner, http)
    result = await api.ask(http, request)
    outcome = http_outcome(result, place)
    if outcome.error is not None:
        raise outcome.error
    content = {
        "object": "hermes.session.chat.completion",
        "session_id": shown_id(owner, result.session_id),
        "message": {"role": "assistant", "content": outcome.text},
        "usage": usage_dict(result.usage),
        "hermes": outcome.facts,
    }
    return json_response(content, headers=outcome.headers)


async def chat_stream(api: Api, owner: str, http: HttpRequest) -> SseResponse:
    """POST /{id}/chat/stream: one turn as named events."""
    place, request = await _asked(api, owner, http)
    events = SessionEvents(f"run_{os.urandom(12).hex()}", place, request.content)
    return await streamed(api, http, place, request, events.of, events.end, events.fail)


async def _asked(api: Api, owner: str, http: HttpRequest) -> tuple[Place, Request]:
    session_id = await _id(api, owner, http)
    await api.at_hand(api.owned, owner, session_id)
    body = await api.body(http)
    said = _said(body)
    place = await api.at_hand(api.place, http, owner, session_id)
    return place, api.request(http, place, said.content, [], said.instructions, mode_in(body))


def _said(body: dict[str, Any]) -> Said:
    content = next(
        (body[name] for name in ("message", "content", "input", "prompt") if body.get(name)), None
    )
    if isinstance(content, dict):
        content = content.get("content")
    if content is None:
        raise ApiError(400, "message is missing: what is to be answered?", param="message")
    instructions = body.get("system_message") or body.get("instructions") or ""
    if not isinstance(instructions, str):
        raise ApiError(400, "system_message must be text.", param="system_message")
    said = chat_messages([{"role": "user", "content": content}])
    return said._replace(instructions=instructions)


async def _set_title(api: Api, owner: str, session_id: str, title: Any) -> None:
    if title is None:
        return
    try:
        await api.change(api.view(owner).set_title, session_id, str(title))
    except (ValueError, StoreError) as error:
        raise ApiError(400, str(error), code="invalid_title", param="title") from error


async def _id(api: Api, owner: str, http: HttpRequest) -> str:
    name = session_name(http.path_params["session_id"], "session_id")
    return await api.at_hand(api.own_id, owner, name)


def _exists(owner: str, session_id: str) -> ApiError:
    shown = shown_id(owner, session_id)
    return ApiError(409, f"There is a session {shown} already.", code="session_exists")


async def _new_id(api: Api, owner: str, given: Any) -> str:
    if not given:
        return new_gateway_session_id()
    return await api.at_hand(api.own_id, owner, session_name(str(given), "id"))


def _session(row: dict[str, Any], owner: str, status: int = 200) -> Response:
    return json_response({"object": "hermes.session", "session": _shown(row, owner)}, status)


def _shown(row: dict[str, Any], owner: str) -> dict[str, Any]:
    row = with_shown_ids(row, owner)
    shown = {name: row[name] for name in _SHOWN if name in row}
    if "system_prompt" in row:
        shown["has_system_prompt"] = bool(row["system_prompt"])
    return shown
