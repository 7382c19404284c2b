"""WhatsApp, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

PORT = 8645
VERSION = "v23.0"

MANIFEST = Manifest(
    name="whatsapp_cloud",
    label="WhatsApp",
    adapter="gateway.platforms.whatsapp_cloud.adapter:WhatsAppAdapter",
    # Nothing can be changed that was sent: answers do not grow.
    capabilities=Capabilities(
        max_length=4096,
        buttons=True,
        reaction_answers=True,
        typing=True,
        reactions=True,
        media=True,
    ),
    formatter="gateway.platforms.whatsapp_cloud.formatting:format_message",
    environment={
        "token": "WHATSAPP_CLOUD_ACCESS_TOKEN",
        "phone_number_id": "WHATSAPP_CLOUD_PHONE_NUMBER_ID",
        "app_secret": "WHATSAPP_CLOUD_APP_SECRET",
        "verify_token": "WHATSAPP_CLOUD_VERIFY_TOKEN",
        "allowed_users": "WHATSAPP_CLOUD_ALLOWED_USERS",
    },
    secrets=("token", "app_secret", "verify_token"),
    settings=(
        Setting("phone_number_id", "text", "", "the id of the number, which is not the number"),
        Setting("app_secret", "text, a secret", "", "with which Meta signs what it posts"),
        Setting("verify_token", "text, a secret", "", "a word of yours that Meta shows once"),
        Setting("host", "text", "127.0.0.1", "where Meta's requests are taken"),
        Setting("port", "whole number", str(PORT), "and on which port"),
        Setting(
            "template", "text", "", "the approved template that is sent after 24 hours of silence"
        ),
        Setting("template_language", "text", "en", "and its language"),
        Setting("read_receipts", "true or false", "true", "mark messages as read once stored"),
        Setting(
            "status_seconds",
            "number",
            "5",
            "how long an answer waits for WhatsApp to say that it was sent, before the next part",
        ),
        Setting("api_version", "text", VERSION, "of the Graph API"),
        Setting("base_url", "text", "https://graph.facebook.com", "another server of that API"),
    ),
    setup_intro=(
        "WhatsApp needs an app at https://developers.facebook.com/apps and an address that Meta can"
        " reach by HTTPS: see docs/whatsapp.md."
    ),
    questions=(
        SetupQuestion(
            "WHATSAPP_CLOUD_PHONE_NUMBER_ID",
            "Phone number ID (of API Setup; not the number): ",
            pattern=r"[0-9]{5,25}",
            problem="That is no id: it has digits only.",
        ),
        SetupQuestion(
            "WHATSAPP_CLOUD_ACCESS_TOKEN",
            "Access token of a system user: ",
            secret=True,
            pattern=r"\S{20,}",
            problem="That is too short for a token.",
        ),
        SetupQuestion(
            "WHATSAPP_CLOUD_APP_SECRET",
            "App secret (App settings, Basic): ",
            secret=True,
            pattern=r"[0-9a-fA-F]{16,64}",
            problem="That is no app secret: it has hexadecimal digits only.",
        ),
        SetupQuestion(
            "WHATSAPP_CLOUD_VERIFY_TOKEN",
            "A word of yours, for the field Verify token of the webhook: ",
            secret=True,
            pattern=r"\S{8,}",
            problem="Take eight characters or more, without spaces.",
        ),
        SetupQuestion(
            "WHATSAPP_CLOUD_ALLOWED_USERS",
            "Your number, with the country's code (empty: you will pair with a code): ",
        ),
    ),
    extra="api",
    modules=("starlette", "uvicorn"),
    prompt_hint="You are in a WhatsApp chat. Keep messages short; tables are shown as plain text.",
    order=80,
)
