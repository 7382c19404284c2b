"""Hermes as an MCP server, asked by its own client over real pipes."""

from __future__ import annotations

import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tools.base import ToolContext, ToolError
from tools.mcp.client import close_mcp, load_mcp_tools

pytest.importorskip("mcp")

PROGRAM = """
    from pathlib import Path
    import sys
    from tools.base import ToolContext, ToolError, Workspace, tool
    from tools.mcp.serve import serve
    from tools.registry import Registry

    folder = Path(sys.argv[1])

    @tool(toolset="x", effect="none")
    def double(context: ToolContext, number: int) -> dict:
        '''Double a number.

        number: what to double
        '''
        print("this must not disturb the protocol")
        return {"session": context.session_id, "result": number * 2}

    @tool(toolset="x", effect="none")
    async def refuse(context: ToolContext) -> str:
        '''Refuse.'''
        raise ToolError("Not today. Try tomorrow.")

    @tool(toolset="x", effect="none")
    def crash(context: ToolContext) -> str:
        '''Crash.'''
        raise KeyError("oops")

    @tool(toolset="x", effect="none", max_output=1000)
    def talk(context: ToolContext) -> str:
        '''Talk a lot.'''
        return "word " * 1000

    @tool(toolset="x", effect="none")
    def wait(context: ToolContext) -> str:
        '''Wait until interrupted.'''
        (folder / "began").touch()
        context.cancelled.wait(120)
        (folder / "cancelled").touch()
        return "over"

    serve(Registry([double, refuse, crash, talk, wait]),
          lambda: ToolContext("served", "c", workspace=Workspace(folder, folder)))
"""


@pytest.fixture
def tools(tmp_path: Path):
    program = tmp_path / "serve.py"
    program.write_text(textwrap.dedent(PROGRAM))
    entry = {"command": sys.executable, "args": [str(program), str(tmp_path)]}
    yield {tool.name: tool for tool in load_mcp_tools({"mcp_servers": {"h": entry}})}
    close_mcp()


def until_exists(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never appeared"
        time.sleep(0.01)


def test_offers_and_runs_tools(tools):
    here = ToolContext("s", "c")
    names = ["double", "refuse", "crash", "talk", "wait"]
    assert list(tools) == [f"mcp_h_{name}" for name in names]
    double = tools["mcp_h_double"]
    assert double.parameters["properties"]["number"]["description"] == "what to double"
    assert double.run(here, number=4) == '{"session": "served", "result": 8}'
    assert double.run(here, number="5") == '{"session": "served", "result": 10}'
    for name, arguments, message in [
        ("double", {"number": "x"}, "must be integer"),
        ("double", {}, "needs 'number'"),
        ("refuse", {}, "Not today"),
        ("crash", {}, "KeyError"),
    ]:
        with pytest.raises(ToolError, match=message):
            tools[f"mcp_h_{name}"].run(here, **arguments)
    assert "characters left out; read_file" in tools["mcp_h_talk"].run(here)


def test_a_cancelled_call_is_interrupted(tools, tmp_path):
    context = ToolContext("s", "c")
    failed = threading.Event()

    def work() -> None:
        with pytest.raises(ToolError, match="interrupted"):
            tools["mcp_h_wait"].run(context)
        failed.set()

    thread = threading.Thread(target=work)
    thread.start()
    until_exists(tmp_path / "began")
    context.cancelled.set()
    thread.join(30)
    assert failed.is_set()
    until_exists(tmp_path / "cancelled")
    assert tools["mcp_h_double"].run(ToolContext("s", "c"), number=1)
