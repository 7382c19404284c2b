"""A process that talks and compresses until it is killed; prints what was acknowledged."""

import asyncio
import itertools
import json
import random
import sys
from pathlib import Path

from agent.agent import AIAgent
from agent.auxiliary import Auxiliary
from agent.config.schema import CompressionSettings
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB


class SlowSummariser(Auxiliary):
    """Takes its time, so that many are killed while it works."""

    async def ask(self, task: str, system: str, prompt: str, **options: object) -> str:
        await asyncio.sleep(random.uniform(0, 0.02))
        return json.dumps({"add": [{"kind": "fact", "text": f"{len(prompt)} letters"}]})


def main(folder: str, name: str, first: int, in_place: bool) -> None:
    db = SessionDB(Path(folder) / "state.db")
    model = ScriptedModel(itertools.repeat(say("Noted.")), context_length=3000, record=False)
    for number in itertools.count(first):
        agent = AIAgent(
            model,
            db=db,
            session_id="s",
            system_prompt="Take notes.",
            auxiliary=SlowSummariser(lambda: model),
            compression=CompressionSettings(in_place=in_place),
            # Short: what a killed process holds is not waited for.
            compression_timeout=0.1,
        )
        print(f"asking {number}", flush=True)
        result = agent.run_conversation(f"{name}{number} " + f"apple{number % 9} pear " * 80)
        assert result["final_response"] == "Noted.", result
        if number % 5 == 4:
            agent.compress()
        print(f"answered {number}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "in_place")
