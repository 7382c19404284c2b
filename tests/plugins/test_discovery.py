"""Which plugins are found, which are loaded, and that a broken one changes nothing else."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from agent.plugin_loading import load_plugins
from hermes_base import plugins
from hermes_base.plugins.discovery import find_plugins
from hermes_base.plugins.manifest import BrokenPlugin, read_manifest

from .conftest import Load, WritePlugin

WHO = """
def register(ctx):
    ctx.register_command("who", lambda arguments: {answer!r})
"""


def who() -> str | None:
    return plugins.run_command("who") if "who" in plugins.get_commands() else None


def test_a_plugin_is_loaded_when_it_is_enabled(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin("mine", WHO.format(answer="mine"))
    load("mine")
    assert plugins.loaded_plugins() == ["mine"]
    assert who() == "mine"


def test_closed_by_default(write_plugin: WritePlugin, load: Load, tmp_path: Path) -> None:
    write_plugin("mine", "raise SystemExit('must not be run')")
    load("other")
    assert plugins.loaded_plugins() == []


@pytest.mark.parametrize("raw", [{}, {"plugins": None}, {"plugins": {}}, {"plugins": ["mine"]}])
def test_nothing_enabled(raw: dict[str, object], write_plugin: WritePlugin, home: Path) -> None:
    write_plugin("mine", "raise SystemExit('must not be run')")
    load_plugins(raw, home, {})
    assert plugins.loaded_plugins() == []


def test_disabled_wins_over_enabled(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin("mine", WHO.format(answer="mine"))
    load("mine", plugins={"disabled": ["mine"]})
    assert who() is None


@pytest.mark.parametrize("value", ["1", "true", "YES"])
def test_safe_mode(value: str, write_plugin: WritePlugin, load: Load) -> None:
    write_plugin("mine", WHO.format(answer="mine"))
    load("mine", environ={"HERMES_SAFE_MODE": value})
    assert who() is None


def test_the_name_may_be_the_folders_or_the_manifests(
    write_plugin: WritePlugin, load: Load
) -> None:
    write_plugin("folder", WHO.format(answer="it"), manifest="name: proper-name\n")
    load("folder")
    assert plugins.loaded_plugins() == ["proper-name"]


def test_a_project_overrides_only_when_allowed(
    write_plugin: WritePlugin,
    load: Load,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_plugin("mine", WHO.format(answer="user"))
    project = tmp_path / "project"
    write_plugin("mine", WHO.format(answer="project"), where=project / ".hermes" / "plugins")
    monkeypatch.chdir(project)
    load("mine")
    assert who() == "user"
    plugins.forget_plugins()
    load("mine", environ={"HERMES_ENABLE_PROJECT_PLUGINS": "1"})
    assert who() == "project"


def test_an_installed_package_is_found_and_comes_last(
    write_plugin: WritePlugin, load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_plugin("mine", WHO.format(answer="user"))
    site = tmp_path / "site"
    info = site / "mine_package-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine-package\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text(
        "[hermes_agent.plugins]\nmine = mine_package\nfunction = mine_package:register\n"
    )
    (site / "mine_package.py").write_text(WHO.format(answer="package"))
    monkeypatch.syspath_prepend(site)
    load("mine")
    assert who() == "package"
    plugins.forget_plugins()
    load("function")
    assert who() == "package"


def test_loading_happens_once(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin("mine", WHO.format(answer="mine"))
    load()
    load("mine")
    assert who() is None


def test_a_plugin_may_have_modules_of_its_own(write_plugin: WritePlugin, load: Load) -> None:
    folder = write_plugin("my-plugin", "from .part import register\n")
    (folder / "part.py").write_text(WHO.format(answer="part"))
    load("my-plugin")
    assert who() == "part"


BROKEN = {
    "raises": "raise RuntimeError('at import')",
    "exits": "import sys; sys.exit(3)",
    "syntax": "def register(ctx:",
    "no register": "x = 1",
    "register raises": """
        def register(ctx):
            ctx.register_hook("on_session_end", print)
            ctx.register_command("half", print)
            ctx.register_middleware("tool_request", print)
            raise ValueError("half-way")
        """,
    "register exits": "def register(ctx): raise SystemExit",
    "bad name": "def register(ctx): ctx.register_command('a b', print)",
    "bad hook": "def register(ctx): ctx.register_hook('on_session_end', 'not callable')",
    "bad tool": "def register(ctx): ctx.register_tool('t', 's', 'no schema', print)",
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_plugin_is_named_and_changes_nothing(
    kind: str, write_plugin: WritePlugin, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin("broken", BROKEN[kind])
    write_plugin("mine", WHO.format(answer="mine"))
    load("broken", "mine")
    assert plugins.loaded_plugins() == ["mine"]
    assert who() == "mine"
    assert set(plugins.get_commands()) == {"who"}
    assert not plugins.has_hook("on_session_end") and not plugins.has_middleware("tool_request")
    assert "broken" in plugins.plugin_problems()
    assert any("broken" in one.getMessage() for one in caplog.records if one.levelname == "ERROR")
    assert not any(name.startswith("hermes_plugins.broken") for name in sys.modules)


@pytest.mark.parametrize(
    "manifest",
    [
        "name: [",
        "- a list",
        "just text",
        "name: 3",
        "name: ''",
        "kind: monster",
        "requires_env: {a: b}",
        "provides_tools: 7",
        "requires_env: [3]",
        "\x00",
    ],
)
def test_a_broken_manifest(
    manifest: str, write_plugin: WritePlugin, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_plugin("broken", "raise SystemExit('must not be run')", manifest=manifest)
    with pytest.raises(BrokenPlugin):
        read_manifest(folder / "plugin.yaml")
    write_plugin("mine", WHO.format(answer="mine"))
    load("broken", "mine")
    assert plugins.loaded_plugins() == ["mine"]
    assert any("broken" in one.getMessage() for one in caplog.records)


def test_what_a_manifest_says(tmp_path: Path) -> None:
    folder = tmp_path / "weather"
    folder.mkdir()
    (folder / "plugin.yaml").write_text(
        "version: 2\nauthor: Ada\nkind: backend\nlabel: Weather\nprovides_tools: [sky]\n"
        "requires_env: [ONE, {name: TWO, description: a key, password: true}]\n"
        "description: |\n  two\n  lines\n"
    )
    manifest = read_manifest(folder / "plugin.yaml")
    assert (manifest.name, manifest.version, manifest.kind) == ("weather", "2", "backend")
    assert manifest.requires_env == ("ONE", "TWO")
    assert manifest.description == "two lines"
    assert manifest.raw["label"] == "Weather"


def test_variables_that_are_needed(
    write_plugin: WritePlugin,
    load: Load,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    code = "import os\n" + WHO.format(answer="x").replace("'x'", "os.environ['SKY_ADDRESS']")
    write_plugin("sky", code, manifest="name: sky\nrequires_env: [SKY_ADDRESS]\n")
    load("sky")
    assert plugins.loaded_plugins() == []
    assert "SKY_ADDRESS" in plugins.plugin_problems()["sky"]
    plugins.forget_plugins()
    # Set and taken away again by the fixture, since loading puts it into the process.
    monkeypatch.setenv("SKY_ADDRESS", "")
    monkeypatch.delenv("SKY_ADDRESS")
    load("sky", environ={"SKY_ADDRESS": "from .env"})
    assert who() == "from .env"


def test_an_enabled_plugin_that_is_not_there(load: Load, caplog: pytest.LogCaptureFixture) -> None:
    load("nowhere")
    assert "'nowhere'" in caplog.text
    assert plugins.plugin_problems() == {"nowhere": "it is not there"}


def test_one_that_never_finishes_loading(
    write_plugin: WritePlugin, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermes_base.plugins.load.LOAD_LIMIT", 1.0)
    write_plugin(
        "slow",
        """
        import threading
        go_on = threading.Event()
        outcome = []
        def register(ctx):
            go_on.wait(30)
            try:
                ctx.register_command("late", print)
            except RuntimeError as error:
                outcome.append(error)
            done.set()
        done = threading.Event()
        """,
    )
    write_plugin("mine", WHO.format(answer="mine"))
    load("slow", "mine")
    assert who() == "mine"
    assert "did not finish" in plugins.plugin_problems()["slow"]
    slow = sys.modules["hermes_plugins.slow"]
    slow.go_on.set()
    assert slow.done.wait(60)
    assert slow.outcome and "late" not in plugins.get_commands()


def test_debugging_goes_to_standard_error(write_plugin: WritePlugin, home: Path) -> None:
    write_plugin("mine", WHO.format(answer="mine"))
    code = (
        "from pathlib import Path; from agent.plugin_loading import load_plugins;"
        f"load_plugins({{'plugins': {{'enabled': ['mine']}}}}, Path({str(home)!r}),"
        " {'HERMES_PLUGINS_DEBUG': '1'})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Loaded the plugin mine" in done.stderr
    assert done.stdout == ""


def test_it_is_a_leaf_and_without_plugins_nothing_is_read(home: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from hermes_base import plugins;"
        f"plugins.load_plugins({{}}, Path({str(home)!r}), {{}}, None);"
        "plugins.invoke_hook('on_session_end', session_id='x');"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    loaded = set(done.stdout.split())
    assert done.returncode == 0
    assert not {name.partition(".")[0] for name in loaded} & {"agent", "tools", "hermes_state"}
    assert not loaded & {"yaml", "hermes_base.plugins.discovery", "importlib.metadata"}


def test_a_folder_that_cannot_be_listed(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    (home / "plugins").write_text("a file")
    assert find_plugins(home, {}) == []
    with caplog.at_level(logging.DEBUG):
        load_plugins({"plugins": {"enabled": "mine"}}, home, {})
    assert plugins.loaded_plugins() == []
