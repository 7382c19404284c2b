"""The providers Hermes knows by name: where they are, which key they take, what they speak.

A provider that is not in this table is still one line of configuration away: `provider: custom`
with a `base_url`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

CHAT_COMPLETIONS = "chat_completions"
RESPONSES = "responses"
ANTHROPIC_MESSAGES = "anthropic_messages"
EMBEDDED = "embedded"


class KnownProvider(NamedTuple):
    """One line of the table."""

    base_url: str
    """Empty if the user has to name it (or, for the embedded model, if there is none)."""
    key_variables: tuple[str, ...] = ()
    """Where the key is looked for, in this order; empty for servers that need none."""
    api_mode: str = CHAT_COMPLETIONS
    echo_reasoning: bool = False
    """It refuses tool calls that come back without the reasoning that led to them."""
    usage_unasked: bool = False
    """It reports usage by itself, and refuses to be asked for it."""


KNOWN: dict[str, KnownProvider] = {
    "openai": KnownProvider("https://api.openai.com/v1", ("OPENAI_API_KEY",), RESPONSES),
    "responses": KnownProvider("https://api.openai.com/v1", ("OPENAI_API_KEY",), RESPONSES),
    "anthropic": KnownProvider(
        "https://api.anthropic.com", ("ANTHROPIC_API_KEY",), ANTHROPIC_MESSAGES
    ),
    "openrouter": KnownProvider("https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "google": KnownProvider(
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "deepseek": KnownProvider(
        "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), echo_reasoning=True
    ),
    "moonshot": KnownProvider(
        "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY", "KIMI_API_KEY"), echo_reasoning=True
    ),
    "zai": KnownProvider(
        "https://api.z.ai/api/paas/v4", ("ZAI_API_KEY", "GLM_API_KEY"), echo_reasoning=True
    ),
    "qwen": KnownProvider(
        "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", ("DASHSCOPE_API_KEY",)
    ),
    "mistral": KnownProvider("https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), usage_unasked=True),
    "xai": KnownProvider("https://api.x.ai/v1", ("XAI_API_KEY",)),
    "groq": KnownProvider("https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "together": KnownProvider("https://api.together.xyz/v1", ("TOGETHER_API_KEY",)),
    "fireworks": KnownProvider("https://api.fireworks.ai/inference/v1", ("FIREWORKS_API_KEY",)),
    "huggingface": KnownProvider("https://router.huggingface.co/v1", ("HF_TOKEN",)),
    "nous": KnownProvider("https://inference-api.nousresearch.com/v1", ("NOUS_API_KEY",)),
    "minimax": KnownProvider(
        "https://api.minimax.io/anthropic", ("MINIMAX_API_KEY",), ANTHROPIC_MESSAGES
    ),
    "ollama": KnownProvider("http://127.0.0.1:11434/v1"),
    "lmstudio": KnownProvider("http://127.0.0.1:1234/v1"),
    "llamacpp": KnownProvider("http://127.0.0.1:8080/v1"),
    "vllm": KnownProvider("http://127.0.0.1:8000/v1"),
    "custom": KnownProvider("", ("CUSTOM_API_KEY",)),
    "local": KnownProvider("", (), EMBEDDED),
}

BUILDERS: dict[str, Callable[[dict[str, Any]], Any]] = {}
"""Providers that speak a protocol of their own: each makes a model from its settings."""

ALIASES = {
    "gemini": "google",
    "kimi": "moonshot",
    "moonshotai": "moonshot",
    "glm": "zai",
    "z-ai": "zai",
    "zhipu": "zai",
    "alibaba": "qwen",
    "dashscope": "qwen",
    "claude": "anthropic",
    "grok": "xai",
    "hf": "huggingface",
    "llama.cpp": "llamacpp",
    "lm-studio": "lmstudio",
    "embedded": "local",
    "openai-compatible": "custom",
}

NAME_PREFIXES = {
    "claude": "anthropic",
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini": "google",
    "deepseek": "deepseek",
    "kimi": "moonshot",
    "glm-": "zai",
    "qwen": "qwen",
    "mistral": "mistral",
    "magistral": "mistral",
    "devstral": "mistral",
    "codestral": "mistral",
    "grok": "xai",
    "smollm": "local",
}
"""Whose model it is, told from its name, for configurations that name nothing else."""


def key_advice(provider: str) -> str:
    """What a user should do about a key of this provider, as a sentence."""
    known = KNOWN.get(provider)
    if known is None or not known.key_variables:
        return "Set model.api_key in config.yaml."
    variable = " or ".join(known.key_variables)
    return f"Set {variable} in the environment or in .env (or model.api_key in config.yaml)."


def needs_key(provider: str, base_url: str) -> bool:
    """Whether asking without a key is pointless: a provider's own address, not a user's proxy."""
    known = KNOWN.get(provider)
    return bool(
        known and known.base_url and known.key_variables and base_url == known.base_url.rstrip("/")
    )
