"""Providers and their models: what can be asked, with which key, and whether it would work."""

from __future__ import annotations

import difflib
import os

from agent.catalog import known_models
from agent.config import Config, ConfigError
from agent.config.model import DEFAULT_MODELS
from agent.config.write import set_dotenv_value
from agent.providers.known import key_advice, needs_key
from hermes_base.redaction import register_secret

from .. import live
from .. import shapes_settings as wire
from ..clients import READ
from ..rpc import Call, RpcError, method

NO_KEY = 4002
UNKNOWN_PROVIDER = 4003
TAKES_NO_KEY = 4004
NOT_CONNECTED = 4005
KEY_NOT_SAVED = 5034
KEY_NOT_REMOVED = 5035

_TITLES = {
    "openai": "OpenAI", "anthropic": "Anthropic", "openrouter": "OpenRouter", "google": "Google",
    "deepseek": "DeepSeek", "moonshot": "Moonshot", "zai": "Z.ai", "qwen": "Qwen", "xai": "xAI",
    "huggingface": "Hugging Face", "lmstudio": "LM Studio", "llamacpp": "llama.cpp",
    "vllm": "vLLM", "minimax": "MiniMax", "local": "Built in",
}  # fmt: skip


@method("model.options", scope=READ, slow=True)
def options(
    call: Call,
    session_id: str | None = None,
    explicit_only: bool = False,
    include_unconfigured: bool = True,
) -> wire.ModelOptions:
    """Providers and the models that are known of them.

    With `explicit_only`, or without `include_unconfigured`, only those that can be asked now.
    """
    from agent.providers.known import KNOWN

    config = call.config
    everything = include_unconfigured and not explicit_only
    current = None
    if session_id:
        current = live.info(call.hub, session_id, call.session(session_id))
    providers = [_option(config, slug) for slug in KNOWN if slug not in ("responses", "custom")]
    return {
        "providers": [row for row in providers if everything or row["authenticated"]],
        "model": current["model"] if current else config.model.name,
        "provider": current["provider"] if current else config.model.provider,
    }


def _option(config: Config, slug: str) -> wire.ProviderOption:
    from agent.providers.known import KNOWN, NAME_PREFIXES

    provider = KNOWN[slug]
    keys = provider.key_variables
    own = slug == config.model.provider
    prefixes = tuple(prefix for prefix, owner in NAME_PREFIXES.items() if owner == slug)
    named = {info.name: info for info in known_models() if info.name.startswith(prefixes)}
    models: list[wire.ModelOption] = [
        {
            "name": info.name,
            "context_length": info.context_length,
            "reasoning": info.reasoning,
            "vision": info.vision,
            "input_price": info.prices.input if info.prices else None,
            "output_price": info.prices.output if info.prices else None,
        }
        for info in named.values()
    ]
    default = DEFAULT_MODELS.get(slug)
    if default is not None and default not in named:
        models.insert(0, _unknown_model(default))
    return {
        "slug": slug,
        "name": _TITLES.get(slug, slug.capitalize()),
        "authenticated": not keys or _source(config, slug) != "none",
        "needs_key": bool(keys),
        "key_env": keys[0] if keys else "",
        "base_url": provider.base_url,
        "is_current": own,
        "models": models,
    }


def _unknown_model(name: str) -> wire.ModelOption:
    return {
        "name": name,
        "context_length": 0,
        "reasoning": False,
        "vision": False,
        "input_price": None,
        "output_price": None,
    }


def _source(config: Config, slug: str) -> str:
    """Where a provider's key comes from: environment, .env, config or none."""
    from agent.providers.known import KNOWN

    known = KNOWN.get(slug)
    for name in known.key_variables if known else ():
        if os.environ.get(name):
            return "environment"
        if config.environ.get(name):
            return ".env"
    own = slug == config.model.provider and bool(config.model.api_key)
    return "config" if own else "none"


def _canonical(slug: str) -> str:
    from agent.providers.known import ALIASES, KNOWN

    name = ALIASES.get(slug.strip().lower(), slug.strip().lower())
    if name not in KNOWN:
        near = difflib.get_close_matches(name[:80], KNOWN, n=1)
        hint = f" Did you mean {near[0]}?" if near else " model.options lists them."
        raise RpcError(UNKNOWN_PROVIDER, f"There is no provider {slug[:80]!r}.{hint}")
    return name


def _variables(slug: str) -> tuple[str, ...]:
    from agent.providers.known import KNOWN

    names = KNOWN[slug].key_variables
    if not names:
        raise RpcError(TAKES_NO_KEY, f"{slug} needs no key.")
    return names


@method("model.save_key", slow=True)
def save_key(call: Call, slug: str, api_key: str) -> wire.SavedKey:
    """Keep a provider's key in .env; it is never told again."""
    name = _canonical(slug)
    variables = _variables(name)
    key = api_key.strip()
    if not key or not key.isprintable() or len(key) > 4096:
        raise RpcError(NO_KEY, "The key is empty, or has characters that no key has.")
    register_secret(key)
    try:
        set_dotenv_value(call.config.home / ".env", variables[0], key)
        config = call.hub.reload_config()
    except ConfigError as error:
        raise RpcError(KEY_NOT_SAVED, str(error)) from error
    saved: wire.SavedKey = {"provider": _option(config, name)}
    if config.environ.get(variables[0]) != key:
        saved["warning"] = f"{variables[0]} is also set in the environment, which counts more."
    return saved


@method("model.disconnect", slow=True)
def disconnect(call: Call, slug: str) -> wire.Disconnected:
    """Take a provider's key out of .env."""
    name = _canonical(slug)
    path = call.config.home / ".env"
    try:
        removed = [set_dotenv_value(path, variable, None) for variable in _variables(name)]
        config = call.hub.reload_config()
    except ConfigError as error:
        raise RpcError(KEY_NOT_REMOVED, str(error)) from error
    if not any(removed):
        raise RpcError(NOT_CONNECTED, f".env has no key for {name}.")
    left = _source(config, name)
    return {"slug": name, "name": _TITLES.get(name, name), "disconnected": left == "none"}


@method("setup.status", scope=READ, slow=True)
def setup_status(call: Call) -> wire.SetupStatus:
    """Whether a model was chosen, or a key for one is there."""
    return {"provider_configured": call.config.model.provider != "local"}


@method("setup.runtime_check", slow=True)
def runtime_check(call: Call, provider: str | None = None) -> wire.RuntimeCheck:
    """Whether the next prompt could be answered, as far as can be told without asking.

    What the model inside the process needs is fetched with the first prompt.
    """
    try:
        config = call.hub.reload_config()
        wanted = _canonical(provider) if provider else config.model.provider
        chosen = config.model
        if wanted != chosen.provider:
            chosen = config.model_named(f"{wanted}:{DEFAULT_MODELS.get(wanted, '')}")
    except ConfigError as error:
        return {
            "ok": False, "provider": provider or "", "model": "", "source": "none",
            "error": str(error),
        }  # fmt: skip
    return _checked(config, chosen.provider, chosen.name, chosen.base_url, bool(chosen.api_key))


def _checked(
    config: Config, provider: str, model: str, base_url: str, has_key: bool
) -> wire.RuntimeCheck:
    error = ""
    if not has_key and needs_key(provider, base_url):
        error = f"{provider} needs a key. {key_advice(provider)}"
    return {
        "ok": not error,
        "provider": provider,
        "model": model,
        "source": _source(config, provider),
        "error": error,
    }
