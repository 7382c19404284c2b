"""The gateway's benchmark runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench import gateway, gateway_server
from bench.gateway_server import load, peak, running
from bench.lab import Lab, zero_delay_model
from bench.measure import table

pytestmark = pytest.mark.by_name


@pytest.mark.parametrize("stream", [False, True])
def test_conversations_are_asked_and_counted(stream: bool) -> None:
    with zero_delay_model() as model:
        found = load(model, 3, 2, stream=stream)
    assert found.turns_per_second > 0
    assert 0 < found.first_p50 <= found.p50 <= found.p99 <= found.seconds


def test_gateways_are_measured_beside_the_bare_model(tmp_path: Path) -> None:
    # Our own gateway stands in for the one we compare with: it has the same API.
    found = gateway.crowd(Lab(tmp_path, True, sys.executable), 2, 2, stream=True)
    assert [one.what.split(":")[1].split(",")[0].split("(")[0].strip() for one in found] == [
        "turns per second", "overhead per turn", "memory after", "first token",
    ]  # fmt: skip
    assert all(one.ours and one.theirs for one in found)
    assert "turns per second" in table(found)
    rows = [one.row for one in found if one.row]
    assert [row.key for row in rows] == [
        f"gateway.{what}.streamed.2" for what in ("rate", "over", "memory", "first")
    ]
    assert {side: len(values) for side, values in rows[0].samples.items()} == {
        "ours": 2, "theirs": 2, "bare": 2,
    }  # fmt: skip


def test_the_other_system_is_asked_once_where_it_takes_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "THEIRS_ONCE", 3)
    rate, *_ = gateway.crowd(Lab(tmp_path, False, sys.executable), 3, 2, stream=False)
    assert rate.row
    assert [len(rate.row.samples[side]) for side in ("ours", "theirs", "bare")] == [2, 1, 2]
    assert rate.row.differs == "hermes-agent in one round, the others in 2"


def test_a_quick_run_leaves_it_out_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "QUICK_WITHOUT_THEIRS", 2)
    found = gateway.crowd(Lab(tmp_path, True, sys.executable), 2, 1, stream=False)
    for one in found:
        assert one.row and "theirs" not in one.row.samples
        assert one.row.absent == "a quick run leaves it out"


def test_requests_in_flight_are_counted() -> None:
    with zero_delay_model(delay=0.3) as model:
        load(model, 7, 1, stream=False)
        assert peak(model) == 7
        assert peak(model) == 0


def test_a_gateway_that_does_not_start_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_server, "KEY", "")  # nothing to be let in with
    monkeypatch.setattr(gateway_server, "START_SECONDS", 0.0)
    with (
        pytest.raises(RuntimeError, match=r"does not start"),
        running(Lab(tmp_path, True, None), "ours", "http://127.0.0.1:1"),
    ):
        pass


def test_a_server_that_refuses_is_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zero_delay_model() as model, running(Lab(tmp_path, True, None), "ours", model) as server:
        monkeypatch.setattr(gateway_server, "KEY", "another")
        with pytest.raises(RuntimeError, match=r"does not answer as it should.* 401 "):
            load(server.url, 1, 1, stream=False)
