"""What is known about models: their window, the length of an answer, and their price.

The facts are in models.json, prices in US dollars per million tokens. A model is found by the
longest entry its name begins with, so that dated and renamed variants are found too; but
"gpt-5.9" is not taken for "gpt-5". What is not known is None, never a guess.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.model import Usage

_OTHER_VERSION = re.compile(r"[-.]\d{1,2}(?![\da-z])")
"""What follows a name if it belongs to another version of the model."""


@dataclass(frozen=True, slots=True)
class Prices:
    """US dollars per million tokens."""

    input: float
    output: float
    cache_read: float
    cache_write: float


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """One model."""

    name: str
    context_length: int
    """Tokens of a request and its answer together."""
    max_output_tokens: int | None = None
    prices: Prices | None = None
    tiers: tuple[tuple[int, Prices], ...] = ()
    """Prices of longer requests: each counts above that many input tokens, the last one wins."""
    reasoning: bool = False
    """It thinks before it answers."""
    vision: bool = True
    """It understands pictures."""


def lookup(name: str, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> ModelInfo | None:
    """What is known about the model `name`, with or without a vendor ("openai/gpt-5").

    `overrides` maps names to facts under the keys of models.json; it wins, fact by fact.
    """
    bare = _normal(name)
    known = _find(bare)
    override = (overrides or {}).get(name) or (overrides or {}).get(name.rsplit("/", 1)[-1])
    if override:
        facts = {**(_facts()[known] if known else {}), **override}
        if "input" in override:
            facts["tiers"] = override.get("tiers") or ()
        return _info(known or name, facts) if facts.get("context_length") else None
    if not known:
        return None
    info = _info(known, _facts()[known])
    if name.endswith(":free"):
        return dataclasses.replace(info, prices=Prices(0, 0, 0, 0), tiers=())
    return info


def known_models() -> list[ModelInfo]:
    """Every model of the catalogue, by name."""
    return [_info(name, facts) for name, facts in sorted(_facts().items())]


def cost_usd(
    usage: Usage, model: str, overrides: Mapping[str, Mapping[str, Any]] | None = None
) -> float | None:
    """What one call's `usage` costs in US dollars; None if the model's price is not known.

    Long requests may cost more per token, so add up costs of calls rather than their tokens.
    """
    info = lookup(model, overrides)
    if info is None or info.prices is None:
        return None
    prices = info.prices
    for above, longer in info.tiers:
        if usage.input_tokens > above:
            prices = longer
    return cost_at(prices, usage)


VENDORS = {
    "openai": ("gpt-", "o3", "o4-"), "responses": ("gpt-", "o3", "o4-"), "anthropic": ("claude-",),
    "google": ("gemini-",), "deepseek": ("deepseek-",), "moonshot": ("kimi-",), "zai": ("glm-",),
    "qwen": ("qwen",), "mistral": ("mistral-", "devstral-", "codestral"),
}  # fmt: skip
"""How the names of the models begin that a provider makes itself; others sell everybody's."""


@functools.cache
def dearest_prices(provider: str) -> Prices:
    """The highest known prices among a provider's models, or of all if none of its are known."""
    begins = VENDORS.get(provider.lower(), ("",))
    priced = [
        prices
        for model in known_models()
        if model.name.startswith(begins)
        for prices in (model.prices, *(tier for _, tier in model.tiers))
        if prices is not None
    ]
    dearest = max(prices.input for prices in priced)
    return Prices(dearest, max(prices.output for prices in priced), dearest, dearest)


def cost_at(prices: Prices, usage: Usage) -> float:
    """What a call costs in US dollars at these prices."""
    plain = max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens)
    return (
        plain * prices.input
        + usage.cache_read_tokens * prices.cache_read
        + usage.cache_write_tokens * prices.cache_write
        + usage.output_tokens * prices.output
    ) / 1_000_000


def _normal(name: str) -> str:
    bare = name.rsplit("/", 1)[-1].split(":", 1)[0].lower()
    return bare.replace(".", "-").replace("_", "-")


@functools.cache
def _facts() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("models.json").read_text("utf-8")
    models: dict[str, dict[str, Any]] = json.loads(text)["models"]
    return models


@functools.lru_cache(256)
def _find(bare: str) -> str:
    """The entry with the longest name that `bare` begins with; empty if there is none."""
    best = ""
    for name in _facts():
        entry = _normal(name)
        rest = bare[len(entry) :]
        if (
            bare.startswith(entry)
            and len(name) > len(best)
            and (not rest or not rest[0].isalnum())
            and not _OTHER_VERSION.match(rest)
        ):
            best = name
    return best


def _info(name: str, facts: Mapping[str, Any]) -> ModelInfo:
    tiers = ((tier["above"], _prices(tier)) for tier in facts.get("tiers") or ())
    return ModelInfo(
        name=name,
        context_length=int(facts["context_length"]),
        max_output_tokens=facts.get("max_output_tokens"),
        prices=_prices(facts),
        tiers=tuple((above, prices) for above, prices in tiers if prices),
        reasoning=bool(facts.get("reasoning", False)),
        vision=bool(facts.get("vision", True)),
    )


def _prices(facts: Mapping[str, Any]) -> Prices | None:
    if "input" not in facts or "output" not in facts:
        return None
    price = float(facts["input"])
    return Prices(
        input=price,
        output=float(facts["output"]),
        cache_read=float(facts.get("cache_read", price)),
        cache_write=float(facts.get("cache_write", price)),
    )
