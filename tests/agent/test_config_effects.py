"""The sections delegation, skills, memory and web do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.build import build_agent, tool_settings, usable_tools
from agent.config import Config, load_config
from agent.scripted import ScriptedModel, call, say
from tools.base import ToolContext, ToolError, Workspace
from tools.memory import memory
from tools.services import Services
from tools.skills import skill_manage, skill_view, skills_list
from tools.web import web_fetch

SKILL = "---\nname: {name}\ndescription: {text}\n---\nDo it.\n"


def load(home: Path, text: str) -> Config:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(text, encoding="utf-8")
    return load_config(home, {})


def context(config: Config) -> ToolContext:
    return ToolContext(
        "", "", workspace=Workspace(config.home, config.home, settings=tool_settings(config))
    )


def add_skill(folder: Path, name: str, text: str = "For tests") -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(SKILL.format(name=name, text=text))


# delegation


def test_sub_agents_have_a_model_and_a_budget_of_their_own(tmp_path: Path) -> None:
    config = load(tmp_path, "delegation: {model: small-one, base_url: 'http://127.0.0.1:9/v1',"
                            " provider: custom, max_iterations: 3}")  # fmt: skip
    agent = build_agent(config, None, model=ScriptedModel([], name="main"))
    child = agent.delegation._new_agent({"goal": "x"}, agent.asker)
    assert child.llm.name == "small-one"
    assert child.max_iterations == 3
    agent = build_agent(load(tmp_path, ""), None, model=ScriptedModel([], name="main"))
    child = agent.delegation._new_agent({"goal": "x"}, agent.asker)
    assert (child.llm.name, child.max_iterations) == ("main", 50)


def test_a_model_of_sub_agents_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    config = load(tmp_path, "delegation: {model: x, provider: nobody}")
    model = ScriptedModel([call("delegate_task", goal="x"), say("It failed.")])
    result = build_agent(config, None, model=model).run_conversation("Do it")
    assert "model for sub-agents cannot be used" in result["messages"][2]["content"]


def test_one_call_hands_out_so_many_tasks(tmp_path: Path) -> None:
    config = load(tmp_path, "delegation: {max_concurrent_children: 1}")
    model = ScriptedModel([call("delegate_task", tasks=[{"goal": "a"}, {"goal": "b"}]), say("no")])
    result = build_agent(config, None, model=model).run_conversation("Do it")
    assert "At most 1 tasks at once" in result["messages"][2]["content"]


# skills


def test_skills_of_further_folders_are_read_and_never_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    shared = tmp_path / "shared"
    add_skill(shared, "cooking", "Theirs")
    add_skill(shared, "sewing")
    add_skill(home / "skills", "cooking", "Ours")
    config = load(home, f"skills: {{external_dirs: ['{shared}', missing]}}")
    here = context(config)
    assert skills_list.run(here) == "cooking: Ours\nsewing [external]: For tests"
    assert "Do it." in skill_view.run(here, "sewing")
    for action, arguments in (("delete", {}), ("edit", {"content": SKILL})):
        with pytest.raises(ToolError, match="only read"):
            skill_manage.run(here, action, "sewing", **arguments)
    assert (shared / "sewing" / "SKILL.md").exists()
    agent = build_agent(config, None, model=ScriptedModel([say("hi")]))
    agent.run_conversation("hello")
    assert "sewing: For tests" in str(agent._cached_system_prompt)


def test_skills_that_are_disabled_are_left_out(tmp_path: Path) -> None:
    add_skill(tmp_path / "skills", "cooking")
    add_skill(tmp_path / "skills", "sewing")
    config = load(tmp_path, "skills: {disabled: [sewing]}")
    assert "sewing" not in skills_list.run(context(config))
    with pytest.raises(ToolError, match="no skill 'sewing'"):
        skill_view.run(context(config), "sewing")
    agent = build_agent(config, None, model=ScriptedModel([say("hi")]))
    agent.run_conversation("hello")
    assert "cooking" in str(agent._cached_system_prompt)
    assert "sewing" not in str(agent._cached_system_prompt)


# memory


def test_without_a_user_profile_nothing_is_kept_about_the_person(tmp_path: Path) -> None:
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "USER.md").write_text("Likes tea.\n")
    (tmp_path / "memories" / "MEMORY.md").write_text("The sky is blue.\n")
    config = load(tmp_path, "memory: {user_profile_enabled: false}")
    agent = build_agent(config, None, model=ScriptedModel([say("hi")]))
    agent.run_conversation("hello")
    assert "blue" in str(agent._cached_system_prompt)
    assert "tea" not in str(agent._cached_system_prompt)
    with pytest.raises(ToolError, match="about the person"):
        memory.run(context(config), "user", "add", "Likes coffee.")
    assert "Saved" in memory.run(context(config), "memory", "add", "Grass is green.")


# web and MCP


async def test_blocked_sites_are_not_read(tmp_path: Path) -> None:
    text = "security: {website_blocklist: {enabled: true, domains: ['*.bad.test', worse.test]}}"
    here = context(load(tmp_path, text))
    for host in ("bad.test", "deep.bad.test", "WORSE.test."):
        with pytest.raises(ToolError, match=r"web\.blocked"):
            await web_fetch.run(here, f"http://{host}/")

    async def nobody(host: str, port: int) -> list[str]:
        raise OSError("nobody of that name")

    here.services = Services(resolver=nobody)
    with pytest.raises(ToolError, match="cannot be resolved"):
        await web_fetch.run(here, "http://notbad.test/")


def test_an_mcp_server_that_is_off_is_left_alone(tmp_path: Path) -> None:
    marks = tmp_path / "started"
    config = load(
        tmp_path,
        f"mcp_servers: {{x: {{enabled: false, command: touch, args: ['{marks}']}}}}",
    )
    assert "terminal" in {tool.name for tool in usable_tools(config)}
    assert not marks.exists()
