"""Every key of `config.yaml` that the agent reads: name, type, default, limits and help.

Each section is a dataclass whose fields are its keys, so the typed settings, the validation and
the printed reference (`KEYS`) have one source. Sections that belong to other parts of Hermes are
listed in `FREE_FORM` and handed to them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, NamedTuple

LOCAL_MODEL = "SmolLM2-135M-Instruct"
"""The model inside the process, used when nothing else is configured."""


class Limits(NamedTuple):
    """What a value may be, beyond its type."""

    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    secret: bool = False
    """Never shown in a message; belongs in `.env`."""
    address: bool = False
    """An address of a server, which is shown without the password in it."""


class Key(NamedTuple):
    """One key of the reference."""

    name: str
    type: str
    default: Any
    help: str
    limits: Limits


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    secret: bool = False,
    address: bool = False,
) -> Any:
    """A key of a section: its default, its help and what it may be."""
    limits = Limits(choices, minimum, maximum, secret, address)
    is_shown = not secret and not address
    return field(default=default, repr=is_shown, metadata={"help": help, "limits": limits})


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """One model, and how to reach it."""

    default: str = setting("", "the model's name")
    provider: str = setting(
        "auto", "openai, anthropic, openrouter, custom (with base_url), local, …"
    )
    base_url: str = setting("", "where the model is asked; empty for the provider's own address")
    api_key: str = setting(
        "", "the key; better NAME=… in .env, with ${NAME} here if needed", secret=True
    )
    context_length: int | None = setting(
        None, "tokens the model can take, if Hermes does not know it", minimum=1024
    )
    max_tokens: int | None = setting(None, "longest answer, in tokens", minimum=1)
    reasoning_effort: str = setting(
        "", "how hard to think; empty for the default", choices=("", "low", "medium", "high")
    )
    api_mode: str = setting(
        "",
        "the wire protocol; empty to choose by provider",
        choices=("", "chat_completions", "responses", "anthropic_messages"),
    )

    @property
    def name(self) -> str:
        """The model's name."""
        return self.default


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How a turn runs."""

    max_iterations: int = setting(90, "model calls one turn may take", minimum=1, maximum=10_000)
    gateway_timeout: float = setting(
        1800,
        "seconds without a sign of life after which a turn is stopped; 0 never",
        minimum=0,
    )
    gateway_timeout_warning: float = setting(
        900, "seconds without a sign of life after which the person is told; 0 never", minimum=0
    )
    restart_drain_timeout: float = setting(0, "seconds a restart waits for turns", minimum=0)
    gateway_auto_continue_freshness: float = setting(
        3600, "seconds for which an abandoned turn is continued", minimum=0
    )
    cut_off_turns: str = setting(
        "continue",
        "a turn whose process died: continue it, or ask first",
        choices=("continue", "ask"),
    )


@dataclass(frozen=True, slots=True)
class CompressionSettings:
    """When and how a conversation that has grown too long is compressed."""

    enabled: bool = setting(True, "compress automatically")
    threshold: float = setting(
        0.5, "share of the context at which to compress", minimum=0.05, maximum=0.95
    )
    target_ratio: float = setting(
        0.2, "share of the context to compress to", minimum=0.01, maximum=0.9
    )
    protect_first_n: int = setting(3, "first messages kept as they are", minimum=0)
    hygiene_hard_message_limit: int = setting(5000, "messages that always compress", minimum=10)
    abort_on_summary_failure: bool = setting(False, "stop rather than compress without a summary")
    in_place: bool = setting(False, "compress within the session, without a new one")


@dataclass(frozen=True, slots=True)
class AuxiliaryModelSettings:
    """A side task's own model; `auto` is the main one."""

    provider: str = setting("auto", "as under model; auto is the main model")
    model: str = setting("", "the model's name")
    base_url: str = setting("", "as under model")
    api_key: str = setting("", "as under model", secret=True)
    timeout: float = setting(120, "seconds one call may take", minimum=1)


@dataclass(frozen=True, slots=True)
class TitleSettings(AuxiliaryModelSettings):
    """Titles of conversations."""

    enabled: bool = setting(True, "name new conversations after their first exchange")


@dataclass(frozen=True, slots=True)
class AuxiliarySettings:
    """Models for side tasks."""

    title_generation: TitleSettings = field(
        default_factory=TitleSettings, metadata={"section": TitleSettings}
    )
    compression: AuxiliaryModelSettings = field(
        default_factory=AuxiliaryModelSettings, metadata={"section": AuxiliaryModelSettings}
    )
    approval: AuxiliaryModelSettings = field(
        default_factory=AuxiliaryModelSettings, metadata={"section": AuxiliaryModelSettings}
    )
    review: AuxiliaryModelSettings = field(
        default_factory=AuxiliaryModelSettings, metadata={"section": AuxiliaryModelSettings}
    )
    goal_judge: AuxiliaryModelSettings = field(
        default_factory=AuxiliaryModelSettings, metadata={"section": AuxiliaryModelSettings}
    )


@dataclass(frozen=True, slots=True)
class MemorySettings:
    """What is kept from one conversation to the next."""

    enabled: bool = setting(True, "read and write memories/, and learn from conversations")
    review_every: int = setting(
        10, "user turns after which a conversation is looked back on; 0 never", minimum=0
    )
    user_profile: bool = setting(True, "also USER.md: what is known about the person")
    provider: str = setting("", "a plugin's memory to use beside the files, by its name")
    recall: str = setting(
        "tool",
        "earlier conversations: tool lets the model search them; on also sends earlier turns along"
        " with a message that refers to them; off does neither",
        choices=("tool", "on", "off"),
    )


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """[How it finds what was said](finding.md)."""

    meaning: str = setting(
        "auto",
        "search by meaning beside the words: auto where its model is there, on fetches the model,"
        " off",
        choices=("auto", "on", "off"),
    )
    model: str = setting(
        "", "another model: its name at a server of embeddings, or the path of a .gguf file"
    )
    base_url: str = setting(
        "", "where that model is asked: what stands before /embeddings", address=True
    )
    api_key: str = setting("", "as under model", secret=True)
    text_prefix: str = setting("", "what the model wants before a text that is to be found")
    question_prefix: str = setting("", "what the model wants before a question")


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """Which engine compresses."""

    engine: str = setting("compressor", "compressor, or the name of a plugin")


@dataclass(frozen=True, slots=True)
class DisplaySettings:
    """What is shown, and what a message does that arrives during a turn."""

    busy_input_mode: str = setting(
        "interrupt",
        "what a message does to a running turn",
        choices=("interrupt", "queue", "steer"),
    )
    show_reasoning: bool = setting(
        False, "show the model's reasoning in the full-screen interface; Ctrl+R there wins"
    )


@dataclass(frozen=True, slots=True)
class TerminalSettings:
    """Where and how commands run."""

    backend: str = setting("local", "where commands run")
    cwd: str = setting(".", "folder commands start in")
    timeout: float = setting(180, "seconds one command may take", minimum=1)
    pass_env: tuple[str, ...] = setting(
        (),
        "variables with credentials that commands see after all, of the environment or .env:"
        " names, or AWS_*",
    )
    sandbox: str = setting(
        "auto",
        "a wall around what runs here: where one can be built, always (or nothing runs), or never",
        choices=("auto", "required", "off"),
    )
    mode: str = setting(
        "guarded",
        "what a conversation may do at first: `plan` looks only, `full` has neither wall nor"
        " questions",
        choices=("plan", "guarded", "full"),
    )
    folders: tuple[str, ...] = setting(
        (), "folders that may be written besides the one a conversation was put in"
    )
    network: str = setting(
        "ask",
        "hosts that commands connect to: asked for, all public ones, or none",
        choices=("ask", "on", "off"),
    )
    allowed_hosts: tuple[str, ...] = setting(
        (), "hosts that commands may connect to unasked: names, or *.example.org"
    )
    docker_image: str = setting("", "docker: a container of this image for each conversation")
    docker_container: str = setting("", "docker: this container instead, which runs already")
    docker_user: str = setting("", "docker: who runs the commands")
    docker_volumes: tuple[str, ...] = setting((), "docker: as for docker run -v")
    docker_args: tuple[str, ...] = setting((), "docker: further options of docker run")
    ssh_host: str = setting("", "ssh: the machine, e.g. a name from ~/.ssh/config")
    ssh_user: str = setting("", "ssh: who logs in there")
    ssh_port: int | None = setting(None, "ssh: the port", minimum=1, maximum=65_535)
    ssh_key: str = setting("", "ssh: the file of the key, which must work without a passphrase")


@dataclass(frozen=True, slots=True)
class CodeExecutionSettings:
    """Python programs that the agent writes."""

    timeout: float = setting(300, "seconds one program may take, at most 300", minimum=1)


@dataclass(frozen=True, slots=True)
class CheckpointSettings:
    """Copies of files before they are changed."""

    enabled: bool = setting(True, "keep what a file was before the agent changed it, for /rollback")


@dataclass(frozen=True, slots=True)
class ApprovalSettings:
    """Who decides about dangerous commands."""

    mode: str = setting(
        "manual",
        "ask always, let a model decide what is plain, or never ask",
        choices=("manual", "smart", "off"),
    )
    timeout: float = setting(300, "seconds until a question counts as denied", minimum=1)
    allow: tuple[str, ...] = setting((), "commands that need not be asked for, as patterns")
    deny: tuple[str, ...] = setting((), "what no command may contain, as patterns")


@dataclass(frozen=True, slots=True)
class DelegationSettings:
    """Sub-agents."""

    provider: str = setting("auto", "as under model; auto is the agent's own model")
    model: str = setting("", "the model's name")
    base_url: str = setting("", "as under model")
    api_key: str = setting("", "as under model", secret=True)
    max_iterations: int = setting(
        50, "model calls one sub-agent may take, never more than the agent", minimum=1
    )
    max_concurrent_children: int = setting(
        8, "tasks that one call may hand out", minimum=1, maximum=100
    )


@dataclass(frozen=True, slots=True)
class SkillSettings:
    """What the agent has learnt to do."""

    external_dirs: tuple[str, ...] = setting(
        (), "further folders with skills, which are read and never written"
    )
    disabled: tuple[str, ...] = setting((), "skills that are left out, by name")


@dataclass(frozen=True, slots=True)
class LoggingSettings:
    """The files under logs/."""

    level: str = setting(
        "INFO", "least level kept", choices=("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
    )
    format: str = setting(
        "text", "how a line looks: text, or json for programs", choices=("text", "json")
    )
    max_size_mb: float = setting(5, "size at which a file is rotated", minimum=0.01)
    backup_count: int = setting(3, "rotated files kept", minimum=1, maximum=100)


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Old conversations, deleted by themselves; never one that is still open."""

    auto_prune: bool = setting(False, "delete ended conversations that nobody used for long")
    retention_days: int = setting(90, "days since they were last used", minimum=1)
    min_interval_hours: int = setting(24, "hours between two looks", minimum=1)
    vacuum_after_prune: bool = setting(True, "give the space back to the disk afterwards")


@dataclass(frozen=True, slots=True)
class JobDefaults:
    """[Work that begins by itself](jobs.md)."""

    enabled: bool = setting(True, "whether the gateway runs what is due")
    usd_per_day: float = setting(
        5.0, "dollars that one job may spend in a day, by UTC, unless it says otherwise", minimum=0
    )
    usd_per_month: float | None = setting(None, "the same in a month", minimum=0)
    tokens_per_day: int | None = setting(
        None, "tokens that one job may use in a day, unless it says otherwise", minimum=0
    )
    tokens_per_month: int | None = setting(None, "the same in a month", minimum=0)
    most: int = setting(100, "jobs that one person may have", minimum=0)
    timezone: str = setting(
        "", "time zone of schedules that name none, such as Europe/Berlin; this machine's if empty"
    )


@dataclass(frozen=True, slots=True)
class ReplicaSettings:
    """Several gateways over [one store](scaling.md)."""

    workspace: str = setting(
        "local",
        "shared: every machine has the same files, and a turn that worked on them goes on elsewhere"
        " when its machine is gone; local: it is closed with a word",
        choices=("local", "shared"),
    )
    address: str = setting("", "where the others, and people, reach this machine's API")
    prefer: tuple[str, ...] = setting(
        (),
        "platforms that this machine should hold while it runs, such as telegram; the others are"
        " spread evenly",
    )


@dataclass(frozen=True, slots=True)
class SpendingLimits:
    """What somebody may use; what is not set is not limited."""

    usd_per_day: float | None = setting(None, "dollars per day, by UTC", minimum=0)
    usd_per_month: float | None = setting(None, "dollars per month", minimum=0)
    tokens_per_day: int | None = setting(None, "tokens per day, read and written", minimum=0)
    tokens_per_month: int | None = setting(None, "tokens per month", minimum=0)
    turns_at_once: int | None = setting(None, "turns of one person that run at once", minimum=1)


@dataclass(frozen=True, slots=True)
class TokenPrices:
    """What a model costs, in dollars per million tokens."""

    input: float = setting(0.0, "what it reads", minimum=0)
    output: float = setting(0.0, "what it writes", minimum=0)


def _named(cls: type, *names: str) -> Any:
    """A section of sections, under these names or any that people give."""
    return field(default_factory=dict, metadata={"entries": cls, "names": names})


def _of_persons(cls: type) -> Any:
    """A section of sections, under doors. Their names people choose themselves."""
    return field(default_factory=dict, metadata={"entries": cls, "names": (), "doors": True})


@dataclass(frozen=True, slots=True)
class LimitSettings:
    """[What people and chats may use](operating.md#limits); nothing is limited without it."""

    default: SpendingLimits = field(
        default_factory=SpendingLimits, metadata={"section": SpendingLimits}
    )
    roles: Mapping[str, SpendingLimits] = _named(SpendingLimits, "operator", "member", "guest")
    people: Mapping[str, SpendingLimits] = _of_persons(SpendingLimits)
    chats: Mapping[str, SpendingLimits] = _named(SpendingLimits)
    unknown_prices: str = setting(
        "dearest",
        "what a model counts as whose price is not known: the dearest known one of its provider,"
        " or nothing",
        choices=("dearest", "free"),
    )
    prices: Mapping[str, TokenPrices] = _named(TokenPrices)


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """What somebody may use, or everybody in a chat, and what is set there. Lists hold names, `all`
    or `none`, `gpt-*`, and `-name` for what is taken away; what is not set is as for the role."""

    tools: tuple[str, ...] | None = setting(None, "tools and toolsets that may be used")
    models: tuple[str, ...] | None = setting(
        None, "models that may be chosen with /model, beside the one that is configured"
    )
    commands: tuple[str, ...] | None = setting(
        None,
        "slash commands, with skills and commands of plugins; the operator's own only if they are"
        " named",
    )
    modes: tuple[str, ...] | None = setting(
        None, "modes that may be chosen", choices=("plan", "guarded", "full")
    )
    model: str = setting("", "the model that answers, by name or provider:name")
    prompt: str = setting("", "text that a new conversation's system prompt has besides")
    persona: str = setting("", "who the agent is: the name of a file in personas/, without .md")
    mode: str = setting(
        "", "what a conversation may do at first", choices=("", "plan", "guarded", "full")
    )


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """[Who may use what](gateway.md#who-may-do-what), and which model, prompt and persona they get;
    without it, members may use all tools and guests only talk."""

    new_people: str = setting(
        "member", "what somebody is who comes for the first time", choices=("member", "guest")
    )
    roles: Mapping[str, AccessEntry] = _named(AccessEntry, "member", "guest")
    people: Mapping[str, AccessEntry] = _of_persons(AccessEntry)
    chats: Mapping[str, AccessEntry] = _named(AccessEntry)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where conversations are kept: in the home, or on a [PostgreSQL server](postgres.md). These
    keys stand at the top of the file."""

    store: str = setting(
        "",
        "`postgresql://user@host/database`, or `file` for `state.db` in the home; a password"
        " belongs in .env, with ${NAME} here",
        address=True,
    )
    store_connections: int = setting(
        16, "connections that one process has to the server at most", minimum=1, maximum=1000
    )


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """Where [files that messages name](scaling.md#what-lives-where) are kept, if the store is on a
    server: in its database, or in a bucket of an S3-compatible store. What is in the one place
    stays there, and is found, when another is set."""

    place: str = setting("database", "where new files are put", choices=("database", "s3"))
    endpoint: str = setting("", "s3: the address of the store, `https://s3.example.org`")
    bucket: str = setting("", "s3: the name of the bucket, which must exist")
    region: str = setting("us-east-1", "s3: the region that requests are signed for")
    prefix: str = setting("hermes/", "s3: what the keys of all objects begin with")
    access_key: str = setting(
        "", "s3: the id of the key; HERMES_OBJECTS_ACCESS_KEY without it", secret=True
    )
    secret_key: str = setting(
        "", "s3: the key itself; HERMES_OBJECTS_SECRET_KEY without it", secret=True
    )


FILE_STORE = ("", "file")
"""Values of `store` that mean `state.db` in the home."""

SECTIONS: dict[str, type] = {
    "model": ModelSettings,
    "agent": AgentSettings,
    "compression": CompressionSettings,
    "auxiliary": AuxiliarySettings,
    "memory": MemorySettings,
    "search": SearchSettings,
    "context": ContextSettings,
    "display": DisplaySettings,
    "terminal": TerminalSettings,
    "code_execution": CodeExecutionSettings,
    "checkpoints": CheckpointSettings,
    "approvals": ApprovalSettings,
    "delegation": DelegationSettings,
    "skills": SkillSettings,
    "logging": LoggingSettings,
    "sessions": SessionSettings,
    "replicas": ReplicaSettings,
    "jobs": JobDefaults,
    "limits": LimitSettings,
    "access": AccessSettings,
    "store_objects": ObjectSettings,
}
"""The sections checked here."""

GATEWAY_KEYS = (
    "workspaces", "group_sessions_per_user", "thread_sessions_per_user", "max_concurrent_sessions",
    "message_parts_wait", "unauthorized_dm_behavior", "max_inbound_media_bytes",
    "media_days", "media_bytes",
    "session_store_max_age_days", "drain_timeout", "cache_size", "cache_bytes",
    "cache_idle_seconds",
)  # fmt: skip
"""Plain keys of the gateway, below `gateway` or at the top of the file."""
GATEWAY_SECTIONS = ("streaming", "restart_loop_guard", "reset_by_type", "reset_by_platform")
"""Its sections, which may stand in either place too."""

FREE_FORM = frozenset({
    "fallback_models", "platforms", "gateway", "session_reset",
    "reset_triggers", *GATEWAY_KEYS, *GATEWAY_SECTIONS, "max_live_sessions", "plugins", "hooks",
    "hooks_auto_accept", "tools", "toolsets", "platform_toolsets", "mcp_servers", "web",
})  # fmt: skip
"""Known top-level keys that other parts of Hermes check themselves."""

WITHIN: dict[str, tuple[str, ...]] = {
    "gateway": (*GATEWAY_KEYS, *GATEWAY_SECTIONS, "session_reset"),
    "session_reset": (
        "mode", "at_hour", "idle_minutes", "notify", "notify_exclude_platforms",
        "bg_process_max_age_hours",
    ),
    "streaming": ("enabled", "edit_interval", "cursor"),
    "restart_loop_guard": ("max_restarts", "window"),
    "plugins": ("enabled", "disabled", "hook_timeout", "entries"),
    "tools": ("disabled",),
}  # fmt: skip
"""Of these, the keys of sections that hold nothing else; names that people give stand in others."""


def is_section(item: Field[Any]) -> bool:
    """Whether a dataclass field is a section of its own rather than a key."""
    return "section" in item.metadata


def has_entries(item: Field[Any]) -> bool:
    """Whether a dataclass field holds sections under names that people give."""
    return "entries" in item.metadata


def keys_of(cls: Any, prefix: str) -> Iterator[Key]:
    """The keys of a section, with those of the sections inside it; at the top without a prefix."""
    for item in fields(cls):
        name = f"{prefix}.{item.name}" if prefix else item.name
        if is_section(item):
            yield from keys_of(item.metadata["section"], name)
        elif not has_entries(item):
            # Annotations are kept as text, which is what a reader of the reference wants.
            yield Key(
                name,
                str(item.type),
                item.default,
                item.metadata["help"],
                item.metadata["limits"],
            )


KEYS: tuple[Key, ...] = (
    *(key for name, cls in SECTIONS.items() for key in keys_of(cls, name)),
    *keys_of(StoreSettings, ""),
)
"""The reference: every key checked here, in the order of the file."""
