"""From the configuration to an agent: the same for every front end."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hermes_base import plugins
from hermes_state import EVERYONE, NOBODY, OPERATOR, Limit, Owner, Person, SessionDB, person_of
from tools import shared_files
from tools.base import Asker, Mode, Workspace
from tools.memory_scope import MemoryScope, Spaces
from tools.permissions import EVERYTHING
from tools.plugin_tools import plugin_tools
from tools.registry import Registry
from tools.services import Services
from tools.toolset_names import ALL, NONE, understand, unwanted_in, wanted_on
from tools.toolsets import default_tools, toolset_list

from .access import OPERATORS, Access, as_mode, find_access
from .agent import AIAgent
from .auxiliary import build_auxiliary
from .config import Config, ConfigError, ModelSettings
from .events import Event
from .learning.learner import LearningSettings
from .limits_of import limits_of
from .model import Model
from .plugin_loading import load_plugins
from .providers import build_model
from .retry import RetryingModel
from .system_prompt import build_system_prompt
from .tool_environment import mcp_servers_from, passed_from, web_from

if TYPE_CHECKING:
    from .limits import LimitTable

log = logging.getLogger(__name__)

_TOOL_SECTIONS = (
    "terminal", "approvals", "tools", "code_execution", "checkpoints",
)  # fmt: skip


def build_models(config: Config, model: str | None = None) -> Model:
    """The configured model (or the one named) with its fall-backs, as one that can be asked."""
    load_plugins(config.raw, config.home, config.environ)
    settings = config.model_named(model) if model else config.model
    first = _build(settings, config)
    if is_small(first) and not config.fallback_models:
        return first  # inside the process there is nothing to retry
    return RetryingModel(
        [first, *(_build(settings, config) for settings in config.fallback_models)]
    )


def _build(settings: ModelSettings, config: Config) -> Model:
    return build_model(settings, config.environ)


def is_small(model: Model) -> bool:
    """Whether the model is too small for tools and a long prompt."""
    return bool(getattr(model, "small", False))


def build_agent(
    config: Config,
    db: SessionDB | None,
    *,
    model: Model | None = None,
    session_id: str | None = None,
    platform: str = "cli",
    user_id: str | None = None,
    owner: Owner | None = None,
    tools: Registry | None = None,
    cwd: Path | None = None,
    on_event: Callable[[Event], None] | None = None,
    session_facts: dict[str, Any] | None = None,
    asker: Asker | None = None,
    services: Services | None = None,
    platform_hint: str = "",
    person: Person | None = None,
    job: tuple[str, list[Limit]] | None = None,
    access: Access | None = None,
    group: str | None = None,
) -> AIAgent:
    """An agent as configured, for a new conversation or, with `session_id`, an old one.

    `owner` is whose past conversations its tools may look into: those of `user_id` unless said
    otherwise. `tools` defaults to what the configuration wants and this machine has; a model too
    small for tools gets none. `asker` is whom tools ask before they do something dangerous;
    `services` is what they are lent besides the agent's own. `platform_hint` says in a new
    conversation's system prompt what to know about the place where answers are read. `person` is
    who `user_id` is, if that was looked up; their limits hold. `job` is the scheduled job that it
    works for, with what that may spend. `access` is what the person may use; it is looked up, and
    followed from turn to turn, if it is not given. `group` is the chat in
    which others read along ("telegram:-100"), whose memory is read and written instead of the
    person's.
    """
    load_plugins(config.raw, config.home, config.environ)
    find = None if access is not None else _access_finder(config, db, user_id, person)
    allowed = access or (find() if find is not None else _operators(config))
    may = allowed.permissions
    llm = model or build_models(config, allowed.model or None)
    small = is_small(llm)
    where = cwd or Path(os.getcwd())  # noqa: PTH109 - Path.cwd() resolves links people chose
    settings = tool_settings(config, platform)
    if small:
        check_tool_choice(config, platform)
        tools = Registry()
    elif tools is None:
        tools = usable_tools(config, platform)
    elif unwanted := _unwanted_toolsets(config):
        tools = tools.usable(lambda tool: tool.toolset not in unwanted)
    if may is not EVERYTHING:
        tools = Registry(tool for tool in tools if may.allow_tool(tool))

    def prompt(spaces: Spaces) -> str:
        shared_files.refresh(db, config.home, spaces.prefixes)
        return build_system_prompt(
            config.home,
            where,
            platform,
            llm.name,
            hint=platform_hint,
            small=small,
            memory=config.memory.enabled and may.allow_toolset("memory"),
            skills=may.allow_toolset("skills"),
            spaces=spaces.read,
            user_profile=config.memory.user_profile,
            skill_choice=config.skills,
            persona=agent.persona or allowed.persona,
            further=allowed.prompt,
        )

    options: dict[str, Any] = {}
    if config.model.max_tokens:
        options["max_tokens"] = config.model.max_tokens
    if config.model.reasoning_effort:
        options["reasoning_effort"] = config.model.reasoning_effort
    agent = AIAgent(
        llm,
        db=db,
        session_id=session_id,
        platform=platform,
        user_id=user_id,
        owner=owner,
        tools=tools,
        system_prompt=prompt,
        max_iterations=config.agent.max_iterations,
        on_event=on_event,
        session_facts={"cwd": str(where), **(session_facts or {})},
        request_options=options,
        workspace=_workspace(config, where, settings, allowed),
        asker=asker,
        services=services,
        auxiliary=build_auxiliary(config, lambda: agent.llm),
        compression=config.compression,
        compression_timeout=config.auxiliary.compression.timeout,
        learning=learning_settings(
            config,
            remembers=may.allow_toolset("memory"),
            searches=may.allow_toolset("session_search"),
        ),
        memory_providers=()
        if small or not may.allow_toolset("memory")
        else memory_providers(config),
        limits=_limits(config, db, NOBODY if owner == NOBODY else user_id, person, job),
        permissions=may,
        find_permissions=None if find is None else lambda: find().permissions,
        memory=_memory_scope(user_id, owner, person, group),
    )
    if job is not None:
        agent.spend_for_job(*job)
    if "cronjob" in {tool.name for tool in tools}:
        from .jobs.service import JobService

        agent.services = dataclasses.replace(agent.services, jobs=JobService(config, agent))
    if config.context.engine != "compressor":
        engine = plugins.get_context_engine(config.context.engine)
        if engine is None:
            name = config.context.engine
            log.warning("context.engine is %s, but no plugin that is enabled offers that", name)
        agent.use_context_engine(engine)
    plugins.lend(agent, lambda name: build_models(config, name))
    return agent


def _limits(
    config: Config,
    db: SessionDB | None,
    owner: str | None,
    person: Person | None,
    job: tuple[str, list[Limit]] | None,
) -> LimitTable | Callable[[], LimitTable | None] | None:
    """What may be used; found with the first turn if it is not known yet who it is."""
    doors: list[str] = []
    if config.limits.people and db is not None and owner != NOBODY:
        doors = db.list_doors(person_of(owner))
    if job is not None and db is not None:
        from .limits import LimitTable, role_of

        role = role_of(config, owner, person)
        found = limits_of(config, owner, person, doors)
        return found or LimitTable(config.limits, owner, role=role)
    if db is None or person is not None:
        return None if db is None else limits_of(config, owner, person, doors)

    def find() -> LimitTable | None:
        known = None if owner == NOBODY else db.get_person(person_of(owner))
        return limits_of(config, owner, known, doors)

    return find


def _operators(config: Config) -> Access:
    """What holds for whoever sits at the machine: everything, and what is set for them."""
    return find_access(config, None, None) if config.access.people else OPERATORS


def _access_finder(
    config: Config, db: SessionDB | None, user_id: str | None, person: Person | None
) -> Callable[[], Access] | None:
    """Finds what somebody may use, as it is by then; None for the operator."""
    if user_id is None:
        return None

    def find() -> Access:
        known, doors = person, []
        if db is not None:
            known = db.get_person(person_of(user_id))
            doors = db.list_doors(person_of(user_id)) if config.access.people else []
        return find_access(config, user_id, known, doors)

    return find


def _memory_scope(
    user_id: str | None, owner: Owner | None, person: Person | None, group: str | None
) -> MemoryScope:
    """Whose memories a conversation has."""
    who = None if owner == NOBODY else person_of(user_id)
    return MemoryScope(
        who,
        group,
        is_operator=who == OPERATOR if person is None else person.is_operator,
        is_local=owner is None or owner == EVERYONE,
    )


def _workspace(config: Config, where: Path, settings: dict[str, Any], access: Access) -> Workspace:
    """Where a conversation works, and what it may do there at first."""
    terminal = config.terminal
    mode = as_mode(access.mode) or cast(Mode, terminal.mode)
    folders = [Path(folder).expanduser() for folder in terminal.folders]
    return Workspace(config.home, where, settings=settings, folders=folders, mode=mode)


def usable_tools(config: Config, platform: str = "cli") -> Registry:
    """The tools that the configuration wants and this machine has, with those of plugins.

    Raises ConfigError if the configuration chooses among them and leaves none.
    """
    load_plugins(config.raw, config.home, config.environ)
    tools = default_tools(tool_settings(config, platform), config.home, plugin_tools())
    if unwanted := _unwanted_toolsets(config):
        tools = tools.usable(lambda tool: tool.toolset not in unwanted)
    if not list(tools) and _chooses(config, platform):
        raise ConfigError(_no_tools(config, platform))
    return tools


def _unwanted_toolsets(config: Config) -> set[str]:
    """What the settings of memory leave out."""
    off = set() if config.memory.enabled else {"memory"}
    return off | {"session_search"} if config.memory.recall == "off" else off


def check_tool_choice(config: Config, platform: str = "cli") -> None:
    """Raise ConfigError if the configuration leaves no tools, without connecting to anything."""
    if config.section("mcp_servers") or not _chooses(config, platform):
        return  # what servers have is known when they are asked
    usable_tools(config, platform)


def _chooses(config: Config, platform: str) -> bool:
    """Whether the lists could leave no tools by mistake."""
    names = wanted_on(config.raw, platform).names
    is_limited = bool(names) and ALL not in understand(names).names
    return names != (NONE,) and (is_limited or bool(unwanted_in(config.raw)))


def _no_tools(config: Config, platform: str) -> str:
    """The error that the lists leave no tools, with what to write instead."""
    key, names = wanted_on(config.raw, platform)
    off = unwanted_in(config.raw)
    chosen = [f"{key} is [{', '.join(names)}]"] if names else []
    chosen += [f"tools.disabled is [{', '.join(off)}]"] if off else []
    return (
        f"{config.home / 'config.yaml'}: {' and '.join(chosen)}, which leaves the agent no tools."
        f" Write {key}: [all], or some of {', '.join(toolset_list())}"
        f"{', and take names out of tools.disabled' if off else ''};"
        f" for an agent without tools, {key}: [none]."
    )


def learning_settings(
    config: Config, *, remembers: bool = True, searches: bool = True
) -> LearningSettings:
    """What an agent does beside its turns, as configured; `remembers` is whether it may keep
    anything from one conversation to the next, `searches` whether it may look into earlier ones."""
    return LearningSettings(
        titles=config.auxiliary.title_generation.enabled,
        review_every=config.memory.review_every if config.memory.enabled and remembers else 0,
        review_seconds=config.auxiliary.review.timeout,
        recall=searches and config.memory.recall == "on",
    )


def memory_providers(config: Config) -> list[Any]:
    """The plugin's memory that is configured, if there is one."""
    name = config.memory.provider if config.memory.enabled else ""
    if not name:
        return []
    provider = plugins.get_memory_provider(name)
    if provider is None:
        log.warning("memory.provider is %s, but no plugin that is enabled offers that", name)
    return [] if provider is None else [provider]


def tool_settings(config: Config, platform: str = "cli") -> dict[str, Any]:
    """The sections of the configuration that tools read, with the checked values on top.

    `platform` is where the agent is spoken to: each may have toolsets of its own.
    """
    settings: dict[str, Any] = {name: dict(config.section(name)) for name in _TOOL_SECTIONS}
    settings["web"] = web_from(config.section("web"), config.environ)
    servers = mcp_servers_from(config.section("mcp_servers"), config.environ)
    settings["mcp_servers"] = {
        name: {"sandbox": config.terminal.sandbox, **entry} for name, entry in servers.items()
    }
    for name in ("terminal", "approvals", "code_execution", "checkpoints"):
        settings[name] |= dataclasses.asdict(getattr(config, name))
    passed = passed_from(config.terminal.pass_env, config.environ)
    if passed:
        settings["terminal"]["environ"] = passed
    settings["skills"] = config.skills
    settings["memory"] = {"user_profile": config.memory.user_profile}
    settings["delegation"] = {
        "max_tasks": config.delegation.max_concurrent_children,
        "max_iterations": config.delegation.max_iterations,
    }
    toolsets = wanted_on(config.raw, platform).names
    return {**settings, "toolsets": list(toolsets)} if toolsets else settings
