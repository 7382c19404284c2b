"""Which of Hermes' environment variables a command may see.

Hermes runs with keys to models, chats and clouds in its environment. A command gets everything
except what looks like a credential, by its name or by a password inside its value; `pass_env` in
the terminal's settings names those that a command may have after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase, translate

SECRET_NAMES = (
    "HERMES_*", "AWS_*", "*_KEY", "*_KEYS", "*_KEY_ID", "*APIKEY*", "*API_KEY*", "*ACCESS_KEY*",
    "*PRIVATE_KEY*", "*SECRET*", "*TOKEN*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*", "*_PASS",
    "*_PWD", "*_PAT", "*CREDENTIAL*", "*COOKIE*", "*WEBHOOK*", "*_AUTH", "*_AUTH_CONFIG", "*_DSN",
)  # fmt: skip
"""Patterns of names, in capitals. SSH_AUTH_SOCK stays: a socket to ask, not a key to copy."""

_SECRET_NAME = re.compile("|".join(map(translate, SECRET_NAMES)))
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]*:[^/\s@]+@")


def child_environment(environ: Mapping[str, str], allow: Iterable[str] = ()) -> dict[str, str]:
    """`environ` without credentials; `allow` holds names, or patterns such as "AWS_*", to keep."""
    allowed = tuple(allow)
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatchcase(name, pattern) for pattern in allowed) or not is_secret(name, value)
    }


def named(environ: Mapping[str, str], allow: Iterable[str]) -> dict[str, str]:
    """The variables that names, or patterns such as "AWS_*", stand for."""
    patterns = tuple(allow)
    return {
        name: value
        for name, value in environ.items()
        if any(fnmatchcase(name, pattern) for pattern in patterns)
    }


def names(value: object) -> list[str]:
    """Names from the configuration: a list, or one text with blanks or commas between them."""
    given = value if isinstance(value, list | tuple) else [value or ""]
    return [name for one in given for name in str(one).replace(",", " ").split()]


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential."""
    return bool(_SECRET_NAME.match(name.upper()) or _PASSWORD_IN_URL.search(value))
