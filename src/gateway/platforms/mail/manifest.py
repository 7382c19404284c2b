"""E-mail, as the rest of Hermes sees it."""

from __future__ import annotations

from ..manifest import Capabilities, Manifest, Setting, SetupQuestion

_ADDRESS = r"[^\sA-Z@<>,;:\"]+@[^\sA-Z@<>,;:\"]+"

MANIFEST = Manifest(
    name="email",
    label="E-mail",
    adapter="gateway.platforms.mail.adapter:MailAdapter",
    capabilities=Capabilities(
        # A mail may be long; one that no person would read is cut all the same.
        max_length=500_000,
        media=True,
        # A Message-ID is made from the key, noted before the mail is sent, and looked for.
        repeatable=True,
        attaches=True,
    ),
    environment={
        "address": "EMAIL_ADDRESS",
        "password": "EMAIL_PASSWORD",
        "imap_host": "EMAIL_IMAP_HOST",
        "smtp_host": "EMAIL_SMTP_HOST",
        "authserv_id": "EMAIL_AUTHSERV_ID",
        "allowed_users": "EMAIL_ALLOWED_USERS",
    },
    secrets=("password", "smtp_password"),
    settings=(
        Setting("address", "text", "", "the mailbox's address, which answers come from"),
        Setting(
            "password", "text, a secret", "", "of the account; an app password where there are such"
        ),
        Setting("imap_host", "text", "", "where mail is read, `host` or `host:port`"),
        Setting("smtp_host", "text", "the same host", "where mail is sent, `host` or `host:port`"),
        Setting("user", "text", "the address", "the name to log in with"),
        Setting("smtp_user", "text", "the same", "the name to send with, if it is another"),
        Setting("smtp_password", "text, a secret", "the same", "its password, if it is another"),
        Setting("name", "text", "`Hermes`", "what stands beside the address in answers"),
        Setting(
            "tls",
            "true or false",
            "true",
            "TLS from the start on ports 993 and 465, STARTTLS on others; false: none, for a server"
            " on the same machine",
        ),
        Setting("ca_file", "text", "", "certificates to trust instead of the system's"),
        Setting(
            "authserv_id",
            "list of texts",
            "",
            "the name that your own server writes first in `Authentication-Results`; `*.host` for"
            " any below it",
        ),
        Setting(
            "require_authentication",
            "true or false",
            "true",
            "take mail only whose sender that header proves (DKIM, SPF or DMARC); false: believe"
            " every `From`",
        ),
        Setting("folder", "text", "`INBOX`", "the folder that is read"),
        Setting("mark_read", "true or false", "false", "mark what was taken as read"),
        Setting("idle", "true or false", "true", "let the server tell of new mail, where it can"),
        Setting("poll_seconds", "number", "60", "between two looks where it cannot"),
        Setting(
            "sent",
            "text",
            "`auto`",
            "who keeps sent mail: `copy` (Hermes puts a copy there), `server` (it does so itself),"
            " `none`, or `auto`",
        ),
        Setting("sent_folder", "text", "the server's", "the folder of sent mail"),
        Setting(
            "most_per_hour",
            "whole number",
            "60",
            "mails of one person in one thread that are taken; more are a loop",
        ),
    ),
    setup_intro=(
        "Hermes needs a mailbox of its own, IMAP and SMTP; docs/email.md says what to switch on."
    ),
    questions=(
        SetupQuestion(
            "EMAIL_ADDRESS",
            "Address of its mailbox: ",
            pattern=_ADDRESS,
            problem="Write one address in small letters, such as hermes@example.org.",
        ),
        SetupQuestion(
            "EMAIL_PASSWORD",
            "Password, or app password: ",
            secret=True,
            pattern=r".+",
            problem="A mailbox has a password.",
        ),
        SetupQuestion(
            "EMAIL_IMAP_HOST",
            "IMAP server, e.g. imap.example.org: ",
            pattern=r"[A-Za-z0-9.:\[\]_-]+",
            problem="That is no name of a server.",
        ),
        SetupQuestion(
            "EMAIL_SMTP_HOST",
            "SMTP server, e.g. smtp.example.org:587 (empty: the same): ",
            pattern=r"[A-Za-z0-9.:\[\]_-]*",
            problem="That is no name of a server.",
        ),
        SetupQuestion(
            "EMAIL_AUTHSERV_ID",
            "Its name in Authentication-Results (empty: Hermes looks and says): ",
        ),
        SetupQuestion(
            "EMAIL_ALLOWED_USERS",
            "Who may write to it (addresses in small letters, with commas; empty: with a code): ",
            pattern=r"[^A-Z]*",
            problem="Write the addresses in small letters.",
        ),
    ),
    extra="email",
    modules=("aioimaplib", "aiosmtplib"),
    prompt_hint=(
        "You answer by e-mail: one complete reply. Markdown is shown as such; files that you name"
        " are attached. What the person quoted of earlier mails was cut off."
    ),
    order=55,
)
