"""What a command needs beyond its wall, asked for one by one.

    write:PATH   to write below a folder, or one file, outside
    host:NAME    to connect to a host
    network      the whole network, without the proxy
    no wall      to run without a wall at all; asked each time

A granted command runs in a wall with that grant added. Grants are kept like other approvals: once,
for this conversation, or always; `/approvals` lists and revokes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..base import ToolContext, ToolError
from ..danger.finding import Finding
from .guardhouse import Grants, guardhouse_of
from .proxy import HOST

NO_WALL = "no-wall"
NETWORK = "network"


@dataclass(frozen=True, slots=True)
class Needs:
    """What a command says that it needs."""

    paths: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    network: bool = False
    no_wall: bool = False

    def findings(self) -> list[Finding]:
        """The findings that need approval."""
        findings = [Finding(f"write:{path}", f"Writes to {path}") for path in self.paths]
        findings += [Finding(f"host:{host}", f"Connects to {host}") for host in self.hosts]
        if self.network:
            findings.append(Finding(NETWORK, "Uses the whole network"))
        if self.no_wall:
            text = "Runs without a wall, with all that this account may do"
            findings.append(Finding(NO_WALL, text))
        return findings

    def grants(self) -> Grants:
        """The grants, once they were approved."""
        return Grants(self.paths, self.hosts, self.network, self.no_wall)


def parse_needs(context: ToolContext, needs: Sequence[str]) -> Needs:
    """What the model wrote; ToolError if that cannot be understood, or cannot be had."""
    paths: list[Path] = []
    hosts: list[str] = []
    network = no_wall = False
    for need in needs:
        word, _, value = need.partition(":")
        word, value = word.strip().lower(), value.strip()
        if word == "write" and value and value.isprintable():
            paths.append(_writable(context, value))
        elif word == "host" and HOST.fullmatch(value):
            hosts.append(value.lower().rstrip("."))
        elif word == "network" and not value:
            network = True
        elif word.replace("-", " ") == "no wall" and not value:
            no_wall = True
        else:
            raise ToolError(
                f"{need!r} cannot be asked for. Write write:PATH, host:NAME, network or no wall."
            )
    if needs and context.workspace.mode == "plan":
        raise ToolError(
            "In plan mode nothing is written and nothing connects. Describe what you would do."
        )
    return Needs(tuple(paths), tuple(hosts), network, no_wall)


def _writable(context: ToolContext, text: str) -> Path:
    """The place that is to be written; one that does not exist yet is asked for by its folder."""
    path = context.resolve(text).resolve()
    home = context.workspace.home.resolve()
    if path == home or path in home.parents or home in path.parents:
        raise ToolError("The agent's own files cannot be given to a command. Ask the person.")
    while not path.exists():
        path = path.parent
    if path == Path("/"):
        raise ToolError("All of the machine cannot be asked for. Name a folder, or no wall.")
    return path


def hint(context: ToolContext, output: str, code: int | None) -> str:
    """What to tell the model when the wall may have been in the way."""
    guardhouse = guardhouse_of(context.workspace)
    if not code or guardhouse is None:
        return ""
    refused = guardhouse.take_refusals()
    if refused:
        return f"[the wall did not let it connect to {', '.join(refused)}]"
    if not any(sign in output for sign in _SIGNS):
        return ""
    roots = ", ".join(str(root) for root in guardhouse.roots()) or "nowhere"
    return (
        f"[this ran inside a wall: it can write to {roots}, its own /tmp and caches. If it has to "
        "leave that, call again with needs, e.g. write:PATH or host:NAME; the person is asked.]"
    )


_SIGNS = ("Read-only file system", "Permission denied", "EROFS", "EACCES", "ENOENT: no such file",
          "Could not resolve host", "Temporary failure in name resolution",
          "Name or service not known", "Network is unreachable", "Connection refused",
          "Operation not permitted", "Forbidden by the wall", "no new privileges")  # fmt: skip
