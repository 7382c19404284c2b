"""A config.yaml of Hermes Agent 0.19 means the same here, and it is said where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.build import check_tool_choice, usable_tools
from agent.config import Config, ConfigError, load_config
from agent.config.foreign import RENAMED, is_without_meaning
from agent.config.schema import FREE_FORM, KEYS, SECTIONS, WITHIN
from tests.agent.foreign import TOOLSETS, default_config, default_keys, tree
from tools.toolset_names import MEANS, WITHOUT_MEANING
from tools.toolsets import toolset_list

AGENT = os.environ.get("HERMES_AGENT_PYTHON")


def load(home: Path, text: str, **environ: str) -> Config:
    (home / "config.yaml").write_text(text, encoding="utf-8")
    return load_config(home, environ)


def tools_of(config: Config, platform: str = "cli") -> set[str]:
    return {tool.name for tool in usable_tools(config, platform)}


def everything(home: Path) -> set[str]:
    return tools_of(load(home, ""))


# Its defaults


def test_the_default_configuration_gives_one_line(tmp_path: Path) -> None:
    config = load(tmp_path, default_config())
    assert config.warnings == ()
    assert len(config.notices()) == 1
    assert "hermes config check" in config.notices()[0]
    assert "\n" not in config.notices()[0]
    assert tools_of(config) == everything(tmp_path)


def test_the_default_configuration_has_the_same_effect_here(tmp_path: Path) -> None:
    config = load(tmp_path, default_config())
    assert config.agent.max_iterations == 90
    assert config.approvals.mode == "smart"
    assert config.approvals.timeout == 60
    assert config.compression.in_place is True
    assert config.checkpoints.enabled is False
    assert config.delegation.max_iterations == 50
    assert config.delegation.max_concurrent_children == 3
    assert config.auxiliary.review.timeout == 120
    assert config.section("gateway")["restart_loop_guard"] == {"max_restarts": 3, "window": 60}


def test_every_key_of_its_is_read_mapped_or_said_to_mean_nothing(tmp_path: Path) -> None:
    known = {key.name for key in KEYS} | {"model"} | (FREE_FORM - set(WITHIN) - {"web"})
    known |= {f"{section}.{name}" for section, names in WITHIN.items() for name in names}
    renamed = tuple(RENAMED)

    def is_settled(key: str) -> bool:
        parts = key.split(".")
        heads = {".".join(parts[: length + 1]) for length in range(len(parts))}
        return bool(heads & {*known, *renamed, "_config_version"}) or any(
            map(is_without_meaning, heads)
        )

    assert [key for key in default_keys() if not is_settled(key)] == []


def test_what_means_nothing_here_is_no_key_of_ours() -> None:
    ours = {key.name for key in KEYS} | FREE_FORM | set(SECTIONS)
    ours |= {f"{section}.{name}" for section, names in WITHIN.items() for name in names}
    assert [key for key in ours if is_without_meaning(key) or key in RENAMED] == []


def test_each_target_of_a_name_is_a_key_of_ours() -> None:
    from hermes_cli.config_page import documented

    heads = {name.replace("<name>", "telegram") for name in documented()} | set(documented())
    heads |= {name.replace("<name>", "matrix") for name in documented()}
    for ours in RENAMED.values():
        assert ours in heads or any(name.startswith(f"{ours}.") for name in heads), ours


# Keys by their other names


@pytest.mark.parametrize(
    ("theirs", "value", "ours"),
    [
        ("agent.max_turns", 7, lambda config: config.agent.max_iterations == 7),
        ("max_turns", 7, lambda config: config.agent.max_iterations == 7),
        ("memory.memory_enabled", False, lambda config: not config.memory.enabled),
        ("memory.user_profile_enabled", False, lambda config: not config.memory.user_profile),
        ("terminal.env_passthrough", ["A"], lambda config: config.terminal.pass_env == ("A",)),
        ("terminal.docker_extra_args", ["-t"], lambda c: c.terminal.docker_args == ("-t",)),
        (
            "auxiliary.background_review.timeout",
            9,
            lambda config: config.auxiliary.review.timeout == 9,
        ),
        ("agent.reasoning_effort", "high", lambda c: c.model.reasoning_effort == "high"),
        ("agent.reasoning_effort", "xhigh", lambda c: c.model.reasoning_effort == "high"),
        ("agent.reasoning_effort", "none", lambda c: c.model.reasoning_effort == ""),
        (
            "telegram.reactions",
            True,
            lambda c: c.section("platforms") == {"telegram": {"reactions": True}},
        ),
        ("web.search_backend", "searxng", lambda c: c.section("web")["search_provider"]),
        (
            "security.website_blocklist",
            {"enabled": True, "domains": ["a.test"]},
            lambda c: c.section("web") == {"blocked": ["a.test"]},
        ),
        (
            "security.website_blocklist",
            {"enabled": False, "domains": ["a.test"]},
            lambda c: not c.section("web").get("blocked"),
        ),
    ],
)
def test_a_key_by_its_other_name(tmp_path: Path, theirs: str, value: Any, ours: Any) -> None:
    config = load(tmp_path, yaml.safe_dump(tree({theirs: value})))
    assert ours(config)
    assert config.notices() == ()


def test_fallbacks_by_their_other_names(tmp_path: Path) -> None:
    text = "fallback_providers: [{provider: openai, model: gpt-9}]"
    config = load(tmp_path, text, OPENAI_API_KEY="sk-x")
    assert [(one.provider, one.name) for one in config.fallback_models] == [("openai", "gpt-9")]
    text = "fallback_model: {provider: openai, model: gpt-9}"
    assert load(tmp_path, text, OPENAI_API_KEY="sk-x").fallback_models == config.fallback_models


@pytest.mark.parametrize(
    "saved",
    [
        {"custom_providers": [{"name": "My Box", "base_url": "http://box/v1", "key_env": "K"}]},
        {"providers": {"my-box": {"api": "http://box/v1", "api_key": "${K}"}}},
    ],
)
def test_an_address_that_is_kept_under_a_name(tmp_path: Path, saved: dict[str, Any]) -> None:
    raw = {"model": {"default": "m", "provider": "custom:my-box"}, **saved}
    config = load(tmp_path, yaml.safe_dump(raw), K="sk-box")
    model = config.model
    assert (model.provider, model.base_url, model.api_key) == ("custom", "http://box/v1", "sk-box")
    assert config.notices() == ()
    raw["model"]["provider"] = "openai"
    config = load(tmp_path, yaml.safe_dump(raw), K="sk-box", OPENAI_API_KEY="sk-o")
    assert config.model.provider == "openai"
    assert list(config.ignored) == [*saved]


def test_of_two_names_ours_counts_and_it_is_said(tmp_path: Path) -> None:
    config = load(tmp_path, "agent: {max_turns: 5, max_iterations: 6}")
    assert config.agent.max_iterations == 6
    assert config.ignored == {"agent.max_turns": "agent.max_iterations counts"}


def test_a_wrong_value_is_refused_by_the_name_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.max_turns is 'many'"):
        load(tmp_path, "agent: {max_turns: many}")
    with pytest.raises(ConfigError, match=r"approvals\.mode"):
        load(tmp_path, default_config(approvals__mode="sometimes"))


def test_a_misspelt_key_still_warns_among_its_keys(tmp_path: Path) -> None:
    config = load(tmp_path, default_config(agent__max_turn=3, gateway__cache_sise=3))
    assert len(config.warnings) == 2
    assert "did you mean" in config.warnings[0]
    assert "gateway.cache_size?" in config.warnings[1]


def test_many_unknown_keys_are_one_warning(tmp_path: Path) -> None:
    config = load(tmp_path, "".join(f"zz{letter * 9}: 1\n" for letter in "pqrst"))
    assert len(config.warnings) == 1
    assert all(f"zz{letter * 9}" in config.warnings[0] for letter in "pqrst")


def test_a_search_service_that_is_not_here_is_said(tmp_path: Path) -> None:
    config = load(tmp_path, "web: {backend: tavily}")
    assert "searxng" in config.ignored["web.backend"]


# Toolsets


def test_every_toolset_of_its_is_known() -> None:
    unknown = set(TOOLSETS) - set(MEANS) - WITHOUT_MEANING - set(toolset_list())
    assert unknown == set()


@pytest.mark.parametrize(
    ("names", "tools"),
    [
        (["file"], {"read_file", "write_file", "patch", "search_files"}),
        (["debugging"], {"terminal", "process", "read_file", "write_file", "patch",
                         "search_files", "web_fetch"}),
        (["safe"], {"web_fetch"}),
        (["hermes-webhook"], {"web_fetch", "clarify"}),
        (["todo", "vision", "tts"], {"todo"}),
    ],
)  # fmt: skip
def test_toolsets_by_their_other_names(tmp_path: Path, names: list[str], tools: set[str]) -> None:
    assert tools_of(load(tmp_path, f"toolsets: {names}")) == tools


@pytest.mark.parametrize("name", ["hermes-cli", "hermes-telegram", "hermes-gateway", "all", "*"])
def test_a_toolset_that_holds_all_others(tmp_path: Path, name: str) -> None:
    assert tools_of(load(tmp_path, f"toolsets: ['{name}']")) == everything(tmp_path)


def test_disabled_toolsets_by_either_name(tmp_path: Path) -> None:
    for key in ("agent__disabled_toolsets", "disabled_toolsets", "tools__disabled"):
        config = load(tmp_path, default_config(**{key: ["terminal", "file", "browser"]}))
        left = tools_of(config)
        assert not left & {"terminal", "process", "read_file", "patch"}, key
        assert "todo" in left


def test_memory_that_is_off_is_off(tmp_path: Path) -> None:
    config = load(tmp_path, default_config(memory__memory_enabled=False))
    assert "memory" not in tools_of(config)


def test_each_platform_may_have_toolsets_of_its_own(tmp_path: Path) -> None:
    own = {"cli": ["hermes-cli"], "telegram": ["web", "clarify"]}
    config = load(tmp_path, default_config(platform_toolsets=own))
    assert tools_of(config, "telegram") == {"web_fetch", "clarify"}
    assert tools_of(config, "tui") == tools_of(config, "cli") == everything(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("toolsets: [spotify]", ["toolsets is [spotify]", "toolsets: [all]", "files", "[none]"]),
        ("toolsets: [fiels]", ["toolsets is [fiels]"]),
        ("toolsets: [file]\ntools: {disabled: [files]}", ["tools.disabled is [files]"]),
        ("tools: {disabled: [hermes-cli]}", ["tools.disabled is [hermes-cli]"]),
        ("platform_toolsets: {cli: [tts]}", ["platform_toolsets.cli is [tts]"]),
        ("toolsets: [memory]\nmemory: {memory_enabled: false}", ["toolsets is [memory]"]),
    ],
)
def test_a_list_that_leaves_nothing_is_refused(tmp_path: Path, text: str, said: list[str]) -> None:
    config = load(tmp_path, text)
    with pytest.raises(ConfigError) as refusal:
        check_tool_choice(config)
    assert all(words in str(refusal.value) for words in said), refusal.value


def test_an_agent_without_tools_can_be_asked_for(tmp_path: Path) -> None:
    assert tools_of(load(tmp_path, "toolsets: [none]")) == set()


def test_toolsets_that_do_not_exist_here_are_said(tmp_path: Path) -> None:
    config = load(tmp_path, "toolsets: [todo, vision, tts]")
    assert len(config.notices()) == 1
    assert "toolsets [vision, tts]" in config.notices()[0]


def test_a_start_is_refused_with_a_list_that_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("toolsets: [spotify]\n")
    for command in (["chat", "-q", "hi"], ["gateway", "run"]):
        done = subprocess.run(
            [sys.executable, "-m", "hermes_cli.main", *command],
            env=os.environ | {"HERMES_HOME": str(tmp_path), "API_SERVER_ENABLED": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 2, done
        assert "toolsets is [spotify]" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.skipif(not AGENT, reason="HERMES_AGENT_PYTHON names no interpreter with that system")
def test_the_facts_are_those_of_the_program(tmp_path: Path) -> None:
    program = """
import json
from hermes_cli.config import DEFAULT_CONFIG
from toolsets import TOOLSETS
print(json.dumps([DEFAULT_CONFIG, sorted(TOOLSETS)]))
"""
    done = subprocess.run(
        [str(AGENT), "-c", program],
        env=os.environ | {"HERMES_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    import json

    config, toolsets = json.loads(done.stdout.splitlines()[-1])
    assert set(toolsets) <= set(TOOLSETS)
    text = yaml.safe_dump(config)
    assert load(tmp_path, text).warnings == ()
    assert tools_of(load(tmp_path, text)) == everything(tmp_path)
