"""XMPP's adapter against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("slixmpp", reason="slixmpp is not installed: pip install -e '.[xmpp]'")

from gateway import delivery, supervision
from gateway.platforms import lanes

from .adapter_conformance import AdapterConformance
from .xmpp_chats import XmppPlace
from .xmpp_server import Files, Person, Prosody, Wire


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    for module in (delivery, supervision, lanes):
        monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
        monkeypatch.setattr(module, "LONGEST_PAUSE", 0.05)


class TestConformance(AdapterConformance):
    @pytest.fixture
    async def place(self, prosody: Prosody, tmp_path: Path) -> AsyncIterator[XmppPlace]:
        async with (
            Wire(prosody.port) as wire,
            Files() as files,
            Person(prosody, prosody.add_account("ann")) as ann,
        ):
            place = XmppPlace(prosody, wire, files, ann, tmp_path)
            yield place
            await place.close()
