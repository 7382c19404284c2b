"""Which model is asked and where, from every way of saying it."""

from __future__ import annotations

import pytest

from agent import catalog
from agent.config import ConfigError, load_config
from agent.config.model import DEFAULT_MODELS

ANTHROPIC = {"ANTHROPIC_API_KEY": "anthropic-key"}
OPENAI = {"OPENAI_API_KEY": "openai-key"}
OPENROUTER = {"OPENROUTER_API_KEY": "openrouter-key"}


def load(home, yaml: str, environ: dict[str, str]):
    (home / "config.yaml").write_text(yaml, encoding="utf-8")
    return load_config(home, environ)


@pytest.mark.parametrize(
    ("yaml", "environ", "provider", "name"),
    [
        ("", {}, "local", "SmolLM2-135M-Instruct"),
        ("", OPENAI, "openai", "gpt-6.1-sol"),
        ("", ANTHROPIC, "anthropic", "claude-sonnet-5-5"),
        ("", OPENROUTER, "openrouter", "openrouter/auto"),
        ("", {"OPENAI_API_KEY": ""}, "local", "SmolLM2-135M-Instruct"),
        ("model: {provider: auto}", OPENAI, "openai", "gpt-6.1-sol"),
        ("model: local:SmolLM2-135M-Instruct", OPENAI, "local", "SmolLM2-135M-Instruct"),
        ("model: {provider: local}", OPENAI, "local", "SmolLM2-135M-Instruct"),
        ("model: claude-opus-4-1", {**OPENAI, **ANTHROPIC}, "anthropic", "claude-opus-4-1"),
        ("model: gpt-5-mini", {**ANTHROPIC, **OPENAI}, "openai", "gpt-5-mini"),
        ("model: meta/llama-4", OPENROUTER, "openrouter", "meta/llama-4"),
        ("model: {provider: gemini}", {"GEMINI_API_KEY": "k"}, "google", "gemini-3.8-flash"),
        ("model: {default: qwen3, provider: ollama}", {}, "ollama", "qwen3"),
        ("model: openrouter:openai/gpt-5", {}, "openrouter", "openai/gpt-5"),
        ("model: {default: gpt-5, provider: openrouter}", OPENROUTER, "openrouter", "gpt-5"),
        ("model: some-house-model", OPENAI, "openai", "some-house-model"),
        ("model: {default: llama3:8b, base_url: 'http://h:1/v1'}", {}, "custom", "llama3:8b"),
        ("model: {base_url: 'https://api.openai.com/v1'}", OPENAI, "openai", "gpt-6.1-sol"),
        ("model: {default: m, provider: house, base_url: 'http://h'}", {}, "house", "m"),
    ],
)  # fmt: skip
def test_provider_and_name(tmp_path, yaml, environ, provider, name):
    config = load(tmp_path, yaml, environ)
    assert (config.model.provider, config.model.name) == (provider, name)


def test_the_default_models_are_in_the_catalog():
    unknown = {name for name in DEFAULT_MODELS.values() if catalog.lookup(name) is None}
    assert unknown == {"openrouter/auto"}


def test_the_key_and_address_of_the_provider_are_filled_in(tmp_path):
    model = load(tmp_path, "model: gpt-5", OPENAI).model
    assert (model.api_key, model.base_url) == ("openai-key", "https://api.openai.com/v1")
    assert model.api_mode == "responses"
    model = load(tmp_path, "", ANTHROPIC).model
    assert (model.api_key, model.api_mode) == ("anthropic-key", "anthropic_messages")


def test_another_address_for_a_provider_is_honoured(tmp_path):
    model = load(tmp_path, "", {**OPENAI, "OPENAI_BASE_URL": "http://proxy/v1/"}).model
    assert (model.base_url, model.api_mode) == ("http://proxy/v1", "chat_completions")
    yaml = "model: {provider: openai, base_url: 'http://h/v1', api_mode: codex_responses}"
    model = load(tmp_path, yaml, OPENAI).model
    assert (model.base_url, model.api_mode) == ("http://h/v1", "responses")


def test_one_providers_key_is_not_sent_to_another_address(tmp_path):
    model = load(tmp_path, "model: {default: m, base_url: 'http://h'}", OPENAI).model
    assert model.api_key == ""
    yaml = "model: {default: m, provider: my-house, base_url: 'http://h'}"
    model = load(tmp_path, yaml, {**OPENAI, "MY_HOUSE_API_KEY": "mine"}).model
    assert model.api_key == "mine"


def test_everything_that_was_given_is_kept(tmp_path):
    yaml = (
        "model: {default: m, provider: custom, base_url: 'http://h', context_length: 32768,"
        " max_tokens: 1000, reasoning_effort: high, api_mode: anthropic_messages}"
    )
    model = load(tmp_path, yaml, {}).model
    assert (model.context_length, model.max_tokens) == (32768, 1000)
    assert (model.reasoning_effort, model.api_mode) == ("high", "anthropic_messages")


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("model: {provider: openia}", ["model.provider", "'openia'", "did you mean openai?"]),
        ("model: {provider: custom, default: m}", ["model.base_url", "http://localhost"]),
        ("model: {provider: custom, base_url: 'http://h'}", ["model.default", "name of the model"]),
        ("model: mystery", ["'mystery'", "model.provider", "model.base_url"]),
        ("model: [a]", ["model is ['a']", "a section"]),
        ("fallback_models: [gpt-5, {provider: nope}]", ["fallback_models[1].provider", "'nope'"]),
    ],
)
def test_a_model_that_cannot_be_placed_is_refused(tmp_path, yaml, said):
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, yaml, {})
    for part in said:
        assert part in str(refused.value)


def test_a_missing_key_warns_and_says_where_it_goes(tmp_path):
    config = load(tmp_path, "model: gpt-5", {})
    assert any("OPENAI_API_KEY" in w and ".env" in w for w in config.warnings)


def test_fallbacks_are_complete_models_in_order(tmp_path):
    yaml = "model: gpt-5\nfallback_models:\n- claude-haiku-4-5\n- {provider: local}\n"
    config = load(tmp_path, yaml, {**OPENAI, **ANTHROPIC})
    assert [m.provider for m in config.fallback_models] == ["anthropic", "local"]
    assert config.fallback_models[0].api_key == "anthropic-key"


def test_another_model_by_name(tmp_path):
    yaml = "model: {default: m, provider: custom, base_url: 'http://h', api_key: '${K}'}"
    custom = load(tmp_path, yaml, {"K": "custom-key", **ANTHROPIC})
    other = custom.model_named("bigger")
    assert (other.name, other.base_url, other.api_key) == ("bigger", "http://h", "custom-key")
    assert custom.model_named("claude-opus-4-1").provider == "anthropic"
    assert custom.model_named("gpt-5").base_url == "http://h"
    assert custom.model_named("local:SmolLM2-135M-Instruct").provider == "local"

    local = load(tmp_path, "", {})
    with pytest.raises(ConfigError, match="mystery"):
        local.model_named("mystery")
