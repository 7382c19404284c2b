"""Everything that reads what others wrote, each with pieces of which hostile texts are made.

A reader is given a piece over and over. The pieces are those that make a careless reader of this
kind look at the same text again and again: beginnings without an end, what matches in many ways.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_MARKDOWN = (
    "[", "![", "[a](", "[](a \"", "[a](<", "\\<", "**a ", "*a_", "`a``b", "***", "> ", "- ",
    "|a|b\n", "```\n", "~~~\n", "a*b**c", "- a\n  b\n",
)  # fmt: skip
_HTML = (
    "<a ", "<a b='", "<!--", "<script>", "</", "<div>", "<ul><li>", "<table><tr><td>", "<pre>",
    "&#", "<a href=x>", "<blockquote>", "<div style='display:none'>", "<![CDATA[", "<", "&amp;",
)  # fmt: skip
_SECRETS = (
    "sk-", "a-", "M", "eyJ-aaaaaaaa-", "eyJaaaaaaaa.", "00000000:", "password=", 'password="',
    "token   ", "cookie:", "authorization: bearer ", "://a:", "://:::", "://a:b@",
    "api/webhooks/1/", "-----BEGIN A A ", "-----BEGIN PRIVATE KEY-----", "-----END A ",
    "İ password= ", "word ", "x", "pass", "token='", "api key: ", "--token ", "curl -u a:",
    "mysql ", "@tcp(", "q~", ":5432:", "?key=", "$2b$", '"d":"', "login ", "set -x ",
    "secret=a,", "s.", ":token>*", "key-----", "passkey-sig",
)  # fmt: skip
_ORDERS = (
    "ignore ", "ignore all ", "do not ", "you are now ", "send the ", "send the user s ",
    "print your ", "read .env ", "curl ", "curl ?", "curl @a", "curl -d  ", "note to ai ", "x", "_",
    "> ", "\u200b", "forget everything ", "ignora le ", "system override ",
)  # fmt: skip
_COMMANDS = (
    "a ", "a;", "$(", "${", "${a:-", "`", '"', "'", "((", "{a,", "<<a\n", "a[ ", "a=b ", "eval ",
    "sudo ", "env ", "rm -rf ", "> a ", "[[ a ", "a|", "f(){ ", "case a in ", "*(", "$'\\x41'",
    "awk 'print print print' ", "sed 's/a/b/e   ' ",
)  # fmt: skip
_ESCAPES = ("\x1b[", "\x1b]", "\x1b]a", "\x9b", "\r", "\r\n", "\x1b ", "\x1bP")
_MAILS = (
    "From: a\n", " ", "\n", "=?utf-8?q?", "=?a?b?", "a;b*0=", ";b=\"", "<a", "<a@b> ", "((", "\\",
    "--b\n", "--b", "--b\nContent-Type: multipart/mixed; boundary=b\n\n", "a=;", "x: y\n",
)  # fmt: skip
_QUOTED = (
    "> a\n", ">", "On a wrote:\n", "From: a\n", "From: a\nTo: b\nSent: c\n", "-- \n", "\n", "a:\n",
    "--", "----- a -----\n", "Sent from my ", " ", "*", "_____\n",
)  # fmt: skip
_REPLIES = ("{", '{"a":', "**", "* * ", " \n", "```\n", "- a: b\n", "0", "[#1 ", "<think>", "a a ")


class Reader(NamedTuple):
    """A function that reads foreign text, and what it is tried with."""

    read: Callable[[str], object]
    pieces: tuple[str, ...]
    before: str = ""
    after: str = ""
    longest: int | None = None
    """Characters beyond which it does not look."""
    shortest: int = 0
    """Characters up to which it works in another way, which says nothing about growth."""


def readers() -> dict[str, Reader]:
    """All of them by name; importing them takes a moment."""
    from agent.compression.prompt import UnusableReply, read_reply
    from agent.learning.proposals import read_proposals
    from gateway.media import outgoing
    from gateway.platforms.mail.headers import decode_words, read_head, read_parameters
    from gateway.platforms.mail.imap import Summary
    from gateway.platforms.mail.mime import read_content
    from gateway.platforms.mail.quoting import cut_quotes, cut_signature
    from gateway.platforms.mail.reader import identify
    from gateway.platforms.mail.trust import read_results
    from gateway.platforms.matrix.formatting import to_matrix_html
    from gateway.platforms.telegram.formatting import to_telegram_html
    from gateway.splitting import split_message, utf16_length
    from hermes_base.redaction import redact, redact_value
    from hermes_cli.terminal_guard import harmless
    from tools.base import ToolError
    from tools.danger.analyse import LONGEST, analyse
    from tools.files.match import replace
    from tools.files.patch_parse import parse_patch
    from tools.masking import LONGEST_HELD, Masker
    from tools.screening import suspicion
    from tools.terminal.output import Cleaner
    from tools.web.markdown import readable

    nowhere = Path("/nonexistent")

    def mask(text: str) -> None:
        masker = Masker()
        for at in range(0, len(text), 4_000):
            masker.feed(text[at : at + 4_000])
        masker.feed("", end=True)

    def clean(text: str) -> None:
        cleaner, data = Cleaner(), text.encode()
        for at in range(0, len(data), 4_000):
            cleaner.feed(data[at : at + 4_000])
        cleaner.feed(b"", end=True)

    def mail_head(text: str) -> None:
        data = text.encode()
        identify(Summary(1, len(data), "", data))
        for _, value in read_head(data).fields:
            decode_words(value)
            read_parameters(value)

    def mail_body(text: str) -> None:
        for attachment in read_content(text.encode()).attachments:
            attachment.read()

    def quoted(text: str) -> None:
        cut_signature(cut_quotes(text))

    def edit(text: str) -> None:
        with contextlib.suppress(ToolError):  # it is not there
            replace(text, text[: len(text) // 2] + "Z", "new")

    def patch(text: str) -> None:
        with contextlib.suppress(ToolError):  # it is no patch
            parse_patch(f"*** Begin Patch\n*** Update File: a\n{text}")

    def reply(text: str) -> None:
        read_proposals(text)
        with contextlib.suppress(UnusableReply):  # it says nothing
            read_reply(text)

    def command(text: str) -> object:
        return analyse(text, nowhere, home=nowhere, user_home=nowhere, environ={})

    def commands(before: str, after: str, *pieces: str) -> Reader:
        return Reader(command, pieces, before, after, LONGEST)

    return {
        "redact": Reader(redact, _SECRETS),
        "redact, JSON": Reader(lambda text: redact_value([text, {"a": text}]), _SECRETS[:6]),
        "mask in pieces": Reader(mask, _SECRETS, shortest=4 * LONGEST_HELD),
        "screening": Reader(suspicion, _ORDERS),
        "commands": commands("", "", *_COMMANDS),
        "commands, awk": commands("awk '", "'", "print ", "print a ", "system ", "| ", '> "'),
        "commands, sed": commands("sed '", "' f", "/e", "e ", " \n", "w  ", "0 ", "s/a/b/e"),
        "commands, code": commands("perl -e '", "'", "open ", "loop  ", "for(;;)  ", "a.", '"a'),
        "commands, SQL": commands("psql -c '", "'", "/*", "/* ", "--", "delete from a ", "with "),
        "commands, modes": commands("chmod ", " f", "o", "u+w,", "=", "oa+"),
        "web page": Reader(lambda text: readable(text, "https://example.org/"), _HTML),
        "Markdown for Telegram": Reader(to_telegram_html, _MARKDOWN),
        "Markdown for Matrix": Reader(to_matrix_html, _MARKDOWN),
        "heads of mails": Reader(mail_head, _MAILS, before="Subject:"),
        "mails": Reader(
            mail_body, _MAILS, before="Content-Type: multipart/mixed; boundary=b\n\n--b\n"
        ),
        "pages in mails": Reader(mail_body, _HTML, before="Content-Type: text/html\n\n"),
        "quotations in mails": Reader(quoted, _QUOTED),
        "words of a mail server": Reader(read_results, _MAILS, before="a;"),
        "long answers": Reader(lambda text: split_message(text, 4096, utf16_length), _MARKDOWN),
        "files in answers": Reader(
            lambda text: outgoing(text, nowhere, nowhere),
            ("MEDIA:a\n```\n", "![a](/b)\n```\n", "![](", "MEDIA:  ", "```\n", "![](/a \n"),
            before="MEDIA:x\n",
        ),
        "edits": Reader(edit, ("a\n", "  a\n", "1|a\n", "x"), longest=262_144),
        "patches": Reader(patch, ("@@\n", "+a\n", " a\n", "*** Add File: a\n", "-a\n")),
        "replies": Reader(reply, _REPLIES),
        "command output": Reader(clean, _ESCAPES),
        "terminal": Reader(harmless, _ESCAPES),
    }
