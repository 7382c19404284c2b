"""`hermes mcp`: the real program as an MCP server, asked by our own client."""

from __future__ import annotations

import pytest

from tools.base import ToolContext, ToolError
from tools.mcp.client import close_mcp, load_mcp_tools

from .conftest import Hermes

pytest.importorskip("mcp")


def test_serving_tools(bare_hermes: Hermes) -> None:
    entry = {
        "command": bare_hermes.command[0],
        "args": ["mcp", "serve"],
        "env": bare_hermes.environment,
        "cwd": str(bare_hermes.home),
    }
    key = "sk-proj-" + "a1B2" * 12
    (bare_hermes.home / "note.txt").write_text(f"a line with {key}\n")
    try:
        tools = {one.name: one for one in load_mcp_tools({"mcp_servers": {"h": entry}}, seconds=60)}
        here = ToolContext("s", "c")
        assert "mcp_h_delegate_task" not in tools
        assert "mcp_h_clarify" not in tools
        path = str(bare_hermes.home / "note.txt")
        read = tools["mcp_h_read_file"].run(here, path=path)
        assert "a line with" in read
        assert key not in read
        assert "42" in tools["mcp_h_terminal"].run(here, command="echo $((6 * 7))")
        with pytest.raises(ToolError, match=r"Not allowed|Refused"):
            tools["mcp_h_terminal"].run(here, command="rm -rf ~/everything")
    finally:
        close_mcp()


def test_listing_servers(bare_hermes: Hermes) -> None:
    shown = bare_hermes.run("mcp", "list")
    assert (shown.returncode, "No MCP servers" in shown.stdout) == (0, True)
    bare_hermes.configure(
        f"mcp_servers:\n  own:\n    command: {bare_hermes.command[0]}\n    args: [mcp, serve]\n"
    )
    shown = bare_hermes.run("mcp", "list")
    assert shown.returncode == 0, shown.stderr
    assert "own: " in shown.stdout
    assert "mcp_own_terminal" in shown.stdout
