"""XMPP, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

MANIFEST = Manifest(
    name="xmpp",
    label="XMPP",
    adapter="gateway.platforms.xmpp.adapter:XmppAdapter",
    capabilities=Capabilities(
        # Servers take stanzas of at least 64 kB, and a character may be six bytes of one.
        max_length=10_000,
        edits=True,
        typing=True,
        media=True,
        # Each text is sent under an id made of its key, and looked for before it is sent again.
        repeatable=True,
        # Every correction is a message of its own, which servers keep and phones are woken for.
        edit_interval=2.0,
    ),
    formatter="gateway.platforms.xmpp.formatting:format_message",
    environment={
        "jid": "XMPP_JID",
        "password": "XMPP_PASSWORD",
        "rooms": "XMPP_ROOMS",
        "allowed_users": "XMPP_ALLOWED_USERS",
    },
    secrets=("password",),
    settings=(
        Setting("jid", "text", "", "its account, `hermes@example.org`; one of its own"),
        Setting("password", "text, a secret", "", "of that account"),
        Setting("server", "text", "by DNS", "`host` or `host:port`, where DNS does not say it"),
        Setting("tls", "true or false", "true", "connect with TLS, and check the certificate"),
        Setting("ca_file", "text", "", "certificates to trust instead of the system's"),
        Setting(
            "rooms",
            "list of texts",
            "",
            "the rooms to enter; `room@rooms.example.org password` for one with a password",
        ),
        Setting("nick", "text", "of the account", "its name in rooms; `_` is added if it is taken"),
        Setting("require_mention", "true or false", "true", "answer in rooms only when mentioned"),
        Setting(
            "media_hosts",
            "list of texts",
            "",
            "hosts, or `host:port`, from which files are fetched besides the sender's own",
        ),
    ),
    setup_intro="Make an account for it on your XMPP server first: it needs one of its own.",
    questions=(
        SetupQuestion(
            "XMPP_JID",
            "Its address, e.g. hermes@example.org: ",
            pattern=r"[^\s@/A-Z]+@[^\s@/A-Z]+",
            problem="That is no address of an account: name@server, in lower case.",
        ),
        SetupQuestion("XMPP_PASSWORD", "Its password: ", secret=True),
        SetupQuestion("XMPP_ROOMS", "Rooms (with commas; empty: none): "),
        SetupQuestion(
            "XMPP_ALLOWED_USERS",
            "Who may talk to it (addresses, with commas; empty: you will pair with a code): ",
            pattern=r"[^A-Z/]*",
            problem="Write the addresses in lower case, without what stands behind a /.",
        ),
    ),
    extra="xmpp",
    modules=("slixmpp",),
    prompt_hint=("You are in an XMPP chat. Keep messages short; tables are shown as plain text."),
    order=70,
)
