"""Which of Hermes' environment variables a command may see.

Hermes runs with keys to models, chats and clouds in its environment. A command gets everything
except what looks like a credential, by its name or by a secret inside its value, as the table of
secrets has it (`hermes_base.redaction.table`); `pass_env` in the settings names those that
a command may have after all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase, translate

from hermes_base.redaction import redact
from hermes_base.redaction.table import ENVIRONMENT, name_kind

_SECRET_NAME = re.compile("|".join(map(translate, ENVIRONMENT)))


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
    return [name for item in given for name in str(item).replace(",", " ").split()]


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential."""
    if _SECRET_NAME.match(name.upper()) or name_kind(name) == "plain":
        return True
    return redact(value) != value
