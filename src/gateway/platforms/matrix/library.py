"""matrix-nio, imported without what Hermes does not use of it.

One of its parts keeps keys in a database of its own, through a library that loads the drivers of
every database that is installed. Hermes keeps the keys in its own store, and the drivers would take
as much memory as matrix-nio itself.
"""

from __future__ import annotations

import sys
from typing import Any

_DRIVERS = ("psycopg", "psycopg2", "psycopg2cffi", "pymysql", "MySQLdb")


def import_library() -> Any:
    """The module; raises ImportError if it is not installed."""
    absent = {name: None for name in _DRIVERS if name not in sys.modules}
    sys.modules.update(absent)  # type: ignore[arg-type]  # None: it cannot be imported
    try:
        import nio  # type: ignore[import-untyped]
    finally:
        for name in absent:
            sys.modules.pop(name, None)
    return nio
