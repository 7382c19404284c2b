"""/api/jobs: the jobs of a key's person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from agent.jobs.actions import Jobs, as_dict
from agent.jobs.job import SPENDING, Job, JobSettings
from agent.jobs.schedule import ScheduleError
from agent.jobs.targets import parse_target
from hermes_state import JobError, StoreError

from .context import Api
from .errors import ApiError, json_response
from .reading import number

_TEXTS = ("kind", "prompt", "script", "url", "model", "mode", "approvals", "missed", "overlap")
_NUMBERS = ("jitter", "max_runs", "missed_most", *SPENDING)


async def list_all(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: those that are due next first."""
    jobs = _jobs(api, owner)
    kept, now = await _run(jobs.all), await api.at_hand(api.db.now)
    return json_response({"jobs": [as_dict(job, now) for job in kept]})


async def create(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST: a new job, with its next three times."""
    body, jobs = await api.body(http), _jobs(api, owner)

    def add() -> Job:
        settings = JobSettings(**_settings(jobs, body))
        schedule, zone = _text(body, "schedule"), _text(body, "timezone")
        return jobs.add(schedule, settings, name=_text(body, "name"), zone=zone)

    return await _shown(api, await _run(add), 201)


async def retrieve(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: one job."""
    return await _shown(api, await _run(_jobs(api, owner).find, _name(http)))


async def update(api: Api, owner: str, http: HttpRequest) -> Response:
    """PATCH: what it does, or when."""
    body, jobs = await api.body(http), _jobs(api, owner)

    def edit() -> Job:
        changes = _settings(jobs, body)
        schedule, name = _text(body, "schedule"), _text(body, "name")
        job = jobs.edit(_name(http), changes, schedule=schedule, name=name)
        if isinstance(body.get("enabled"), bool) and body["enabled"] != (job.state == "active"):
            return (jobs.resume if body["enabled"] else jobs.pause)(job.id)
        return job

    return await _shown(api, await _run(edit))


async def delete(api: Api, owner: str, http: HttpRequest) -> Response:
    """DELETE: the job and its history."""
    await _run(_jobs(api, owner).remove, _name(http))
    return json_response({"ok": True})


async def pause(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST: let nothing of it begin."""
    return await _shown(api, await _run(_jobs(api, owner).pause, _name(http)))


async def resume(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST: let it go on from now."""
    return await _shown(api, await _run(_jobs(api, owner).resume, _name(http)))


async def run(api: Api, owner: str, http: HttpRequest) -> Response:
    """POST: have it run now."""
    return await _shown(api, await _run(_jobs(api, owner).start, _name(http)))


async def history(api: Api, owner: str, http: HttpRequest) -> Response:
    """GET: what became of its occurrences, newest first."""
    limit = number(http, "limit", 20, 500)
    return json_response({"runs": await _run(_jobs(api, owner).history, _name(http), limit)})


def _jobs(api: Api, owner: str) -> Jobs:
    return Jobs(api.host.settings, api.db, api.person(owner).id)


def _name(http: HttpRequest) -> str:
    return str(http.path_params["job"])


def _text(body: dict[str, Any], name: str) -> str:
    given = body.get(name)
    if given is None:
        return ""
    if not isinstance(given, str):
        raise ApiError(400, f"{name} must be a text.", param=name)
    return given


def _settings(jobs: Jobs, body: dict[str, Any]) -> dict[str, Any]:
    changes: dict[str, Any] = {name: _text(body, name) for name in _TEXTS if name in body}
    for name in _NUMBERS:
        if name in body:
            if not isinstance(body[name], int | float) or isinstance(body[name], bool):
                raise ApiError(400, f"{name} must be a number.", param=name)
            changes[name] = float(body[name]) if name in SPENDING else int(body[name])
    if "toolsets" in body:
        changes["toolsets"] = tuple(map(str, body["toolsets"] or ()))
    if "deliver" in body:
        wanted = _text(body, "deliver")
        if wanted not in ("none", "home") and not jobs.is_operator:
            raise ApiError(400, "deliver must be none or home.", param="deliver")
        changes["deliver"], changes["to"] = parse_target(jobs.config, jobs.db, wanted)
    return changes


async def _run(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return await asyncio.to_thread(function, *args)
    except (JobError, ScheduleError) as error:
        is_missing = str(error).startswith("There is no job")
        code = "job_not_found" if is_missing else "invalid_job"
        raise ApiError(404 if is_missing else 400, str(error), code=code) from error
    except StoreError as error:
        raise ApiError(503, f"The store cannot be used: {error}", code="store_error") from error


async def _shown(api: Api, job: Job, status: int = 200) -> Response:
    now = await api.at_hand(api.db.now)
    return json_response({"job": as_dict(job, now)}, status)
