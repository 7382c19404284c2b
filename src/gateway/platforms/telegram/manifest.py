"""Telegram, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="telegram",
    label="Telegram",
    adapter="gateway.platforms.telegram.adapter:TelegramAdapter",
    capabilities=Capabilities(
        max_length=4096,
        edits=True,
        buttons=True,
        typing=True,
        reactions=True,
        media=True,
        edit_interval=1.0,
    ),
    formatter="gateway.platforms.telegram.formatting:format_message",
    environment={"token": "TELEGRAM_BOT_TOKEN", "allowed_users": "TELEGRAM_ALLOWED_USERS"},
    settings=(
        Setting(
            "require_mention",
            "true or false",
            "true",
            "answer in groups only when named or replied to",
        ),
        Setting(
            "reaction_answers",
            "true or false",
            "true",
            "take 👍 and 👎 under a request for approval as its answer",
        ),
        Setting(
            "webhook_url",
            "text",
            "",
            "the public address Telegram calls; without it Hermes asks Telegram",
        ),
        Setting(
            "webhook_secret",
            "text, a secret",
            "made from the token",
            "what Telegram shows to be let in",
        ),
        Setting("webhook_host", "text", "127.0.0.1", "where Hermes listens for it"),
        Setting("webhook_port", "whole number", "8443", "and on which port"),
        Setting("base_url", "text", "https://api.telegram.org", "another server of the Bot API"),
    ),
    setup_intro="Write to @BotFather on Telegram, send /newbot, and copy the token it gives you.",
    questions=(
        SetupQuestion(
            "TELEGRAM_BOT_TOKEN",
            "Token: ",
            secret=True,
            pattern=r"\d{6,}:[A-Za-z0-9_-]{30,}",
            problem="That is not a bot token: it looks like 123456:ABC….",
        ),
        SetupQuestion(
            "TELEGRAM_ALLOWED_USERS",
            "Your Telegram user id (empty: you will pair with a code): ",
        ),
    ),
    extra="telegram",
    modules=("telegram",),
    prompt_hint="You are in a Telegram chat. Write short messages; Markdown works, tables do not.",
    order=10,
)
