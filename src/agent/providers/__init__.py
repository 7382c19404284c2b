"""From a few lines of configuration to a model that can be asked.

    model = build_model({"provider": "anthropic", "model": "claude-sonnet-5-5"}, os.environ)

Importing this package is cheap: each protocol, and the HTTP client below it, is imported when the
first model that needs it is built.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent import catalog
from agent.model import Model
from agent.providers import known

if TYPE_CHECKING:
    from agent.config.schema import ModelSettings

DEFAULT_CONTEXT_LENGTH = 128_000
"""For a model nobody knows. Too much is corrected by the provider's first refusal, too little would
compress conversations for nothing."""


class UnknownProviderError(ValueError):
    """The configuration names a provider, model or protocol that does not exist."""


def build_model(
    settings: ModelSettings | Mapping[str, Any] | str,
    environ: Mapping[str, str] | None = None,
    *,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
) -> Model:
    """The model that `settings` describe; a plain string is the model's name.

    `settings` takes the keys of `model:` in config.yaml: `default` (or `model`), `provider`,
    `base_url`, `api_key`, `api_mode`, `context_length`, `timeout` and `headers`. Keys of providers
    are looked for in `environ`. `overrides` corrects or completes what the catalog knows.
    Raises UnknownProviderError if nothing can be built from them.
    """
    if isinstance(settings, str):
        settings = {"default": settings}
    elif not isinstance(settings, Mapping):
        settings = dataclasses.asdict(settings)
    environ = environ or {}
    name = str(settings.get("default") or settings.get("model") or settings.get("name") or "")
    base_url = str(settings.get("base_url") or "").strip().rstrip("/")
    provider = _provider(str(settings.get("provider") or ""), name, base_url, environ)
    entry = known.KNOWN.get(provider, known.KNOWN["custom"])
    info = catalog.lookup(name, overrides)
    context_length = int(settings.get("context_length") or 0)

    if entry.api_mode == known.EMBEDDED:
        from agent.providers.embedded import LOCAL_MODEL, EmbeddedModel

        if context_length:
            return EmbeddedModel(name or LOCAL_MODEL, context_length=context_length)
        return EmbeddedModel(name or LOCAL_MODEL)
    if not name:
        raise UnknownProviderError(
            f"No model is named for the provider {provider!r}. Set model.default in config.yaml."
        )
    if provider in known.BUILDERS:
        model: Model = known.BUILDERS[provider]({**settings, "name": name, "environ": environ})
        return model
    if not base_url and not entry.base_url:
        raise UnknownProviderError(
            f"The provider {provider!r} needs an address. Set model.base_url in config.yaml, for"
            " example http://127.0.0.1:8080/v1."
        )
    api_key = settings.get("api_key") or next(
        (environ[variable] for variable in entry.key_variables if environ.get(variable)), ""
    )
    if not context_length:
        context_length = info.context_length if info else DEFAULT_CONTEXT_LENGTH
    options: dict[str, Any] = {
        "name": name,
        "provider": provider,
        "base_url": base_url or entry.base_url,
        "api_key": str(api_key),
        "context_length": context_length,
        "headers": settings.get("headers") or {},
        "max_output_tokens": info and info.max_output_tokens,
        "vision": info.vision if info else True,
        "reasoning": info.reasoning if info else False,
    }
    if settings.get("timeout"):
        options["timeout"] = float(settings["timeout"])
    return _build(_api_mode(str(settings.get("api_mode") or ""), provider, base_url), options)


def _build(api_mode: str, options: dict[str, Any]) -> Model:
    if api_mode == known.RESPONSES:
        from agent.providers.responses import ResponsesModel

        return ResponsesModel(**options)
    if api_mode == known.ANTHROPIC_MESSAGES:
        from agent.providers.anthropic import AnthropicModel

        return AnthropicModel(**options)
    from agent.providers.chat_completions import ChatCompletionsModel

    return ChatCompletionsModel(**options)


def _provider(wanted: str, name: str, base_url: str, environ: Mapping[str, str]) -> str:
    """The provider's name in the table, told from the rest of the configuration if need be."""
    asked = wanted.strip().lower()
    if asked and asked != "auto":
        provider = known.ALIASES.get(asked, asked)
        if provider in known.KNOWN or base_url:
            return provider
        raise UnknownProviderError(
            f"There is no provider {wanted!r}.{_nearest(asked, [*known.KNOWN, *known.ALIASES])}"
            " For any other OpenAI-compatible server, set model.provider to custom and"
            " model.base_url to its address."
        )
    if base_url:
        return "custom"
    if not name:
        return "local"
    if "/" in name and environ.get("OPENROUTER_API_KEY"):
        return "openrouter"
    bare = name.rsplit("/", 1)[-1].lower()
    for prefix, provider in known.NAME_PREFIXES.items():
        if bare.startswith(prefix):
            return provider
    raise UnknownProviderError(
        f"It is not clear where the model {name!r} runs. Set model.provider in config.yaml to one"
        f" of: {', '.join(sorted(known.KNOWN))}."
    )


def _api_mode(wanted: str, provider: str, base_url: str) -> str:
    modes = (known.CHAT_COMPLETIONS, known.RESPONSES, known.ANTHROPIC_MESSAGES)
    if wanted:
        if wanted not in modes:
            raise UnknownProviderError(
                f"There is no api_mode {wanted!r}.{_nearest(wanted, modes)} Set model.api_mode to"
                f" one of: {', '.join(modes)}."
            )
        return wanted
    entry = known.KNOWN.get(provider, known.KNOWN["custom"])
    if provider == "openai" and base_url and base_url != entry.base_url:
        # Somebody's own server under OpenAI's name: what nearly all of them speak.
        return known.CHAT_COMPLETIONS
    return entry.api_mode


def _nearest(word: str, names: list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, names, n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
