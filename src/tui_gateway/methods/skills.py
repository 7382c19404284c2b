"""Skills: listed, searched, looked at."""

from __future__ import annotations

from tools.base import ToolContext, ToolError, Workspace
from tools.memory_scope import MemoryScope, Space
from tools.skills import skill_view
from tools.skills.index import Skill, category_of, skills_of

from .. import shapes_settings as wire
from ..rpc import Call, RpcError, method

BAD_ACTION = 4017
NOT_READ = 5024


@method("skills.manage", slow=True)
def manage(
    call: Call, action: str = "list", query: str = "", page: int = 1, page_size: int = 50
) -> wire.Skills:
    """Skills: list them, search their names and descriptions, or inspect one by its name."""
    config = call.config
    if action not in ("list", "search", "inspect"):
        raise RpcError(BAD_ACTION, "action must be one of list, search, inspect.")
    if action == "inspect":
        return _inspect(call, query)
    skills = skills_of(config.home, config.skills, _spaces(call))
    words = query.lower().split() if action == "search" else []
    matching = [
        _info(skill, category_of(skill, config.home, _spaces(call)))
        for skill in skills
        if all(word in f"{skill.name} {skill.description}".lower() for word in words)
    ]
    size, number = max(1, min(page_size, 500)), max(1, page)
    shown = matching[(number - 1) * size : number * size]
    result: wire.Skills = {"installed": len(skills), "page": number}
    if action == "list":
        result["skills"] = shown
    else:
        result["results"] = shown
    return result


def _spaces(call: Call) -> tuple[Space, ...]:
    """Those of whoever asks."""
    return MemoryScope(call.principal.person_id, is_local=False).spaces(call.db, "").read


def _context(call: Call, workspace: Workspace) -> ToolContext:
    scope = MemoryScope(call.principal.person_id, is_local=False)
    return ToolContext("", "", workspace=workspace, db=call.db, memory=scope)


def _info(skill: Skill, category: str) -> wire.SkillInfo:
    return {
        "name": skill.name,
        "description": skill.description,
        "category": category,
        "path": str(skill.folder),
    }


def _inspect(call: Call, name: str) -> wire.Skills:
    config = call.config
    workspace = Workspace(config.home, config.home, settings={"skills": config.skills})
    try:
        text = skill_view.run(_context(call, workspace), name)
    except ToolError as error:
        raise RpcError(NOT_READ, str(error)) from error
    return {"name": name, "info": text}


@method("skills.reload", slow=True)
def reload(call: Call) -> wire.SkillsReload:
    """Look for skills again; they can be used as commands at once."""
    config = call.config
    count = len(skills_of(config.home, config.skills, _spaces(call)))
    return {"output": f"{count} skills. The model is told of new ones with /new.", "result": count}
