"""What a model fetches before it can answer is shown to those who watch."""

from __future__ import annotations

from typing import Any

from method_calls import Gateway

from agent.retry import RetryingModel
from agent.scripted import ScriptedModel, say
from tui_gateway import fetching

LABEL = "First use: fetching the model"


class Fetching(ScriptedModel):
    """A model that fetches itself with the first question, as the one inside the process does."""

    def __init__(self) -> None:
        super().__init__([say(self._fetch, "Hello.")])
        self.progress: Any = None

    def _fetch(self) -> None:
        told = self.progress(LABEL)
        for done in range(0, 93_000_001, 500_000):
            told(done, 93_000_000)


def updates(gateway: Gateway, sid: str) -> list[tuple[str, str]]:
    found = gateway.events(sid, "status.update")
    return [(one["payload"]["kind"], one["payload"]["text"]) for one in found]


def test_it_is_told_how_far_it_is(gateway: Gateway) -> None:
    gateway.model = Fetching()
    sid = gateway.open()
    gateway.ask(sid, "hello")
    first, *others = updates(gateway, sid)
    assert first == ("notice", f"{LABEL} (93 MB)")
    assert others == [("progress", f"fetching {n}% of 93 MB") for n in range(0, 101, 5)]
    assert gateway.events(sid, "message.complete")[-1]["payload"]["text"] == "Hello."


def test_also_of_a_model_that_stands_in_for_another(gateway: Gateway) -> None:
    model = Fetching()
    other = ScriptedModel([])
    fetching.follow(gateway.server, "gone", RetryingModel([other, model]))
    assert model.progress is not None
    assert not hasattr(other, "progress")


def test_what_is_there_already_is_not_told(gateway: Gateway) -> None:
    model = Fetching()
    model._steps = iter([say("Hello.")])
    gateway.model = model
    sid = gateway.open()
    gateway.ask(sid, "hello")
    assert updates(gateway, sid) == []
