"""/v1/responses: a turn as a response that can be fetched, and gone on from, by its id.

Going on from the newest response of a conversation continues it; going on from an earlier one
branches it there, so that nothing that was said later is lost or seen.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.events import Event, TurnStarted
from agent.outcome import TurnOutcome, usage_dict
from conversation.stored_turns import turn_at
from gateway.requests import Request
from gateway.session_store import new_gateway_session_id

from .chat_completions import streamed
from .context import Api, Place
from .errors import ApiError, json_response
from .outcomes import HttpOutcome, http_outcome
from .reading import Said, chat_messages, flag, mode_in
from .response_events import ResponseEvents
from .response_objects import (
    asked_row,
    is_id_of,
    not_found,
    output_of,
    response_id,
    response_object,
)
from .sse import SseResponse

DELETED = "api_response_deleted:"


async def create(api: Api, owner: str, http: HttpRequest) -> Any:
    """POST: answer."""
    body = await api.body(http)
    said, mode = _said(body), mode_in(body)
    previous = body.get("previous_response_id")
    if previous is None:
        place = await api.at_hand(api.place, http, owner)
    else:
        place = await _after(api, owner, str(previous), http)
    request = api.request(http, place, said.content, said.history, said.instructions, mode)
    model = str(body.get("model") or api.model)
    if flag(body.get("stream", False)):
        return await _streamed(api, http, place, request, ResponseEvents(model, body))
    result = await api.ask(http, request)
    outcome = http_outcome(result, place)
    if outcome.error is not None:
        raise outcome.error
    return json_response(finished(result, outcome, model, body), headers=outcome.headers)


def finished(
    result: TurnOutcome, outcome: HttpOutcome, model: str, body: dict[str, Any]
) -> dict[str, Any]:
    """The response that a result comes to."""
    turn = last_turn(list(result.messages))
    session_id, row_id = result.session_id, row_of(turn[0]) if turn else 0
    status = "incomplete" if outcome.facts["partial"] else "completed"
    return response_object(
        response_id(session_id, row_id), model, status, output_of(turn),
        usage=usage_dict(result.usage), partial=outcome.facts["partial"], asked=body,
    )  # fmt: skip


async def retrieve(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: a response as it is in the store."""
    given = http.path_params["response_id"]
    session_id, turn = await api.at_hand(_stored, api, owner, given)
    answered = bool(turn) and turn[-1]["role"] == "assistant" and not turn[-1].get("tool_calls")
    status = "completed" if answered else "in_progress"
    place = await api.at_hand(api.named, owner, session_id)
    if not answered and not api.requests.is_busy(place.key):
        status = "incomplete"
    row = await api.at_hand(api.owned, owner, session_id)
    response = response_object(
        given, row["model"] or api.model, status, output_of(turn), created_at=turn[0]["timestamp"]
    )
    return json_response(response, headers=place.headers)


async def delete(api: Api, owner: str, http: HttpRequest) -> Response:
    """DELETE: a response cannot be fetched any more; the conversation keeps what was said."""
    given = http.path_params["response_id"]
    await api.at_hand(_stored, api, owner, given)
    await api.store.set_meta(DELETED + given, "1")
    return json_response({"id": given, "object": "response", "deleted": True})


def _said(body: dict[str, Any]) -> Said:
    given = body.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    if not isinstance(given, list):
        raise ApiError(400, "input must be text or a list of messages.", param="input")
    items = [item for item in given if not isinstance(item, dict) or "role" in item]
    said = chat_messages(items)
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise ApiError(400, "instructions must be text.", param="instructions")
    return said._replace(instructions="\n\n".join(filter(None, (instructions, said.instructions))))


async def _after(api: Api, owner: str, previous: str, http: HttpRequest) -> Place:
    """The conversation as it was after a response."""
    session_id, turn = await api.at_hand(_stored, api, owner, previous)
    tip = await api.at_hand(api.view(owner).tip, session_id)
    newest = last_turn(await api.at_hand(api.view(owner).messages, tip))
    first = newest[0] if newest else {}
    if row_of(turn[0]) in (first.get("id"), first.get("origin_id")):
        return await api.at_hand(api.place, http, owner, tip)
    branch = new_gateway_session_id()
    await api.change(api.view(owner).branch, session_id, branch, until_message_id=row_of(turn[-1]))
    return await api.at_hand(api.place, http, owner, branch)


def _stored(api: Api, owner: str, given: str) -> tuple[str, list[dict[str, Any]]]:
    """The session and the rows of a response's turn; ApiError if it is not this owner's."""
    row_id = asked_row(given)
    session_id = api.view(owner).session_of_message(row_id)
    if session_id is None or not is_id_of(given, session_id, row_id):
        raise not_found(given)
    if api.db.get_meta(DELETED + given) is not None:
        raise not_found(given)
    rows = api.view(owner).messages(session_id, include_inactive=True)
    start = next((n for n, row in enumerate(rows) if row["id"] == row_id), None)
    if start is None:
        raise not_found(given)
    return session_id, turn_at(rows, start)


def last_turn(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows from the last message of the user on."""
    users = [n for n, message in enumerate(messages) if message["role"] == "user"]
    return messages[users[-1] :] if users else []


def row_of(message: dict[str, Any]) -> int:
    """The id under which a message is stored."""
    return int(message.get("_row") or message.get("id") or 0)


async def _streamed(
    api: Api, http: HttpRequest, place: Place, request: Request, events: ResponseEvents
) -> SseResponse:
    def of(event: Event) -> tuple[bytes, bool]:
        if type(event) is not TurnStarted:
            return events.of(event)
        agent = api.host.running_agent(request.key)
        assert agent is not None, "its turn has just begun"
        asked = agent._session_messages[-1]
        return events.begin(response_id(event.session_id, row_of(asked))), False

    def end(result: TurnOutcome, outcome: HttpOutcome) -> bytes:
        if outcome.error is not None:
            raise outcome.error
        return events.end(finished(result, outcome, events.model, events.asked))

    return await streamed(api, http, place, request, of, end, events.fail)
