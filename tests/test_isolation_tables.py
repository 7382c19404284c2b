"""Nothing that could name another person's things is left out of the isolation matrices."""

from __future__ import annotations

from tui_gateway import methods, rpc

from . import isolation


def test_every_parameter_of_a_method_names_something_or_nothing() -> None:
    methods.load()
    methods.load_rest()
    open_ones = {
        (method.name, parameter)
        for method in rpc.METHODS.values()
        for parameter in rpc.parameters(method.run)
        if parameter not in isolation.NEUTRAL | isolation.NAMING
        and method.name not in isolation.NEUTRAL_IN.get(parameter, set())
        and not (parameter == "name" and method.name in isolation.OF_JOBS)
    }
    assert not open_ones, f"What do these name? Say it in tests/isolation.py: {open_ones}"


def test_every_parameter_of_a_tool_names_something_or_nothing() -> None:
    known = isolation.OF_THE_WALL | isolation.NEUTRAL_IN_TOOLS | isolation.NAMING_OF_TOOLS
    assert isolation.tool_parameters() == known, "What do these name? tests/isolation.py"


def test_every_word_of_a_command_names_something_or_nothing() -> None:
    known = isolation.VERBS_THAT_NAME | isolation.VERBS_THAT_DO_NOT
    assert isolation.verbs() == known, "What is named behind these? tests/isolation.py"
