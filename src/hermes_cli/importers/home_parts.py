"""The parts of a Hermes home beside its store, as steps: what would be brought, and what not.

Making steps changes nothing; each step that brings something knows how. Nothing that is here is
replaced, and what was imported before is recognised, so an interrupted import is simply repeated.
What runs by itself (plugins, hooks, jobs) is brought and stays off until it is allowed.
"""

from __future__ import annotations

import filecmp
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from conversation.event_hooks import NOT_AGREED
from hermes_base.files import sweep_partial, write_private
from tools.base import ToolError
from tools.memory import FILES, Operation, change_entries, memory_path, read_entries
from tools.memory_history import Author
from tools.shared_files import spaces_here

PARTIAL = ".importing-"
"""How the name of a folder begins that is not copied to its end yet."""

Outcome = Literal["brought", "here already", "left behind"]


@dataclass
class Step:
    """One thing of the other home."""

    what: str
    outcome: Outcome
    note: str = ""
    """Why it was left, or what to do with it."""
    act: Callable[[], str | None] | None = None
    """Bring it; returns why it is left after all."""

    def carry_out(self) -> None:
        """Bring it, if that is what it is for."""
        if self.act is None:
            return
        try:
            refusal = self.act()
        except (OSError, UnicodeError, shutil.Error) as error:
            refusal = f"it cannot be copied: {error}"
        if refusal is not None:
            self.outcome, self.note = "left behind", refusal


def steps(source: Path, home: Path) -> Iterator[Step]:
    """Everything of `source` but its store and its profiles, in the order it is brought."""
    from .home_secrets import auth_steps, env_steps
    from .home_settings import config_steps, hook_list_steps

    yield from config_steps(source, home)
    yield from env_steps(source, home)
    yield from auth_steps(source, home)
    yield from hook_list_steps(source)
    yield from file_step(source, home, "SOUL.md")
    for space in spaces_here(source):
        yield from _memory_steps(source, home, space)
        yield from _skill_steps(source, home, space)
    yield from _plugin_steps(source, home)
    yield from _hook_steps(source, home)
    yield from _cron_steps(source, home)
    yield from _rest_steps(source)


def remove_partial(home: Path) -> None:
    """Remove partial copies of an interrupted import."""
    sweep_partial(home)
    partial = list(home.glob(f"{PARTIAL}*"))
    for name in ("skills", "plugins", "hooks", "shared", "people", "groups"):
        partial += list((home / name).rglob(f"{PARTIAL}*"))
    for path in partial:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def file_step(source: Path, home: Path, name: str, note: str = "") -> Iterator[Step]:
    """A file of the same name there and here."""
    theirs, ours = source / name, home / name
    if not theirs.is_file():
        return
    if not ours.exists():
        yield Step(name, "brought", note, lambda: copy_file(theirs, ours))
    elif filecmp.cmp(theirs, ours, shallow=False):
        yield Step(name, "here already", note)
    else:
        yield Step(name, "left behind", f"yours stays as it is; compare it with {theirs}")


def copy_file(theirs: Path, ours: Path) -> None:
    """Copy a file as a whole, for its owner alone."""
    ours.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(ours, theirs.read_bytes())


def folder_step(
    theirs: Path, ours: Path, what: str, note: str = "", mark: str | None = None
) -> Step:
    """A folder, copied beside its place and then moved there; `mark` is a file made in it."""
    if ours.exists():
        if _is_same(theirs, ours):
            return Step(what, "here already", note)
        return Step(what, "left behind", "there is one of that name here, and it is another")

    def copy() -> None:
        ours.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = ours.with_name(f"{PARTIAL}{ours.name}")
        shutil.rmtree(partial, ignore_errors=True)
        ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
        shutil.copytree(theirs, partial, symlinks=True, ignore=ignored)
        if mark is not None:
            (partial / mark).touch(mode=0o600)
        partial.rename(ours)

    return Step(what, "brought", note, copy)


def _is_same(theirs: Path, ours: Path) -> bool:
    """Whether every file of theirs is in ours, with the same content."""
    for path in theirs.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
            other = ours / path.relative_to(theirs)
            if not other.is_file() or not filecmp.cmp(path, other, shallow=False):
                return False
    return True


def _memory_steps(source: Path, home: Path, space: str) -> Iterator[Step]:
    for target, (file_name, _) in FILES.items():
        name = f"{space}{file_name}"
        here = read_entries(memory_path(home / space, target))
        theirs = read_entries(memory_path(source / space, target))
        fresh = [entry for entry in theirs if entry not in here]
        if theirs and not fresh:
            yield Step(f"{name}: {len(theirs)} entries", "here already")
        for entry in fresh:
            yield memory_step(home / space, target, entry, name)


def memory_step(folder: Path, target: str, entry: str, name: str) -> Step:
    """One entry of a memory called `name`."""
    return Step(f"{name}: “{entry[:60]}”", "brought", "", _remember(folder, target, entry))


def _remember(folder: Path, target: str, entry: str) -> Callable[[], str | None]:
    def remember() -> str | None:
        try:
            # A server's store gets it with the next session, as what is edited by hand.
            operation = Operation(action="add", content=entry)
            change_entries(folder, target, [operation], None, author=Author("import"))
        except ToolError as error:
            return str(error).splitlines()[0]
        return None

    return remember


def _skill_steps(source: Path, home: Path, space: str) -> Iterator[Step]:
    top = source / space / "skills"
    for path in sorted(top.rglob("SKILL.md")) if top.is_dir() else ():
        where = path.parent.relative_to(top)
        if not any(part.startswith(".") for part in where.parts):
            ours = home / space / "skills" / where
            yield folder_step(path.parent, ours, f"{space}skill {where.as_posix()}")


def _plugin_steps(source: Path, home: Path) -> Iterator[Step]:
    for folder in _folders(source / "plugins"):
        if (folder / "plugin.yaml").is_file() or (folder / "plugin.yml").is_file():
            note = f"off until you allow it: hermes plugins enable {folder.name}"
            yield folder_step(folder, home / "plugins" / folder.name, f"plugin {folder.name}", note)
        else:
            yield Step(f"plugins/{folder.name}", "left behind", "there is no plugin.yaml in it")


def _hook_steps(source: Path, home: Path) -> Iterator[Step]:
    for folder in _folders(source / "hooks"):
        if not (folder / "HOOK.yaml").is_file():
            yield Step(f"hooks/{folder.name}", "left behind", "there is no HOOK.yaml in it")
            continue
        note = f"off until you allow it: hermes hooks accept {folder.name}"
        ours = home / "hooks" / folder.name
        yield folder_step(folder, ours, f"event hook {folder.name}", note, NOT_AGREED)


def _cron_steps(source: Path, home: Path) -> Iterator[Step]:
    path = source / "cron" / "jobs.json"
    if path.is_file():
        count = len(_jobs(path))
        note = f"{count} jobs; take them over: hermes cron import"
        yield from file_step(source, home, "cron/jobs.json", note)
    scripts = source / "scripts"
    if scripts.is_dir() and any(scripts.iterdir()):
        note = "scripts of jobs, kept with them"
        yield folder_step(scripts, home / "scripts", "scripts", note)


def _jobs(path: Path) -> list[Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []  # it is copied as it is all the same
    jobs = content.get("jobs") if isinstance(content, dict) else content
    return jobs if isinstance(jobs, list) else []


def _folders(top: Path) -> list[Path]:
    if not top.is_dir():
        return []
    return sorted(
        path for path in top.iterdir() if path.is_dir() and not path.name.startswith((".", "__"))
    )


# What stays behind

TAKEN = frozenset({
    "state.db", "config.yaml", ".env", "auth.json", "SOUL.md", "shell-hooks-allowlist.json",
    "memories", "skills", "plugins", "hooks", "cron", "scripts", "profiles", "shared", "people",
    "groups",
})  # fmt: skip
REASONS = {
    "sessions": "the conversations are in the store",
    "pairing": "people pair again, or are listed under platforms.<name>.allowed_users",
    "logs": "logs of its runs",
    "backups": "backups of its own store",
    "checkpoints": "old versions of files, in another form",
    "kanban.db": "there is no board here",
    "kanban": "there is no board here",
    "response_store.db": "what its API server kept for clients",
    "skins": "themes of its interface",
    "home": "what its commands kept in a home of their own",
    "gateway_state.json": "the state of its gateway",
}
CACHES = frozenset({
    "audio_cache", "image_cache", "document_cache", "video_cache", "cache", "browser_screenshots",
    "sandboxes", "node", "node_modules", "bin", "lsp", "models", "tmp", "state-snapshots",
    "hermes-agent", "models_dev_cache.json", "context_length_cache.yaml", "processes.json",
})  # fmt: skip


def _rest_steps(source: Path) -> Iterator[Step]:
    for path in sorted(source.iterdir()):
        name = path.name
        is_trace = name.startswith(("state.db", ".")) or path.suffix in (".lock", ".pid", ".log")
        if name in TAKEN or is_trace or (path.is_dir() and not any(path.iterdir())):
            continue
        why = (
            "it is made again" if name in CACHES else REASONS.get(name, "Hermes has no use for it")
        )
        yield Step(name, "left behind", why)
