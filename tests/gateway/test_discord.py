"""Discord's adapter keeps the contract, and reads and refuses as its pages say."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

pytest.importorskip("discord", reason="discord.py is not installed: pip install -e '.[discord]'")

from gateway.platforms import lanes

from .adapter_conformance import AdapterConformance
from .discord_api import DiscordApi
from .discord_chats import DiscordPlace


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same pauses, a hundred times shorter."""
    monkeypatch.setattr(lanes, "FIRST_PAUSE", 0.01)


class TestDiscord(AdapterConformance):
    @pytest.fixture
    async def place(self, tmp_path: Path) -> AsyncIterator[DiscordPlace]:
        async with DiscordApi() as api:
            yield DiscordPlace(api, tmp_path)
