"""What the layer above lends to tools, by name."""

from __future__ import annotations

from pathlib import Path

from agent.agent import AIAgent
from agent.scripted import ScriptedModel, call, say
from hermes_state import SessionDB
from tools.base import Tool, ToolContext
from tools.registry import Registry
from tools.services import Services


def test_what_is_given_stands_in_the_place_of_what_was_there() -> None:
    first = Services(sudo_password=lambda: "a", session_environ=dict, extra={"mine": 1})
    second = Services(sudo_password=lambda: "b")
    both = first.replaced_by(second)
    assert both.sudo_password is second.sudo_password
    assert both.session_environ is dict and both.extra == {"mine": 1}
    assert first.replaced_by(None) is first


def test_a_tool_gets_the_agents_services_and_those_it_was_built_with(tmp_path: Path) -> None:
    lent: list[Services] = []

    def look(context: ToolContext) -> str:
        lent.append(context.services)
        return "seen"

    with SessionDB(tmp_path / "state.db") as db:
        agent = AIAgent(
            ScriptedModel([call("look"), say("ok")]),
            db=db,
            tools=Registry([Tool("look", "", look)]),
            services=Services(sudo_password=lambda: "secret", extra={"mine": 1}),
        )
        assert agent.run_conversation("go")["completed"]
    (services,) = lent
    assert services.delegate is agent.delegation and services.call_tool is not None
    assert services.notify is not None and services.session_environ is not None
    assert services.sudo_password is not None and services.sudo_password() == "secret"
    assert services.extra == {"mine": 1} and services.auxiliary is None
