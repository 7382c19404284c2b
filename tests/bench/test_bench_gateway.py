"""The gateway's benchmark runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import gateway
from bench.gateway import Lab
from bench.measure import table


@pytest.mark.parametrize("stream", [False, True])
def test_conversations_are_asked_and_counted(stream: bool) -> None:
    with gateway._model() as model:
        found = gateway._load(model, 3, 2, stream=stream)
    assert found["turns_per_second"] > 0
    assert 0 < found["first_p50"] <= found["p50"] <= found["p99"] <= found["seconds"]


def test_a_gateway_is_measured_beside_the_bare_model(tmp_path: Path) -> None:
    found = gateway._crowd(Lab(tmp_path, True, None), 2, stream=True)
    assert [one.what.split(":")[1].split(",")[0].split("(")[0].strip() for one in found] == [
        "turns per second", "overhead per turn", "memory after", "first token",
    ]  # fmt: skip
    assert all(one.ours and not one.theirs for one in found)
    assert "turns per second" in table(found)


def test_requests_in_flight_are_counted(tmp_path: Path) -> None:
    with gateway._model(0.3) as model:
        gateway._load(model, 7, 1, stream=False)
        assert gateway._peak(model) == 7
        assert gateway._peak(model) == 0


def test_a_gateway_that_does_not_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "KEY", "")  # nothing to be let in with
    monkeypatch.setattr(gateway, "START_SECONDS", 0.0)
    with (
        pytest.raises(SystemExit, match="does not start"),
        gateway._gateway(Lab(tmp_path, True, None), "ours", "http://127.0.0.1:1"),
    ):
        pass
