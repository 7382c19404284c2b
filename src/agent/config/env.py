"""Reading `.env`: NAME=value lines, the only place in the Hermes home for secrets.

The format is the common one: comments, `export`, single quotes (taken literally) and double quotes
(with \\n, \\t, \\" and \\\\), either of which may span lines. A line that is none of these is
reported by its number alone, since it may hold a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from agent.home import ConfigError

PLATFORM_VARIABLES = {
    "TELEGRAM_BOT_TOKEN": "telegram", "MATRIX_ACCESS_TOKEN": "matrix", "MATRIX_PASSWORD": "matrix",
    "DISCORD_BOT_TOKEN": "discord", "IRC_PASSWORD": "irc", "IRC_SERVER": "irc",
    "EMAIL_PASSWORD": "email", "SLACK_BOT_TOKEN": "slack", "SLACK_APP_TOKEN": "slack",
    "SIGNAL_ACCOUNT": "signal", "XMPP_PASSWORD": "xmpp",
    "WHATSAPP_CLOUD_ACCESS_TOKEN": "whatsapp_cloud", "WHATSAPP_CLOUD_APP_SECRET": "whatsapp_cloud",
    "WHATSAPP_CLOUD_VERIFY_TOKEN": "whatsapp_cloud",
}  # fmt: skip
"""Variables that connect a platform without a section, as its manifest says."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
# A session key says where a conversation is reached from; it is no secret, and logs need it.
_SECRET_NAME = re.compile(
    r"^(?!HERMES_SESSION_).*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.I
)


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """A line to pass over, and a line with a value; compiled only where there is a file to read."""
    ignored = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
    line = re.compile(
        r"""[ \t]*(?:export[ \t]+)?
            (?P<name>[A-Za-z_][A-Za-z0-9_.]*)[ \t]*=[ \t]*
            (?:'(?P<single>[^']*)'[ \t]*(?:\#[^\n]*)?
             | "(?P<double>(?:[^"\\]|\\.)*)"[ \t]*(?:\#[^\n]*)?
             | (?P<plain>[^\n]*)
            )(?:\n|\Z)""",
        re.VERBOSE | re.DOTALL,
    )
    return ignored, line


def parse_dotenv(text: str) -> tuple[dict[str, str], list[int]]:
    """The values in `text` (the last of two with one name wins), and the numbers of bad lines."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    values: dict[str, str] = {}
    bad: list[int] = []
    position = 0
    ignored_line, value_line = _patterns()
    while position < len(text):
        if ignored := ignored_line.match(text, position):
            position = ignored.end()
            continue
        line = value_line.match(text, position)
        if line is None or _opens_a_quote(line["plain"]):
            bad.append(text.count("\n", 0, position) + 1)
            newline = text.find("\n", position)
            position = len(text) if newline < 0 else newline + 1
            continue
        values[line["name"]] = _value(line)
        position = line.end()
    return values, bad


def load_dotenv(path: Path) -> tuple[dict[str, str], list[str]]:
    """The values of the file at `path` (none if it does not exist), and warnings about it."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read()
            mode = path.stat().st_mode
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read: {error.strerror}. Run: chmod u+r {path}"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    values, bad = parse_dotenv(text)
    warnings = [f"{path}, line {n}: ignored, it is not of the form NAME=value." for n in bad]
    if mode & 0o077:
        warnings.append(f"{path} holds secrets and others can read it. Run: chmod 600 {path}")
    return values, warnings


def secret_values(environ: Mapping[str, str]) -> list[str]:
    """The values whose names say that they are secrets (…_KEY, …_TOKEN, …_PASSWORD and so on)."""
    return [value for name, value in environ.items() if value and _SECRET_NAME.search(name)]


def _opens_a_quote(plain: str | None) -> bool:
    """A quote that never closes would otherwise become part of the value."""
    return plain is not None and plain[:1] in ("'", '"')


def _value(line: re.Match[str]) -> str:
    if line["single"] is not None:
        return line["single"]
    if line["double"] is not None:
        return re.sub(r"(?s)\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), line["double"])
    return re.sub(r"(?:^|[ \t])\#.*", "", line["plain"]).strip()
