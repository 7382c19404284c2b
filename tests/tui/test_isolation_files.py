"""What lies in the home of another person does not exist for somebody's agent, unasked: files that
came with messages, exports, pastes, long output, memories, logs."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

from method_calls import Gateway
from people import Client, client

from agent.scripted import call, say
from agent.tool_calls import call_tool
from tools.base import ToolError

SECRET = "zebrastripes"


class Unasked:
    """Fails if anybody is asked."""

    def approve(self, request: Any) -> Any:
        raise AssertionError(f"asked: {request.command}")

    def clarify(self, question: str, choices: list[str]) -> str:
        raise AssertionError(f"asked: {question}")


def attached(who: Client, sid: str, name: str) -> str:
    data = "data:text/plain;base64," + base64.b64encode(SECRET.encode()).decode()
    return str(who.call("file.attach", session_id=sid, name=name, data_url=data)["path"])


def run(gateway: Gateway, sid: str, name: str, **arguments: Any) -> str:
    """What a tool says in somebody's conversation."""
    agent = gateway.live(sid)["agent"]
    tool = next(tool for tool in agent.tools if tool.name == name)
    context = agent._tool_context("call", print)
    context.asker = Unasked()
    try:
        return str(asyncio.run(call_tool(tool, context, arguments)))
    except ToolError as error:
        return str(error)


def test_files_of_others_do_not_exist(gateway: Gateway) -> None:
    ada, bob = client(gateway, "telegram:1", "Ada"), client(gateway, "telegram:2", "Bob")
    gateway.script(
        [call("terminal", command=f"printf '{SECRET}%.0s' $(seq 9999)"), *[say("ok")] * 9]
    )
    hers, his = ada.open(title=f"{SECRET} essay"), bob.open()
    ada.ask(hers, f"about {SECRET}")
    bob.ask(his, "hello")
    ada.call("memory.add", session_id=hers, text=f"{SECRET} are nice.")
    saved = ada.call("session.save", session_id=hers)["file"]
    paste = ada.call("paste.collapse", text=SECRET * 3)["path"]
    upload, own = attached(ada, hers, "hers.txt"), attached(bob, his, "mine.txt")
    home = gateway.home
    (home / "logs").mkdir(exist_ok=True)
    (home / "logs" / "gateway.log").write_text(SECRET)
    output = [str(path) for path in (home / "tool-output").rglob("*") if path.is_file()]
    memory = [str(path) for path in (home / "people").rglob("*") if path.is_file()]
    assert output and memory
    theirs = [saved, paste, upload, *output, *memory, str(home / "logs" / "gateway.log")]
    for path in [*theirs, str(home / "config.yaml")]:
        for parameters in (
            ("read_file", {"path": path}),
            ("patch", {"path": path, "old_string": SECRET, "new_string": "x"}),
        ):
            missing = parameters[1] | {"path": str(Path(path).with_name("none.txt"))}
            there = run(gateway, his, parameters[0], **parameters[1])
            not_there = run(gateway, his, parameters[0], **missing)
            assert there.replace(path, "?") == not_there.replace(missing["path"], "?"), path
            assert SECRET not in there.replace(path, "?")
        found = run(gateway, his, "search_files", pattern=SECRET, path=str(Path(path).parent))
        assert f"1:{SECRET}" not in found, path
    everywhere = run(gateway, his, "search_files", pattern=SECRET, path=str(home))
    assert not [path for path in theirs if path in everywhere]
    assert f"|{SECRET}" in run(gateway, his, "read_file", path=own)
    assert f"|{SECRET}" in run(gateway, hers, "read_file", path=upload)
    assert Path(upload).read_text() == SECRET
