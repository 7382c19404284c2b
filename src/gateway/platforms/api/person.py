"""/api/person: whose key this is, and joining it with the person's other doors."""

from __future__ import annotations

import asyncio

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent import people_actions as people
from gateway.config import Platform
from hermes_state import PersonError

from .context import Api
from .errors import ApiError, json_response


async def retrieve(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: who it is, with all of their doors."""
    return json_response(await _shown(api, owner))


async def offer_code(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST /code: a code by which another door becomes this person's."""
    code = await asyncio.to_thread(people.offer_code, api.db, api.person(owner).id)
    if code is None:
        raise ApiError(
            429, "Too many codes were asked for.", code="too_many_codes",
            headers={"Retry-After": "600"},
        )  # fmt: skip
    seconds = people.CODE_MINUTES * 60
    return json_response({"object": "hermes.person.code", "code": code, "expires_in": seconds}, 201)


async def join(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST /join: be the person who was given a code elsewhere."""
    body = await api.body(http)
    code = body.get("code")
    if not isinstance(code, str) or not code.strip():
        raise ApiError(400, "code is missing: the one that was given elsewhere.", param="code")
    try:
        await asyncio.to_thread(people.join, api.db, api.person(owner).id, code)
    except PersonError as error:
        raise ApiError(403, str(error), code="invalid_code", param="code") from error
    await api.identify(owner)
    return json_response(await _shown(api, owner))


async def leave(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST /leave: undo how this key came to its person."""
    try:
        await asyncio.to_thread(people.leave, api.db, f"{Platform.API_SERVER.value}:{owner}")
    except PersonError as error:
        raise ApiError(409, str(error), code="not_joined") from error
    await api.identify(owner)
    return json_response(await _shown(api, owner))


async def _shown(api: Api, owner: str) -> dict[str, object]:
    person = api.person(owner)
    doors = await api.at_hand(api.db.list_doors, person.id)
    return {
        "object": "hermes.person",
        "id": person.id,
        "name": person.name,
        "role": person.role,
        "doors": doors,
    }
