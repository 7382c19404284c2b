"""MCP servers behind walls of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.base import ToolContext
from tools.mcp.client import ServerConfig, close_mcp, load_mcp_tools
from tools.processes.ledger import RUN_FOLDER, Ledger

pytest.importorskip("mcp")

_SERVER = """
import socket
from pathlib import Path
from mcp.server import MCPServer

server = MCPServer("walled")

@server.tool()
def write(path: str) -> str:
    "Write a file."
    try:
        Path(path).write_text("written")
    except OSError as error:
        return type(error).__name__
    return "written"

@server.tool()
def read(path: str) -> str:
    "Read a file."
    try:
        return Path(path).read_text()
    except OSError as error:
        return type(error).__name__

@server.tool()
def connect(port: int) -> str:
    "Connect to a port."
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError as error:
        return type(error).__name__
    return "connected"

server.run("stdio")
"""


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    yield
    close_mcp()


def tools_of(walled: ToolContext, **entry: object) -> dict[str, object]:
    root = walled.workspace.root
    (root / "server.py").write_text(_SERVER)
    full = {"command": sys.executable, "args": [str(root / "server.py")], **entry}
    tools = load_mcp_tools({"mcp_servers": {"one": full}}, home=walled.workspace.home)
    assert len(tools) == 3, "it could not be started"
    return {
        tool.name.rpartition("_")[2]: lambda tool=tool, **kw: tool.run(walled, **kw)
        for tool in tools
    }


def test_a_server_writes_to_its_own_roots_and_sees_no_keys(walled: ToolContext) -> None:
    person = walled.workspace.root.parent
    (person / "own").mkdir()
    call = tools_of(walled, roots=["~/own"], sandbox="required")
    assert "written" in call["write"](path=str(person / "own/a"))
    assert "Error" in call["write"](path=str(walled.workspace.root / "b"))
    assert "shown" in call["read"](path=str(person / "notes.txt"))
    assert "hidden" not in call["read"](path=str(person / ".ssh/id_ed25519"))
    assert "hidden" not in call["read"](path=str(person / ".hermes/.env"))
    close_mcp()
    assert list((walled.workspace.home / RUN_FOLDER).glob("*")) == []
    assert Ledger(walled.workspace.home).records() == []


def test_a_network_that_was_closed_is_closed(walled: ToolContext) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert "connected" in tools_of(walled)["connect"](port=port)
        close_mcp()
        assert "connected" not in tools_of(walled, network="off")["connect"](port=port)


def test_what_is_said_about_its_wall_is_checked() -> None:
    with pytest.raises(ValueError, match="roots must be a list"):
        ServerConfig.read("a", {"command": "x", "roots": "/srv"})
    with pytest.raises(ValueError, match="auto, required or off"):
        ServerConfig.read("a", {"command": "x", "sandbox": "maybe"})
    assert ServerConfig.read("a", {"command": "x", "network": False}).wall.network is False
    assert (
        Path("/srv").as_posix()
        in ServerConfig.read("a", {"command": "x", "roots": ["/srv"]}).wall.roots
    )
