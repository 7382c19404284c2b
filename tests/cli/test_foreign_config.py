"""The commands with a config.yaml of Hermes Agent 0.19: they work, or say what does not."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

_spec = importlib.util.spec_from_file_location(
    "cli_foreign_facts", Path(__file__).parents[1] / "agent" / "foreign.py"
)
assert _spec is not None
assert _spec.loader is not None
foreign = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(foreign)


def configure(cli: Any, text: str) -> Path:
    path = Path(cli.home) / "config.yaml"
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def default(cli: Any) -> Any:
    configure(cli, foreign.default_config())
    return cli


def test_the_commands_work_with_its_defaults(default: Any) -> None:
    for words in (["version"], ["model"], ["tools"], ["config", "get", "agent"], ["skills"]):
        said = default(*words)
        assert (said.code, said.err) == (0, ""), words
    assert default("config", "get", "agent.max_iterations").out == "90\n"
    assert "terminal" in default("tools").out


def test_config_check_and_doctor_name_what_means_nothing(default: Any) -> None:
    said = default("config", "check")
    assert said.code == 0
    assert "kanban" in said.out
    assert "redact_secrets" not in said.out, "it asks for what is so anyway"
    assert "all is well" not in said.out
    said = default("doctor")
    assert said.code == 0
    assert "kanban" in said.out
    assert "All is well" not in said.out


def test_a_safeguard_that_is_not_here_is_said(cli: Any) -> None:
    configure(cli, "memory: {write_approval: true}\nsecurity: {redact_secrets: false}\n")
    said = cli("config", "check").out
    assert "memory.write_approval: memories are written without asking" in said
    assert "security.redact_secrets: secrets are always masked" in said


def test_a_list_without_tools_is_refused_wherever_it_is_seen(cli: Any) -> None:
    path = configure(cli, "toolsets: [hermes-cli]\n")
    assert "leaves the agent no tools" in cli.fails("config", "set", "toolsets", "[spotify]")
    assert "leaves the agent no tools" in cli.fails("tools", "disable", "hermes-cli")
    assert path.read_text() == "toolsets: [hermes-cli]\n"
    configure(cli, "toolsets: [spotify]\n")
    assert "leaves the agent no tools" in cli.fails("tools")
    said = cli("config", "check")
    assert said.code == 1
    assert "leaves the agent no tools" in said.out
    said = cli("doctor")
    assert said.code == 1
    assert "toolsets: [none]" in said.out
    assert cli("config", "set", "toolsets", "[none]").code == 0
    assert "no tools" in cli("tools").out


def test_tools_are_switched_in_a_list_by_its_names(cli: Any) -> None:
    def names() -> set[str]:
        return {one["name"] for one in cli("tools", "list", "--json").json}

    configure(cli, "toolsets: [file, web]\nagent: {disabled_toolsets: [terminal]}\n")
    assert "read_file" in names()
    assert cli("tools", "disable", "file").code == 0
    assert names() == {"web_fetch"}
    assert cli("tools", "enable", "files").code == 0
    assert cli("tools", "enable", "terminal").code == 0
    assert {"read_file", "terminal", "web_fetch"} <= names()
    assert "todo" not in names()
    assert cli("tools", "enable", "todo").code == 0
    assert "todo" in names()
    assert cli("tools", "enable", "all").code == 0
    assert {"memory", "terminal", "read_file"} <= names()


def test_a_model_that_cannot_be_used_can_be_replaced(cli: Any) -> None:
    text = "model: {default: gpt-x, provider: copilot, api_mode: chat_completions}\n"
    path = configure(cli, text + "agent: {max_turns: 9}\n")
    assert "copilot" in cli.fails("model")
    assert cli("model", "set", "ollama:qwen3").code == 0
    assert cli("model").out.startswith("ollama:qwen3")
    assert "max_turns: 9" in path.read_text()
    configure(cli, text + "agent: {max_turns: many}\n")
    assert "agent.max_turns" in cli.fails("model", "set", "ollama:qwen3")


def test_setup_replaces_a_model_that_cannot_be_used(cli: Any) -> None:
    from hermes_cli.setup.model_step import Chosen, ModelStep
    from hermes_cli.setup.talk import Talk

    configure(cli, "model: {default: gpt-x, provider: copilot}\n")
    said: list[str] = []
    step = ModelStep(cli.home, Talk(say=said.append), list, check=False)
    step.keep(Chosen("ollama", "qwen3", "http://127.0.0.1:11434/v1", "", ""))
    assert said == ["Kept: ollama:qwen3"]
    assert cli("model").out.startswith("ollama:qwen3")


def test_a_missing_package_is_found(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from hermes_cli.commands import doctor_extras

    configure(cli, "platforms: {telegram: {token: '1:x'}}\nmcp_servers: {x: {command: y}}\n")
    monkeypatch.setattr(doctor_extras, "find_spec", lambda name: None)
    said = cli("doctor")
    assert said.code == 1
    assert "The platform telegram needs a package that is not installed" in said.out
    assert "mcp_servers needs a package" in said.out
    assert "[telegram]" in said.out
