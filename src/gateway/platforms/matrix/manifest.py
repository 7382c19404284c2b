"""Matrix, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="matrix",
    label="Matrix",
    adapter="gateway.platforms.matrix.adapter:MatrixAdapter",
    # A message carries its Markdown and the HTML of it: `events.text_content` makes both.
    formatter=None,
    capabilities=Capabilities(
        max_length=4000,
        edits=True,
        typing=True,
        reactions=True,
        media=True,
        repeatable=True,
        edit_interval=1.0,
    ),
    environment={
        "token": "MATRIX_ACCESS_TOKEN",
        "homeserver": "MATRIX_HOMESERVER",
        "user_id": "MATRIX_USER_ID",
        "password": "MATRIX_PASSWORD",
        "allowed_users": "MATRIX_ALLOWED_USERS",
    },
    settings=(
        Setting("homeserver", "text", "", "the address of the homeserver"),
        Setting("user_id", "text", "", "the account, `@name:server`"),
        Setting("password", "text, a secret", "", "exchanged for a token once; or `token`"),
        Setting(
            "require_mention",
            "true or false",
            "true",
            "answer in rooms only when named or replied to",
        ),
        Setting(
            "encryption",
            "true or false",
            "true",
            "read and write encrypted rooms; otherwise they are left alone",
        ),
        Setting(
            "trust",
            "`first-use` or `verified`",
            "first-use",
            "whose devices are believed: all that an account lists, or only verified ones",
        ),
        Setting(
            "verified_keys",
            "list of keys",
            "",
            "devices, or people with all that they signed, that are verified",
        ),
    ),
    questions=(
        SetupQuestion("MATRIX_HOMESERVER", "Homeserver, e.g. https://matrix.org: "),
        SetupQuestion("MATRIX_USER_ID", "User id of the bot, e.g. @hermes:matrix.org: "),
        SetupQuestion("MATRIX_PASSWORD", "Its password: ", secret=True),
        SetupQuestion("MATRIX_ALLOWED_USERS", "Who may talk to it (user ids, with commas): "),
    ),
    extra="matrix",
    modules=("nio", "vodozemac"),
    prompt_hint="You are in a Matrix chat. Markdown works.",
    order=20,
)
