"""An agent, a store and a question: the smallest complete program.

Run it: python examples/first_agent.py
"""

import tempfile
from pathlib import Path

from agent import AIAgent
from agent.scripted import ScriptedModel, say
from hermes_state import SessionDB

with tempfile.TemporaryDirectory() as folder, SessionDB(Path(folder) / "state.db") as db:
    # Any model will do here; `agent.providers.build_model("gpt-5")` makes a real one.
    model = ScriptedModel([say("Hello, ", "Ada!"), say("You are Ada.")])
    agent = AIAgent(model, db=db)
    agent.run_conversation("Hi, I am Ada.", stream_callback=lambda text: print(text, end=""))
    print()

    # Another agent, maybe in another process, goes on where the first one stopped.
    other = AIAgent(model, db=db, session_id=agent.session_id)
    print(other.run_conversation("Who am I?")["final_response"])
    print(db.search_messages("Ada")[0]["snippet"])
