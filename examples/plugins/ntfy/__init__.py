"""An example plugin: a chat platform, ntfy (https://docs.ntfy.sh), whose topics are chats.

Copy the folder to `~/.hermes/plugins/ntfy`, then run `hermes plugins enable ntfy` and `hermes
gateway setup`. Whoever knows a topic's name reads along there, and may write: take names that
nobody guesses, or a server of your own with access control. Even so a topic is a stranger who gets
a pairing code, until you let it in.
"""

from gateway.platforms.manifest import Capabilities, Manifest, Setting, SetupQuestion


def register(ctx):
    """Hermes calls this once, with everything a plugin may use."""
    ctx.register_platform(
        Manifest(
            name="ntfy",
            label="ntfy",
            adapter=f"{__package__}.adapter:NtfyAdapter",
            formatter="gateway.markdown:to_plain",
            capabilities=Capabilities(max_length=4000, media=True),
            environment={
                "topics": "NTFY_TOPICS", "token": "NTFY_TOKEN", "allowed_users": "NTFY_ALLOWED",
            },
            enabled_by=("topics",),
            settings=(
                Setting("topics", "list", "", "the topics that are chats"),
                Setting("server", "text", "https://ntfy.sh", "where they are"),
            ),
            questions=(
                SetupQuestion(
                    "NTFY_TOPICS", "Topics (comma-separated): ", pattern=r"[-\w]+(\s*,\s*[-\w]+)*",
                    problem="Topics are letters, digits, _ and -.",
                ),
                SetupQuestion("NTFY_TOKEN", "Token (none for ntfy.sh): ", secret=True),
            ),
            prompt_hint="You answer in notifications on a telephone: short, in plain text.",
        )
    )  # fmt: skip
