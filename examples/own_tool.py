"""An agent with a tool of one's own: a function, its types and its docstring are enough.

Run it: python examples/own_tool.py
"""

from agent import AIAgent
from agent.scripted import ScriptedModel, call, say
from tools.base import ToolContext, ToolError, tool
from tools.registry import Registry

PRICES = {"apple": 0.5, "pear": 0.8}


@tool(toolset="shop", effect="none")
def price(context: ToolContext, fruit: str, count: int = 1) -> str:
    """Tell what some fruit costs.

    fruit: its name, in the singular
    count: how many
    """
    if fruit not in PRICES:
        raise ToolError(f"There is no {fruit} here. There are: {', '.join(PRICES)}.")
    return f"{count} × {fruit}: {PRICES[fruit] * count:.2f}"


model = ScriptedModel([call("price", fruit="pear", count=3), say("Three pears cost 2.40.")])
agent = AIAgent(model, tools=Registry([price]))
result = agent.run_conversation("What do three pears cost?")
for message in result["messages"]:
    print(f"{message['role']:>9}: {message['content']}")
