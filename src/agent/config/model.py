"""Which model is asked, and where: from a name, a section or nothing at all to `ModelSettings`.

What is configured wins; what is missing comes from the provider, and the provider, where it is not
named, from the address, from the model's name, or from the first provider key that is set. With
none of these the model inside the process answers.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from agent.config.schema import LOCAL_MODEL, ModelSettings
from agent.config.values import Findings, read_section
from agent.providers.known import (
    ALIASES,
    ANTHROPIC_MESSAGES,
    CHAT_COMPLETIONS,
    EMBEDDED,
    KNOWN,
    NAME_PREFIXES,
    RESPONSES,
    KnownProvider,
)

DEFAULT_MODELS = {
    "anthropic": "claude-sonnet-5-5",
    "openai": "gpt-6.1-sol",
    "openrouter": "openrouter/auto",
    "google": "gemini-3.8-flash",
    "deepseek": "deepseek-v4-pro",
    "moonshot": "kimi-k3",
    "zai": "glm-5.3",
    "qwen": "qwen3.5-plus",
    "mistral": "mistral-large",
    "local": LOCAL_MODEL,
}
"""The model asked when only a provider is known. With several keys set, the first one counts."""

_API_MODE_ALIASES = {"codex_responses": RESPONSES, "messages": ANTHROPIC_MESSAGES}


def resolve_model(raw: Any, findings: Findings, where: str = "model") -> ModelSettings:
    """Complete settings from a model's name ("gpt-5", "openai:gpt-5"), a section or None.

    Problems and warnings go to `findings`; `where` is how they name the key.
    """
    if isinstance(raw, str):
        raw = {"default": raw}
    elif isinstance(raw, Mapping) and raw.get("api_mode") in _API_MODE_ALIASES:
        raw = {**raw, "api_mode": _API_MODE_ALIASES[raw["api_mode"]]}
    given = read_section(ModelSettings, where, raw, findings)
    provider = _canonical(given.provider)
    prefix, colon, rest = given.name.partition(":")
    if provider == "auto" and colon and _canonical(prefix) in KNOWN:
        provider = _canonical(prefix)
        given = replace(given, default=rest)
    elif provider == "auto":
        provider = _infer(given, findings, where)
    return _completed(replace(given, provider=provider), findings, where)


def is_known_provider(provider: str) -> bool:
    """Whether a provider's name, or nickname, says where it is."""
    name = _canonical(provider)
    return name in KNOWN or name == "auto"


def names_provider(name: str, environ: Mapping[str, str]) -> bool:
    """Whether a model's name alone says where it runs: "provider:…", or a name that belongs to
    a provider whose key is set."""
    prefix, colon, _ = name.partition(":")
    if colon and _canonical(prefix) in KNOWN:
        return True
    owner = _owner(name)
    return owner is not None and (owner == "local" or _has_key(owner, environ))


def _infer(given: ModelSettings, findings: Findings, where: str) -> str:
    """The provider of a model for which none is named."""
    if given.base_url:
        for name, provider in KNOWN.items():
            if provider.base_url and given.base_url.startswith(provider.base_url):
                return name
        return "custom"
    keyed = next((name for name in DEFAULT_MODELS if _has_key(name, findings.environ)), None)
    if not given.name:
        return keyed or "local"
    if "/" in given.name:
        return "openrouter"
    owner = _owner(given.name)
    if owner is None and keyed is None:
        findings.problems.append(
            f"{findings.path}: {where} is {given.name!r}, but nothing says where that model runs."
            f" Add {where}.provider (one of {', '.join(KNOWN)}), or {where}.base_url for"
            " another address."
        )
    return owner or keyed or "local"


def _completed(given: ModelSettings, findings: Findings, where: str) -> ModelSettings:
    """`given`, whose provider is settled, with address, name, key and protocol filled in."""
    environ = findings.environ
    prefix = given.provider.upper().replace("-", "_")
    provider = KNOWN.get(given.provider) or KnownProvider("", (f"{prefix}_API_KEY",))
    base_url = given.base_url or environ.get(f"{prefix}_BASE_URL", "") or provider.base_url
    name = given.name or DEFAULT_MODELS.get(given.provider, "")
    if not base_url and provider.api_mode != EMBEDDED:
        _refuse_provider(given, findings, where)
        return given
    if not name:
        findings.refuse(f"{where}.default", "", f"the name of the model to ask at {base_url}")
    api_mode = given.api_mode or ("" if provider.api_mode == EMBEDDED else provider.api_mode)
    if not given.api_mode and api_mode == RESPONSES and base_url != provider.base_url:
        # Addresses that only resemble the provider's mostly speak the older protocol.
        api_mode = CHAT_COMPLETIONS
    env_key = next((environ[key] for key in provider.key_variables if environ.get(key)), "")
    if provider.base_url and provider.key_variables and not (given.api_key or env_key):
        key = provider.key_variables[0]
        findings.warnings.append(
            f"{findings.path}: {where} uses {given.provider}, but {key} is not set."
            f" Add {key}=… to .env beside it."
        )
    return replace(
        given,
        default=name,
        base_url=base_url.rstrip("/"),
        api_key=given.api_key or env_key,
        api_mode=api_mode,
    )


def _refuse_provider(given: ModelSettings, findings: Findings, where: str) -> None:
    if given.provider == "custom":
        findings.problems.append(
            f"{findings.path}: {where}.provider is custom, which needs {where}.base_url, for"
            " example http://localhost:8000/v1."
        )
        return
    near = difflib.get_close_matches(given.provider, [*KNOWN, *ALIASES], n=1, cutoff=0.6)
    hint = f" (did you mean {near[0]}?)" if near else ""
    wanted = f"one of {', '.join(KNOWN)}{hint}, or have a {where}.base_url"
    findings.refuse(f"{where}.provider", given.provider, wanted)


def _canonical(provider: str) -> str:
    provider = provider.strip().lower() or "auto"
    return ALIASES.get(provider, provider)


def _owner(model: str) -> str | None:
    """Whose model it is, told from its name."""
    lowered = model.lower()
    return next((p for prefix, p in NAME_PREFIXES.items() if lowered.startswith(prefix)), None)


def _has_key(provider: str, environ: Mapping[str, str]) -> bool:
    return any(environ.get(key) for key in KNOWN[provider].key_variables)
