"""A turn whose machine is gone goes on elsewhere, unless it worked on files that are not here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.build import usable_tools
from agent.config import load_config
from conversation.abandoned import LEFT_BEHIND, LOCAL_TOOLS
from hermes_base.process import this_process
from hermes_state import LEASE_SECONDS, SessionDB
from hermes_state.tool_runs import Started

from ..state.owners import acting_as, owner
from ..state.raw import tamper
from .chats import gateway

pytestmark = pytest.mark.postgres

KEY = "agent:main:local:dm:1"
SOURCE = {"platform": "local", "chat_id": "1", "user_id": "u1", "chat_type": "dm"}
TARGET = {"id": "t", "to": {"session_key": KEY, "platform": "local", "chat_id": "1"}}


def leave_turn(home: Path, tool: str, machine: str) -> None:
    """A turn with a tool, in the middle of which its machine was lost."""
    asks: dict[str, Any] = {
        "role": "assistant", "content": "",
        "tool_calls": [{"id": "c", "function": {"name": tool, "arguments": "{}"}}],
    }  # fmt: skip
    done = {"role": "tool", "content": "done", "tool_call_id": "c", "tool_name": tool}
    with SessionDB(home / "state.db") as db:
        with acting_as("a"):
            begun = db.begin_turn("s", {"role": "user", "content": "dig"}, source="local",
                                  facts={"session_key": KEY}, leased=True,
                                  deliver_to=TARGET)  # fmt: skip
            db.record_step("s", [asks], lease=begun.lease, starts=[Started("c", tool, "effectful")])
            db.record_step("s", [done], lease=begun.lease)
        assert owner("a").startswith("machine-a|")
        tamper(
            db,
            f"UPDATE turns SET heartbeat_at = heartbeat_at - {LEASE_SECONDS + 1},"
            f" owner = '{machine}'",
        )


@pytest.mark.parametrize(
    ("tool", "yaml", "is_here", "goes_on"),
    [
        ("terminal", "", False, False),
        ("terminal", "", True, True),
        ("terminal", "replicas:\n  workspace: shared\n", False, True),
        ("web_fetch", "", False, True),
    ],
    ids=["files of another", "files of ours", "shared files", "no files"],
)
async def test_a_turn_goes_on_where_its_files_are(
    tmp_path: Path, tool: str, yaml: str, is_here: bool, goes_on: bool
) -> None:
    place = this_process().split("|")
    here = "|".join([place[0] or "here", place[1], "pid:[other]", "1", "1"])
    leave_turn(tmp_path, tool, here if is_here and place[0] else owner("a"))
    if is_here and not place[0]:
        pytest.skip("this machine has no id to know it by")
    async with gateway(tmp_path, yaml=yaml) as chats:
        shown = await chats.local.wait_for(1)
        assert shown[0] == ("re: dig" if goes_on else LEFT_BEHIND)
        if not goes_on:
            assert await chats.ask("continue") == "re: continue"


def test_the_tools_of_one_machine_are_named(tmp_path: Path) -> None:
    local = {"files", "terminal", "code_execution"}
    registry = usable_tools(load_config(tmp_path, {}))
    assert {tool.name for tool in registry if tool.toolset in local} == LOCAL_TOOLS
