"""A platform's library, imported without what it would load and Hermes does not use of it.

Some libraries load whatever is installed for parts of theirs that nobody calls here: drivers of
databases, a library of cryptography. That can take more memory than the rest of them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from typing import Any

DATABASES = ("psycopg", "psycopg2", "psycopg2cffi", "pymysql", "MySQLdb")
"""Drivers, for which matrix-nio's own store of keys looks; ours is another."""
PASSPORT = ("cryptography",)
"""What python-telegram-bot decrypts Telegram Passport with."""


def import_without(name: str, left_out: Iterable[str]) -> Any:
    """The module of that name; raises ImportError if it is not installed.

    While it is imported, the packages in `left_out` cannot be, unless they are there already: it
    must be able to do without them. Afterwards they can be imported as before.
    """
    absent = {package: None for package in left_out if package not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        return importlib.import_module(name)
    finally:
        for package in absent:
            sys.modules.pop(package, None)
