"""Commands in a Docker container, through `docker`.

Settings: `docker_container`, one that is running already; or `docker_image`, from which a container
is started for the conversation and removed with it, with `docker_volumes` (as for `docker run -v`)
and `docker_args` (further options of `docker run`). `docker_user` says who runs the commands.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base import ToolError
from ..processes.identity import new_marker
from ..processes.ledger import Ledger, Record
from .backends import Ending, Invocation, Launch, helper
from .environ import child_environment
from .remote import kill_script, read_trailer, remote_argv, trailer_start

_KEYS = ("backend", "docker_container", "docker_user")
_START_SECONDS = 600
"""The image may have to be fetched first."""
_CONTROL_SECONDS = 15
_HARDENING = (
    "--security-opt", "no-new-privileges", "--pids-limit", "1024", "--cap-drop", "ALL",
    "--cap-add", "CHOWN", "--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER",
    "--cap-add", "SETUID", "--cap-add", "SETGID", "--cap-add", "KILL",
)  # fmt: skip
"""What installing packages inside needs, and no more."""


class DockerBackend:
    """Runs commands in the configured container, or in one of the conversation's own."""

    name = "docker"

    def __init__(self, settings: Mapping[str, Any], home: Path) -> None:
        self._settings = dict(settings)
        self._home = home
        self._container = str(settings.get("docker_container") or "")
        self._own = ""
        """The marker of the container that was started here."""
        self._starting = threading.Lock()
        for word in (self._container, str(settings.get("docker_image") or "")):
            if word.startswith("-"):
                raise ToolError(f"{word!r} is no name of a container or an image.")
        if not self._container and not settings.get("docker_image"):
            raise ToolError(
                "The docker backend needs a container or an image. Set terminal.docker_container"
                " or terminal.docker_image in config.yaml."
            )

    @property
    def where(self) -> dict[str, Any]:
        """The container."""
        named = {**self._settings, "docker_container": self._container}
        return {key: named[key] for key in _KEYS if named.get(key)}

    def prepare(self, launch: Launch) -> Invocation:
        """`docker exec`, after starting the conversation's container if there is none yet."""
        self._ensure_container(launch.cancelled)
        options = ["-it"] if launch.pty else ["-i"] if launch.needs_input else []
        private = launch.private
        for name in private:
            options += ["-e", name]  # the client takes the value from its own environment
        argv = ["docker", "exec", *options, *self._user(), self._container, *remote_argv(launch)]
        environ = {**launch.base, **private}
        return Invocation(argv, environ, trailer=trailer_start(launch.marker))

    def ending(self, launch: Launch, code: int | None, trailer: bytes) -> Ending:
        """Read the trailer; without one, the container is to blame."""
        problem = (
            f"docker could not run the command in {self._container}, or the container has ended."
            " Check that it runs: docker ps"
        )
        return read_trailer(trailer, code, problem)

    def kill(self, marker: str, grace: float) -> None:
        """End the run's processes in the container."""
        if self.call(kill_script(marker, grace), _CONTROL_SECONDS + grace) != 0:
            raise ConnectionError(f"a run in {self._container} may still be going on")

    def call(self, text: str, seconds: float) -> int:
        """Run a line of shell in the container."""
        argv = ["docker", "exec", *self._user(), self._container, "sh", "-c", text]
        return helper(argv, child_environment(os.environ), seconds)[0]

    def abandon(self, marker: str, kind: str) -> None:
        """Remove a container that was a conversation's own, or end a run in one that was not."""
        if kind == "container":
            self._remove()
        elif self.call("true", _CONTROL_SECONDS) == 0:
            self.kill(marker, 0.5)

    def close(self) -> None:
        """Remove the conversation's own container."""
        with self._starting:
            if self._own:
                self._remove()
                Ledger(self._home).remove(self._own)
                self._own = self._container = ""

    def _remove(self) -> None:
        argv = ["docker", "rm", "-f", self._container]
        code, printed = helper(argv, child_environment(os.environ), _CONTROL_SECONDS)
        if code != 0 and "No such container" not in printed:
            raise ConnectionError(f"{self._container} could not be removed: {printed[-200:]}")

    def _user(self) -> list[str]:
        user = self._settings.get("docker_user")
        return ["-u", str(user)] if user else []

    def _ensure_container(self, cancelled: threading.Event) -> None:
        with self._starting:
            if self._container:
                return
            marker = new_marker()
            self._container = f"hermes-{marker[:12]}"
            ledger = Ledger(self._home)
            ledger.add(Record(marker, "", "container", where=self.where))
            try:
                self._start_container(cancelled)
            except ToolError:
                self._container = ""
                ledger.remove(marker)
                raise
            self._own = marker

    def _start_container(self, cancelled: threading.Event) -> None:
        argv = ["docker", "run", "-d", "--rm", "--init", "--name", self._container, *_HARDENING]
        for volume in self._settings.get("docker_volumes") or ():
            argv += ["-v", str(volume)]
        argv += [str(word) for word in self._settings.get("docker_args") or ()]
        argv += ["--entrypoint", "tail", str(self._settings["docker_image"]), "-f", "/dev/null"]
        try:
            code, printed = helper(
                argv, child_environment(os.environ), _START_SECONDS, cancelled.is_set
            )
        except OSError as error:
            raise ToolError(f"Docker could not start a container: {error}") from error
        if code != 0:
            raise ToolError(f"The container could not be started: {printed[-500:]}")
