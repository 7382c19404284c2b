"""One side of `bench.agent.engine` in a process of its own: `python -m bench.engine_child SEED`.

`ours` and `theirs` are the engine that the interpreter has, each with its `todo` tool, which keeps
a list in memory, its store, and a new conversation for every turn. `bare` does the same steps with
httpx and apsw alone: ask the model, write each message in a commit, keep the list.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.lines import answer_lines


class Turned(NamedTuple):
    """What came of a turn."""

    text: str
    messages: list[dict[str, Any]]


Run = Callable[[str], Turned]


def ours(folder: Path, url: str) -> Run:
    """Our engine."""
    from agent import AIAgent
    from agent.providers import build_model
    from hermes_state import SessionDB
    from tools.base import Workspace
    from tools.planning import todo
    from tools.registry import Registry

    db = SessionDB(folder / "state.db")
    settings = {"provider": "custom", "default": "zero", "base_url": f"{url}/v1", "api_key": "k"}
    model = build_model(settings)

    def run(text: str) -> Turned:
        workspace = Workspace(folder, folder.parent)
        agent = AIAgent(model, db=db, tools=Registry([todo]), workspace=workspace)
        result = agent.run_conversation(text)
        return Turned(result["final_response"], db.get_messages(agent.session_id))

    return run


def theirs(folder: Path, url: str) -> Run:
    """The engine of hermes-agent."""
    from run_agent import AIAgent  # type: ignore[import-not-found]

    from hermes_state import SessionDB

    db = SessionDB(db_path=folder / "state.db")

    def run(text: str) -> Turned:
        agent = AIAgent(
            base_url=f"{url}/v1", api_key="k", provider="custom", model="zero", session_db=db,
            enabled_toolsets=["todo"], quiet_mode=True, tool_delay=0.0, skip_memory=True,
            skip_context_files=True, platform="cli", session_id=uuid.uuid4().hex,
        )  # fmt: skip
        result = agent.run_conversation(text)
        return Turned(result["final_response"], db.get_messages(agent.session_id))

    return run


def bare(folder: Path, url: str) -> Run:
    """The steps of a turn, and nothing else."""
    import apsw
    import httpx

    connection = apsw.Connection(str(folder / "bare.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE messages (id INTEGER PRIMARY KEY, session TEXT, said TEXT)")
    client = httpx.Client()
    tool = {"type": "function", "function": {"name": "todo", "parameters": {}}}

    def run(text: str) -> Turned:
        session, said = uuid.uuid4().hex, list[dict[str, Any]]()

        def keep(message: dict[str, Any]) -> None:
            said.append(message)
            connection.execute(
                "INSERT INTO messages (session, said) VALUES (?, ?)", (session, json.dumps(message))
            )

        keep({"role": "user", "content": text})
        while True:
            request = {"model": "zero", "messages": said, "tools": [tool]}
            reply = client.post(f"{url}/v1/chat/completions", json=request).json()
            message = reply["choices"][0]["message"]
            keep(message)
            if not message.get("tool_calls"):
                return Turned(message["content"], said)
            for call in message["tool_calls"]:
                steps = json.loads(call["function"]["arguments"])["todos"]
                keep({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(steps)})

    return run


class Worker:
    """What the measuring side may ask for."""

    def __init__(self) -> None:
        self._run: Run | None = None

    def open(self, side: str, folder: str, url: str) -> dict[str, Any]:
        """Make the engine of a side ready."""
        self._run = {"ours": ours, "theirs": theirs, "bare": bare}[side](Path(folder), url)
        return {}

    def turn(self, text: str) -> dict[str, Any]:
        """One turn in a session of its own: how long it took, what was called and answered."""
        assert self._run is not None
        started = time.perf_counter()
        done = self._run(text)
        seconds = time.perf_counter() - started
        results = [str(one["content"]) for one in done.messages if one["role"] == "tool"]
        # Who has not run every call has not done the work.
        run = {found[1] for text in results if (found := re.search(r"step (\d+)", text))}
        return {"seconds": seconds, "text": done.text, "calls": len(run)}


if __name__ == "__main__":
    answer_lines(Worker())
