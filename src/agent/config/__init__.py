"""The configuration: `config.yaml` and `.env` in the Hermes home, and the environment.

The environment wins over `.env`, and both over `config.yaml`. Reading never writes: a file that is
broken is reported, with the place, and left as it is. A wrong value stops the start with a message
that names the key, the value and the fix; an unknown key only warns.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from agent.config.env import PLATFORM_VARIABLES, load_dotenv, secret_values
from agent.config.foreign import translate
from agent.config.model import is_known_provider, names_provider, resolve_model
from agent.config.schema import (
    FREE_FORM,
    SECTIONS,
    WITHIN,
    AccessSettings,
    AgentSettings,
    ApprovalSettings,
    AuxiliarySettings,
    CheckpointSettings,
    CodeExecutionSettings,
    CompressionSettings,
    ContextSettings,
    DelegationSettings,
    DisplaySettings,
    JobDefaults,
    LimitSettings,
    LoggingSettings,
    MemorySettings,
    ModelSettings,
    ObjectSettings,
    ReplicaSettings,
    SearchSettings,
    SessionSettings,
    SkillSettings,
    StoreSettings,
    TerminalSettings,
)
from agent.config.store import read_store
from agent.config.values import Findings, read_section
from agent.home import ConfigError, hermes_home
from hermes_base.redaction import register_secret
from tools.toolset_names import names_in, understand

__all__ = ["Config", "ConfigError", "ModelSettings", "load_config"]


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that was configured, checked and completed with defaults."""

    home: Path
    model: ModelSettings
    fallback_models: tuple[ModelSettings, ...]
    """Asked in this order when the model before cannot answer."""
    agent: AgentSettings
    compression: CompressionSettings
    auxiliary: AuxiliarySettings
    memory: MemorySettings
    search: SearchSettings
    context: ContextSettings
    display: DisplaySettings
    terminal: TerminalSettings
    code_execution: CodeExecutionSettings
    checkpoints: CheckpointSettings
    approvals: ApprovalSettings
    delegation: DelegationSettings
    skills: SkillSettings
    logging: LoggingSettings
    sessions: SessionSettings
    replicas: ReplicaSettings
    jobs: JobDefaults
    limits: LimitSettings
    access: AccessSettings
    store_objects: ObjectSettings
    store: str = field(repr=False)
    """The address of the server that keeps conversations; empty for `state.db` in the home."""
    store_connections: int
    raw: Mapping[str, Any]
    """The file as it was read, under our names, for the sections that other parts check."""
    environ: Mapping[str, str]
    """The environment with `.env` beneath it; nothing is written into the process's own."""
    warnings: tuple[str, ...]
    """What a person should see to, one sentence each."""
    ignored: Mapping[str, str]
    """The keys of Hermes Agent that mean nothing here, each with what to know about it."""

    def __repr__(self) -> str:
        # The environment and the raw file hold secrets, and a repr ends up in logs.
        return f"Config(home={self.home}, model={self.model!r})"

    def section(self, name: str) -> Mapping[str, Any]:
        """A section that is not checked here, e.g. "platforms"; empty if it is missing."""
        value = self.raw.get(name)
        section = value if isinstance(value, Mapping) else {}
        if name == "platforms":
            connected = (of for of in PLATFORM_VARIABLES if self.environ.get(of))
            alone = dict.fromkeys(PLATFORM_VARIABLES[variable] for variable in connected)
            return {**section, **{of: {} for of in alone if of not in section}}
        return section

    def notices(self) -> tuple[str, ...]:
        """What is said at a start: every warning, and one line for all keys that are ignored."""
        return (*self.warnings, *([self.ignored_line()] if self.ignored else ()))

    def ignored_line(self) -> str:
        """All keys that mean nothing here, in one line."""
        names = list(self.ignored)
        shown = ", ".join(names[:4])
        rest = f" and {len(names) - 4} more" if len(names) > 4 else ""
        verb = "is a key that means" if len(names) == 1 else "are keys that mean"
        return (
            f"{self.home / 'config.yaml'}: {shown}{rest} {verb} nothing here."
            " See: hermes config check"
        )

    def model_named(self, name: str) -> ModelSettings:
        """Settings for another model by its name, as `-m` and `/model` give it.

        "provider:name" says where it runs. Otherwise a name that belongs to a provider whose key
        is set is asked there, and any other at the configured model's own address. Raises
        ConfigError if nothing is known that could run it.
        """
        if self.model.provider != "local" and not names_provider(name, self.environ):
            return replace(self.model, default=name, context_length=None)
        findings = Findings("the requested model", self.environ)
        chosen = resolve_model(name, findings)
        if findings.problems:
            raise ConfigError("\n".join(findings.problems))
        if chosen.provider == self.model.provider:
            return replace(self.model, default=chosen.name, context_length=None)
        return chosen


def load_config(
    home: Path | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    raw: dict[str, Any] | None = None,
) -> Config:
    """Read the configuration; raises ConfigError with every problem found.

    `raw` stands for what is in the file, to see whether it could be used.
    """
    environ = os.environ if environ is None else environ
    home = hermes_home(environ) if home is None else home
    path = home / "config.yaml"
    dotenv, dotenv_warnings = load_dotenv(home / ".env")
    merged = MappingProxyType({**dotenv, **environ})
    for value in secret_values(merged):
        register_secret(value)

    known = {*SECTIONS, *FREE_FORM, *(item.name for item in fields(StoreSettings))}
    foreign = translate(read_yaml(path) if raw is None else raw, known)
    raw = foreign.raw
    findings = Findings(str(path), merged, foreign.written, foreign.ignored)
    findings.warnings += dotenv_warnings
    sections: dict[str, Any] = {
        name: read_section(cls, name, raw.get(name), findings)
        for name, cls in SECTIONS.items()
        if name != "model"
    }
    store = read_store(raw, findings)
    _note_unknown(raw, known, findings)
    if merged.get("HERMES_YOLO_MODE", "").lower() in ("1", "true", "yes", "on"):
        sections["approvals"] = replace(sections["approvals"], mode="off")
        sections["terminal"] = replace(sections["terminal"], mode="full")
    _know_added_providers(raw, home, merged)
    model = resolve_model(raw.get("model"), findings)
    fallbacks = _fallbacks(raw.get("fallback_models"), findings)
    findings.tell_unread()
    if findings.problems:
        raise ConfigError("\n".join(findings.problems))
    side = sections["auxiliary"]
    tasks = (side.compression, side.title_generation, side.approval, side.review)
    for settings in (model, *fallbacks, *tasks, sections["delegation"]):
        register_secret(settings.api_key)
    for key in (sections["store_objects"].access_key, sections["store_objects"].secret_key):
        register_secret(key)
    ignored = foreign.ignored | _toolsets_without_meaning(raw)
    return Config(
        home=home,
        model=model,
        fallback_models=fallbacks,
        store=store.store,
        store_connections=store.store_connections,
        raw=MappingProxyType(raw),
        environ=merged,
        warnings=tuple(findings.warnings),
        ignored=MappingProxyType(ignored),
        **sections,
    )


def _note_unknown(raw: Mapping[str, Any], known: Collection[str], findings: Findings) -> None:
    """Note unknown keys, at the top and in sections whose keys are all known."""
    for key, value in raw.items():
        if key not in known:
            findings.unknown(str(key), known)
        elif key in WITHIN and isinstance(value, Mapping):
            names = [f"{key}.{name}" for name in WITHIN[key]]
            for name in value:
                if f"{key}.{name}" not in names:
                    findings.unknown(f"{key}.{name}", names)


def _toolsets_without_meaning(raw: Mapping[str, Any]) -> dict[str, str]:
    """Wanted toolsets of Hermes Agent that do not exist here, unless a plugin may bring them."""
    section = raw.get("plugins")
    if isinstance(section, Mapping) and section.get("enabled"):
        return {}
    own = raw.get("platform_toolsets")
    lists = {f"platform_toolsets.{key}": own[key] for key in own} if isinstance(own, dict) else {}
    unknown = {}
    for key, names in {"toolsets": raw.get("toolsets"), **lists}.items():
        if absent := understand(names_in(names)).without_meaning:
            unknown[f"{key} [{', '.join(absent)}]"] = "there are no such toolsets"
    return unknown


def _know_added_providers(raw: Mapping[str, Any], home: Path, environ: Mapping[str, str]) -> None:
    """Load the plugins first if a model's provider is one that they would have to bring."""
    if not raw.get("plugins"):
        return
    fallbacks = raw.get("fallback_models")
    for entry in (raw.get("model"), *(fallbacks if isinstance(fallbacks, list) else ())):
        provider = entry.get("provider") if isinstance(entry, Mapping) else None
        if isinstance(provider, str) and not is_known_provider(provider):
            from agent.plugin_loading import load_plugins

            load_plugins(raw, home, environ)
            return


def _fallbacks(raw: Any, findings: Findings) -> tuple[ModelSettings, ...]:
    if raw is None:
        return ()
    if not isinstance(raw, list):
        findings.refuse(
            "fallback_models", raw, "a list: one line per model, each beginning with a dash"
        )
        return ()
    return tuple(
        resolve_model(entry, findings, f"fallback_models[{number}]")
        for number, entry in enumerate(raw)
    )


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in the file at `path`; empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. Run: chmod u+r {path}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        parsed = yaml.load(text, Loader=loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"{_place(path, error)} The file was left as it is.") from error
    if parsed is None:
        return {}
    if not isinstance(parsed, dict):
        raise ConfigError(
            f"{path} holds {type(parsed).__name__}, but must hold keys such as “model: gpt-5”."
        )
    return parsed


def _place(path: Path, error: Exception) -> str:
    """Where a YAML file is broken, and how."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return f"{path}: not valid YAML ({problem}). Fix it or move the file away."
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    return f"{path}, {where}: not valid YAML ({problem}). Fix that line."
