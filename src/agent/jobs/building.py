"""The agent of a job: its model or program, its tools, its mode, and what it may spend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hermes_state import Limit, person_of

from .job import SPENDING
from .programs import needs_model, program_of
from .targets import address_of, group_of

if TYPE_CHECKING:
    from agent.access import Access
    from agent.agent import AIAgent
    from agent.config import Config
    from agent.model import Model
    from hermes_state import Person, SessionDB
    from tools.base import Asker

    from .job import Job

CRON = "cron"


def build_job_agent(
    config: Config,
    db: SessionDB,
    job: Job,
    session_id: str,
    *,
    shared_model: Callable[[], Model] | None = None,
    asker: Asker | None = None,
    session_facts: dict[str, Any] | None = None,
    platform: str = CRON,
) -> AIAgent:
    """The agent that runs an occurrence of a job in a session."""
    from agent.build import build_agent, build_models, usable_tools
    from agent.workspaces import workspaces_of

    settings, owner = job.settings, person_of(job.user_id)
    person, workspaces = db.get_person(owner), workspaces_of(config)
    access = _access(config, db, job, person)
    model: Any = None
    if needs_model(settings):
        own = _model_of(job, access)
        model = build_models(config, own) if own or shared_model is None else shared_model()
    tools = usable_tools(config, platform)
    if settings.toolsets:
        wanted = set(settings.toolsets)
        if settings.kind == "check":
            wanted.add("cronjob")  # it looks with that
        tools = tools.usable(lambda tool: tool.toolset in wanted or tool.name in wanted)
    folder = None if job.user_id is None or person is None else workspaces.of_person(person)
    agent = build_agent(
        config,
        db,
        model=program_of(job, model),
        session_id=session_id,
        platform=platform,
        user_id=job.user_id,
        owner=owner,
        person=person,
        cwd=folder,
        tools=tools,
        asker=asker,
        access=access,
        group=group_of(address_of(config, db, job)),
        session_facts={"session_key": f"job:{job.id}", **(session_facts or {})},
        job=(job.id, spending_limits(config, job)),
    )
    if folder is not None:
        workspaces.confine(db, agent.workspace, is_free=agent.permissions.may_leave)
    agent.job_depth = settings.depth + 1
    return agent


def _access(config: Config, db: SessionDB, job: Job, person: Person | None) -> Access:
    """What a job's person may use, in the chat in which it was made: nobody has more done there by
    a job than by a message."""
    from agent.access import find_access

    settings, key = job.settings, None
    is_free = person is not None and person.is_operator
    if settings.where == "chat":
        key = settings.session_key
    elif settings.deliver == "chat" and not is_free:  # an operator's may be sent anywhere
        key = str(settings.to.get("session_key") or "")
    doors = db.list_doors(person_of(job.user_id)) if config.access.people else []
    return find_access(config, job.user_id, person, doors, key)


def _model_of(job: Job, access: Access) -> str:
    """The model that a job asks for, if its person may use it, or the one that is configured for
    them; empty for the one that all share."""
    wanted = job.settings.model
    return access.model if not wanted or access.why_no_model(wanted) else wanted


def spending_limits(config: Config, job: Job) -> list[Limit]:
    """What a job may spend: what it says itself, or else what is configured for jobs."""
    from agent.config.schema import SpendingLimits
    from agent.limits import list_amounts

    jobs = config.jobs
    limits: dict[str, Any] = {
        "usd_per_day": jobs.usd_per_day,
        "usd_per_month": jobs.usd_per_month,
        "tokens_per_day": jobs.tokens_per_day,
        "tokens_per_month": jobs.tokens_per_month,
    }
    own = {name: getattr(job.settings, name) for name in SPENDING}
    limits |= {name: most for name, most in own.items() if most is not None}
    amounts = list_amounts(SpendingLimits(**limits))
    return [Limit("job", job.id, unit, period, most) for unit, period, most in amounts]
