"""Reading config.yaml, .env and the environment: what wins, what is refused, what only warns."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Config, ConfigError, load_config
from agent.config.schema import FREE_FORM, KEYS, SECTIONS
from agent.home import hermes_home, home_path
from hermes_base import redaction as redact_module
from hermes_base.redaction import redact


@pytest.fixture(autouse=True)
def own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact_module, "_registered", ())


def load(home: Path, yaml: str = "", dotenv: str = "", **environ: str) -> Config:
    (home / "config.yaml").write_text(yaml, encoding="utf-8")
    if dotenv:
        (home / ".env").write_text(dotenv, encoding="utf-8")
        (home / ".env").chmod(0o600)
    return load_config(home, environ)


def refusal(home: Path, yaml: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(home, yaml, **environ)
    return str(caught.value)


# The home


def test_the_home_is_created_private(tmp_path):
    home = hermes_home({"HERMES_HOME": str(tmp_path / "a" / "home")})
    assert home == tmp_path / "a" / "home"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_the_home_defaults_to_the_users_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert home_path({}) == tmp_path / ".hermes"
    assert home_path({"HERMES_HOME": " "}) == tmp_path / ".hermes"
    assert home_path({"HERMES_HOME": "~/other"}) == tmp_path / "other"


def test_a_home_that_cannot_be_made_is_explained(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="HERMES_HOME"):
        hermes_home({"HERMES_HOME": str(tmp_path / "file" / "home")})


# Defaults and precedence


def test_without_any_configuration_the_local_model_answers(tmp_path):
    config = load_config(tmp_path, {})
    assert (config.model.provider, config.model.name) == ("local", "SmolLM2-135M-Instruct")
    assert config.model.base_url == ""
    assert config.agent.max_iterations == 90
    assert config.compression.threshold == 0.5
    assert config.approvals.mode == "manual"
    assert config.auxiliary.compression.timeout == 120
    assert config.warnings == ()
    assert list(tmp_path.iterdir()) == []


def test_every_key_of_the_reference_can_be_set_to_its_default(tmp_path):
    from yaml import safe_dump

    tree: dict = {}
    for key in KEYS:
        *path, last = key.name.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = key.default
    config = load(tmp_path, safe_dump(tree))
    assert config.warnings == ()
    assert config.model == load_config(tmp_path / "empty", {}).model
    for name, cls in SECTIONS.items():
        if name != "model":
            assert getattr(config, name) == cls()


def test_values_from_every_place(tmp_path):
    config = load(
        tmp_path,
        "model: {default: m, provider: custom, base_url: 'http://h/v1/', api_key: '${MY_KEY}'}\n"
        "agent: {max_iterations: '12'}\n"
        "terminal: {timeout: 7}\n"
        "platforms: {telegram: {enabled: true}}\n",
        "MY_KEY=from-dotenv\nSHARED=dotenv\n",
        SHARED="process",
        HERMES_YOLO_MODE="1",
    )
    assert config.model.api_key == "from-dotenv"
    assert config.model.base_url == "http://h/v1"
    assert config.agent.max_iterations == 12
    assert config.terminal.timeout == 7
    assert config.approvals.mode == "off"
    assert config.environ["SHARED"] == "process"
    assert config.section("platforms") == {"telegram": {"enabled": True}}
    assert config.section("missing") == {}
    assert "MY_KEY" not in os.environ


def test_yaml_truth_values_become_the_words_that_were_written(tmp_path):
    assert load(tmp_path, "approvals: {mode: off}").approvals.mode == "off"
    assert load(tmp_path, "logging: {level: debug}").logging.level == "DEBUG"
    assert load(tmp_path, "compression: {enabled: no}").compression.enabled is False
    assert load(tmp_path, "compression: {enabled: 'no'}").compression.enabled is False
    assert "approvals.mode" in refusal(tmp_path, "approvals: {mode: on}")


def test_an_empty_value_is_the_default(tmp_path):
    config = load(tmp_path, "agent:\n  max_iterations:\ndisplay:\nmodel:\n")
    assert config.agent.max_iterations == 90
    assert config.model.provider == "local"


# Messages


@pytest.mark.parametrize(
    ("yaml", "said"),
    [
        ("agent: {max_iterations: many}", ["agent.max_iterations", "'many'", "1 to 10000"]),
        ("agent: {max_iterations: 0}", ["agent.max_iterations", "0", "1 to 10000"]),
        ("agent: {max_iterations: 1.5}", ["1.5", "a whole number"]),
        ("agent: {max_iterations: true}", ["True", "a whole number"]),
        ("agent: 7", ["agent is 7", "a section"]),
        ("compression: {threshold: .nan}", ["compression.threshold", "0.05 to 0.95"]),
        ("compression: {enabled: maybe}", ["compression.enabled", "true or false"]),
        ("display: {busy_input_mode: shout}", ["'shout'", "interrupt, queue, steer"]),
        ("terminal: {cwd: [1]}", ["terminal.cwd", "text"]),
        ("fallback_models: gpt-5", ["fallback_models", "a list"]),
        ("auxiliary: {compression: {timeout: x}}", ["auxiliary.compression.timeout", "'x'"]),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_the_fix(tmp_path, yaml, said):
    message = refusal(tmp_path, yaml)
    assert str(tmp_path / "config.yaml") in message
    for part in said:
        assert part in message


def test_all_problems_are_told_at_once(tmp_path):
    message = refusal(tmp_path, "agent: {max_iterations: x}\nlogging: {level: LOUD}\n")
    assert len(message.splitlines()) == 2


def test_unknown_keys_warn_with_the_nearest_known_one_and_start(tmp_path):
    config = load(
        tmp_path, "agnet: {}\nagent: {max_iteration: 5}\nzzzzqqq: 1\n7: x\nauxiliary: {visions: {}}"
    )
    said = "\n".join(config.warnings)
    assert "agnet; did you mean agent?" in said
    assert "agent.max_iteration; did you mean agent.max_iterations?" in said
    assert "zzzzqqq; it has no effect" in said
    assert "unknown key 7" in said
    assert "auxiliary.visions" in said
    assert config.agent.max_iterations == 90


def test_sections_of_other_parts_do_not_warn(tmp_path):
    yaml = "\n".join(f"{name}: null" for name in FREE_FORM)
    assert load(tmp_path, yaml).warnings == ()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("model: gpt-5\nagent: {max_iterations: 5\n", "line 3, column 1"),
        ("model: a: b\n", "line 1, column 9"),
        ("a: 1\n\tb: 2\n", "line 2, column 1"),
    ],
)
def test_broken_yaml_is_reported_with_its_place_and_left_alone(tmp_path, text, place):
    assert place in refusal(tmp_path, text)
    assert (tmp_path / "config.yaml").read_text() == text


@pytest.mark.parametrize("text", ["- a\n- b\n", "just words\n"])
def test_a_file_without_keys_is_refused(tmp_path, text):
    assert "must hold keys" in refusal(tmp_path, text)


def test_unreadable_files_are_explained(tmp_path):
    (tmp_path / "config.yaml").write_bytes(b"model: \xff\xfe\n")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path, {})
    (tmp_path / "config.yaml").unlink()
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigError, match="cannot be read"):
        load_config(tmp_path, {})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from([*SECTIONS, *(k.name.split(".")[-1] for k in KEYS)]),
                inner,
                max_size=5,
            )
        ),
        max_leaves=20,
    )
)
def test_whatever_the_file_holds_it_is_read_or_refused(tmp_path_factory, tree):
    from yaml import safe_dump

    home = tmp_path_factory.mktemp("home")
    (home / "config.yaml").write_text(safe_dump(tree), encoding="utf-8")
    try:
        config = load_config(home, {})
    except ConfigError as refused:
        assert str(home / "config.yaml") in str(refused)
    else:
        assert 1 <= config.agent.max_iterations <= 10_000


# Secrets


def test_secrets_are_never_shown(tmp_path):
    key = "plainsecret123456"
    config = load(tmp_path, f"model: {{default: gpt-5, provider: openai, api_key: {key}}}")
    assert any("model.api_key" in w and ".env" in w for w in config.warnings)
    assert key not in "".join(config.warnings) + repr(config)
    assert redact(f"sent {key}") == "sent ***"
    assert "model.api_key" in (message := refusal(tmp_path, f"model: {{api_key: [{key}]}}"))
    assert key not in message


def test_secrets_of_the_environment_are_redacted_from_then_on(tmp_path):
    load(tmp_path, "", "SOME_TOKEN=unformatted-token\n", OTHER_PASSWORD="correct horse")
    assert redact("a unformatted-token b correct horse") == "a *** b ***"
    load(tmp_path, "", HERMES_SESSION_KEY="agent:main:telegram:dm:42")
    assert redact("agent:main:telegram:dm:42") == "agent:main:telegram:dm:42"


def test_a_missing_reference_is_named(tmp_path):
    yaml = "model: {default: m, provider: custom, base_url: http://h, api_key: '${NOT_SET}'}"
    assert any("${NOT_SET}" in warning for warning in load(tmp_path, yaml).warnings)


def test_a_readable_env_file_warns(tmp_path):
    (tmp_path / ".env").write_text("A=b\n")
    (tmp_path / ".env").chmod(0o644)
    assert any("chmod 600" in warning for warning in load_config(tmp_path, {}).warnings)


def test_yaml_is_not_imported_without_a_config_file(tmp_path):
    code = (
        "import sys; from pathlib import Path; from agent.config import load_config;"
        "load_config(Path(sys.argv[1]), {}); print('yaml' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
