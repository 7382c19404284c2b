"""The runner wires the gateway's parts; each part takes what it needs, not the runner."""

from __future__ import annotations

import ast
from pathlib import Path

GATEWAY = Path(__file__).parents[2] / "src" / "gateway"

TAKE_THE_RUNNER = {
    "adapter_host", "agent_source", "chat_door", "commands", "notes", "pipeline", "process",
    "recovery", "requests", "restart", "surface", "take_over", "turns",
}  # fmt: skip
"""Those that are handed the whole runner still: the way of a turn. Nothing is added here."""


def names_the_runner(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        getattr(node, "id", getattr(node, "attr", getattr(node, "name", ""))) == "GatewayRunner"
        for node in ast.walk(tree)
    )


def test_few_modules_know_the_runner() -> None:
    modules = {
        path.relative_to(GATEWAY).with_suffix("").as_posix()
        for path in GATEWAY.rglob("*.py")
        if names_the_runner(path)
    }
    assert "run" in modules, "the look is broken"
    assert modules - {"run"} <= TAKE_THE_RUNNER, "hand it what it needs, from GatewayRunner"
