"""What the server is and has: health, models, capabilities, skills, toolsets."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import time
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from gateway.metrics import CONTENT_TYPE, prometheus
from hermes_base.version import __version__
from tools.memory_scope import MemoryScope
from tools.skills.index import Skill, skills_of

from .context import Api
from .errors import json_response
from .reading import IDEMPOTENCY_HEADER, KEY_HEADER, SESSION_HEADER

_STARTED = time.time()
ENDPOINTS = {
    "health": "GET /health",
    "health_detailed": "GET /health/detailed",
    "metrics": "GET /metrics",
    "models": "GET /v1/models",
    "skills": "GET /v1/skills",
    "toolsets": "GET /v1/toolsets",
    "chat_completions": "POST /v1/chat/completions",
    "responses": "POST /v1/responses",
    "response": "GET /v1/responses/{response_id}",
    "response_delete": "DELETE /v1/responses/{response_id}",
    "runs": "POST /v1/runs",
    "run_status": "GET /v1/runs/{run_id}",
    "run_events": "GET /v1/runs/{run_id}/events",
    "run_approval": "POST /v1/runs/{run_id}/approval",
    "run_stop": "POST /v1/runs/{run_id}/stop",
    "sessions": "GET /api/sessions",
    "session_create": "POST /api/sessions",
    "session": "GET /api/sessions/{session_id}",
    "session_update": "PATCH /api/sessions/{session_id}",
    "session_delete": "DELETE /api/sessions/{session_id}",
    "session_messages": "GET /api/sessions/{session_id}/messages",
    "session_fork": "POST /api/sessions/{session_id}/fork",
    "session_chat": "POST /api/sessions/{session_id}/chat",
    "session_chat_stream": "POST /api/sessions/{session_id}/chat/stream",
    "person": "GET /api/person",
    "person_code": "POST /api/person/code",
    "person_join": "POST /api/person/join",
    "person_leave": "POST /api/person/leave",
}


async def health(api: Api, owner: str, request: Request) -> Response:
    """GET /health: whether it serves; needs no key."""
    status = "ok" if api.host.is_running else "stopping"
    return json_response({"status": status, "platform": "hermes", "version": __version__})


async def detailed(api: Api, owner: str, request: Request) -> Response:
    """GET /health/detailed: platforms, turns, memory."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return json_response(
        {
            "status": "ok" if api.host.is_running else "stopping",
            "platform": "hermes",
            "version": __version__,
            "pid": os.getpid(),
            "uptime_seconds": round(time.time() - _STARTED, 1),
            **api.host.health(),
            "max_memory_bytes": used if sys.platform == "darwin" else used * 1024,
        }
    )


async def metrics(api: Api, owner: str, request: Request) -> Response:
    """GET /metrics: the gateway in numbers, as Prometheus reads them."""
    return Response(prometheus(api.host.facts()), media_type=CONTENT_TYPE)


async def models(api: Api, owner: str, request: Request) -> Response:
    """GET /v1/models: the one model that answers here."""
    entry = {"id": api.model, "object": "model", "created": int(_STARTED), "owned_by": "hermes"}
    return json_response({"object": "list", "data": [entry]})


async def capabilities(api: Api, owner: str, request: Request) -> Response:
    """GET /v1/capabilities: what a client may rely on."""
    features: dict[str, Any] = {
        "chat_completions": True,
        "chat_completions_streaming": True,
        "responses_api": True,
        "responses_streaming": True,
        "run_submission": True,
        "run_status": True,
        "run_events_sse": True,
        "run_events_resumable": True,
        "run_stop": True,
        "run_approval_response": True,
        "tool_progress_events": True,
        "approval_events": True,
        "session_resources": True,
        "session_chat": True,
        "session_chat_streaming": True,
        "session_fork": True,
        "skills_api": True,
        "session_continuity_header": SESSION_HEADER,
        "session_key_header": KEY_HEADER,
        "idempotency_header": IDEMPOTENCY_HEADER,
    }
    endpoints = {
        name: dict(zip(("method", "path"), line.split(), strict=True))
        for name, line in ENDPOINTS.items()
    }
    return json_response(
        {
            "object": "hermes.api_server.capabilities",
            "platform": "hermes",
            "model": api.model,
            "auth": {"type": "bearer", "required": True},
            "runtime": {"mode": "server_agent", "tool_execution": "server"},
            "features": features,
            "endpoints": endpoints,
        }
    )


async def skills(api: Api, owner: str, request: Request) -> Response:
    """GET /v1/skills: the skills of the key's person, and those that are shared."""

    def find() -> list[Skill]:
        spaces = MemoryScope(api.person(owner).id, is_local=False).spaces(api.db, "").read
        return skills_of(api.host.home, api.host.settings.skills, spaces)

    usable = await asyncio.to_thread(find)
    listed = [{"name": skill.name, "description": skill.description} for skill in usable]
    return json_response({"object": "list", "data": listed})


async def toolsets(api: Api, owner: str, request: Request) -> Response:
    """GET /v1/toolsets: the tools that turns here have, by group."""
    from agent.build import usable_tools

    tools = await asyncio.to_thread(usable_tools, api.host.settings, "api_server")
    groups: dict[str, list[str]] = {}
    may = api.access(owner).permissions
    for tool in filter(may.allow_tool, tools):
        groups.setdefault(tool.toolset, []).append(tool.name)
    listed = [
        {"name": name, "enabled": True, "tools": sorted(names)} for name, names in groups.items()
    ]
    return json_response({"object": "list", "data": listed})
