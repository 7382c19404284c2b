"""A process with many turns at once under one limit; each call that it makes is a line in a file.

    limited_child.py FOLDER ADDRESS TURNS DOLLARS [before | after]

A call costs a dollar, and reserves one. With a last word the process kills itself before the call
is made that it has reserved, or after the call has ended and before it is stored.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from agent.agent import AIAgent
from agent.config.schema import LimitSettings, SpendingLimits, TokenPrices
from agent.limits import LimitTable
from agent.model import Chunk, Finished, ModelRequest, TextDelta, Usage
from agent.request import Question
from agent.scripted import ScriptedModel
from hermes_state import SessionDB

OWNER = "telegram:42"


class Counted(ScriptedModel):
    """Writes down each call that it is asked for."""

    def __init__(self, ledger: Path, dies: str) -> None:
        super().__init__([], name="m", record=False)
        self._ledger, self._dies = ledger, dies

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        if self._dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        with self._ledger.open("a") as file:
            file.write(f"{os.getpid()}\n")
        yield TextDelta("ok")
        await asyncio.sleep(random.uniform(0, 0.005))
        yield Finished("stop", Usage(0, 1), self.name)
        if self._dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)


def limits(most: float) -> LimitTable:
    return LimitTable(
        LimitSettings(
            people={OWNER: SpendingLimits(usd_per_month=most)},
            prices={"m": TokenPrices(input=0.0, output=1_000_000.0)},
        ),
        OWNER,
    )


async def ask_until_refused(db: SessionDB, table: LimitTable, ledger: Path, dies: str) -> None:
    agent = AIAgent(
        Counted(ledger, dies), db=db, user_id=OWNER, platform="telegram", limits=table,
        request_options={"max_tokens": 1},
    )  # fmt: skip
    while True:
        outcome = await agent.run(Question("?"))
        if outcome.limit_reached:
            return
        assert outcome.text == "ok", outcome


async def main(folder: str, address: str, turns: str, most: str, dies: str = "") -> None:
    ledger = Path(folder) / "ledger"
    with SessionDB(Path(folder) / "state.db", server=address or None) as db:
        table = limits(float(most))
        print("runs", flush=True)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(int(turns)):
                tasks.create_task(ask_until_refused(db, table, ledger, dies))
    print("refused", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
