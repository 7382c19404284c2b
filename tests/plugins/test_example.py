"""The example plugin, enabled and used the way a person would; and the page about plugins."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent.build import build_agent
from agent.config import load_config
from agent.plugin_loading import load_plugins
from agent.scripted import ScriptedModel, call, say
from hermes_base import plugins
from hermes_base.plugins.hooks import KNOWN_HOOKS
from hermes_base.plugins.registrations import MIDDLEWARE_KINDS
from hermes_cli.main import main
from hermes_state import SessionDB

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "plugins.md").read_text()


def test_the_example(home: Path, db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home))
    shutil.copytree(ROOT / "examples" / "plugins" / "notebook", home / "plugins" / "notebook")
    assert main(["plugins", "enable", "notebook"]) == 0
    model = ScriptedModel(
        [
            call("note_down", text="buy milk"),
            call("note_down", text="my password is 1234"),
            say("Done."),
            say("Hello again."),
        ]
    )
    config = load_config(home)
    agent = build_agent(config, db, model=model)
    assert plugins.loaded_plugins() == ["notebook"]
    result = agent.run_conversation("remember this")
    texts = [one["content"] for one in result["messages"] if one["role"] == "tool"]
    assert texts[0] == "Noted on line 1."
    assert "do not belong" in texts[1]
    assert plugins.run_command("notebook") == "buy milk"
    assert plugins.run_command("notebook", "counts") == "note_down blocked: 1\nnote_down ok: 1"
    later = build_agent(config, db, model=model)
    later.run_conversation("hello")
    assert model.requests[-1].messages[-1]["content"] == "hello\n\n[The notebook has 1 lines.]"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_names_every_hook_and_kind() -> None:
    for name in (*KNOWN_HOOKS, *MIDDLEWARE_KINDS):
        assert f"`{name}`" in PAGE, name


def test_the_page_names_every_method() -> None:
    from hermes_base.plugins.context import PluginContext

    public = [name for name in vars(PluginContext) if not name.startswith("_")]
    for name in set(public) - {"close"}:
        assert f"`{name}" in PAGE, name


def test_the_pages_plugin_works(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first plugin of the page, made with the very lines that stand there."""
    manifest, code = blocks("yaml")[0], blocks("python")[0]
    folder = home / "plugins" / "weather"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text(manifest)
    (folder / "__init__.py").write_text(code)
    monkeypatch.setenv("HERMES_HOME", str(home))
    main(["plugins", "enable", "weather"])
    with SessionDB(tmp_path / "other.db") as db:
        model = ScriptedModel([call("weather", place="Rome"), say("Nice.")])
        agent = build_agent(load_config(home), db, model=model)
        result = agent.run_conversation("How is it in Rome?")
    assert plugins.plugin_problems() == {}
    assert result["messages"][2]["content"] == "It is sunny in Rome."
    assert plugins.run_command("weather", "Rome") == "It is sunny in Rome."


@pytest.mark.parametrize("number", range(1, len(blocks("python"))))
def test_the_other_code_on_the_page_loads(number: int, home: Path) -> None:
    folder = home / "plugins" / "sample"
    folder.mkdir(parents=True)
    (folder / "plugin.yaml").write_text("name: sample\n")
    (folder / "__init__.py").write_text(blocks("python")[number])
    load_plugins({"plugins": {"enabled": ["sample"]}}, home, {})
    assert plugins.loaded_plugins() == ["sample"], plugins.plugin_problems()


def test_the_pages_shell_hook_works(home: Path, tmp_path: Path) -> None:
    import yaml

    from tools.shell_hooks import read_hooks

    sections = [yaml.safe_load(text) for text in blocks("yaml")]
    (raw,) = [one for one in sections if "hooks" in one]
    found, problems = read_hooks(raw)
    assert found and not problems
    script = tmp_path / "hook"
    script.write_text(blocks("sh")[-1])
    told = '{"tool_name": "terminal", "tool_input": {"command": "git push --force"}}'
    done = subprocess.run(
        ["sh", script], input=told, capture_output=True, text=True, timeout=30, check=True
    )
    assert '"decision": "block"' in done.stdout
    done = subprocess.run(
        ["sh", script], input=told.replace("push", "log"), capture_output=True, text=True,
        timeout=30, check=True,
    )  # fmt: skip
    assert done.stdout == ""


def test_links_on_the_page_lead_somewhere() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_the_example_needs_nothing_but_python() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT / 'examples' / 'plugins')!r}); import notebook"
    )
    subprocess.run([sys.executable, "-I", "-c", code], check=True, timeout=30)
