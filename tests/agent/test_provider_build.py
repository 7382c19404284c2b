"""From configuration to a model."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agent.config.schema import ModelSettings
from agent.providers import UnknownProviderError, build_model
from agent.providers.anthropic import AnthropicModel
from agent.providers.chat_completions import ChatCompletionsModel
from agent.providers.known import ALIASES, KNOWN, NAME_PREFIXES
from agent.providers.responses import ResponsesModel

KEYS = {
    "OPENAI_API_KEY": "key-openai",
    "ANTHROPIC_API_KEY": "key-anthropic",
    "OPENROUTER_API_KEY": "key-openrouter",
    "GOOGLE_API_KEY": "key-google",
    "CUSTOM_API_KEY": "key-custom",
}


@pytest.mark.parametrize(
    ("settings", "kind", "provider", "url", "key"),
    [
        (
            {"provider": "openai", "model": "gpt-5"},
            ResponsesModel,
            "openai",
            "https://api.openai.com/v1",
            "key-openai",
        ),
        (
            {"provider": "openai", "model": "x", "base_url": "http://h/v1/"},
            ChatCompletionsModel,
            "openai",
            "http://h/v1",
            "key-openai",
        ),
        (
            {"provider": "openai", "model": "gpt-4o", "api_mode": "chat_completions"},
            ChatCompletionsModel,
            "openai",
            "https://api.openai.com/v1",
            "key-openai",
        ),
        (
            {"provider": "responses", "model": "x", "base_url": "http://h/v1"},
            ResponsesModel,
            "responses",
            "http://h/v1",
            "key-openai",
        ),
        (
            {"provider": "Anthropic", "default": "claude-opus-5-5"},
            AnthropicModel,
            "anthropic",
            "https://api.anthropic.com",
            "key-anthropic",
        ),
        (
            {"provider": "openrouter", "model": "openai/gpt-5", "api_key": "mine"},
            ChatCompletionsModel,
            "openrouter",
            "https://openrouter.ai/api/v1",
            "mine",
        ),
        (
            {"provider": "gemini", "model": "gemini-2.5-pro"},
            ChatCompletionsModel,
            "google",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            "key-google",
        ),
        (
            {"model": "x", "base_url": "http://h:8080"},
            ChatCompletionsModel,
            "custom",
            "http://h:8080",
            "key-custom",
        ),
        (
            {"provider": "house", "model": "x", "base_url": "http://h", "api_mode": "responses"},
            ResponsesModel,
            "house",
            "http://h",
            "key-custom",
        ),
        (
            "claude-sonnet-5-5",
            AnthropicModel,
            "anthropic",
            "https://api.anthropic.com",
            "key-anthropic",
        ),
        (
            "meta-llama/llama-4-maverick",
            ChatCompletionsModel,
            "openrouter",
            "https://openrouter.ai/api/v1",
            "key-openrouter",
        ),
        (
            ModelSettings(default="gpt-5", provider="auto"),
            ResponsesModel,
            "openai",
            "https://api.openai.com/v1",
            "key-openai",
        ),
    ],
)
def test_the_right_model_is_built(settings, kind, provider, url, key):
    model = build_model(settings, KEYS)
    assert type(model) is kind
    assert (model.provider, model.base_url) == (provider, url)
    assert model._http.peer.api_key == key


def test_what_is_known_about_a_model_is_used():
    assert build_model("claude-haiku-4-5", KEYS).context_length == 200_000
    settings = {"model": "claude-haiku-4-5", "context_length": 5000, "timeout": 7}
    model = build_model(settings, KEYS)
    assert model.context_length == 5000
    assert model._http.peer.timeout == 7
    unknown = {"model": "never-heard-of", "base_url": "http://h"}
    assert build_model(unknown).context_length == 128_000
    overrides = {"never-heard-of": {"context_length": 9000}}
    assert build_model(unknown, overrides=overrides).context_length == 9000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"provider": "opnai", "model": "x"}, "Did you mean 'openai'"),
        ({"provider": "antrophic", "model": "x"}, "Did you mean 'anthropic'"),
        ({"provider": "zzzz", "model": "x"}, "set model.provider to custom"),
        ({"provider": "custom", "model": "x"}, "model.base_url"),
        ({"provider": "openai"}, "model.default"),
        ({"model": "who-knows"}, "model.provider"),
        ({"provider": "openai", "model": "x", "api_mode": "chat"}, "chat_completions"),
        ({"provider": "openai", "model": "x", "api_mode": "response"}, "Did you mean 'responses'"),
    ],
)
def test_what_cannot_be_built_is_explained(settings, words):
    with pytest.raises(UnknownProviderError, match=words):
        build_model(settings, {})


@pytest.mark.parametrize("settings", [{}, {"provider": "local"}, {"model": "SmolLM2-135M"}])
def test_without_anything_the_embedded_model_answers(settings):
    model = build_model(settings, KEYS)
    assert (model.provider, model.base_url) == ("local", "")
    assert "smollm2" in model.name.lower()
    assert build_model({**settings, "context_length": 4096}).context_length == 4096


def test_the_table_is_sound():
    for name, entry in KNOWN.items():
        assert name == name.lower()
        assert not entry.base_url or entry.base_url.startswith(("https://", "http://127.0.0.1"))
        assert not entry.base_url.endswith("/")
    assert set(ALIASES.values()) <= set(KNOWN)
    assert not set(ALIASES) & set(KNOWN)
    assert set(NAME_PREFIXES.values()) <= set(KNOWN)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("agent.model, agent.errors, agent.providers, agent.catalog", "asyncio httpx ssl"),
        ("agent.retry, agent.scripted", "httpx xllamacpp agent.providers.http"),
        ("agent.providers.chat_completions", "xllamacpp agent.providers.anthropic"),
    ],
)
def test_imports_are_lazy(modules, heavy):
    code = (
        f"import sys, {modules}; found = set({heavy.split()!r}) & set(sys.modules);"
        "sys.exit(f'imported {found}' if found else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
