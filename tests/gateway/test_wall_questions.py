"""What a command needs beyond its wall, asked in a chat so that it reads well there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.scripted import call, say

from .chats import gateway


@pytest.mark.parametrize(
    ("needs", "description", "is_kept"),
    [
        (["write:/usr"], "Writes to /usr", True),
        (["host:Example.org."], "Connects to example.org", True),
        (["host:a.org", "host:b.org"], "Connects to a.org; Connects to b.org", True),
        (["network"], "Uses the whole network", True),
        (["no wall"], "Runs without a wall, with all that this account may do", False),
    ],
)
async def test_a_need_is_asked_with_the_command_and_what_it_wants(
    tmp_path: Path, needs: list[str], description: str, is_kept: bool
) -> None:
    steps: list[Any] = [call("terminal", command="echo it ran", needs=needs), say("done")]
    async with gateway(tmp_path / "home", steps) as chats:
        asked = await chats.ask("Do it")
        assert asked.startswith("🔐 May I do this?\n")
        assert "echo it ran" in asked
        assert f"\n{description}\n" in asked
        assert ("/approve always" in asked) is is_kept
        assert "/approve" in asked and "/deny" in asked
        await chats.say("/approve")
        while "done" not in chats.local.texts("1"):
            await chats.local.wait_for(len(chats.local.texts("1")) + 1)
        results = [m["content"] for m in chats.model.requests[-1].messages if m["role"] == "tool"]
        assert results == ["it ran"]
