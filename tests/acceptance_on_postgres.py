"""A plugin of pytest: other suites, which open stores by a path, with those on PostgreSQL.

HERMES_TEST_STORE=postgres python -m pytest -p tests.acceptance_on_postgres SUITES
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import server_store


@pytest.fixture(autouse=True)
def wanted_store() -> Iterator[None]:
    """Stores are databases of a server."""
    with pytest.MonkeyPatch.context() as patch, server_store.stores_on_server(patch):
        yield
