"""`hermes plugins`, `hermes hooks` and the subcommands of plugins."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.config import ConfigError
from agent.config.write import edited, set_plugin_enabled
from agent.plugin_loading import load_plugins
from hermes_base import plugins
from hermes_cli.main import main

from .conftest import WritePlugin

CONFIG = """\
# My settings
model: gpt-5   # the good one

plugins:
  # the ones I trust
  enabled:
    - other
  hook_timeout: 3

# how to show things
display:
  compact: true
"""


@pytest.fixture(autouse=True)
def our_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))
    for name in ("HERMES_SAFE_MODE", "HERMES_ACCEPT_HOOKS"):  # set by flags, for good
        monkeypatch.setenv(name, "")


def test_listing_enabling_disabling(
    write_plugin: WritePlugin, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plugin("mine", "", manifest="name: mine\nversion: 1.2\ndescription: Does it.\n")
    write_plugin("broken", "", manifest="name: [")
    write_plugin("needy", "", manifest="name: needy\nrequires_env: [NEEDED_KEY]\n")
    assert main(["plugins", "list"]) == 0
    shown = capsys.readouterr().out
    assert "mine 1.2 (user): not enabled\n    Does it." in shown
    for name in ("mine", "needy", "broken"):
        assert main(["plugins", "enable", name]) == 0
    assert main(["plugins", "enable", "mine"]) == 0
    assert "was already enabled" in capsys.readouterr().out
    main(["plugins", "list"])
    shown = capsys.readouterr().out
    assert "mine 1.2 (user): enabled" in shown
    assert "needs NEEDED_KEY" in shown and "not valid YAML" in shown
    assert main(["plugins", "disable", "mine"]) == 0
    main(["plugins", "list"])
    assert "mine 1.2 (user): disabled" in capsys.readouterr().out
    assert main(["plugins", "enable", "nobody"]) == 2
    assert "There are: broken, mine, needy" in capsys.readouterr().err
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600


def test_the_rest_of_the_file_stays(home: Path) -> None:
    path = home / "config.yaml"
    path.write_text(CONFIG)
    path.chmod(0o640)
    assert set_plugin_enabled(path, "mine", True)
    text = path.read_text()
    before, after = CONFIG.split("plugins:")[0], CONFIG[CONFIG.index("\n# how to show") :]
    assert text.startswith(before) and text.endswith(after)
    assert yaml.safe_load(text)["plugins"] == {"enabled": ["other", "mine"], "hook_timeout": 3}
    assert "# the ones I trust" in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600  # as after every change of it
    assert not set_plugin_enabled(path, "mine", True)
    assert set_plugin_enabled(path, "mine", False)
    section = yaml.safe_load(path.read_text())["plugins"]
    assert (section["enabled"], section["disabled"]) == (["other"], ["mine"])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model: gpt-5",
        "plugins:\n",
        "plugins: {enabled: [a]}\nmodel: gpt-5\n",
        "model: gpt-5\nplugins: {}\n",
        "plugins:\n  enabled: a\n",
        "plugins:\n  enabled:\n  - a\n\n\n\nmodel: gpt-5\n# end\n",
        "# only a comment\n",
        "---\nmodel: gpt-5\n",
        "{model: gpt-5, plugins: {enabled: [a]}}\n",
    ],
)
def test_every_shape_of_section(text: str, home: Path) -> None:
    path = home / "config.yaml"
    path.write_text(text)
    before = yaml.safe_load(text) or {}
    assert set_plugin_enabled(path, "mine", True)
    after = yaml.safe_load(path.read_text())
    assert after["plugins"]["enabled"][-1] == "mine"
    assert {**before, "plugins": 0} == {**after, "plugins": 0}


@pytest.mark.parametrize("text", ["a: [", "- a list\n", "plugins: 5\n"])
def test_what_cannot_be_edited_is_left_alone(text: str, home: Path) -> None:
    path = home / "config.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError):
        set_plugin_enabled(path, "mine", True)
    assert path.read_text() == text


values = st.dictionaries(
    st.text("abcdef_", min_size=1, max_size=6),
    st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=3),
    max_size=4,
)


@given(values, st.none() | values, st.lists(st.text("ab", min_size=1), max_size=3))
def test_any_file_can_be_edited(rest: dict, old: dict | None, names: list[str]) -> None:
    raw = {**rest, "plugins": old, "zz": 1} if old is not None else rest
    text = yaml.safe_dump(raw, sort_keys=False) if raw else ""
    changed = edited(text, ["plugins", "enabled"], names)
    assert changed is not None
    assert yaml.safe_load(changed) == {**raw, "plugins": {**(old or {}), "enabled": names}}


def test_shell_hooks(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_text(
        "hooks:\n"
        "  pre_tool_call:\n"
        '    - {matcher: terminal, command: \'echo {"decision":"block"}\'}\n'
        "    - /no/such/program\n"
        "  full_moon: [true]\n"
    )
    assert main(["hooks", "list"]) == 0
    shown = capsys.readouterr().out
    assert "pre_tool_call [terminal]: echo" in shown and "not agreed to" in shown
    assert "full_moon" in shown
    assert main(["hooks", "test", "pre_tool_call"]) == 1
    assert "not agreed to" in capsys.readouterr().out
    assert main(["hooks", "doctor"]) == 1
    shown = capsys.readouterr().out
    assert "/no/such/program is not there" in shown and "hermes hooks accept" in shown
    assert main(["hooks", "accept"]) == 0
    capsys.readouterr()
    assert main(["hooks", "list"]) == 0
    assert "not agreed to" not in capsys.readouterr().out
    assert main(["hooks", "test", "pre_tool_call"]) == 1
    shown = capsys.readouterr().out
    assert "'action': 'block'" in shown or "asks for: nothing" in shown
    assert "No such file" in shown
    assert main(["hooks", "test", "on_session_end"]) == 2
    assert main(["hooks", "revoke", "/no/such/program"]) == 0
    assert main(["hooks", "revoke", "/no/such/program"]) == 2
    assert main(["hooks", "accept", "nothing like it"]) == 2


def test_a_subcommand_of_a_plugin(
    write_plugin: WritePlugin, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plugin(
        "mine",
        """
        def setup(parser):
            parser.add_argument("--times", type=int, default=1)

        def run(args):
            print("hello " * args.times)
            return 4

        def register(ctx):
            ctx.register_cli_command("greet", "say hello", setup, run)
            ctx.register_cli_command("empty", "nothing", lambda parser: None)
            ctx.register_cli_command("version", "mine instead", setup, run)
        """,
    )
    (home / "config.yaml").write_text("plugins: {enabled: [mine]}\n")
    assert main(["greet", "--times", "2"]) == 4
    assert capsys.readouterr().out == "hello hello \n"
    assert main(["empty"]) == 2
    assert main(["version"]) == 0
    assert "hello" not in capsys.readouterr().out.splitlines()[-1]
    with pytest.raises(SystemExit):
        main(["no-such-command"])


def test_the_flags_reach_the_loader(
    home: Path, monkeypatch: pytest.MonkeyPatch, write_plugin: WritePlugin
) -> None:
    write_plugin("mine", "raise SystemExit('must not be run')")
    (home / "config.yaml").write_text("plugins: {enabled: [mine]}\nhooks: {pre_llm_call: ['true']}")
    seen: list[bool] = []

    def stand_in(options: object) -> int:
        from agent.config import load_config

        config = load_config()
        load_plugins(config.raw, config.home, config.environ)
        seen.append(plugins.has_hook("pre_llm_call"))
        return 0

    monkeypatch.setattr("hermes_cli.chat.run_chat", stand_in)
    for flag in ("--safe-mode", "--accept-hooks"):
        monkeypatch.setenv("HERMES_SAFE_MODE", "")
        main([flag, "chat", "-q", "x"])
        plugins.forget_plugins()
    assert seen == [False, True]
    assert plugins.plugin_problems() == {}
