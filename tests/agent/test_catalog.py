"""What is known about models, and what their use costs."""

from __future__ import annotations

import pytest

from agent.catalog import _facts, cost_usd, lookup
from agent.model import Usage


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("gpt-5", "gpt-5"),
        ("openai/gpt-5", "gpt-5"),
        ("GPT-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5.4-2026-03-05", "gpt-5.4"),
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-2024-05-13", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic/claude-sonnet-4.5", "claude-sonnet-4-5"),
        ("anthropic/claude-opus-5.5:thinking", "claude-opus-5-5"),
        ("models/gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("gemini-2.5-flash-lite", "gemini-2.5-flash-lite"),
        ("kimi-k2-0905-preview", "kimi-k2"),
        ("qwen/qwen3-235b-a22b", "qwen3-235b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b"),
        ("SmolLM2-135M-Instruct", "smollm2"),
        ("SmolLM2-1.7B-Instruct", "smollm2-1.7b"),
        ("deepseek/deepseek-v4-pro", "deepseek-v4-pro"),
        ("mistral-large-latest", "mistral-large"),
        ("z-ai/glm-5.2", "glm-5.2"),
    ],
)
def test_a_model_is_found_by_its_name(name, entry):
    info = lookup(name)
    assert info is not None
    assert info.name == entry


@pytest.mark.parametrize(
    "name",
    ["", "gpt", "gpt-55", "gpt-5.9", "gpt-5-9", "claude-opus-6", "glm-5.9", "unheard-of", "o"],
)
def test_what_is_not_known_is_not_guessed(name):
    assert lookup(name) is None
    assert cost_usd(Usage(1000, 1000), name) is None


def test_every_entry_is_found_by_its_own_name_and_makes_sense():
    assert len(_facts()) >= 40
    for name in _facts():
        info = lookup(name)
        assert info is not None
        assert info.name == name
        assert 8_000 <= info.context_length <= 20_000_000
        assert info.max_output_tokens is None or info.max_output_tokens <= info.context_length
        for prices in filter(None, [info.prices, *(prices for _, prices in info.tiers)]):
            assert 0 <= prices.cache_read <= prices.input <= prices.output
            assert prices.cache_write <= 2 * prices.input
        above = [limit for limit, _ in info.tiers]
        assert above == sorted(above)


def test_cost_counts_each_kind_of_token_once():
    usage = Usage(
        input_tokens=1_000_000,
        output_tokens=100_000,
        cache_read_tokens=600_000,
        cache_write_tokens=300_000,
        reasoning_tokens=50_000,
    )
    # claude-opus-4-5: 5 in, 25 out, 0.50 read, 6.25 written
    expected = 0.1 * 5 + 0.1 * 25 + 0.6 * 0.5 + 0.3 * 6.25
    assert cost_usd(usage, "claude-opus-4-5") == pytest.approx(expected)


def test_long_requests_cost_more():
    assert cost_usd(Usage(200_000, 0), "gemini-2.5-pro") == pytest.approx(0.2 * 1.25)
    assert cost_usd(Usage(200_001, 0), "gemini-2.5-pro") == pytest.approx(0.2 * 2.5, rel=1e-4)
    assert cost_usd(Usage(300_000, 0), "qwen3-coder-plus") == pytest.approx(0.3 * 6)


def test_a_model_on_this_machine_and_a_free_one_cost_nothing():
    assert cost_usd(Usage(5000, 5000), "smollm2-135m") == 0
    assert cost_usd(Usage(5000, 5000), "deepseek/deepseek-v4-flash:free") == 0


def test_a_model_without_a_price_has_no_cost():
    assert lookup("gpt-oss-120b") is not None
    assert cost_usd(Usage(5000, 5000), "gpt-oss-120b") is None


def test_overrides_win_fact_by_fact():
    overrides = {"gpt-5": {"context_length": 1234}, "house/m": {"context_length": 99, "input": 1}}
    info = lookup("openai/gpt-5", overrides)
    assert info is not None
    assert info.context_length == 1234
    assert info.prices == lookup("gpt-5").prices
    assert lookup("gpt-5-mini", overrides) == lookup("gpt-5-mini")
    assert lookup("house/m", overrides).context_length == 99
    assert cost_usd(Usage(10, 10), "house/m", overrides) is None
    overrides = {"gemini-2.5-pro": {"input": 1, "output": 2}}
    assert cost_usd(Usage(1_000_000, 0), "gemini-2.5-pro", overrides) == 1
    assert lookup("nothing", {"nothing": {"input": 1}}) is None
