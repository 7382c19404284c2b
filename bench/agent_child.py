"""The measured side of `bench.agent`: each function runs in a fresh process and prints JSON."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOOL_CALLS = 10


def _registry() -> Any:
    from tools.base import ToolContext, tool
    from tools.registry import Registry

    def echo(context: ToolContext, text: str) -> str:
        return text

    return Registry([tool(toolset="bench", effect="none")(echo)])


def _script() -> Any:
    from agent.model import Usage
    from agent.scripted import Call, calls, say

    usage = Usage(1000, 20)
    both = calls([Call("echo", {"text": "x" * 200})] * 2, usage=usage)
    turn = [both] * (TOOL_CALLS // 2) + [say("Done. " * 20, usage=usage)]
    return itertools.cycle(turn)


def turns(count: int) -> dict[str, Any]:
    """The engine's time per turn with ten tool calls, and the same writes done bare."""
    import apsw

    from agent.agent import AIAgent
    from agent.scripted import ScriptedModel
    from hermes_state import SessionDB

    with tempfile.TemporaryDirectory() as folder:
        with SessionDB(Path(folder) / "engine" / "state.db") as db:
            model = ScriptedModel(_script(), record=False)
            ours = []
            agents = [AIAgent(model, db=db, tools=_registry()) for _ in range(count + 3)]
            for agent in agents:
                started = time.perf_counter()
                result = agent.run_conversation("Go. " * 20)
                ours.append(time.perf_counter() - started)
                assert result["completed"] and result["api_calls"] == TOOL_CALLS // 2 + 1
            sample = db.get_messages(agents[-1].session_id)
            names = [name for name in sample[0] if name != "id"]
            rows = [tuple(_column(message[name]) for name in names) for message in sample]
        with SessionDB(Path(folder) / "bare" / "state.db") as db:
            writer: apsw.Connection = db._database._writer
            bare = [_bare_turn(writer, names, rows, number) for number in range(count + 3)]
    return {"ours": ours[3:], "bare": bare[3:], "rows": len(rows)}


def _column(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


def _bare_turn(writer: Any, names: list[str], rows: list[tuple[Any, ...]], number: int) -> float:
    """One turn's rows, one transaction a step, by SQLite alone."""
    session = f"20260101_000000_{number:06d}"
    place = names.index("session_id")
    insert = f"INSERT INTO messages ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    role = names.index("role")
    started = time.perf_counter()
    for index, row in enumerate(rows):
        writer.execute("BEGIN IMMEDIATE")
        if index == 0:
            writer.execute(
                "INSERT INTO sessions (id, source, started_at, conversation_id, version, model)"
                " VALUES (?, 'cli', ?, ?, 1, 'm')",
                (session, time.time(), session),
            )
        writer.execute(insert, (*row[:place], session, *row[place + 1 :]))
        writer.execute(
            "UPDATE sessions SET message_count = message_count + 1, version = version + 1,"
            " last_active = ? WHERE id = ?",
            (time.time(), session),
        )
        if row[role] == "assistant":
            writer.execute(
                "UPDATE sessions SET input_tokens = input_tokens + 1000, api_call_count ="
                " api_call_count + 1, version = version + 1 WHERE id = ?",
                (session,),
            )
            writer.execute(
                "INSERT INTO session_model_usage (session_id, model, input_tokens) VALUES (?, 'm',"
                " 1000) ON CONFLICT DO UPDATE SET input_tokens = input_tokens + 1000",
                (session,),
            )
        writer.execute("COMMIT")
    return time.perf_counter() - started


def chunks(url: str, count: int) -> dict[str, Any]:
    """CPU seconds for one streamed reply: through the engine, and with httpx and json alone."""
    import httpx

    from agent.agent import AIAgent
    from agent.providers import build_model

    model = build_model(
        {"provider": "custom", "default": "zero", "base_url": f"{url}/v1", "api_key": "k"}
    )
    agent = AIAgent(model)
    request = {"model": "zero", "stream": True, "messages": [{"role": "user", "content": "Go."}]}

    def engine() -> float:
        pieces: list[str] = []
        started = time.process_time()
        result = agent.run_conversation("Go.", [], pieces.append)
        spent = time.process_time() - started
        assert len(pieces) == count and result["completed"], result["error"]
        return spent

    async def bare_stream(client: httpx.AsyncClient) -> int:
        seen = 0
        async with client.stream("POST", f"{url}/v1/chat/completions", json=request) as reply:
            async for line in reply.aiter_lines():
                if line.startswith("data: {"):
                    choices = json.loads(line[6:])["choices"]
                    seen += bool(choices and choices[0]["delta"].get("content"))
        return seen

    loop = asyncio.new_event_loop()
    client = httpx.AsyncClient()

    def bare() -> float:
        started = time.process_time()
        assert loop.run_until_complete(bare_stream(client)) == count
        return time.process_time() - started

    for _ in range(2):
        engine()
        bare()
    ours, plain = [], []
    for _ in range(7):
        ours.append(engine())
        plain.append(bare())
    return {"ours": ours, "bare": plain}


def crowd(conversations: int, delay: float) -> dict[str, Any]:
    """Turns at once on one event loop, each with two model calls that take `delay` seconds."""
    from agent.agent import AIAgent
    from agent.outcome import TurnOutcome
    from agent.request import Question
    from agent.scripted import ScriptedModel, call, say
    from hermes_state import SessionDB

    async def all_at_once(db: SessionDB) -> list[TurnOutcome]:
        registry = _registry()

        def model() -> ScriptedModel:
            steps = [call("echo", text="x"), say(delay, "Done.")]
            return ScriptedModel(steps, record=False)

        agents = [AIAgent(model(), db=db, tools=registry) for _ in range(conversations)]
        return await asyncio.gather(*(agent.run(Question("Go.")) for agent in agents))

    with tempfile.TemporaryDirectory() as folder, SessionDB(Path(folder) / "state.db") as db:
        asyncio.run(AIAgent(ScriptedModel([say("warm")]), db=db).run(Question("Go.")))
        before = _resident()
        started = time.perf_counter()
        outcomes = asyncio.run(all_at_once(db))
        took = time.perf_counter() - started
        assert all(outcome.completed for outcome in outcomes)
        assert db.message_count() == conversations * 4 + 2
        return {"seconds": took, "bytes": max(0, _peak() - before)}


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    function, *arguments = sys.argv[1:]
    given = [json.loads(argument) for argument in arguments]
    print(json.dumps(globals()[function](*given)))
