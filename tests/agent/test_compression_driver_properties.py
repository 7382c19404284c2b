"""Whatever was said and whatever the summariser does: it ends, it fits, and nothing is lost."""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.compression.tokens import estimate_tokens
from agent.config.schema import CompressionSettings
from agent.errors import ContextTooLongError
from agent.model import ModelRequest, Usage
from agent.scripted import Call, ScriptedModel, Step, calls, fail, say
from hermes_state import SessionDB
from tools.base import ToolContext, tool
from tools.registry import Registry

from .. import seeds
from ..state.memory import MEMORY
from .compressing import GOOD, check_conversation
from .histories import problems

BEHAVIOURS = ["good", "fails", "says nothing", "says more", "nonsense", "hangs", "is interrupted"]
FILLERS = [
    "word ",
    "Grüße ",
    "猫 ",
    "3.14159 ",
    '{"a": [1]} ',
    "deadbeef" * 4,
    "\n\n- item\n",
    "😀",
]


class AnyBehaviour(Auxiliary):
    """A summariser that does the next of `behaviours` each time, the last one for ever."""

    def __init__(self, behaviours: list[str]) -> None:
        super().__init__(lambda: ScriptedModel([]))
        self._next = itertools.chain(behaviours, itertools.repeat(behaviours[-1]))
        self.agent: AIAgent | None = None

    async def ask(
        self,
        task: str,
        system: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> str:
        behaviour = next(self._next)
        if behaviour == "fails":
            raise RuntimeError("down")
        if behaviour == "is interrupted" and self.agent is not None:
            self.agent.interrupt()
        if behaviour in ("hangs", "is interrupted"):
            await asyncio.Event().wait()
        entry = {"kind": "fact", "text": prompt * 3, "messages": list(range(500))}
        return {
            "good": GOOD,
            "says nothing": "  ",
            "says more": json.dumps({"add": [entry] * 50}),
            "nonsense": "]}{ # Goal: [#99999999] -",
        }[behaviour]


contents = st.builds(
    lambda filler, count, image: (filler * count, image),
    st.sampled_from(FILLERS),
    st.one_of(st.integers(0, 30), st.integers(0, 400), st.integers(0, 3000)),
    st.integers(0, 9).map(lambda n: n == 0),
)
exchanges = st.lists(
    st.tuples(contents, st.lists(contents, max_size=3), contents), min_size=0, max_size=12
)
actions = st.lists(
    st.one_of(contents, st.just("compress"), st.just("tools")), min_size=1, max_size=4
)


class Talk:
    """Stores messages and knows by which word each of them is found."""

    def __init__(self, db: SessionDB, session_id: str) -> None:
        self.db, self.session_id = db, session_id
        self.marks: list[str] = []

    def marked(self, text: str) -> str:
        mark = f"mark{len(self.marks)}"
        self.marks.append(mark)
        return f"{mark} {text}"

    def content(self, said: tuple[str, bool]) -> Any:
        text = self.marked(said[0])
        if not said[1]:
            return text
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        return [{"type": "text", "text": text}, picture]

    def store(self, talk: list[Any]) -> None:
        self.db.create_session(self.session_id, "cli")
        add = self.db.append_message
        for number, (asked, results, answered) in enumerate(talk):
            add(self.session_id, "user", self.content(asked))
            if results:
                ids = [f"call{number}_{n}" for n in range(len(results))]
                wanted = [
                    {"id": i, "type": "function", "function": {"name": "read", "arguments": "{}"}}
                    for i in ids
                ]
                add(self.session_id, "assistant", self.marked("reading"), tool_calls=wanted)
                for call_id, result in zip(ids, results, strict=True):
                    text = self.marked(result[0])
                    add(self.session_id, "tool", text, tool_call_id=call_id, tool_name="read")
            add(self.session_id, "assistant", self.marked(answered[0]))


@settings(max_examples=seeds.examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    talk=exchanges,
    behaviours=st.lists(st.sampled_from(BEHAVIOURS), min_size=1, max_size=4),
    doings=actions,
    window=st.sampled_from([2000, 4000, 12_000]),
    weight=st.sampled_from([0.7, 1.0, 2.4]),
    in_place=st.booleans(),
)
def test_any_talk_and_any_summariser(
    talk: list[Any],
    behaviours: list[str],
    doings: list[Any],
    window: int,
    weight: float,
    in_place: bool,
) -> None:
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        SessionDB(Path(folder) / "state.db") as db,
    ):
        spoken = Talk(db, "s")
        spoken.store(talk)
        reads = iter(range(10**6))

        def read(context: ToolContext) -> str:
            return spoken.marked("result " * 700)

        def answer(request: ModelRequest) -> Step:
            assert problems(request.messages) == []
            size = estimate_tokens(request.messages, request.system, request.tools)
            size = int(size * weight)  # the provider's own way of counting
            if size > window:
                return fail(ContextTooLongError)
            last = request.messages[-1]
            if "[use tools]" in str(last["content"]) or (
                last["role"] == "tool" and next(reads) % 4
            ):
                return calls([Call("read", {}), Call("read", {})])
            return say(spoken.marked("answer"), usage=Usage(input_tokens=size))

        summariser = AnyBehaviour(behaviours)
        agent = AIAgent(
            ScriptedModel(itertools.repeat(answer), context_length=window, record=False),
            db=db,
            session_id="s",
            system_prompt="Be brief.",
            tools=Registry([tool(toolset="test", effect="none")(read)]),
            auxiliary=summariser,
            compression=CompressionSettings(in_place=in_place),
            compression_timeout=0.02,
        )
        summariser.agent = agent
        for doing in doings:
            before = db.get_compression_lineage("s")
            if doing == "compress":
                done = agent.compress()
                assert done.compressed or done.reason
                assert done.session_id == agent.session_id
            else:
                said = spoken.marked("[use tools]") if doing == "tools" else spoken.content(doing)
                result = agent.run_conversation(said)
                assert result["completed"] or result["interrupted"], result["error"]
                assert result["session_id"] == agent.session_id
            check_conversation(db, "s", spoken.marks)
            assert agent.session_id == db.get_compression_tip("s")
            assert db.get_compression_lineage("s")[: len(before)] == before
            assert not in_place or agent.session_id == "s"
            assert db.get_compression_lock_holder(before[-1]) is None
