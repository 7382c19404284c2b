"""Webhooks, as the rest of Hermes sees them."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting

PORT = 8644

MANIFEST = Manifest(
    name="webhook",
    label="Webhooks",
    adapter="gateway.platforms.webhook.adapter:WebhookAdapter",
    capabilities=Capabilities(max_length=10_000_000, people=False, signed=True),
    settings=(
        Setting("host", "text", "127.0.0.1", "where webhooks are taken"),
        Setting("port", "whole number", str(PORT), "and on which port"),
        Setting("max_body_bytes", "whole number", "1048576", "the largest request"),
        Setting(
            "routes.<name>.secret",
            "text, a secret",
            "",
            "what requests are signed with, 16 characters or more",
        ),
        Setting(
            "routes.<name>.prompt",
            "text",
            "a general one",
            "what the agent is asked; `{a.b}` is a place in the JSON",
        ),
        Setting("routes.<name>.events", "list of texts", "all", "GitHub's events that are wanted"),
        Setting(
            "routes.<name>.deliver",
            "`none` or section",
            "none",
            "the chat that gets the answer: `{platform, chat_id, thread_id, chat_type}`",
        ),
    ),
    set_up="gateway.platforms.webhook.setup:set_up",
    extra="api",
    modules=("starlette", "uvicorn"),
    prompt_hint="You were called by a webhook; nobody can answer questions. State your result.",
    order=40,
)
