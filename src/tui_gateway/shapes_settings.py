"""Shapes of settings: configuration, models, tools, skills, plugins."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class ConfigValue(TypedDict, total=False):
    """What was asked for; which keys there are depends on it."""

    key: str
    value: Any
    config: dict[str, Any]
    """Every key, with dots in its name; secrets are left out."""
    home: str
    display: str
    """The home as people write it."""
    mtime: float
    """When config.yaml was last changed; 0 if there is none."""
    cwd: str
    branch: str
    prompt: str
    model: str
    provider: str
    providers: list[str]


class ConfigChange(TypedDict):
    """A value that was set."""

    key: str
    value: Any
    scope: str
    """session or global."""
    warning: NotRequired[str]
    cwd: NotRequired[str]
    branch: NotRequired[str]


class SessionMode(TypedDict):
    """What the agent may do in a session."""

    mode: str
    """plan, guarded or full."""
    meaning: str
    """The same, in words."""


class SessionFolders(TypedDict):
    """Where the agent may write in a session."""

    root: str
    """Where the person put the conversation."""
    configured: list[str]
    """Those of every conversation: terminal.folders."""
    added: list[str]
    """Those of this conversation."""


class ConfigRow(TypedDict):
    """One key of the configuration."""

    key: str
    value: Any
    default: Any
    help: str
    choices: list[str]
    secret: bool
    changed: bool


class ConfigSection(TypedDict):
    """A section of the configuration."""

    name: str
    rows: list[ConfigRow]


class ConfigSections(TypedDict):
    """The whole configuration, to be shown."""

    sections: list[ConfigSection]


class Updated(TypedDict):
    """How many values are new."""

    updated: int


class ModelOption(TypedDict):
    """A model that can be asked."""

    name: str
    context_length: int
    reasoning: bool
    vision: bool
    input_price: float | None
    """US dollars per million tokens."""
    output_price: float | None


class ProviderOption(TypedDict):
    """Where models can be asked."""

    slug: str
    name: str
    authenticated: bool
    """Whether a key is set, or none is needed."""
    needs_key: bool
    key_env: str
    """The variable that holds the key."""
    base_url: str
    is_current: bool
    models: list[ModelOption]


class ModelOptions(TypedDict):
    """Providers and their models."""

    providers: list[ProviderOption]
    model: str
    provider: str


class SavedKey(TypedDict):
    """A provider whose key was set."""

    provider: ProviderOption
    warning: NotRequired[str]


class Disconnected(TypedDict):
    """A provider whose key was taken out."""

    slug: str
    name: str
    disconnected: bool
    """False if the key is still set in the environment."""


class SetupStatus(TypedDict):
    """Whether a model other than the one inside the process was chosen."""

    provider_configured: bool


class RuntimeCheck(TypedDict):
    """Whether the next prompt can be answered, as far as can be told without asking."""

    ok: bool
    provider: str
    model: str
    source: str
    """Where the key comes from: environment, .env, config, none."""
    error: str


class ToolInfo(TypedDict):
    """A tool."""

    name: str
    description: str
    enabled: bool


class Toolset(TypedDict):
    """A group of tools."""

    name: str
    enabled: bool
    tool_count: int
    tools: list[ToolInfo]


class Toolsets(TypedDict):
    """Every group of tools."""

    toolsets: list[Toolset]


class ToolSection(TypedDict):
    """The tools that a session has, by group."""

    name: str
    tools: list[ToolInfo]


class ToolSections(TypedDict):
    """The tools that a session has."""

    sections: list[ToolSection]
    total: int


class ToolsChange(TypedDict):
    """What was switched on or off."""

    changed: list[str]
    unknown: list[str]
    enabled_toolsets: list[str]
    missing_servers: list[str]
    info: str
    reset: bool
    """Whether this conversation's tools changed; they never do."""


class McpReload(TypedDict):
    """How the MCP servers were reached."""

    status: str
    message: str
    tools: int


class MemoryEntry(TypedDict):
    """Something that is remembered."""

    id: str
    """What it is called by, as long as it stays the same."""
    target: str
    """memory, or user for what is known about the person."""
    text: str
    shared: bool
    """Whether everybody gets it."""
    how: str
    """What wrote it: agent, review, person (a command), import, or hand."""
    at: float
    """When; 0 if it was written by hand."""
    session_id: str
    """In which session; empty if in none, or it is another's."""


class MemoryEntries(TypedDict):
    """What is remembered, the session's own first."""

    entries: list[MemoryEntry]


class MemoryChange(TypedDict):
    """A change of memories or skills."""

    id: str
    kind: str
    """memory, user or skill."""
    action: str
    before: str
    """The entry as it was; of a skill its name."""
    after: str
    how: str
    at: float
    session_id: str
    undoes: str
    """The change that it has undone; empty if none."""
    undone: bool


class MemoryChanges(TypedDict):
    """What was learnt and changed, the newest first."""

    changes: list[MemoryChange]


class MemoryTold(TypedDict):
    """What was done about memories, in words."""

    output: str


class SkillInfo(TypedDict):
    """A skill."""

    name: str
    description: str
    category: str
    path: str


class Skills(TypedDict, total=False):
    """Skills that were listed, found or looked at."""

    skills: list[SkillInfo]
    results: list[SkillInfo]
    installed: int
    """How many there are in all."""
    page: int
    name: str
    info: str
    """The instructions of the one that was looked at."""


class SkillsReload(TypedDict):
    """How many skills there are now."""

    output: str
    result: int


class PluginInfo(TypedDict):
    """A plugin."""

    name: str
    version: str
    description: str
    source: str
    """bundled, user, project or package."""
    enabled: bool
    loaded: bool
    problem: str
    """Why it is not loaded."""


class Plugins(TypedDict):
    """The plugins that are there."""

    plugins: list[PluginInfo]
    user_count: int
    bundled_count: int


class PluginChange(TypedDict, total=False):
    """What became of a plugin, or the list of them."""

    ok: bool
    unchanged: bool
    name: str
    plugin: PluginInfo
    plugins: list[PluginInfo]
    user_count: int
    bundled_count: int
