"""What the tests of compression share: a summariser that behaves as told, and what must hold."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.config.schema import CompressionSettings
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB

from .histories import problems

GOOD = json.dumps(
    {
        "add": [
            {"kind": "decision", "text": "The harbour is painted blue.", "messages": [1]},
            {"kind": "fact", "text": "The boat is called Marta.", "messages": [2]},
        ]
    }
)
"""A summary as a model should write it."""


class Summariser(Auxiliary):
    """Answers `answers` one after the other, the last one for ever; an exception is raised.

    `pause` is awaited before each answer, and `asked` is set as soon as a question is there.
    """

    def __init__(self, *answers: str | BaseException, pause: asyncio.Event | None = None) -> None:
        super().__init__(lambda: ScriptedModel([]))
        self.prompts: list[str] = []
        self.systems: list[str] = []
        self.asked = asyncio.Event()
        self.pause = pause
        self._answers: Iterator[str | BaseException] = itertools.chain(
            answers, itertools.repeat(answers[-1])
        )

    async def ask(
        self,
        task: str,
        system: str,
        prompt: str,
        *,
        max_tokens: int | None = None,
        timeout: float | None = None,
    ) -> str:
        assert task == "compression"
        self.systems.append(system)
        self.prompts.append(prompt)
        self.asked.set()
        if self.pause is not None:
            await self.pause.wait()
        answer = next(self._answers)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def words(number: int, count: int = 60) -> str:
    """A text of its own for each number, which a search finds by `w<number>`."""
    return f"w{number} " + " ".join(f"apple{number % 7} pear" for _ in range(count // 2))


def store_talk(db: SessionDB, session_id: str, exchanges: int, size: int = 60) -> list[str]:
    """Store a talk; returns the words by which each message is found."""
    if db.get_session(session_id) is None:
        db.create_session(session_id, "cli")
    marks = []
    for number in range(exchanges):
        for role, index in (("user", 2 * number), ("assistant", 2 * number + 1)):
            db.append_message(session_id, role, words(index, size))
            marks.append(f"w{index}")
    return marks


def agent_on(
    db: SessionDB | None, *steps: Any, window: int = 4000, **options: Any
) -> tuple[AIAgent, ScriptedModel]:
    """An agent with a scripted model of that window; without steps it says "ok" for ever."""
    model = ScriptedModel(steps or itertools.repeat(say("ok")), context_length=window)
    return AIAgent(model, db=db, **options), model


def in_place(**others: Any) -> CompressionSettings:
    return CompressionSettings(in_place=True, **others)


def continuations(db: SessionDB, parent: str) -> list[str]:
    """The sessions that go on from one, as the store's rows say it."""
    return [
        session_id
        for (session_id,) in db._execute_write(
            lambda conn: list(
                conn.execute("SELECT id FROM sessions WHERE continuation_of = ?", (parent,))
            )
        )
    ]


def check_conversation(
    db: SessionDB, session_id: str, marks: Iterable[str], *, valid: bool = True
) -> None:
    """Valid at the tip, one continuation each, and every original found in this conversation."""
    lineage = db.get_compression_lineage(session_id)
    for parent, child in itertools.pairwise(lineage):
        assert continuations(db, parent) == [child]
        ended = db.get_session(parent)
        assert ended is not None and ended["end_reason"] == "compression"
    assert continuations(db, lineage[-1]) == []
    assert not valid or problems(db.get_messages_as_conversation(lineage[-1])) == []
    root = db.get_conversation_root(session_id)
    for mark in marks:
        assert db.search_messages(mark, conversation_id=root), f"{mark} is not found"
