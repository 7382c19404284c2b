"""Skills: what the agent has learnt to do, as folders with a SKILL.md (the agentskills.io format).

A skill is `skills/[category/]<name>/` with SKILL.md (front matter: name, description; then the
instructions) and, beside it, references/, templates/, scripts/ and assets/. The prompt lists names
and descriptions; the rest is read when it is needed. Nothing outside the skill's folder can be read
or written through it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from hermes_base import plugins
from hermes_base.files import private_folder, write_private

from .. import shared_files
from ..base import Tool, ToolContext, ToolError, tool
from ..memory import approve_sharing, author_of, writable
from ..memory_history import locked, new_change, note_skill_change, snapshot
from ..memory_scope import SHARED, Space, spaces_of
from ..screening import marked, suspicion
from .index import Skill, category_of, check_skill, list_skills, skills_of, space_with

LONGEST_FILE = 200_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OTHER_FOLDERS = ("references", "templates", "scripts", "assets")

ManageAction = Literal["create", "edit", "patch", "delete", "write_file", "remove_file"]


@tool(toolset="skills", effect="none")
def skills_list(context: ToolContext, category: str | None = None) -> str:
    """List the skills: proven instructions for tasks that come again.

    category: only those in this folder
    """
    home, spaces = context.workspace.home, _spaces(context)
    placed = [(category_of(skill, home, spaces), skill) for skill in _skills(context)]
    skills = [
        (where, skill)
        for where, skill in placed
        if category in (None, where) or (category == "." and not where)
    ]
    lines = [
        f"{skill.name}{f' [{where}]' if where else ''}: {skill.description}"
        for where, skill in skills
    ]
    if category is None:
        lines += [f"{name}: {skill.description}" for name, skill in plugins.get_skills().items()]
    if not lines:
        return "There are no skills yet." if category is None else f"No skills in {category!r}."
    return "\n".join(lines)


@tool(toolset="skills", effect="none")
def skill_view(context: ToolContext, name: str, file_path: str | None = None) -> str:
    """Read a skill before a task it fits, or one of its further files.

    name: the skill's name, as skills_list gives it
    file_path: a file of the skill, e.g. references/api.md; leave it out for SKILL.md
    """
    skill = plugin_skill(name) or find_skill(context, name)
    path = inside(skill, file_path or "SKILL.md")
    try:
        if path.stat().st_size > LONGEST_FILE:
            raise ToolError(f"{file_path} is larger than {LONGEST_FILE} bytes; read_file it.")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        files = ", ".join(other_files(skill)) or "none"
        raise ToolError(f"{name} has no file {file_path!r}. It has: {files}.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{file_path} of {name} cannot be read: {error}.") from error
    if file_path is None and (files_there := other_files(skill)):
        text += "\n\n[Further files: " + ", ".join(files_there) + "]"
    return f"[{skill.folder}]\n{marked(text)}"


@tool(toolset="skills", effect="effectful")
def skill_manage(
    context: ToolContext,
    action: ManageAction,
    name: str,
    content: str | None = None,
    old_string: str | None = None,
    new_string: str | None = None,
    replace_all: bool = False,
    category: str | None = None,
    file_path: str | None = None,
    file_content: str | None = None,
    shared: bool = False,
) -> str:
    """Keep how something is done for next time, or improve a skill that proved wrong. Use it after
    a task with several steps that is likely to come again.

    action: create (content), edit (content replaces SKILL.md), patch (old_string → new_string),
        delete, write_file (file_path, file_content), remove_file (file_path)
    name: lower-case letters, digits and dashes
    content: the whole SKILL.md, with front matter (name, description)
    old_string: the text to replace, exactly as it stands
    new_string: what to put in its place
    replace_all: replace every occurrence
    category: a folder for the skill, when creating it
    file_path: a file in references/, templates/, scripts/ or assets/
    file_content: that file's text
    shared: it is for everybody you talk to, if you are asked to; this needs approval
    """
    places = writable(context, shared)
    if shared:
        approve_sharing(context, f"{action} the skill {name}")
    home = context.workspace.home

    def manage() -> str:
        if action == "create":
            folder = place_of_new(context, name, content, category, places[0])
            place = places[0]
        else:
            folder, place = own_skill(context, name, places)
        top = place.folder(home)
        with locked(top):
            before = snapshot(top, folder)
            if action == "create":
                save(folder / "SKILL.md", checked(content))
                done = f"Created the skill {name}. The next session lists it."
            else:
                done = manage_skill(
                    Skill(name, "", folder), action, content, old_string, new_string, replace_all,
                    file_path, file_content,
                )  # fmt: skip
            change = new_change("skill", action, author_of(context), before=name)
            note_skill_change(top, change, before, snapshot(top, folder))
        return done

    return shared_files.change(context.db, home, manage, [place.prefix for place in places])


def own_skill(context: ToolContext, name: str, places: Sequence[Space]) -> tuple[Path, Space]:
    """Where a skill is that may be changed; ToolError if it is only read."""
    home = context.workspace.home
    for place in places:
        for skill in list_skills(place.folder(home) / "skills"):
            if skill.name == name:
                return skill.folder, place
    skill = find_skill(context, name)
    if space_with(skill, home, [SHARED]) is not None:
        raise ToolError(f"{name} is shared with everybody, and only read. Make one of your own.")
    raise ToolError(f"{name} is in {skill.folder}, which is only read. Make one of your own.")


def manage_skill(
    skill: Skill,
    action: ManageAction,
    content: str | None,
    old_string: str | None,
    new_string: str | None,
    replace_all: bool,
    file_path: str | None,
    file_content: str | None,
) -> str:
    """Change a skill that is there."""
    if action == "delete":
        shutil.rmtree(skill.folder)
        return f"Deleted the skill {skill.name}."
    if action == "edit":
        save(skill.folder / "SKILL.md", checked(content))
        return f"Changed the skill {skill.name}."
    if action == "patch":
        return patch(skill, file_path, old_string, new_string, replace_all)
    path = further_file(skill, file_path)
    if action == "write_file":
        if file_content is None:
            raise ToolError("write_file needs file_content.")
        refuse_orders(file_content)
        save(path, file_content)
        return f"Wrote {file_path} of {skill.name}."
    try:
        path.unlink()
    except FileNotFoundError:
        raise ToolError(f"{skill.name} has no file {file_path!r}.") from None
    return f"Removed {file_path} of {skill.name}."


def place_of_new(
    context: ToolContext, name: str, content: str | None, category: str | None, place: Space
) -> Path:
    """Where a new skill goes; ToolError if it cannot be made."""
    for word in (name, *(category.split("/") if category else ())):
        if not _NAME.fullmatch(word):
            raise ToolError(f"{word!r} is no name: use lower-case letters, digits and dashes.")
    top = place.folder(context.workspace.home) / "skills"
    known = list_skills(top) if place == SHARED else [*list_skills(top), *_skills(context)]
    if any(skill.name == name for skill in known):
        raise ToolError(f"There is a skill {name!r} already. Use patch or edit.")
    checked(content)
    return top / (category or "") / name


def patch(
    skill: Skill, file_path: str | None, old: str | None, new: str | None, replace_all: bool
) -> str:
    """Replace a passage in SKILL.md or a further file."""
    path = further_file(skill, file_path) if file_path else skill.folder / "SKILL.md"
    if not old or new is None:
        raise ToolError("patch needs old_string and new_string.")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"{path.name} cannot be read: {error}.") from error
    count = text.count(old)
    if count == 0 or (count > 1 and not replace_all):
        problem = "does not occur" if count == 0 else f"occurs {count} times"
        raise ToolError(f"old_string {problem} in {path.name}. Look with skill_view.")
    changed = text.replace(old, new)
    if file_path:
        refuse_orders(changed)
    save(path, changed if file_path else checked(changed))
    return f"Changed {path.name} of {skill.name}."


def plugin_skill(name: str) -> Skill | None:
    """The skill that a plugin brings under this name ("plugin:skill"); to be read, not changed."""
    skill = plugins.get_skills().get(name)
    return None if skill is None else Skill(name, skill.description, skill.path.parent)


def _skills(context: ToolContext) -> list[Skill]:
    choice = context.workspace.settings.get("skills")
    return skills_of(context.workspace.home, choice, _spaces(context))


def _spaces(context: ToolContext) -> tuple[Space, ...]:
    spaces = spaces_of(context)
    return (*spaces.shown, *spaces.read)


def find_skill(context: ToolContext, name: str) -> Skill:
    """The skill of that name, or ToolError with those there are."""
    skills = _skills(context)
    for skill in skills:
        if skill.name == name:
            return skill
    names = ", ".join(skill.name for skill in skills) or "none"
    raise ToolError(f"There is no skill {name!r}. There are: {names}.")


def inside(skill: Skill, file_path: str) -> Path:
    """A file of the skill; ToolError for anything that leads out of its folder."""
    relative = PurePosixPath(file_path)
    path = skill.folder / relative
    top = skill.folder.resolve()
    if relative.is_absolute() or ".." in relative.parts or not path.resolve().is_relative_to(top):
        raise ToolError(f"{file_path!r} leads out of the skill's folder.")
    return path


def further_file(skill: Skill, file_path: str | None) -> Path:
    """A file that may be written beside SKILL.md."""
    path = inside(skill, file_path or "")
    parts = PurePosixPath(file_path or "").parts
    if len(parts) < 2 or parts[0] not in _OTHER_FOLDERS:
        folders = ", ".join(f"{folder}/" for folder in _OTHER_FOLDERS)
        raise ToolError(f"file_path must be in {folders}.")
    return path


def other_files(skill: Skill) -> list[str]:
    """The skill's files beside SKILL.md."""
    return sorted(
        path.relative_to(skill.folder).as_posix()
        for path in skill.folder.rglob("*")
        if path.is_file() and path.name != "SKILL.md"
    )[:100]


def checked(content: str | None) -> str:
    """A SKILL.md that is complete and gives no orders of its own."""
    if not content:
        raise ToolError("content is needed: the whole SKILL.md with its front matter.")
    try:
        check_skill(content)
    except ValueError as error:
        raise ToolError(f"This is no SKILL.md: {error}.") from error
    return content


def refuse_orders(text: str) -> None:
    """ToolError for text that tries to instruct its later readers."""
    reason = suspicion(text)
    if reason:
        raise ToolError(f"This cannot be kept: it {reason}.")


def save(path: Path, text: str) -> None:
    """Write a file of a skill, whole and private."""
    if len(text) > LONGEST_FILE:
        raise ToolError(f"At most {LONGEST_FILE} characters. Split it into several files.")
    private_folder(path.parent)
    write_private(path, text if text.endswith("\n") else text + "\n")


TOOLS: list[Tool] = [skills_list, skill_view, skill_manage]
