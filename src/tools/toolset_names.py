"""Names of toolsets: ours, and those of Hermes Agent 0.19 under which people know the same tools.

Each of its names stands for tools or toolsets of ours, for everything there is, or for nothing
that exists here. `none` is ours: an agent without tools, for those who want just that.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

ALL = "all"
NONE = "none"

MEANS: dict[str, tuple[str, ...]] = {
    "file": ("files",),
    "search": ("web_search",),
    "debugging": ("terminal", "web", "files"),
    "safe": ("web",),
    "coding": (ALL,),
    "*": (ALL,),
    "web_extract": ("web_fetch",),
    "hermes-webhook": ("web", "clarify"),
    **dict.fromkeys(
        (
            f"hermes-{place}"
            for place in (
                "acp", "api-server", "bluebubbles", "cli", "cron", "dingtalk", "discord", "email",
                "feishu", "gateway", "homeassistant", "matrix", "mattermost", "qqbot", "signal",
                "slack", "sms", "telegram", "wecom", "wecom-callback", "weixin", "whatsapp",
                "yuanbao",
            )
        ),
        (ALL,),
    ),
}  # fmt: skip
"""Hermes Agent's names and ours; names that are the same are left out."""

WITHOUT_MEANING = frozenset({
    "browser", "computer_use", "context_engine", "discord", "discord_admin",
    "feishu_doc", "feishu_drive", "homeassistant", "image_gen", "kanban", "project", "spotify",
    "tts", "video", "video_gen", "vision", "x_search", "yuanbao", "no_mcp",
})  # fmt: skip
"""Toolsets of Hermes Agent that do not exist here."""


class Choice(NamedTuple):
    """A list of names, understood."""

    names: frozenset[str]
    """Tools and toolsets by our names; ALL among them for everything."""
    without_meaning: tuple[str, ...] = ()
    """Names of toolsets that do not exist here, in the order of the list."""


def understand(names: Iterable[str], known: Collection[str] = ()) -> Choice:
    """What a list of names stands for; a `known` one, or one that nobody knows, for itself."""
    meant: set[str] = set()
    without_meaning = []
    for name in names:
        if name in known:
            meant.add(name)
        elif name in WITHOUT_MEANING:
            without_meaning.append(name)
        else:
            meant.update(MEANS.get(name, (name,)))
    return Choice(frozenset(meant), tuple(without_meaning))


class Wanted(NamedTuple):
    """Which list of the configuration says what an agent on a platform gets."""

    key: str
    names: tuple[str, ...]
    """Empty for everything."""


def wanted_on(raw: Mapping[str, Any], platform: str) -> Wanted:
    """The list for a platform: its own, or the one for all. The session server is a terminal."""
    place = "cli" if platform == "tui" else platform
    own = raw.get("platform_toolsets")
    if isinstance(own, Mapping) and (names := names_in(own.get(place))):
        return Wanted(f"platform_toolsets.{place}", names)
    return Wanted("toolsets", names_in(raw.get("toolsets")))


def unwanted_in(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """The names under `tools: {disabled: […]}`."""
    section = raw.get("tools")
    return names_in(section.get("disabled")) if isinstance(section, Mapping) else ()


def switched(
    raw: Mapping[str, Any], action: str, names: Iterable[str], *, platform: str = "cli"
) -> dict[str, list[str]]:
    """The keys of the configuration that change when tools or toolsets are switched.

    `action` is "enable" or "disable"; the new values are by key. Nothing changes if it is so
    already.
    """
    names = list(dict.fromkeys(names))
    off = list(unwanted_in(raw))
    changes: dict[str, list[str]] = {}
    if action == "disable":
        new_off = [*off, *(name for name in names if name not in understand(off).names)]
    else:
        is_all = ALL in names
        new_off = [name for name in off if not (is_all or understand([name]).names & set(names))]
        only = wanted_on(raw, platform)
        meant = understand(only.names).names
        missing = [name for name in names if name not in meant]
        if meant and ALL not in meant and missing:
            kept = [] if is_all else [name for name in only.names if name != NONE]
            changes[only.key] = [*kept, *missing]
    if new_off != off:
        changes["tools.disabled"] = new_off
    return changes


def names_in(value: Any) -> tuple[str, ...]:
    """The names in a value that is a list, or one name."""
    if isinstance(value, str):
        return (value,) if value else ()
    return tuple(str(name) for name in value) if isinstance(value, list | tuple | set) else ()
