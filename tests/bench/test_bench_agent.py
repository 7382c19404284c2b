"""The engine's benchmark runs, and every side does the same work. No figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest

from bench import agent
from bench.lab import Lab, zero_delay_model
from bench.processes import Child

pytestmark = pytest.mark.by_name


def test_a_turn_is_measured_on_our_side_and_bare(tmp_path: Path) -> None:
    (found,) = agent.engine(Lab(tmp_path, True, None))
    assert found.row
    assert set(found.row.samples) == {"ours", "bare"}
    assert all(value > 0 for values in found.row.samples.values() for value in values)


@pytest.mark.parametrize("side", ["ours", "bare"])
def test_every_side_runs_all_calls(side: str, tmp_path: Path) -> None:
    lab = Lab(tmp_path, True, None)
    with (
        zero_delay_model(5, calls=agent.TOOL_CALLS) as url,
        Child(tmp_path / side, module="bench.engine_child") as child,
    ):
        lab.home(side, url)
        child.ask("open", side=side, folder=str(tmp_path / side), url=url)
        reply = child.ask("turn", text="Plan.")
    assert reply["calls"] == agent.TOOL_CALLS
    assert reply["text"].startswith("word0 word1")


def test_a_turn_in_which_a_call_was_left_out_does_not_count(tmp_path: Path) -> None:
    with (
        zero_delay_model(5, calls=agent.TOOL_CALLS - 2) as url,
        Child(tmp_path, module="bench.engine_child") as child,
        pytest.raises(RuntimeError, match="not what it should be"),
    ):
        child.ask("open", side="bare", folder=str(tmp_path), url=url)
        agent._engine_turn(child)


@pytest.mark.parametrize("stream", [False, True])
def test_the_model_asks_for_calls_only_where_tools_are_offered(stream: bool) -> None:
    request = {"stream": stream, "messages": [{"role": "user", "content": "Go."}]}
    with zero_delay_model(3, calls=2) as url:
        place = f"{url}/v1/chat/completions"
        plain = httpx.post(place, json=request).text
        asked = httpx.post(place, json={**request, "tools": [{}]}).text
        results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": ""} for n in (1, 2)]
        request["messages"] += results
        done = httpx.post(place, json={**request, "tools": [{}]}).text
    assert "tool_calls" not in plain
    assert "word0" in plain
    assert json.dumps("call_1") in asked and json.dumps("call_2") in asked
    assert "word0" in done
