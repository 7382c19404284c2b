"""The routes, and what becomes of errors."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from ..http_server import trust
from . import chat_completions, info, jobs, person, responses, sessions
from .context import Api
from .errors import ApiError, error_body, json_response
from .runs import Runs

log = logging.getLogger(__name__)

Handler = Callable[[Api, str, Request], Awaitable[Any]]


def build_app(api: Api, runs: Runs) -> ASGIApp:
    """The API as an application."""

    def route(path: str, handler: Handler, method: str = "GET", needs: str = "") -> Route:
        return Route(path, _Endpoint(api, handler, needs), methods=[method])

    session = "/api/sessions/{session_id}"
    job = "/api/jobs/{job}"
    return Starlette(
        routes=[
            Route("/health", _Endpoint(api, info.health, open=True)),
            Route("/v1/health", _Endpoint(api, info.health, open=True)),
            route("/v1/chat/completions", chat_completions.chat_completions, "POST"),
            route("/v1/responses", responses.create, "POST"),
            route("/v1/responses/{response_id}", responses.retrieve),
            route("/v1/responses/{response_id}", responses.delete, "DELETE"),
            route("/v1/runs", runs.create, "POST"),
            route("/v1/runs/{run_id}", runs.retrieve),
            route("/v1/runs/{run_id}/events", runs.events),
            route("/v1/runs/{run_id}/approval", runs.approve, "POST", "deny"),
            route("/v1/runs/{run_id}/stop", runs.stop, "POST", "stop"),
            route("/api/sessions", sessions.list_all, needs="sessions"),
            route("/api/sessions", sessions.create, "POST"),
            route(session, sessions.retrieve, needs="history"),
            route(session, sessions.update, "PATCH", "title"),
            route(session, sessions.delete, "DELETE"),
            route(f"{session}/messages", sessions.messages, needs="history"),
            route(f"{session}/fork", sessions.fork, "POST", "branch"),
            route(f"{session}/chat", sessions.chat, "POST"),
            route(f"{session}/chat/stream", sessions.chat_stream, "POST"),
            route("/api/person", person.retrieve),
            route("/api/person/code", person.offer_code, "POST", "link"),
            route("/api/person/join", person.join, "POST", "link"),
            route("/api/person/leave", person.leave, "POST", "unlink"),
            route("/health/detailed", info.detailed, needs="metrics"),
            route("/metrics", info.metrics, needs="metrics"),
            route("/api/jobs", jobs.list_all, needs="cron"),
            route("/api/jobs", jobs.create, "POST", needs="cron"),
            route(job, jobs.retrieve, needs="cron"),
            route(job, jobs.update, "PATCH", needs="cron"),
            route(job, jobs.delete, "DELETE", needs="cron"),
            route(f"{job}/history", jobs.history, needs="cron"),
            route(f"{job}/pause", jobs.pause, "POST", needs="cron"),
            route(f"{job}/resume", jobs.resume, "POST", needs="cron"),
            route(f"{job}/run", jobs.run, "POST", needs="cron"),
            route("/v1/models", info.models),
            route("/v1/capabilities", info.capabilities),
            route("/v1/skills", info.skills, needs="skills"),
            route("/v1/toolsets", info.toolsets, needs="tools"),
        ],
        exception_handlers={HTTPException: _http_error},
    )


class _Endpoint:
    """A handler behind the key, with errors turned into answers."""

    def __init__(self, api: Api, handler: Handler, needs: str = "", *, open: bool = False) -> None:
        """`needs` is the command that does the same: whoever may not use it may not ask here."""
        self._api, self._handler, self._open = api, handler, open
        self.needs = needs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        try:
            owner = ""
            if not self._open:
                owner = self._api.keys.require(request)
                trust(scope)
                await self._api.identify(owner)
                if self.needs:
                    self._api.require(owner, self.needs)
            response = await self._handler(self._api, owner, request)
        except ApiError as error:
            response = error.response()
        except Exception:
            # The last boundary: what it was is for the log, not for the network.
            log.exception("A request to %s failed", scope.get("path"))
            response = json_response(
                error_body(500, "Something went wrong here; see the gateway's log."), 500
            )
        await response(scope, receive, send)


async def _http_error(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    what = {404: "There is no such route.", 405: "This route takes another method."}
    return json_response(error_body(status, what.get(status, str(error))), status)
