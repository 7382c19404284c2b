"""What several files of these tests share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .xmpp_server import Prosody


@pytest.fixture(scope="session")
def prosody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prosody]:
    """An XMPP server for the whole run; each test makes accounts of its own."""
    from .xmpp_server import Prosody

    server = Prosody(tmp_path_factory.mktemp("prosody"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
