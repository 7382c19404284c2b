"""The walls of one conversation: built when they are first needed, ended with it.

Commands of a conversation share a wall, so that a server started by one is reached by the next. A
command that was granted more gets a wall of its own, with that grant added. Walls are built anew
when what is to be hidden has changed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from ..base import ToolContext, ToolError, Workspace
from ..danger.finding import Finding
from ..processes.identity import new_marker
from ..processes.ledger import RUN_FOLDER, Ledger, Record
from ..terminal.environ import names
from ..trees import remove_tree
from ..web.address import AllowedPrivate
from .kinds import Means, means
from .places import (
    OWN_PROGRAMS,
    git_folder,
    hidden_places,
    kept_in_place,
    outermost,
    real_places,
    run_by_git,
    writable_caches,
)
from .policy import Network, Wall, own_places
from .proxy import Proxy
from .seatbelt import Seatbelt
from .warden import WallError, Warden

log = logging.getLogger(__name__)

_STATE = "guardhouse"
_MOST_REFUSED = 50
_NOT_INSIDE = ("SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS",
               "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY")  # fmt: skip
"""Variables that lead to sockets which are not there."""
_NO_CALLS_HOME = {
    "NO_UPDATE_NOTIFIER": "1", "npm_config_update_notifier": "false", "DO_NOT_TRACK": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1", "CHECKPOINT_DISABLE": "1", "GOTELEMETRY": "off",
    "NEXT_TELEMETRY_DISABLED": "1", "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
    "HOMEBREW_NO_AUTO_UPDATE": "1", "DENO_NO_UPDATE_CHECK": "1",
}  # fmt: skip
"""Programs that look for a newer version of themselves would have the person asked about a host
that nobody's command named. A value that the person set is kept."""


@dataclass(frozen=True, slots=True)
class Grants:
    """What one command was given beyond the conversation's wall."""

    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    whole_network: bool = False
    no_wall: bool = False


NO_GRANTS = Grants()


class Guardhouse:
    """The walls of one conversation."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._lock = threading.Lock()
        self._asking = threading.Lock()
        self._standing: dict[object, tuple[Warden | Seatbelt, Proxy | None]] = {}
        self._granted: dict[Warden | Seatbelt, object] = {}
        self._context: ToolContext | None = None
        self._refused: dict[str, None] = {}
        self._answered_in = ""
        self._answers: dict[str, ToolError | None] = {}
        self.means: Means = means()
        self._marker = new_marker()
        self.folder = workspace.home.resolve() / RUN_FOLDER / self._marker
        """Private to this conversation's walls, and to be seen inside them."""

    def wall(self, grants: Grants = NO_GRANTS) -> Wall:
        """What may be done inside, here and now."""
        workspace = self._workspace
        hidden = hidden_places(workspace.home, os.environ)
        hidden += real_places(workspace.others)
        network: Network = (
            "proxy" if workspace.section("terminal").get("network") != "off" else "none"
        )
        roots, own = self.roots(), own_places(self.folder)
        # All these may be where temporary files are, which are not shown.
        readable = (*real_places([Path.home()]), *OWN_PROGRAMS, *roots, self.folder)
        if workspace.uploads is not None and workspace.uploads.is_dir():
            readable += real_places([workspace.uploads])
        if workspace.mode == "plan":
            return Wall(own, hidden, readable, "none", self.folder)
        writable = (*roots, *writable_caches(Path.home()), *own)
        if self.means.kind != "landlock":
            writable += kept_in_place(roots)
        # Landlock would have to list all else, and then nothing new could be made beside it.
        readable += run_by_git(roots, within=self.means.kind != "landlock")
        wall = Wall(writable, hidden, readable, network, self.folder)
        paths = tuple(path for path in grants.paths if not wall.may_write(path))
        if real_places(paths) != paths:
            raise ToolError("A place that was allowed is another one by now. Nothing was run.")
        return wall.with_more(paths, grants.hosts, whole_network=grants.whole_network)

    def roots(self) -> tuple[Path, ...]:
        """Where the person put the conversation, and the folders that they added."""
        return roots_of(self._workspace)

    def warden(self, context: ToolContext, grants: Grants = NO_GRANTS) -> Warden | Seatbelt:
        """The wall for a command; ToolError if it cannot be built.

        With grants it is a wall for this command alone: give it back with `release`.
        """
        wall = self.wall(grants)
        key: object = (wall, _identities(wall.hidden)) if grants == NO_GRANTS else object()
        with self._lock:
            self._context = context
            standing = self._standing.get(key)
            if standing is not None and standing[0].stands:
                _used(self, key)
                return standing[0]
            try:
                if not self._standing:
                    # Should this process be killed, the next one finds the folder.
                    record = Record(self._marker, context.session_id, "wall")
                    Ledger(self._workspace.home).add(record)
                wall.prepare()
                warden = self._build(wall)
            except (OSError, WallError) as error:
                raise ToolError(f"{error} Nothing was run.") from error
            proxy = None
            if warden.listener is not None:
                decide = partial(self._decide, wall.hosts)
                proxy = Proxy(
                    warden.listener,
                    decide,
                    self._allowed_private(),
                    partial(self._needs_no_question, wall.hosts),
                )
            self._standing[key] = warden, proxy
            if grants != NO_GRANTS:
                self._granted[warden] = key
                return warden
        _used(self, key)
        _make_room()
        return warden

    def close_if_idle(self, key: object) -> bool:
        """End a wall in which nothing runs; the next command builds it anew."""
        with self._lock:
            standing = self._standing.get(key)
            if standing is not None and not standing[0].is_idle():
                return False
            self._standing.pop(key, None)
        if standing is not None:
            _end(*standing)
        return True

    def release(self, warden: Warden | Seatbelt) -> None:
        """A command has ended: if its wall was for it alone, end the wall with all that it left.

        Otherwise a grant for one command would be there for all that come after it.
        """
        with self._lock:
            key = self._granted.pop(warden, None)
            standing = self._standing.pop(key, None) if key is not None else None
        if standing is not None:
            _end(*standing)

    def _build(self, wall: Wall) -> Warden | Seatbelt:
        if self.means.kind == "sandbox-exec":
            return Seatbelt(wall)
        return Warden(wall, self.means)

    def environ(self, base: Mapping[str, str], warden: Warden | Seatbelt) -> dict[str, str]:
        """The environment of a command inside."""
        kept = _NO_CALLS_HOME | {
            name: value for name, value in base.items() if name not in _NOT_INSIDE
        }
        scratch = "/tmp" if self.means.kind == "bubblewrap" else str(warden.wall.scratch)
        kept |= {"TMPDIR": scratch, "TEMP": scratch, "TMP": scratch}
        if warden.wall.network == "full":
            return kept
        local = "localhost,127.0.0.1,::1"
        kept |= {"no_proxy": local, "NO_PROXY": local}
        if warden.listener is not None:
            address = f"http://127.0.0.1:{warden.listener.getsockname()[1]}"
            variables = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY",
                     "ALL_PROXY")  # fmt: skip
            kept |= dict.fromkeys(variables, address)
        return kept

    def close(self) -> None:
        """End every wall, and with it all that runs inside."""
        _forget(self)
        with self._lock:
            standing, self._standing = self._standing, {}
        for warden, proxy in standing.values():
            _end(warden, proxy)
        remove_tree(self.folder, reopen=True)
        Ledger(self._workspace.home).remove(self._marker)

    def _needs_no_question(self, granted: tuple[str, ...], host: str) -> bool:
        settings = self._workspace.section("terminal")
        allowed = names(settings.get("allowed_hosts"))
        return (
            settings.get("network") == "on" or _is_listed(host, allowed) or _named(host) in granted
        )

    def _decide(self, granted: tuple[str, ...], host: str, port: int) -> None:
        """Whether something inside may connect; ToolError with the reason if not."""
        from ..approval import decide

        if self._needs_no_question(granted, host):
            return
        name = _named(host)
        finding = Finding(f"host:{name}", f"Connects to {name}")
        with self._asking:
            context = self._context
            if context is None:
                raise ToolError("Nobody can be asked.")
            # One answer for all connections of a command: programs open several, and try again.
            if self._answered_in != context.call_id:
                self._answered_in, self._answers = context.call_id, {}
            if name not in self._answers:
                try:
                    decide(context, f"connect to {name}:{port}", [finding])
                    self._answers[name] = None
                except ToolError as error:
                    self._answers[name] = error
            answer = self._answers[name]
        if answer is not None:
            if len(self._refused) < _MOST_REFUSED:
                self._refused[f"{name}:{port}"] = None
            raise answer

    def take_refusals(self) -> list[str]:
        """The hosts that were refused since this was last asked."""
        refused, self._refused = self._refused, {}
        return list(refused)

    def _allowed_private(self) -> Any:
        web = self._workspace.settings.get("web")
        return AllowedPrivate((web.get("allow_private") if isinstance(web, Mapping) else ()) or ())


_MOST_STANDING = 24
"""Walls of one process; beyond that those that were not used for longest and are empty go."""
_LEFT_ALONE_SECONDS = 60.0
"""A wall that was used so lately may be about to be used again."""
_last_used: dict[tuple[int, object], tuple[float, weakref.ref[Guardhouse]]] = {}
_last_used_lock = threading.Lock()


def _used(guardhouse: Guardhouse, key: object) -> None:
    with _last_used_lock:
        _last_used.pop((id(guardhouse), key), None)
        _last_used[id(guardhouse), key] = time.monotonic(), weakref.ref(guardhouse)


def _forget(guardhouse: Guardhouse) -> None:
    with _last_used_lock:
        for key in [key for key in _last_used if key[0] == id(guardhouse)]:
            del _last_used[key]


def _make_room() -> None:
    """End walls in which nothing runs, the least used first, until there are few enough."""
    with _last_used_lock:
        oldest_first = list(_last_used.items())
    latest = time.monotonic() - _LEFT_ALONE_SECONDS
    for key, (at, reference) in oldest_first:
        if len(_last_used) <= _MOST_STANDING or at > latest:
            return
        guardhouse = reference()
        if guardhouse is None or guardhouse.close_if_idle(key[1]):
            with _last_used_lock:
                _last_used.pop(key, None)


def guardhouse_of(workspace: Workspace) -> Guardhouse | None:
    """The walls of a conversation; None where it runs without any, by choice or for want of one.

    ToolError if the settings require a wall and there can be none.
    """
    setting = str(workspace.section("terminal").get("sandbox") or "auto")
    if setting == "off" or workspace.mode == "full":
        return None
    with workspace.lock:
        guardhouse = workspace.state.get(_STATE)
        if guardhouse is None:
            available = means()
            if available.kind == "none":
                if setting == "required" or workspace.mode == "plan":
                    raise ToolError(
                        "Nothing is run without a wall, and there can be none here: "
                        f"{available.why}. Install bubblewrap (bwrap), or "
                        "set terminal.sandbox to auto."
                    )
                return None
            guardhouse = workspace.state[_STATE] = Guardhouse(workspace)
        assert isinstance(guardhouse, Guardhouse)
        return guardhouse


def roots_of(workspace: Workspace) -> tuple[Path, ...]:
    """Where a conversation may write: its root and the folders that were added, as real paths."""
    named = [path for path in (workspace.root, *workspace.folders) if path != Path("/")]
    roots = outermost(named)
    return real_places([*roots, *filter(None, map(git_folder, roots))])


def _end(warden: Warden | Seatbelt, proxy: Proxy | None) -> None:
    if proxy is not None:
        proxy.close()
    warden.close()


def _identities(places: Iterable[Path]) -> tuple[tuple[int, int], ...]:
    """What is hidden, by inode: a file that was replaced is seen in the walls that stand."""
    identities = []
    for place in places:
        with suppress(OSError):  # gone since: another wall then as well
            info = place.stat()
            identities.append((info.st_dev, info.st_ino))
    return tuple(identities)


def close_walls(workspace: Workspace) -> None:
    """End the walls of a conversation."""
    with workspace.lock:
        guardhouse = workspace.state.pop(_STATE, None)
    if isinstance(guardhouse, Guardhouse):
        guardhouse.close()


def _named(host: str) -> str:
    return host.lower().rstrip(".")


def _is_listed(host: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(_named(host), pattern.lower()) for pattern in patterns)
