"""IRC, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="irc",
    label="IRC",
    adapter="gateway.platforms.irc.adapter:IrcAdapter",
    # A long answer is cut into lines by the adapter, which may put the rest on a paste service.
    capabilities=Capabilities(max_length=100_000),
    formatter="gateway.platforms.irc.formatting:to_irc",
    environment={
        "server": "IRC_SERVER",
        "nick": "IRC_NICK",
        "password": "IRC_PASSWORD",
        "channels": "IRC_CHANNELS",
        "allowed_users": "IRC_ALLOWED_USERS",
    },
    secrets=("password", "server_password"),
    enabled_by=("server",),
    settings=(
        Setting("server", "text", "", "the server, `host` or `host:port`"),
        Setting("tls", "true or false", "true", "connect with TLS, and check the certificate"),
        Setting("ca_file", "text", "", "certificates to trust instead of the system's"),
        Setting("nick", "text", "hermes", "the wanted nickname; `_` is added where it is taken"),
        Setting("account", "text", "the nick", "the account of the network's services, for SASL"),
        Setting("password", "text, a secret", "", "of that account; logs in with SASL PLAIN"),
        Setting("server_password", "text, a secret", "", "of the server itself, where it has one"),
        Setting(
            "channels", "list of texts", "", "the channels to join; `#name key` for one with a key"
        ),
        Setting(
            "require_account",
            "true or false",
            "true",
            "know people by their account of the network's services; false: by `nick!user@host`",
        ),
        Setting(
            "require_mention", "true or false", "true", "answer in channels only when addressed"
        ),
        Setting("max_lines", "whole number", "20", "how many lines of an answer are shown"),
        Setting("paste_url", "text", "", "where the whole of a longer answer, and files, are put"),
        Setting("line_interval", "number", "2", "seconds between two lines, after the first five"),
    ),
    setup_intro=(
        "Register a nickname for it with the network's services (NickServ) first, if there are any."
    ),
    questions=(
        SetupQuestion(
            "IRC_SERVER",
            "Server, e.g. irc.libera.chat: ",
            pattern=r"[A-Za-z0-9.:\[\]-]+",
            problem="That is no name of a server.",
        ),
        SetupQuestion("IRC_NICK", "Nickname: "),
        SetupQuestion("IRC_PASSWORD", "Its password (empty: no account): ", secret=True),
        SetupQuestion("IRC_CHANNELS", "Channels (with commas; empty: none): "),
        SetupQuestion(
            "IRC_ALLOWED_USERS",
            "Who may talk to it (accounts, with commas, in lower case): ",
            pattern=r"[^A-Z]*",
            problem="Write the accounts in lower case.",
        ),
    ),
    prompt_hint=(
        "You are on IRC. Each line of an answer is a message, shown slowly: answer in few short"
        " lines, without tables."
    ),
    order=50,
)
