"""Signal, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="signal",
    label="Signal",
    adapter="gateway.platforms.signal.adapter:SignalAdapter",
    capabilities=Capabilities(
        # Bytes of a message's own text; what is longer Signal sends as a file beside it.
        max_length=2000,
        edits=True,
        # Signal shows ten versions of a message; one is kept for the whole answer.
        most_edits=9,
        typing=True,
        reactions=True,
        reaction_answers=True,
        media=True,
        edit_interval=1.5,
    ),
    formatter="gateway.platforms.signal.formatting:to_signal",
    environment={
        "account": "SIGNAL_ACCOUNT",
        "address": "SIGNAL_CLI_ADDRESS",
        "allowed_users": "SIGNAL_ALLOWED_USERS",
    },
    secrets=(),
    enabled_by=("account",),
    settings=(
        Setting("account", "text", "", "the account's number, `+…`, or its id"),
        Setting(
            "address",
            "text",
            "signal-cli's own socket",
            "where the daemon listens: the path of its socket, or `host:port`",
        ),
        Setting("require_mention", "true or false", "true", "answer in groups only when mentioned"),
        Setting(
            "note_to_self",
            "true or false",
            "false",
            "for an account of your own: serve *Note to Self* and nothing else",
        ),
        Setting("read_receipts", "true or false", "true", "mark messages as read once stored"),
        Setting(
            "attachments",
            "text",
            "signal-cli's own folder",
            "where the daemon keeps the files it received; what is not found there is asked of it",
        ),
    ),
    setup_intro=(
        "Signal needs signal-cli with an account, running as a daemon with --receive-mode=manual:"
        " see docs/signal.md."
    ),
    questions=(
        SetupQuestion(
            "SIGNAL_ACCOUNT",
            "Number of the account, e.g. +4915112345678: ",
            pattern=r"\+[0-9]{6,15}|[0-9a-f-]{36}",
            problem="Write the number with + and the country's code.",
        ),
        SetupQuestion(
            "SIGNAL_CLI_ADDRESS",
            "Where its daemon listens: the socket's path, or host:port (empty: its own socket): ",
        ),
        SetupQuestion(
            "SIGNAL_ALLOWED_USERS",
            "Numbers that may talk to it (with commas; empty: you will pair with a code): ",
        ),
    ),
    prompt_hint="You are in a Signal chat. Write short messages; tables are shown as plain text.",
    order=70,
)
