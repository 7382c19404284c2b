"""Slack, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="slack",
    label="Slack",
    adapter="gateway.platforms.slack.adapter:SlackAdapter",
    capabilities=Capabilities(
        # Slack takes more in a new message, but no more when it is changed.
        max_length=4000,
        edits=True,
        buttons=True,
        reactions=True,
        media=True,
        # Each text carries its key, and is looked for before it is sent again.
        repeatable=True,
        edit_interval=1.5,
    ),
    formatter="gateway.platforms.slack.formatting:format_message",
    environment={
        "token": "SLACK_BOT_TOKEN",
        "app_token": "SLACK_APP_TOKEN",
        "allowed_users": "SLACK_ALLOWED_USERS",
    },
    secrets=("token", "app_token"),
    settings=(
        Setting("app_token", "text, a secret", "", "what the connection is opened with, `xapp-…`"),
        Setting(
            "require_mention", "true or false", "true", "answer in channels only when mentioned"
        ),
        Setting(
            "free_response_channels",
            "list of texts",
            "",
            "channels, by id, where no mention is needed",
        ),
        Setting("base_url", "text", "https://slack.com/api/", "another server of Slack's Web API"),
    ),
    setup_intro=(
        "At https://api.slack.com/apps make an app from the manifest in docs/slack.md, install it,"
        " and make an app-level token with connections:write."
    ),
    questions=(
        SetupQuestion(
            "SLACK_BOT_TOKEN",
            "Bot token: ",
            secret=True,
            pattern=r"xoxb-[\w-]{10,}",
            problem="That is not a bot token: it begins with xoxb-.",
        ),
        SetupQuestion(
            "SLACK_APP_TOKEN",
            "App-level token: ",
            secret=True,
            pattern=r"xapp-[\w-]{10,}",
            problem="That is not an app-level token: it begins with xapp-.",
        ),
        SetupQuestion(
            "SLACK_ALLOWED_USERS",
            "Your Slack member id (empty: you will pair with a code): ",
        ),
    ),
    extra="slack",
    modules=("slack_sdk", "aiohttp"),
    prompt_hint="You are in a Slack chat. Keep messages short; tables are not shown.",
    order=60,
)
