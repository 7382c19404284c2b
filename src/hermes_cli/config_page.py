"""The tables of docs/configuration.md, made from the settings themselves.

    python -m hermes_cli.config_page docs/configuration.md

puts them anew between their marks; what people wrote around them stays. Type, default and text of a
key come from where it is defined: the agent's schema, the gateway's dataclasses, the platforms'
manifests, the table of providers. Only keys of sections that are read piece by piece are described
here, in `REST`, and one of those that gets into the schema is taken from there.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from agent import made_pages
from agent.config.foreign import RENAMED
from agent.config.schema import (
    GATEWAY_KEYS,
    KEYS,
    SECTIONS,
    WITHIN,
    AccessEntry,
    Key,
    Limits,
    StoreSettings,
    keys_of,
)
from gateway.config import GatewayConfig, ResetPolicy
from gateway.platforms.manifest import Manifest
from gateway.platforms.registry import own_manifests
from hermes_base.session_context import SESSION_NAMES


class Row(NamedTuple):
    """One key as it is written on the page."""

    name: str
    kind: str
    default: str
    text: str


_KINDS = {
    "int": "whole number",
    "float": "number",
    "bool": "true or false",
    "str": "text",
    "tuple[str, ...]": "list of texts",
}

_TABLES = {
    "fallback_models": "Models asked in this order when the one before cannot answer.",
    "toolsets": "Which tools the agent gets; see [tools](tools.md).",
    "web": "The web tools.",
    "mcp_servers": "Tools of other programs, one section per server.",
    "plugins": "[Plugins](plugins.md).",
    "hooks": "[Shell hooks](plugins.md#shell-hooks): lists of commands by event.",
    "platforms": "[Where Hermes is reached](platforms.md): one section per platform.",
    "gateway": "The gateway itself. The plain keys may also stand at the top of the file,"
    " and so may its sections.",
    "session_reset": "When a conversation begins anew by itself; the same keys hold below"
    " `gateway.reset_by_type.<type>` (dm, group, channel, thread) and"
    " `gateway.reset_by_platform.<platform>`.",
    "max_live_sessions": "The session server.",
}
"""The sections that are read piece by piece, in the order of the page."""

REST: tuple[Row, ...] = (
    Row("fallback_models", "list", "", "names (`provider:model`) or sections as under `model`"),
    Row("toolsets", "list of texts", "all", "the only toolsets (or tools) the agent gets"),
    Row("platform_toolsets.<platform>", "list of texts", "as `toolsets`", "the same for one"
        " platform; `cli` is the terminal"),
    Row("tools.disabled", "list of texts", "", "tools and toolsets it does not get"),
    Row("web.search_provider", "text", "", "`searxng`, `brave` or a plugin's; without one there"
        " is no `web_search`"),
    Row("web.allow_private", "list of texts", "", "hosts, addresses or networks beyond the public"
        " internet that may be read"),
    Row("web.blocked", "list of texts", "", "sites that are not read, with all below them"),
    Row("web.searxng.url", "text", "", "the address of the instance; its settings must allow"
        " `json`"),
    Row("web.brave.api_key", "text, a secret", "", "the key for Brave Search"),
    Row("web.brave.url", "text", "", "another address of the service"),
    Row("mcp_servers.<name>.command", "text", "", "the program to start; or `url`"),
    Row("mcp_servers.<name>.args", "list of texts", "", "its arguments"),
    Row("mcp_servers.<name>.env", "section", "", "its variables; `${NAME}` is filled in from the"
        " environment or `.env`"),
    Row("mcp_servers.<name>.url", "text", "", "where it listens, if it runs already"),
    Row("mcp_servers.<name>.headers", "section", "", "HTTP headers, filled in likewise"),
    Row("mcp_servers.<name>.enabled", "true or false", "true", "false: it is left alone"),
    Row("mcp_servers.<name>.roots", "list of texts", "", "folders that it may write to"),
    Row("mcp_servers.<name>.network", "on, off", "on", "whether it may connect to anything"),
    Row("mcp_servers.<name>.sandbox", "auto, required, off", "auto", "the wall around it, as"
        " `terminal.sandbox`"),
    Row("mcp_servers.<name>.timeout", "number", "60", "seconds one call may take"),
    Row("plugins.enabled", "list of texts", "", "plugins to load"),
    Row("plugins.disabled", "list of texts", "", "plugins not to load, also those that come with"
        " Hermes"),
    Row("plugins.hook_timeout", "number", "5", "seconds one hook may take"),
    Row("plugins.entries.<plugin>.allow_tool_override", "true or false", "false", "it may replace"
        " a tool of Hermes' own"),
    Row("plugins.entries.<plugin>.llm.allow_model_override", "true or false", "false", "it may"
        " choose another model for `ctx.llm`"),
    Row("hooks.<event>[].command", "text", "", "what is started"),
    Row("hooks.<event>[].matcher", "text", "", "for hooks on tools: a pattern for the tool's whole"
        " name"),
    Row("hooks.<event>[].timeout", "number up to 300", "60", "seconds it may take"),
    Row("hooks.<event>[].roots", "list of texts", "", "it runs inside a wall and may write to"
        " these folders only"),
    Row("hooks_auto_accept", "true or false", "false", "run them without asking for consent"),
    Row("platforms.<name>.enabled", "true or false", "if there is a token or password", "serve"
        " this platform"),
    Row("platforms.<name>.token", "text, a secret", "", "what it logs in with"),
    Row("platforms.<name>.allowed_users", "list of texts", "", "whom it listens to, beside those"
        " who were paired"),
    Row("platforms.<name>.admins", "list of texts", "", "who may use `/mode full`, `/folder` and"
        " the commands that concern the whole gateway"),
    Row("platforms.<name>.allow_all", "true or false", "false", "listen to everybody: only where"
        " strangers cannot write"),
    Row("platforms.<name>.home_channel", "text or section", "", "the chat that `/handoff` goes to:"
        " its id, or `{chat_id, name, chat_type}`"),
    Row("platforms.<name>.reactions", "true or false", "false", "mark messages that were seen"),
    Row("platforms.web.enabled", "true or false", "false", "a gateway serves the page too"),
    Row("platforms.web.host", "text", "127.0.0.1", "where `hermes web` listens"),
    Row("platforms.web.port", "whole number", "8643", "and on which port"),
    Row("platforms.web.hosts", "list of texts", "", "names under which the page is reached, beside"
        " this machine's own"),
    Row("gateway.streaming.enabled", "true or false", "false", "show answers while they grow, where"
        " messages can be edited"),
    Row("gateway.streaming.edit_interval", "number", "0.8", "seconds between edits"),
    Row("gateway.streaming.cursor", "text", "▉", "what stands at the end meanwhile"),
    Row("gateway.restart_loop_guard.max_restarts", "whole number", "3", "so many restarts within"
        " the window, and no more"),
    Row("gateway.restart_loop_guard.window", "number", "60", "seconds"),
    Row("limits.roles.<role>", "section", "", "as `limits.default`, for every `operator`, `member`"
        " or `guest`; what is set here wins over it"),
    Row("limits.people.<person>", "section", "", "the same for one person, by name or id; wins over"
        " their role"),
    Row("limits.chats.<chat>", "section", "", "the same for all that is used in one chat, by its"
        " session key, or `*` for each; holds beside the limits of people"),
    Row("limits.prices.<model>", "section", "", "what limits count for a model: `input` and"
        " `output`, dollars per million tokens"),
    Row("access.people.<person>", "section", "", "as for a role, for one person, by any of their"
        " doors (`telegram:42`, `operator`); wins over their role"),
    Row("access.chats.<chat>", "section", "", "the same for everybody in one chat, by its session"
        " key (`telegram:group:-100`, `*` stands for any text); takes away, and never adds"),
    Row("reset_triggers", "list of texts", "/new, /reset", "what begins a new conversation"),
    Row("max_live_sessions", "whole number", "64", "sessions one server may have open"),
)  # fmt: skip
"""Keys that are read piece by piece, from sections that the schema hands on as they are."""

_GATEWAY_TEXTS = {
    "workspaces": "[a folder for each person](gateway.md#a-folder-for-each-person), such as"
    " `~/hermes-work/{person}`; without it all share the one the gateway was started in",
    "max_concurrent_sessions": "turns at once; as many as come without it",
    "group_sessions_per_user": "everybody in a group has a conversation of their own",
    "thread_sessions_per_user": "also within a thread of a group",
    "max_inbound_media_bytes": "the largest file that is fetched from a chat",
    "media_days": "days for which files from chats are kept; 0: while a conversation names them",
    "media_bytes": "how much of such files is kept for each person, oldest deleted first; 0: all",
    "message_parts_wait": "seconds to wait for further parts of an album or of a text that a client"
    " split; 0: each part is a message",
    "session_store_max_age_days": "days after which a chat that nobody uses is forgotten; its"
    " conversation stays",
    "drain_timeout": "seconds a restart waits for running turns",
    "cache_size": "agents that are kept ready",
    "cache_bytes": "memory they may take, as estimated",
    "cache_idle_seconds": "seconds after which an unused one is let go",
    "at_hour": "daily: the hour, local time",
    "idle_minutes": "idle: minutes without a message",
    "notify": "tell the chat",
    "notify_exclude_platforms": "platforms on which it is not told",
    "bg_process_max_age_hours": "hours for which a background process holds a reset back",
}

VARIABLES = {
    "HERMES_HOME": "the Hermes home; `~/.hermes` without it",
    "HERMES_STORE": "`store`, and wins over it",
    "PGPASSWORD": "the password for `store`, also in .env; libpq's other variables and its password"
    " file hold too",
    "HERMES_OBJECTS_ACCESS_KEY": "`store_objects.access_key`, also in .env",
    "HERMES_OBJECTS_SECRET_KEY": "`store_objects.secret_key`, also in .env",
    "HERMES_YOLO_MODE": "`1`: as `approvals.mode: off` and `terminal.mode: full`; so does `--yolo`",
    "HERMES_WALL": "which kinds of wall may be built, for tests: `bubblewrap,landlock`",
    "HERMES_SAFE_MODE": "`1`: no plugins, shell hooks or event hooks, as `--safe-mode`",
    "HERMES_ACCEPT_HOOKS": "`1`: agree to the shell hooks of config.yaml, as `--accept-hooks`",
    "HERMES_ENABLE_PROJECT_PLUGINS": "`1`: look for plugins in `./.hermes/plugins` too",
    "HERMES_PLUGINS_DEBUG": "`1`: say on standard error which plugins are loaded",
    "GATEWAY_ALLOW_ALL_USERS": "`true`: as `allow_all` of every platform",
    "BRAVE_API_KEY": "`web.brave.api_key`",
    "SEARXNG_URL": "`web.searxng.url`",
    "HERMES_TUI_RPC_POOL_WORKERS": "threads of the session server for slow requests; 8",
    "HERMES_TUI_SESSION_TTL_S": "seconds for which it keeps a session nobody watches; 21600",
    "HERMES_TUI_WS_ORPHAN_REAP_GRACE_S": "seconds a client has to come back to a session that was"
    " to end with it; 20",
    "HTTPS_PROXY": "a proxy for models; likewise `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`",
    "SSL_CERT_FILE": "certificates to trust for the web tools; likewise `SSL_CERT_DIR`",
    "NO_COLOR": "no colours in what commands print",
    "TZ": "the time zone of jobs whose schedule names none, unless `jobs.timezone` does",
}
"""What is read from the environment beside keys of providers and platforms."""


def documented() -> dict[str, Row]:
    """Every key on the page by its name."""
    schema = (*KEYS, *keys_of(AccessEntry, "access.roles.<role>"))
    rows = {row.name: row for row in (*map(_schema_row, schema), *_gateway_rows())}
    for row in (*REST, *_platform_rows()):
        rows.setdefault(row.name, row)
    return rows


def generated() -> dict[str, str]:
    """The tables by the names of their marks."""
    return {"keys": _keys(), "variables": _variables()}


def _keys() -> str:
    rows = documented()
    parts = [
        _table(f"`{name}`", inspect.getdoc(cls) or "", _within(name, rows.values()))
        for name, cls in SECTIONS.items()
    ]
    parts.append(
        _table("`store`", inspect.getdoc(StoreSettings) or "", _within("store", rows.values()))
    )
    parts += [
        _table(f"`{name}`", text, _within(name, rows.values())) for name, text in _TABLES.items()
    ]
    return "\n\n".join([*parts, _renamed()])


def _renamed() -> str:
    lines = ["### Keys of Hermes Agent 0.19", ""]
    lines += ["These are read under our names. Its other keys that mean nothing here are named by"]
    lines += ["`hermes config check`, and by one line at a start.", ""]
    lines += ["| Its key | Ours |", "|---|---|"]
    lines += [f"| `{theirs}` | `{ours}` |" for theirs, ours in RENAMED.items()]
    return "\n".join(lines)


def _within(section: str, rows: Iterable[Row]) -> list[Row]:
    also = {
        "toolsets": ("tools", "platform_toolsets"),
        "hooks": ("hooks_auto_accept",),
        "gateway": ("reset_triggers",),
        "store": ("store_connections",),
    }
    heads = (section, *also.get(section, ()))
    return [row for row in rows if re.split(r"[.\[]", row.name)[0] in heads]


def _table(title: str, text: str, rows: list[Row]) -> str:
    lines = [f"### {title}", "", " ".join(text.split()), ""]
    lines += ["| Key | Type | Default | What it does |", "|---|---|---|---|"]
    lines += [f"| `{row.name}` | {row.kind} | {_code(row.default)} | {row.text} |" for row in rows]
    return "\n".join(lines)


def _schema_row(key: Key) -> Row:
    return Row(key.name, _kind(key.type, key.limits), _shown(key.default), key.help)


def _kind(type_: str, limits: Limits) -> str:
    if limits.choices:
        return ", ".join(f"`{choice}`" for choice in limits.choices if choice)
    kind = _KINDS[type_.removesuffix(" | None")]
    if limits.secret:
        return f"{kind}, a secret"
    if limits.minimum is None:
        return kind
    if limits.maximum is None:
        return f"{kind}, {limits.minimum:g} or more"
    return f"{kind} from {limits.minimum:g} to {limits.maximum:g}"


def _shown(default: Any) -> str:
    if default is None or default == "" or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return f"{default:g}" if isinstance(default, float) else str(default)


def _code(text: str) -> str:
    return f"`{text}`" if text and " " not in text.replace(", ", ",") else text


def _gateway_rows() -> list[Row]:
    rows = [*_of_dataclass(GatewayConfig, "gateway", GATEWAY_KEYS)]
    return [*rows, *_of_dataclass(ResetPolicy, "session_reset", WITHIN["session_reset"])]


def _platform_rows() -> list[Row]:
    return [
        Row(f"platforms.{manifest.name}.{setting.key}", setting.kind, setting.default, setting.text)
        for manifest in _manifests()
        for setting in manifest.settings
    ]


def _manifests() -> list[Manifest]:
    """Our platforms, in the order of menus; those of plugins have pages of their own."""
    return sorted(own_manifests().values(), key=lambda manifest: (manifest.order, manifest.name))


def _of_dataclass(cls: Any, prefix: str, names: tuple[str, ...]) -> Iterable[Row]:
    comments = dict(
        re.findall(r'^    (\w+): [^\n]+\n    """(.*?)"""', inspect.getsource(cls), re.M | re.S)
    )
    known = {item.name: item for item in fields(cls)}
    for name in names:
        item = known[name]
        default = item.default if item.default is not MISSING else ""
        text = _GATEWAY_TEXTS.get(name) or comments[name].rstrip(".")
        yield Row(f"{prefix}.{name}", _kind(str(item.type), Limits()), _shown(default), text)


def _variables() -> str:
    from agent.providers.known import KNOWN

    lines = ["### Hermes", "", "| Variable | What it does |", "|---|---|"]
    lines += [f"| `{name}` | {text} |" for name, text in VARIABLES.items()]
    lines += ["", "### Platforms", "", "| Variable | Stands for |", "|---|---|"]
    lines += [
        f"| `{variable}` | `platforms.{manifest.name}.{key}` |"
        for manifest in _manifests()
        for key, variable in manifest.environment.items()
    ]
    lines += ["", "### Providers of models", ""]
    lines += ["`<PROVIDER>_BASE_URL`, for instance `OLLAMA_BASE_URL`, names another address.", ""]
    lines += ["| `model.provider` | Key | Address |", "|---|---|---|"]
    lines += [
        f"| `{name}` | {' or '.join(f'`{key}`' for key in api.key_variables) or 'none needed'}"
        f" | {api.base_url or ('inside the process' if name == 'local' else '`model.base_url`')} |"
        for name, api in KNOWN.items()
    ]
    lines += ["", "### Given to commands and hooks", ""]
    lines += ["What a tool or a shell hook starts is told which session it belongs to:", ""]
    lines += [", ".join(f"`{name}`" for name in SESSION_NAMES) + "."]
    return "\n".join(lines)


def renewed(page: str) -> str:
    """The page with its tables put anew."""
    return made_pages.renewed(page, generated())


if __name__ == "__main__":
    made_pages.renew_named(renewed)
