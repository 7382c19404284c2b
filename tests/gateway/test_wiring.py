"""The runner wires the gateway's parts; each part takes what it needs, not the runner."""

from __future__ import annotations

import ast
from pathlib import Path

GATEWAY = Path(__file__).parents[2] / "src" / "gateway"

KNOW_THE_RUNNER = {"run", "process"}
"""Where it is, and what starts it. Nothing is added here."""


def names_the_runner(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        getattr(node, "id", getattr(node, "attr", getattr(node, "name", ""))) == "GatewayRunner"
        for node in ast.walk(tree)
    )


def test_only_what_starts_the_gateway_knows_the_runner() -> None:
    modules = {
        path.relative_to(GATEWAY).with_suffix("").as_posix()
        for path in GATEWAY.rglob("*.py")
        if names_the_runner(path) and path.parent.name != "conformance"  # starts one, to check
    }
    assert modules == KNOW_THE_RUNNER, "hand it what it needs, from GatewayRunner"
