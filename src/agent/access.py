"""Who may use what: roles, persons and chats in one table, `access` in config.yaml.

Operators may use everything. What members and guests may is said by role, or for one person; a chat
narrows that for everybody who talks there, and never widens it. The same entries say which model,
prompt, persona and mode hold for a person or in a chat; there, the chat's come first.

Every front end asks here before anything runs: tools through `Access.permissions`, slash commands
by name, methods of the session protocol and routes of the API by the command that does the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

from hermes_state import NOBODY
from tools.permissions import ALL_NAMES, EVERY_MODE, EVERYTHING, Names, Permissions, some

from .config.schema import AccessEntry, AccessSettings

if TYPE_CHECKING:
    from hermes_state import Person
    from tools.base import Mode

    from .config import Config

ADMIN = "admin"
"""Somebody named under a platform's `admins`: as an operator, but for who is who."""
OPERATOR_COMMANDS = frozenset({"people"})
"""What lets one person be another, and so see everything."""
ADMIN_COMMANDS = frozenset({
    "restart", "update", "platform", "platforms", "sethome", "debug", "yolo", "reload-mcp",
    "folder",
})  # fmt: skip
"""What concerns the whole gateway, or lets a chat do everything as its account."""
MACHINE_COMMANDS = frozenset({"config", "plugins", "image"})
"""What reads this machine beside the conversation."""
RESERVED = OPERATOR_COMMANDS | ADMIN_COMMANDS | MACHINE_COMMANDS

DEFAULTS: dict[str, AccessEntry] = {
    "member": AccessEntry(
        tools=("all",), models=("all",), commands=("all",), modes=("plan", "guarded")
    ),
    "guest": AccessEntry(
        tools=("web", "clarify", "todo"),
        models=(),
        commands=(
            "new", "clear", "title", "branch", "resume", "sessions", "search", "history", "undo",
            "retry", "compress", "stop", "queue", "steer", "deny", "busy", "last", "link",
            "unlink", "help", "commands", "status", "whoami", "usage", "insights", "version",
            "copy", "quit",
        ),
        modes=("plan", "guarded"),
    ),
}  # fmt: skip
"""What holds for a role unless `access.roles` says otherwise."""


@dataclass(frozen=True, slots=True)
class Access:
    """What one person may use in one chat, and what is set for them there."""

    permissions: Permissions = EVERYTHING
    models: Names = ALL_NAMES
    """Which may be chosen beside the one that is configured."""
    commands: Names = ALL_NAMES
    model: str = ""
    """The model that answers; empty for the configured one."""
    prompt: str = ""
    """Added to the system prompt."""
    persona: str = ""
    """Who the agent is; empty for SOUL.md."""
    mode: str = ""
    """What the agent may do at first; empty for `terminal.mode`."""
    mark: str = ""
    """What tells it from others of the same table."""

    @property
    def role(self) -> str:
        """What the person is."""
        return self.permissions.role

    def why_no_command(self, name: str) -> str | None:
        """Why a command may not be used; None if it may."""
        if self.commands.allow(name):
            return None
        if name in OPERATOR_COMMANDS:
            return f"/{name} is for the operator. If that is you: hermes people code"
        if name in ADMIN_COMMANDS:
            return f"/{name} {_FOR_ADMINS}"
        return f"/{name} is not for {some(self.role)} here. {_OPERATOR_DECIDES}"

    def why_no_model(self, name: str) -> str | None:
        """Why a model may not be chosen; None if it may. `name` may say the provider first."""
        bare = name.rpartition(":")[2]
        if self.models.allow(name, bare) or name == self.model:
            return None
        return f"{name} is not for {some(self.role)} here. {_OPERATOR_DECIDES}"

    def why_no_mode(self, mode: str) -> str | None:
        """Why a mode may not be chosen; None if it may."""
        if mode in self.permissions.modes:
            return None
        if mode == "full":
            return f"/mode full {_FOR_ADMINS}"
        known = ", ".join(self.permissions.modes)
        return (
            f"The mode {mode} is not for {some(self.role)} here, only {known}. {_OPERATOR_DECIDES}"
        )


_FOR_ADMINS = (
    "is for administrators of this gateway: those named under platforms.<platform>.admins in"
    " config.yaml."
)
_OPERATOR_DECIDES = "The operator decides that (access in config.yaml)."
OPERATORS = Access()
"""Everything, and nothing set."""


@dataclass(slots=True)
class AccessTable:
    """The table, as configured."""

    settings: AccessSettings = field(default_factory=AccessSettings)
    start_mode: str = "guarded"
    """`terminal.mode`: members may always use what every conversation begins with."""
    kept: dict[tuple[str, tuple[str, ...], str], Access] = field(default_factory=dict)

    @property
    def names_people(self) -> bool:
        """Whether anything is set for single persons, who go by any of their doors."""
        return bool(self.settings.people)

    def find(self, role: str, names: Collection[str] = (), key: str | None = None) -> Access:
        """What holds for somebody: their role, what they go by (id and doors), and their chat."""
        settings = self.settings
        about = (
            role,
            tuple(sorted(names)) if settings.people else (),
            key or "" if settings.chats else "",
        )
        known = self.kept.get(about)
        if known is None:
            if len(self.kept) >= _MOST_KEPT:
                self.kept.clear()
            known = self.kept[about] = self._build(*about)
        return known

    def _build(self, role: str, names: tuple[str, ...], key: str) -> Access:
        settings, is_free = self.settings, role in ("operator", ADMIN)
        by_role = () if is_free else (self._default(role), settings.roles.get(role))
        own = [settings.people[name] for name in names if name in settings.people]
        person = _merged(*by_role, *own)
        chat = _merged(*_of_chat(settings.chats, key))
        # Where several doors of a person have entries, nobody may do more by joining another.
        given = [entry.commands for entry in own if entry.commands is not None]
        commands: list[tuple[str, ...] | None] = [*given] or [person.commands]
        if role == ADMIN:
            extra = sorted(ADMIN_COMMANDS)
            commands = [(*(("all",) if each is None else each), *extra) for each in commands]
        permissions = Permissions(
            "member" if role == ADMIN else role,
            _narrowed(ALL_NAMES, person.tools, *(e.tools for e in own), chat.tools),
            _modes(person.modes, *(entry.modes for entry in own), chat.modes),
            is_free,
        )
        if permissions == EVERYTHING:
            permissions = EVERYTHING
        return Access(
            permissions,
            _narrowed(ALL_NAMES, person.models, *(e.models for e in own), chat.models),
            _narrowed(Names((), RESERVED), *commands, _with(chat.commands, is_free)),
            chat.model or person.model or "",
            "\n\n".join(filter(None, (person.prompt, chat.prompt))),
            chat.persona or person.persona or "",
            chat.mode or person.mode or "",
            mark="\0".join((role, key, *names)),
        )

    def _default(self, role: str) -> AccessEntry:
        entry = DEFAULTS[role]
        if role == "guest" or self.start_mode in (entry.modes or ()):
            return entry
        return _merged(entry, AccessEntry(modes=(*(entry.modes or ()), self.start_mode)))


_MOST_KEPT = 10_000
"""Entries that are kept to be found again."""


def _with(commands: tuple[str, ...] | None, is_free: bool) -> tuple[str, ...] | None:
    """A chat's list of commands; what only operators have is not narrowed by `all`."""
    if commands is None or not is_free or "all" not in commands:
        return commands
    return (*commands, *sorted(RESERVED))


def _narrowed(names: Names, *lists: tuple[str, ...] | None) -> Names:
    for listed in dict.fromkeys(lists):
        names = names.narrowed(listed)
    return names


def _modes(*lists: tuple[str, ...] | None) -> tuple[Mode, ...]:
    return tuple(
        mode for mode in EVERY_MODE if all(listed is None or mode in listed for listed in lists)
    )


def _merged(*entries: AccessEntry | None) -> AccessEntry:
    """Several together; what is set in a later one wins."""
    chosen = {
        item.name: given
        for entry in entries
        if entry is not None
        for item in fields(AccessEntry)
        if (given := getattr(entry, item.name)) not in (None, "")
    }
    return AccessEntry(**chosen)


def _of_chat(chats: Mapping[str, AccessEntry], key: str) -> list[AccessEntry]:
    """The entries of a chat, the most exact one last."""
    names = (key, key.removeprefix("agent:main:")) if key else ()
    found = [name for name in chats if Names(((name,),)).allow(*names)] if names else []
    return [chats[name] for name in sorted(found, key=lambda name: (name in names, len(name)))]


def table_of(config: Config) -> AccessTable:
    """The table of a configuration."""
    return AccessTable(config.access, config.terminal.mode)


def find_access(
    config: Config,
    owner: str | None,
    person: Person | None,
    doors: Collection[str] = (),
    key: str | None = None,
) -> Access:
    """What holds for the owner of a conversation, outside of chats or in the one of that key.

    `person` is who that is, None if there is no such person; `doors` are theirs.
    """
    names = {name for name in (owner or "operator", person and person.id, *doors) if name}
    return table_of(config).find(role_of(config, owner, person), names, key)


def role_of(config: Config, owner: str | None, person: Person | None) -> str:
    """What a session's owner is: operator, member or guest. A platform's admins are operators."""
    if owner == NOBODY:
        return "guest"  # nobody knows who they are
    if owner is None or (person is not None and person.is_operator):
        return "operator"
    platform, _, identifier = owner.partition(":")
    section = config.section("platforms").get(platform)
    admins = section.get("admins") if isinstance(section, Mapping) else None
    names = admins if isinstance(admins, list | tuple) else [admins]
    if identifier and identifier in {str(name) for name in names if name is not None}:
        return "operator"
    return "member" if person is None else person.role


def as_mode(name: str) -> Mode | None:
    """The mode that an entry sets; None for none."""
    return name if name in EVERY_MODE else None
