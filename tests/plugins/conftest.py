"""Plugins for tests: written into a home, found and loaded the way a person's are."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.plugin_loading import load_plugins
from agent.scripted import ScriptedModel
from hermes_base import plugins
from hermes_state import SessionDB
from tools.base import ToolContext, Workspace, tool
from tools.registry import Registry

WritePlugin = Callable[..., Path]
Load = Callable[..., None]
MakeAgent = Callable[..., tuple[AIAgent, ScriptedModel]]


@pytest.fixture(autouse=True)
def no_plugins() -> Iterator[None]:
    """Every test begins and ends without plugins."""
    plugins.forget_plugins()
    yield
    plugins.forget_plugins()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def write_plugin(home: Path) -> WritePlugin:
    """`write_plugin("name", code)` makes a plugin's folder; `manifest` and `where` may differ."""

    def write(name: str, code: str, manifest: str | None = None, where: Path | None = None) -> Path:
        folder = (where or home / "plugins") / name
        folder.mkdir(parents=True)
        (folder / "plugin.yaml").write_text(f"name: {name}\n" if manifest is None else manifest)
        (folder / "__init__.py").write_text(textwrap.dedent(code))
        return folder

    return write


@pytest.fixture
def load(home: Path) -> Load:
    """Load as a process would; `raw` is the rest of config.yaml."""

    def load_now(*enabled: str, environ: dict[str, str] | None = None, **raw: Any) -> None:
        section = {"enabled": list(enabled), **raw.pop("plugins", {})}
        load_plugins({"plugins": section, **raw}, home, environ or {})

    return load_now


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def shouting() -> Registry:
    """A few tools that need nothing."""

    def shout(context: ToolContext, text: str) -> str:
        return text.upper()

    def write_file(context: ToolContext, path: str, content: str) -> str:
        return "written"

    def break_down(context: ToolContext) -> None:
        raise RuntimeError("out of order")

    return Registry(
        [
            tool(toolset="test", effect="none")(shout),
            tool(toolset="test", effect="effectful")(write_file),
            tool(toolset="test", effect="effectful")(break_down),
        ]
    )


@pytest.fixture
def make_agent(home: Path, db: SessionDB) -> MakeAgent:
    def make(*steps: Any, **options: Any) -> tuple[AIAgent, ScriptedModel]:
        model = ScriptedModel(steps)
        options.setdefault("tools", shouting())
        options.setdefault("workspace", Workspace(home, home))
        return AIAgent(model, db=db, **options), model

    return make
