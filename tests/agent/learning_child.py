"""A conversation whose side work never ends, in a process of its own, which is to end all the same.

Usage: learning_child.py HOME
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

from learning import new_agent

from agent.learning.learner import LearningSettings
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB


class Stuck:
    """A memory provider that does not return from what it is told."""

    name = "stuck"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: object) -> None:
        pass

    def sync_turn(self, *args: object, **kwargs: object) -> None:
        time.sleep(3600)


def main(home: Path) -> None:
    begun = threading.Semaphore(0)

    def block() -> None:
        begun.release()
        time.sleep(3600)  # not even a cancellation gets through

    side = ScriptedModel([say(block, "never")] * 2)
    with SessionDB(home / "state.db") as db:
        agent = new_agent(
            home,
            db,
            side=side,
            settings=LearningSettings(titles=True, review_every=1),
            memory_providers=[Stuck()],
        )
        print(agent.run_conversation("Plan the garden")["final_response"])
        for _ in range(2):
            assert begun.acquire(timeout=60)
        agent.close()
        print(db.get_session_title(agent.session_id))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
