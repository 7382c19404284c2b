"""Discord, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="discord",
    label="Discord",
    adapter="gateway.platforms.discord.adapter:DiscordAdapter",
    capabilities=Capabilities(
        max_length=2000,
        edits=True,
        buttons=True,
        typing=True,
        reactions=True,
        media=True,
        # Discord lets a bot send or change about five messages in five seconds per channel.
        edit_interval=1.5,
    ),
    formatter="gateway.platforms.discord.formatting:format_message",
    environment={"token": "DISCORD_BOT_TOKEN", "allowed_users": "DISCORD_ALLOWED_USERS"},
    settings=(
        Setting(
            "require_mention",
            "true or false",
            "true",
            "answer on servers only when mentioned or replied to; `false` needs the Message Content"
            " intent",
        ),
        Setting(
            "free_response_channels",
            "list of texts",
            "",
            "channels, by id, where no mention is needed; needs the Message Content intent",
        ),
        Setting(
            "slash_commands",
            "true or false",
            "true",
            "register the commands with Discord when connecting",
        ),
        Setting(
            "base_url", "text", "https://discord.com/api/v10", "another server of Discord's API"
        ),
    ),
    setup_intro=(
        "At https://discord.com/developers/applications make an application, and under Bot reset"
        " its token and copy it."
    ),
    questions=(
        SetupQuestion(
            "DISCORD_BOT_TOKEN",
            "Token: ",
            secret=True,
            pattern=r"[\w-]{18,}\.[\w-]{5,}\.[\w-]{25,}",
            problem="That is not a bot token: it has three parts with dots between them.",
        ),
        SetupQuestion(
            "DISCORD_ALLOWED_USERS",
            "Your Discord user id (empty: you will pair with a code): ",
        ),
    ),
    extra="discord",
    modules=("discord",),
    prompt_hint="You are in a Discord chat. Write short messages; Markdown works, tables do not.",
    order=50,
)
