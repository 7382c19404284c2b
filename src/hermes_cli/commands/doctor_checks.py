"""The doctor's checks, part by part. A check changes nothing; an ailment may carry its fix."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agent.config import load_config
from agent.home import ConfigError
from agent.providers.embedded_fetch import WEIGHTS
from agent.store import StorePlace, find_store, has_store
from conversation.event_hooks import hooks_in
from gateway.status import read_pid, read_runtime_status, running_pid
from hermes_base.plugins.discovery import find_plugins, read_choice
from tools.hook_consents import read_consents
from tools.memory import FILES, memory_path, read_entries
from tools.shared_files import spaces_here
from tools.shell_hooks import accepts_all, read_hooks
from tools.skills.index import list_skills
from tools.wall.kinds import means
from tools.wall.telling import is_chosen

from .doctor_extras import missing_extras
from .home import store

LOW_SPACE = 500_000_000
PRIVATE = (
    "state.db", "search.db", "search-mirror.db", "vectors.db", ".env", "config.yaml", "auth.json",
    "chat_history", "shell-hooks-allowlist.json", "memories/MEMORY.md", "memories/USER.md",
)  # fmt: skip
"""What nobody but the owner may read."""


@dataclass(frozen=True, slots=True)
class Ailment:
    """Something wrong, or worth knowing."""

    problem: str
    advice: str = ""
    """What to do, where the doctor cannot."""
    fix: Callable[[], Any] | None = None
    is_hint: bool = False
    """Worth knowing, but nothing is wrong."""
    is_fine: bool = False
    """A hint that says that all is well."""

    def facts(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "problem": self.problem,
            "advice": self.advice,
            "fixable": self.fix is not None,
            "hint": self.is_hint,
        }


def check_files(home: Path) -> list[Ailment]:
    """Who may read what, and whether there is room for more."""
    ailments = [
        Ailment(f"{path} can be read by others.", f"chmod {mode:o} {path}", _chmod(path, mode))
        for path, mode in ((home, 0o700), *((home / name, 0o600) for name in PRIVATE))
        if os.name == "posix" and path.exists() and path.stat().st_mode & 0o077
    ]
    if not os.access(home, os.W_OK):
        ailments.append(Ailment(f"{home} cannot be written.", f"chmod u+w {home}"))
    free = shutil.disk_usage(home).free
    if free < LOW_SPACE:
        ailments.append(
            Ailment(
                f"Only {free // 1_000_000} MB are free on the disk of {home}.",
                "Free some space, or delete old conversations: hermes sessions prune",
            )
        )
    return ailments


def _chmod(path: Path, mode: int) -> Callable[[], None]:
    return lambda: path.chmod(stat.S_IMODE(path.stat().st_mode) & mode)


def check_config(home: Path) -> list[Ailment]:
    """Whether the configuration can be used, and the model be asked."""
    try:
        config = load_config(home)
    except ConfigError as error:
        return [
            Ailment(line, "Change it there, or with: hermes config set")
            for line in str(error).splitlines()
        ]
    ailments = [Ailment(line) for line in config.warnings if "others can read it" not in line]
    if config.ignored:
        from .config import ignored_lines

        ailments.append(Ailment(config.ignored_line(), is_hint=True))
        ailments += [Ailment(f"  {line}", is_hint=True) for line in ignored_lines(config)]
    if config.model.provider == "local" and not (home / "models" / WEIGHTS).exists():
        ailments.append(
            Ailment(
                "No provider's key is set, so a tiny model answers; it is not fetched yet.",
                "Connect a better one: hermes setup, or fetch it: hermes model pull",
                is_hint=True,
            )
        )
    return ailments


def check_tools(home: Path) -> list[Ailment]:
    """Whether the agent has tools, and what is configured is installed."""
    from agent.build import check_tool_choice

    try:
        config = load_config(home)
    except ConfigError:
        return []  # said already
    ailments = [
        Ailment(f"{what} needs a package that is not installed.", advice)
        for what, advice in missing_extras(config)
    ]
    try:
        check_tool_choice(config)
    except ConfigError as error:
        ailments.append(Ailment(str(error)))
    if config.model.provider == "local":
        text = "The model inside the process is too small for tools: the agent can only talk."
        ailments.append(Ailment(text, "Connect a better one: hermes setup", is_hint=True))
    elif config.raw.get("toolsets") in (["none"], "none"):
        ailments.append(Ailment("The agent has no tools: toolsets is [none].", is_hint=True))
    return ailments


def check_wall(home: Path) -> list[Ailment]:
    """Which wall is around what the agent runs, and what that does not stop."""
    try:
        terminal = load_config(home).terminal
    except ConfigError:
        return []  # said already
    if terminal.backend != "local":
        text = f"Commands run over {terminal.backend}; no wall of this machine is around them."
        return [Ailment(text, is_hint=True, is_fine=True)]
    if terminal.sandbox == "off":
        text = "There is no wall around what the agent runs: terminal.sandbox is off."
        return [Ailment(text, "hermes config set terminal.sandbox auto", is_hint=True)]
    available, install = means(), "Install bubblewrap; its program is bwrap."
    if available.kind == "none" and terminal.sandbox == "required":
        text = "No command runs: terminal.sandbox is required and no wall can be had"
        return [Ailment(f"{text} ({available.why}).", install)]
    if available.kind == "none":
        text = f"There is no wall around what the agent runs: {available.why}."
        advice = f"{install} Until then what is dangerous is only asked about."
        advice = "" if is_chosen() else advice
        return [Ailment(text, advice, is_hint=True, is_fine=is_chosen())]
    ailments = [
        Ailment(f"What the agent runs is inside a wall: {available}.", is_hint=True, is_fine=True)
    ]
    if available.why:
        text = f"There is nothing stronger: {available.why}."
        ailments.append(Ailment(text, install, is_hint=True, is_fine=is_chosen()))
    if terminal.mode == "full":
        text = "New conversations have no wall: terminal.mode is full."
        ailments.append(Ailment(text, "hermes config set terminal.mode guarded", is_hint=True))
    return ailments


def check_server(place: StorePlace) -> list[Ailment]:
    """The state of the database server that holds the conversations."""
    from agent.store import require_driver
    from hermes_state import StoreError

    try:
        require_driver(place)
    except StoreError as error:
        return [Ailment(str(error))]
    from hermes_state.server_report import examine

    ailments = [
        Ailment(
            remark.text, remark.advice, is_hint=remark.level != "wrong",
            is_fine=remark.level == "fine",
        )
        for remark in examine(place.server or "", place.connections)
    ]  # fmt: skip
    if place.path.exists():
        text = f"{place.path} is there too and is not used."
        ailments.append(Ailment(text, "Move it away once you need nothing from it.", is_hint=True))
    return ailments


def check_store(home: Path) -> list[Ailment]:
    """The store's invariants."""
    from hermes_state import StoreError, list_losses

    try:
        place = find_store(home)
    except ConfigError:
        return []  # said already
    if place.server is None and not place.path.exists():
        return [Ailment("There are no conversations yet.", is_hint=True, is_fine=True)]
    on_server = [] if place.server is None else check_server(place)
    if any(not ailment.is_hint for ailment in on_server):
        return on_server
    try:
        with store(home) as db:
            salvaged = db.salvage_report
            losses = list_losses(db)
            findings = db.check_store()
    except StoreError as error:
        advice = "hermes sessions repair" if place.server is None else "hermes store check"
        return [*on_server, Ailment(str(error), advice)]
    ailments = on_server + [
        Ailment(
            loss,
            "Look for what is missing there or in a backup. Once you know: hermes doctor"
            " --acknowledge",
        )
        for loss in losses
    ]
    if salvaged is not None and not losses:
        ailments.append(Ailment(str(salvaged), is_hint=True))
    return ailments + [
        Ailment(
            finding.problem,
            "" if finding.rule == "readable" else "hermes doctor --fix",
            _mend(home),
        )
        for finding in findings
    ]


def _mend(home: Path) -> Callable[[], None]:
    def fix() -> None:
        with store(home) as db:
            db.fix_store()

    return fix


def check_search(home: Path) -> list[Ailment]:
    """Whether search finds everything."""
    from hermes_state import StoreError, missing_from_index

    try:
        if not has_store(home):
            return []
        with store(home) as db:
            missing = missing_from_index(db.search_index)
    except ConfigError:
        return []  # said already
    except StoreError as error:
        if find_store(home).server is not None:
            return []  # said already, of the server
        return [Ailment(str(error), "hermes sessions repair")]
    if not missing:
        return _meaning(home)
    return [
        Ailment(
            f"The search index lacks {len(missing)} messages.", "hermes doctor --fix", _index(home)
        )
    ]


def _meaning(home: Path) -> list[Ailment]:
    """How far search by meaning is, where it is used."""
    from hermes_state import StoreError

    with store(home) as db:
        meaning = db.search_index.meaning
        try:
            status = meaning.status() if meaning is not None else None
        except StoreError as error:
            return [Ailment(f"Search by meaning: {error}", "hermes sessions meaning --anew")]
    if status is None or status.done >= status.total:
        return []
    return [
        Ailment(
            f"Search by meaning has looked at {status.done} of {status.total} messages so far; the"
            " others are found by their words.",
            "hermes sessions meaning",
            is_hint=True,
        )
    ]


def _index(home: Path) -> Callable[[], None]:
    def rebuild() -> None:
        with store(home) as db:
            db.rebuild_fts()

    return rebuild


def check_gateway(home: Path) -> list[Ailment]:
    """Whether a gateway that should run is running and healthy."""
    pid = running_pid(home)
    replicas = _check_replicas(home)
    if pid is None:
        if read_pid(home) is not None:
            return [
                *replicas,
                Ailment(
                    "The gateway was killed the last time it ran.",
                    "Start it again with: hermes gateway start",
                    is_hint=True,
                ),
            ]
        return replicas
    failed = {
        name: state
        for name, state in (read_runtime_status(home).get("platforms") or {}).items()
        if str(state).startswith(("failed", "error"))
    }
    return replicas + [
        Ailment(f"The gateway runs, but {name} does not: {state}.", "hermes logs --level warning")
        for name, state in failed.items()
    ]


def _check_replicas(home: Path) -> list[Ailment]:
    """Whether the gateways that share a store have the same configuration and version."""
    from hermes_state import StoreError

    from ..replica_status import describe_waiting, differences, read_shared

    try:
        replicas, waiting = read_shared(home)
    except (StoreError, ConfigError):
        return []  # said of the store
    advice = "Deploy one config.yaml and one version everywhere. See: hermes gateway status"
    texts = [*differences(replicas), *describe_waiting(waiting)]
    return [Ailment(text, advice, is_hint=True) for text in texts]


def check_plugins(home: Path) -> list[Ailment]:
    """Whether enabled plugins are there, and shell hooks were agreed to."""
    try:
        config = load_config(home)
    except ConfigError:
        return []  # said already
    there = {name for plugin in find_plugins(home, config.environ) for name in plugin.names}
    ailments = [
        Ailment(f"The plugin {name} is enabled, but not there.", f"hermes plugins disable {name}")
        for name in sorted(read_choice(config.raw).enabled - there)
    ]
    ailments += [
        Ailment(f"The event hook {name} was not agreed to.", f"hermes hooks accept {name}")
        for name, may in hooks_in(home / "hooks").items()
        if not may
    ]
    hooks, problems = read_hooks(config.raw)
    ailments += [Ailment(problem, "See: hermes hooks doctor") for problem in problems]
    agreed = read_consents(home)
    if not accepts_all(config.raw, config.environ):
        ailments += [
            Ailment(f"The shell hook {hook.command} was not agreed to.", "hermes hooks accept")
            for hook in hooks
            if (hook.event, hook.command) not in agreed
        ]
    return ailments


def check_memory(home: Path) -> list[Ailment]:
    """Whether what is remembered fits, and skills can be read, everybody's."""
    return [ailment for space in spaces_here(home) for ailment in _check_space(home, space)]


def _check_space(home: Path, space: str) -> list[Ailment]:
    ailments = []
    for target, (name, limit) in FILES.items():
        path = memory_path(home / space, target)
        used = len("\n§\n".join(read_entries(path)))
        if used > limit:
            advice = f"Shorten {path}" if space else "Forget something: hermes memory remove TEXT"
            ailments.append(
                Ailment(f"{space}{name} has {used} characters; {limit} are allowed.", advice)
            )
        if space and path.exists() and path.stat().st_mode & 0o077:
            ailments.append(
                Ailment(f"Others on this machine may read {path}.", fix=partial(path.chmod, 0o600))
            )
    folder = home / space / "skills"
    readable = {skill.folder for skill in list_skills(folder)}
    ailments += [
        Ailment(f"The skill {path.parent} cannot be used.", "See: hermes logs --level warning")
        for path in sorted(folder.rglob("SKILL.md"))
        if path.parent not in readable
    ]
    return ailments


CHECKS: dict[str, Callable[[Path], list[Ailment]]] = {
    "files": check_files,
    "configuration": check_config,
    "tools": check_tools,
    "wall": check_wall,
    "conversations": check_store,
    "search": check_search,
    "memory and skills": check_memory,
    "plugins and hooks": check_plugins,
    "gateway": check_gateway,
}
