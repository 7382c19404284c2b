"""Running what is due without a gateway: for timers, and by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agent.config import Config
    from agent.jobs.job import Job
    from hermes_state import SessionDB


def run_due_jobs(config: Config, db: SessionDB) -> int:
    """Run what is due, and what processes that are gone have left; returns how many runs ended."""
    return asyncio.run(_run(config, db))


async def _run(config: Config, db: SessionDB) -> int:
    from agent.jobs.building import build_job_agent
    from agent.jobs.targets import address_of, home_chat
    from conversation.event_hooks import EventHooks
    from conversation.jobs import JobParts
    from conversation.scheduler import Scheduler
    from conversation.service import Conversations
    from hermes_state import AsyncSessionDB

    store = AsyncSessionDB(db)
    hooks = EventHooks(config.home / "hooks")
    conversations = Conversations(store, lambda: config.agent, lambda: hooks)

    async def build(job: Job, session_id: str, home: Mapping[str, Any] | None) -> Any:
        return await store.at_hand(build_job_agent, config, db, job, session_id)

    def chat_session(job: Job) -> str | None:
        entry = db.load_gateway_routing_entries().get(job.settings.session_key)
        return None if entry is None else str(json.loads(entry)["session_id"])

    parts = JobParts(
        store,
        config,
        conversations,
        build=build,
        address=lambda job: address_of(config, db, job),
        home=lambda job: home_chat(config, db, job.user_id),
        chat_session=chat_session,
    )
    scheduler = Scheduler(parts)
    await scheduler.recover()
    await scheduler.look()
    await conversations.finish()
    return conversations.finished
