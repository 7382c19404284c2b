"""A folder for each person: where the agent works for them, and the root of its wall.

`gateway.workspaces` says where, such as `~/hermes-work/{person}`; it holds for chats, API clients
and web devices. The name of a person's folder is made from their id, so it stays when they are
renamed, and nobody gets what was another's. A chat that several people share as one conversation
has a folder of its own, and so has one whose platform does not say who writes. Whoever sits at the
machine works where they are.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .home import ConfigError, private_folder

if TYPE_CHECKING:
    from hermes_state import Person, SessionDB
    from tools.base import Workspace

    from .config import Config

PERSON = "{person}"
_PLAIN = re.compile(r"[a-z][a-z0-9_]*:[A-Za-z0-9_][A-Za-z0-9_.-]{0,80}")


@dataclass(frozen=True, slots=True)
class Workspaces:
    """Everybody's folders."""

    template: str
    """With `{person}` in it, or a folder in which each has one; empty for none."""
    home: Path

    def __post_init__(self) -> None:
        home, base = self.home.resolve(), self.base
        if base is not None and (base.is_relative_to(home) or home.is_relative_to(base)):
            raise ConfigError(
                f"gateway.workspaces is {self.template}: it can neither be in the Hermes home nor"
                " hold it. Choose a folder beside it."
            )

    @property
    def base(self) -> Path | None:
        """The folder that holds them all."""
        if not self.template:
            return None
        parts = Path(self.template).expanduser().parts
        fixed = next((at for at, part in enumerate(parts) if PERSON in part), len(parts))
        return Path(*parts[:fixed]).resolve()

    def of_person(self, person: Person) -> Path | None:
        """A person's folder; None without workspaces."""
        if not self.template:
            return None
        if person.workspace:
            return Path(person.workspace).expanduser()
        return self._named(folder_name(person.id))

    def of_chat(self, key: str) -> Path | None:
        """The folder of a chat that is nobody's own; None without workspaces."""
        return self._named(f"chat-{_digest(key)}") if self.template else None

    def _named(self, name: str) -> Path:
        template = self.template if PERSON in self.template else f"{self.template}/{PERSON}"
        return Path(template.replace(PERSON, name)).expanduser()

    def confine(self, db: SessionDB, workspace: Workspace, *, is_free: bool) -> None:
        """Keep a conversation within its folder: what is another's does not exist for it. Without
        a wall nothing runs for those who are not free to leave it."""
        if self.base is None:
            return
        private_folder(workspace.root)
        chosen = [Path(folder).expanduser() for folder in db.list_workspaces()]
        workspace.others = (self.base, *chosen)
        terminal = dict(workspace.section("terminal"))
        if not is_free and terminal.get("sandbox") in (None, "", "auto"):
            terminal["sandbox"] = "required"
            workspace.settings = {**workspace.settings, "terminal": terminal}


def workspaces_of(config: Config) -> Workspaces:
    """Everybody's folders, as configured."""
    template = config.section("gateway").get("workspaces", config.raw.get("workspaces"))
    return Workspaces(template if isinstance(template, str) else "", config.home)


def folder_name(person_id: str) -> str:
    """The name of a person's folder: no two persons have the same one."""
    if _PLAIN.fullmatch(person_id):
        return person_id.replace(":", "-", 1)
    if ":" not in person_id and re.fullmatch(r"[a-z0-9_]{1,40}", person_id):
        return person_id  # the operator
    kind = re.sub(r"[^a-z0-9_]", "", person_id.partition(":")[0])[:20] or "person"
    return f"{kind}-x{_digest(person_id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:20]
