"""Side tasks: which model is asked, and what happens when it does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from agent.auxiliary import Auxiliary, AuxiliaryError, build_auxiliary
from agent.call_costs import EndedCall
from agent.config import load_config
from agent.errors import RequestRefusedError
from agent.model import Chunk, ModelRequest
from agent.scripted import ScriptedModel, fail, say


class Silent(ScriptedModel):
    """Never answers."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        await asyncio.Event().wait()
        yield  # type: ignore[misc]


async def test_the_conversations_model_answers_where_no_other_is_named() -> None:
    main = ScriptedModel([say("a title")])
    calls: list[EndedCall] = []

    async def keep(call: EndedCall) -> None:
        calls.append(call)

    side = Auxiliary(lambda: main, on_call=keep)
    assert await side.ask("title", "Name it.", "Hello") == "a title"
    request = main.requests[0]
    assert (request.system, request.tools) == ("Name it.", [])
    assert [(call.task, call.model.name, call.outcome) for call in calls] == [
        ("title", main.name, "complete")
    ]


async def test_a_task_has_its_own_model_built_once() -> None:
    built: list[Any] = []

    def build(settings: Any) -> ScriptedModel:
        built.append(settings)
        return ScriptedModel([say("one"), say("two")])

    side = Auxiliary(
        lambda: ScriptedModel([]), build=build, tasks={"compression": {"model": "small"}}
    )
    assert await side.ask("compression", "", "x") == "one"
    assert await side.ask("compression", "", "y") == "two"
    assert built == [{"model": "small"}]


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (ScriptedModel([fail(RequestRefusedError("not allowed"))]), "not allowed"),
        (ScriptedModel([say("")]), "empty"),
        (Silent([]), "within 0.05 s"),
    ],
)
async def test_no_answer_is_one_kind_of_error(model: ScriptedModel, said: str) -> None:
    side = Auxiliary(lambda: model)
    with pytest.raises(AuxiliaryError, match=said):
        await side.ask("title", "", "x", timeout=0.05)


def test_ordinary_code_may_ask() -> None:
    assert Auxiliary(lambda: ScriptedModel([say("yes")])).ask_blocking("approval", "", "x") == "yes"


async def test_a_task_whose_model_cannot_be_built_says_why(tmp_path: Any) -> None:
    (tmp_path / "config.yaml").write_text(
        "auxiliary:\n  compression: {provider: nowhere, model: x}\n"
    )
    side = build_auxiliary(load_config(tmp_path, {}), lambda: ScriptedModel([]))
    with pytest.raises(AuxiliaryError, match="nowhere"):
        await side.ask("compression", "", "x")


async def test_a_task_is_sent_to_the_address_it_names(tmp_path: Any) -> None:
    (tmp_path / "config.yaml").write_text(
        "auxiliary:\n  compression: {model: tiny, base_url: 'http://127.0.0.1:9/v1', timeout: 5}\n"
        "  title_generation: {enabled: true}\n"
    )
    main = ScriptedModel([say("from the main model")])
    side = build_auxiliary(load_config(tmp_path, {}), lambda: main)
    assert side.model_for("compression").name == "tiny"
    assert side.model_for("compression").base_url == "http://127.0.0.1:9/v1"
    assert side.model_for("title_generation") is main
    await side.aclose()
