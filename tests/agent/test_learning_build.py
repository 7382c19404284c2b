"""From the configuration to what an agent remembers and learns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.build import build_agent, learning_settings
from agent.config import load_config
from agent.home import ConfigError
from agent.learning.learner import LearningSettings
from agent.scripted import ScriptedModel, say
from hermes_base import plugins
from hermes_state import SessionDB


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store


def built(home: Path, db: SessionDB, config: str, model: Any = None) -> AIAgent:
    (home / "config.yaml").write_text(config)
    (home / "memories").mkdir(exist_ok=True)
    (home / "memories" / "MEMORY.md").write_text("Prod is on bee-1.\n")
    chosen = load_config(home, {})
    return build_agent(chosen, db, model=model or ScriptedModel([say("ok")]), cwd=home)


def system_of(agent: AIAgent) -> str:
    agent.run_conversation("hello")
    agent.close()
    model = agent.llm
    assert isinstance(model, ScriptedModel)
    return model.requests[0].system


def test_by_default_it_remembers_and_learns(tmp_path: Path, db: SessionDB) -> None:
    agent = built(tmp_path, db, "")
    assert learning_settings(load_config(tmp_path, {})) == LearningSettings()
    assert agent.tools.get("memory") is not None
    assert "Prod is on bee-1." in system_of(agent)


def test_memory_can_be_switched_off(tmp_path: Path, db: SessionDB) -> None:
    agent = built(tmp_path, db, "memory: {enabled: false, provider: notes}")
    assert learning_settings(load_config(tmp_path, {})).review_every == 0
    assert agent.tools.get("memory") is None and agent.tools.get("skill_view") is not None
    assert not agent.learner.providers
    assert "bee-1" not in system_of(agent)


def test_reviews_and_titles_follow_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "memory: {review_every: 4}\n"
        "auxiliary: {title_generation: {enabled: no, model: m}, review: {timeout: 9}}\n"
    )
    config = load_config(tmp_path, {})
    assert config.warnings == ()
    assert learning_settings(config) == LearningSettings(
        titles=False, review_every=4, review_seconds=9
    )
    (tmp_path / "config.yaml").write_text("memory: {review_every: -1}")
    with pytest.raises(ConfigError, match=r"memory\.review_every"):
        load_config(tmp_path, {})


def test_the_provider_of_a_plugin_is_used_by_its_name(
    tmp_path: Path, db: SessionDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Notes:
        name = "notes"

        def is_available(self) -> bool:
            return True

        def initialize(self, session_id: str, **kwargs: Any) -> None:
            self.session_id = session_id

        def system_prompt_block(self) -> str:
            return "From the notes."

    offered = {"notes": Notes()}
    monkeypatch.setattr(plugins, "get_memory_provider", offered.get)
    agent = built(tmp_path, db, "memory: {provider: notes}")
    assert "From the notes." in system_of(agent)
    assert offered["notes"].session_id == agent.session_id
    small = ScriptedModel([say("ok")])
    small.small = True  # type: ignore[attr-defined]
    assert not built(tmp_path, db, "memory: {provider: notes}", small).learner.providers


def test_a_provider_that_nobody_offers_is_told(
    tmp_path: Path, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    agent = built(tmp_path, db, "memory: {provider: nowhere}")
    assert not agent.learner.providers
    assert "memory.provider is nowhere" in caplog.text
