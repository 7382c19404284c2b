"""/v1/runs: a turn that is accepted at once and watched, answered and stopped by its id.

A run's id names its conversation, so that its outcome is found in the store after a restart. Its
events are kept for a while, each with a number: whoever lost the connection goes on behind the last
one it saw.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import OrderedDict
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.elsewhere import NotHeardError, stop_elsewhere
from agent.events import Event, Watcher
from conversation.abandoned import other_turn, runs_elsewhere
from gateway.requests import Request
from gateway.stored_turns import stored_turn

from .context import Api, Place
from .errors import ApiError, json_response
from .outcomes import http_outcome
from .reading import Said, chat_messages, flag, mode_in, session_name
from .run_events import Run
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
        run_id = f"run_{os.urandom(8).hex()}.{place.shown_id}"
        if request.message_id is None:
            request.message_id, request.durable = run_id, True
            request.id = f"api_server:{owner}:{run_id}"
        run = Run(run_id, owner, request.key, place.session_id, str(body.get("model") or api.model))
        accepted = asyncio.Event()
        task = asyncio.ensure_future(self._run(http, request, place, run, accepted))
        waiting = asyncio.ensure_future(accepted.wait())
        await asyncio.wait((task, waiting), return_when="FIRST_COMPLETED")
        waiting.cancel()
        if not accepted.is_set():
            task.result()
        self._keep(run)
        return json_response(
            {"run_id": run_id, "status": "started", "session_id": place.shown_id},
            202,
            place.headers,
        )

    async def _run(
        self, http: HttpRequest, request: Request, place: Place, run: Run, accepted: asyncio.Event
    ) -> None:
        api = self._api
        try:
            result = await api.ask(
                http, request, self._watch(request.key, run), on_accepted=accepted.set
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

    def _watch(self, key: str, run: Run) -> Watcher:
        def watch(event: Event) -> None:
            if run.status == "queued":
                self._active[key] = run
            run.on_event(event)

        return watch

    def _keep(self, run: Run) -> None:
        self._runs[run.id] = run
        edge = time.time() - KEPT_SECONDS
        for id, run in list(self._runs.items()):
            if len(self._runs) <= KEPT_RUNS and run.updated_at > edge:
                break
            if run.is_over:
                del self._runs[id]

    def _find(self, owner: str, http: HttpRequest) -> Run:
        run = self._runs.get(http.path_params["run_id"])
        if run is None or run.owner != owner:
            raise _unknown(http)
        return run

    async def retrieve(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """GET /v1/runs/{run_id}: how it is."""
        run_id = http.path_params["run_id"]
        run = self._runs.get(run_id)
        if run is not None and run.owner == owner:
            return json_response(run.shown())
        return json_response(await self._from_store(owner, run_id, http))

    async def _from_store(self, owner: str, run_id: str, http: HttpRequest) -> dict[str, Any]:
        """A run of an earlier process, by what is stored of it."""
        api = self._api
        _, _, name = run_id.partition(".")
        session_id = await api.at_hand(api.own_id, owner, name)
        shown = {"object": "hermes.run", "run_id": run_id, "session_id": name}
        waiting = await api.store.list_waiting(source="api_server", with_held=True)
        if any(row["id"] == f"api_server:{owner}:{run_id}" for row in waiting):
            return {**shown, "status": "queued"}
        if await api.at_hand(api.view(owner).get_session, session_id) is None:
            raise _unknown(http)
        if await api.at_hand(stored_turn, api.db, session_id, run_id) is None:
            raise _unknown(http)
        if api.requests.is_open(f"api_server:{owner}:{run_id}"):
            return {**shown, "status": "running"}
        try:
            result = await api.at_hand(api.earlier, session_id, run_id)
        except ApiError:
            if await api.at_hand(runs_elsewhere, api.db, session_id):
                return {**shown, "status": "running"}
            return {**shown, "status": "failed", "error": "It was interrupted by a restart."}
        if result.failed:
            return {**shown, "status": "failed", "error": result.error}
        return {**shown, "status": "completed", "output": result.text}

    async def events(self, api: Api, owner: str, http: HttpRequest) -> SseResponse:
        """GET /v1/runs/{run_id}/events: what happens, from the beginning or behind an event."""
        run = self._find(owner, http)
        seen = http.headers.get("last-event-id") or http.query_params.get("after") or "0"
        if not seen.isascii() or not seen.isdigit():
            raise ApiError(400, "Last-Event-ID must be a number.", param="Last-Event-ID")
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
        answered = api.host.questions.answer(
            run.key, "approval", choice, id=body.get("approval_id"),
            all=flag(body.get("all", body.get("resolve_all", False))),
        )  # fmt: skip
        if not answered:
            raise ApiError(409, "No approval is pending in it.", code="approval_not_pending")
        run.approved(choice, answered)
        return json_response(
            {
                "object": "hermes.run.approval_response",
                "run_id": run.id,
                "choice": choice,
                "resolved": answered,
            }
        )

    async def stop(self, api: Api, owner: str, http: HttpRequest) -> Response:
        """POST /v1/runs/{run_id}/stop: what it did is kept."""
        run_id = http.path_params["run_id"]
        if run_id not in self._runs:
            return await self._stop_elsewhere(owner, run_id, http)
        run = self._find(owner, http)
        if not run.is_over:
            if self._active.get(run.key) is not run or not api.interrupt(run.key):
                raise ApiError(409, "It has not begun yet.", code="run_not_active")
            run.status = "stopping"
        return json_response({"run_id": run.id, "status": run.status})

    async def _stop_elsewhere(self, owner: str, run_id: str, http: HttpRequest) -> Response:
        """Stop a run that another process carries out."""
        api = self._api
        _, _, name = run_id.partition(".")
        session_id = await api.at_hand(api.own_id, owner, name)
        # Before it is asked how the run is: if it still runs then, this is its turn.
        turn = await api.at_hand(other_turn, api.db, session_id)
        shown = await self._from_store(owner, run_id, http)
        if shown["status"] == "running" and turn is not None:
            try:
                stopped = await asyncio.to_thread(
                    stop_elsewhere, api.db, session_id, turn["started_at"]
                )
            except NotHeardError as error:
                raise ApiError(503, str(error), code="run_not_reached") from error
            shown["status"] = "stopping" if stopped else shown["status"]
        elif shown["status"] == "queued":
            raise ApiError(409, "It has not begun yet.", code="run_not_active")
        return json_response({"run_id": run_id, "status": shown["status"]})


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


def _unknown(http: HttpRequest) -> ApiError:
    return ApiError(
        404, f"There is no run {http.path_params['run_id'][:80]}.", code="run_not_found"
    )
