"""A conversation's terminal: its backend, and what its commands leave for the next one.

On this machine directory and environment are the workspace's, which other tools use as well;
elsewhere they are kept apart, since a path in a container means nothing here.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..base import ToolContext, ToolError, Workspace
from ..processes.identity import new_marker
from ..processes.ledger import RUN_FOLDER, Ledger
from ..wall.guardhouse import NO_GRANTS, Grants, close_walls, guardhouse_of
from ..wall.policy import own_places
from .backends import Backend, Ending, Launch, make_backend
from .environ import child_environment, named, names
from .shell import Memory

log = logging.getLogger(__name__)

_STATE = "terminal"
_SUDO = re.compile(r"(?:^|[\s;&|(`!{])sudo\s")
_FOR_TERMINALS = {"TERM": "xterm-256color", "PAGER": "cat", "GIT_PAGER": "cat"}
"""A pager would wait for keys that nobody presses."""


@dataclass(slots=True)
class Place:
    """Where a conversation's commands run."""

    backend: Backend
    memory: Memory
    markers: set[str] = field(default_factory=set)
    """The runs that left something running in the background."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def launch(
        self,
        context: ToolContext,
        command: str,
        workdir: str | None,
        *,
        pty: bool = False,
        stdin: bool = False,
        sudo: bool = False,
        grants: Grants = NO_GRANTS,
    ) -> tuple[Launch, str]:
        """Everything to start a command with, and a remark if the directory is not as expected."""
        settings = context.workspace.section("terminal")
        sent = _session_environ(context)
        allow = names(settings.get("pass_env"))
        base = {"TERM": "dumb", **child_environment(passed_environment(settings), allow)}
        passed = named(base, allow)
        sent |= passed
        base |= sent
        if pty:
            base |= _FOR_TERMINALS
        marker = new_marker()
        folder, warden, states = context.workspace.home / RUN_FOLDER, None, None
        release: Callable[[], None] | None = None
        guardhouse = guardhouse_of(context.workspace) if self.backend.name == "local" else None
        if guardhouse is not None and not grants.no_wall:
            warden = guardhouse.warden(context, grants)
            release = partial(guardhouse.release, warden)
            folder, base = guardhouse.folder, guardhouse.environ(base, warden)
            states = own_places(folder)[1]
        cwd, remark = self._directory(context, workdir)
        with self.lock:
            memory = replace(
                self.memory, environ=dict(self.memory.environ), unset=set(self.memory.unset)
            )
        if guardhouse is not None and grants.no_wall:
            # Variables such as PATH and BASH_ENV would make it another command than was allowed.
            memory = Memory(memory.cwd)
        launch = Launch(
            marker=marker,
            command=command,
            folder=folder / marker,
            base=base,
            sent=sent,
            passed=frozenset(passed),
            memory=memory,
            cwd=cwd,
            pty=pty,
            stdin=stdin,
            sudo=sudo,
            cancelled=context.cancelled,
            warden=warden,
            states=states,
            release=release,
        )
        return launch, remark

    def learn(self, workspace: Workspace, launch: Launch, ending: Ending, *, moved: bool) -> str:
        """Take over what a command left behind; returns the directory if that has changed."""
        state = ending.state
        if state is None:
            return ""
        with self.lock, workspace.lock:
            if state.environ is not None and ending.before is not None:
                self.memory.learn(ending.before, state.environ)
            if not moved or state.cwd == self.memory.cwd:
                return ""
            before, self.memory.cwd = self.memory.cwd, state.cwd
            if self.backend.name == "local":
                workspace.cwd = Path(state.cwd)
            return state.cwd if state.cwd != (before or launch.cwd) else ""

    def _directory(self, context: ToolContext, workdir: str | None) -> tuple[str | None, str]:
        if self.backend.name != "local":
            if workdir is None:
                return self.memory.cwd, ""
            return posixpath.join(self.memory.cwd or "~", workdir), ""
        with self.lock, context.workspace.lock:
            self.memory.cwd = str(context.workspace.cwd)
            self.memory.environ = context.workspace.environ
        if workdir is not None:
            path = context.resolve(workdir)
            if not path.is_dir():
                raise ToolError(f"workdir: {path} is not a directory. Create it or use another.")
            return str(path), ""
        path = context.workspace.cwd
        if path.is_dir():
            return str(path), ""
        there = next((parent for parent in path.parents if parent.is_dir()), Path("/"))
        return str(there), f"[the directory {path} no longer exists; this ran in {there}]"


def place_of(context: ToolContext) -> Place:
    """The conversation's terminal, set up at its first use."""
    workspace = context.workspace
    with workspace.lock:
        place = workspace.state.get(_STATE)
        if place is None:
            settings = workspace.section("terminal")
            backend = make_backend(settings, workspace.home)
            memory = Memory(str(workspace.cwd), workspace.environ)
            if backend.name != "local":
                configured = str(settings.get("cwd") or "")
                memory = Memory(configured if configured.startswith(("/", "~")) else None)
            place = workspace.state[_STATE] = Place(backend, memory)
        assert isinstance(place, Place)
        return place


def close_place(workspace: Workspace) -> None:
    """End what the conversation's commands left running and free its backend."""
    with workspace.lock:
        place = workspace.state.pop(_STATE, None)
    if isinstance(place, Place):
        Ledger(workspace.home).stop(lambda record: record.marker in place.markers)
        place.backend.close()
    close_walls(workspace)


def passed_environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """The process's environment, with what `pass_env` names in `.env` beneath it."""
    return {**(settings.get("environ") or {}), **os.environ}


def sudo_password(context: ToolContext, place: Place, command: str) -> str | None:
    """The password, if the command uses sudo, sudo needs one and somebody can be asked."""
    ask = context.services.sudo_password
    if ask is None or not _SUDO.search(command):
        return None
    try:
        if place.backend.call("sudo -n true", 10) != 1:
            return None  # it needs none, or is not there
    except OSError as error:
        log.warning("Could not find out whether sudo needs a password: %s", error)
        return None
    password = ask()
    return str(password) if password else None


def _session_environ(context: ToolContext) -> dict[str, str]:
    source = context.services.session_environ
    return dict(source()) if source is not None else {}
