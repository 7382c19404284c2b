"""/v1/runs: a turn that is accepted at once and watched, answered and stopped by its id.

A run's id names its conversation, so that every gateway of the store finds it, also after a restart
(`runs_elsewhere`). Its events are kept for a while where it runs, each with a number: whoever lost
the connection goes on behind the last one it saw, at any gateway.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import OrderedDict
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.events import Event, Noticed, TurnStarted, Watcher
from conversation.events import TURN_SHIFT
from conversation.watching import LOGS
from gateway.requests import Request

from .context import Api, Place
from .errors import ApiError, json_response
from .outcomes import http_outcome
from .reading import Said, chat_messages, flag, mode_in, session_name
from .run_events import Run
from .runs_elsewhere import RunsElsewhere, unknown_run
from .sse import Outlet, SseResponse

log = logging.getLogger(__name__)

KEPT_RUNS = 1000
KEPT_SECONDS = 3600.0
_CHOICES = {
    **{choice: choice for choice in ("once", "session", "always", "deny")},
    **dict.fromkeys(("approve", "approved", "allow"), "once"),
}


class Runs:
    """The runs of this process."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._active: dict[str, Run] = {}
        self._elsewhere = RunsElsewhere(api)

    def active(self, key: str) -> Run | None:
        """The run whose turn is running in a conversation."""
        return self._active.get(key)

    async def create(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """POST /v1/runs: begin; returns when the message is stored."""
        body = await api.body(http)
        said, mode = _said(body), mode_in(body)
        given = body.get("session_id")
        named = session_name(str(given), "session_id") if given else None
        place = await api.at_hand(api.place, http, owner, named)
        request = api.request(http, place, said.content, said.history, said.instructions, mode)
        once, request.durable = request.message_id, True
        if once is None:
            run_id = f"run_{os.urandom(8).hex()}.{place.shown_id}"
            request.message_id, request.id = run_id, f"api_server:{owner}:{run_id}"
        else:  # the same run, however often and wherever it is asked for
            digest = hashlib.sha256(f"{owner}\0{once}".encode()).hexdigest()[:16]
            request.message_id = f"run_{digest}"
            run_id = f"{request.message_id}.{place.shown_id}"
            if run_id in self._runs:
                return _started(run_id, place)
        run = Run(run_id, owner, request.key, place.session_id, str(body.get("model") or api.model))
        accepted = asyncio.Event()
        task = asyncio.ensure_future(self._run(http, request, place, run, accepted))
        waiting = asyncio.ensure_future(accepted.wait())
        await asyncio.wait((task, waiting), return_when="FIRST_COMPLETED")
        waiting.cancel()
        if not accepted.is_set():
            task.result()
        self._keep(run)
        return _started(run_id, place)

    async def _run(
        self, http: HttpRequest, request: Request, place: Place, run: Run, accepted: asyncio.Event
    ) -> None:
        api = self._api
        try:
            result = await api.ask(
                http, request, self._watch(request, run), on_accepted=accepted.set
            )
        except ApiError as error:
            if not accepted.is_set():
                raise
            run.fail(str(error))
            return
        finally:
            if self._active.get(request.key) is run:
                del self._active[request.key]
        accepted.set()
        run.end(result, http_outcome(result, place))

    def _watch(self, request: Request, run: Run) -> Watcher:
        """Has the run follow the log of its conversation, from the first event of its turn on."""

        def watch(event: Event) -> None:
            if run.is_followed:
                return  # the log has it too
            self._active[request.key] = run
            if isinstance(event, Noticed):  # before its turn
                run.notice(event.text)
                return
            log = LOGS.log(request.conversation_id)
            # A turn that runs already has been given its message to read.
            since = log.number
            if isinstance(event, TurnStarted):
                since = event.fence << TURN_SHIFT
            run.follow_log(log.subscribe(since, run.take))

        return watch

    def _keep(self, run: Run) -> None:
        self._runs[run.id] = run
        edge = time.time() - KEPT_SECONDS
        for id, run in list(self._runs.items()):
            if len(self._runs) <= KEPT_RUNS and run.updated_at > edge:
                break
            if run.is_over:
                del self._runs[id]

    def _find(self, owner: str, http: HttpRequest) -> Run | None:
        """A run of this process; None for any other."""
        run = self._runs.get(_run_id(http))
        if run is not None and run.owner != owner:
            raise unknown_run(run.id)
        return run

    async def retrieve(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """GET /v1/runs/{run_id}: how it is."""
        run = self._find(owner, http)
        shown = run.shown() if run else await self._elsewhere.find(owner, _run_id(http))
        return json_response(shown)

    async def events(self, api: Api, owner: str, http: HttpRequest) -> SseResponse:
        """GET /v1/runs/{run_id}/events: what happens, from the beginning or behind an event."""
        run = self._find(owner, http)
        seen = http.headers.get("last-event-id") or http.query_params.get("after") or "0"
        if not seen.isascii() or not seen.isdigit():
            raise ApiError(400, "Last-Event-ID must be a number.", param="Last-Event-ID")
        if run is None:
            return await self._elsewhere.follow(owner, _run_id(http), int(seen[:15]))
        outlet = Outlet()
        run.follow(outlet, int(seen[:15]))
        return SseResponse(outlet)

    async def approve(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """POST /v1/runs/{run_id}/approval: answer a pending approval request."""
        run = self._find(owner, http)
        body = await api.body(http)
        choice = _CHOICES.get(str(body.get("choice", "")).strip().lower())
        if choice is None:
            raise ApiError(
                400,
                "choice must be one of once, session, always, deny.",
                code="invalid_approval_choice",
                param="choice",
            )
        if choice != "deny":
            api.require(owner, "approve")
        named, everything = (
            body.get("approval_id"),
            flag(body.get("all", body.get("resolve_all", False))),
        )
        if run is not None:
            answered = api.host.questions.answer(
                run.key, "approval", choice, id=named, all=everything
            )
        else:
            named = None if named is None else str(named)
            answered = await self._elsewhere.approve(
                owner, _run_id(http), choice, named, everything
            )
        if not answered:
            raise ApiError(409, "Nothing waits for leave in it.", code="approval_not_pending")
        return json_response(
            {
                "object": "hermes.run.approval_response",
                "run_id": _run_id(http),
                "choice": choice,
                "resolved": answered,
            }
        )

    async def stop(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """POST /v1/runs/{run_id}/stop: what it did is kept."""
        run = self._find(owner, http)
        if run is None:
            status = await self._elsewhere.stop(owner, _run_id(http))
            return json_response({"run_id": _run_id(http), "status": status})
        if not run.is_over:
            if self._active.get(run.key) is not run or not api.interrupt(run.key):
                raise ApiError(409, "It has not begun yet.", code="run_not_active")
            run.status = "stopping"
        return json_response({"run_id": run.id, "status": run.status})


def _run_id(http: HttpRequest) -> str:
    return str(http.path_params["run_id"])


def _started(run_id: str, place: Place) -> Response:
    shown = {"run_id": run_id, "status": "started", "session_id": place.shown_id}
    return json_response(shown, 202, place.headers)


def _said(body: dict[str, Any]) -> Said:
    given = body.get("input")
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    earlier = body.get("conversation_history")
    said = chat_messages([*(earlier if isinstance(earlier, list) else []), *_list(given)])
    instructions = body.get("instructions")
    extra = instructions if isinstance(instructions, str) else ""
    return said._replace(instructions="\n\n".join(filter(None, (extra, said.instructions))))


def _list(given: Any) -> list[Any]:
    if not isinstance(given, list):
        raise ApiError(400, "input must be text or a list of messages.", param="input")
    return given
