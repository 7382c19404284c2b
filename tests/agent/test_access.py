"""Who may use what: the table, and that nothing runs for those who may not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slash_surface import Front

from agent.access import ADMIN, AccessTable, find_access, table_of
from agent.agent import AIAgent
from agent.build import build_agent
from agent.code_calls import CodeCalls
from agent.config import Config, ConfigError, load_config
from agent.scripted import ScriptedModel, Step, call, say
from agent.slash.dispatch import run
from hermes_state import SessionDB
from tools.base import Tool, ToolContext, ToolError, Workspace
from tools.permissions import EVERYTHING, Names, Permissions
from tools.registry import Registry

WORDS = st.sampled_from(["terminal", "files", "web", "memory", "mcp-x", "all", "*", "mcp-*"])
LISTS = st.lists(WORDS | WORDS.map(lambda word: f"-{word}"), max_size=4).map(tuple)


def configured(home: Path, yaml: str = "") -> Config:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(yaml)
    return load_config(home, {})


@given(LISTS, LISTS, st.sampled_from(["terminal", "files", "web", "memory", "mcp-x", "other"]))
def test_a_further_list_only_narrows_and_what_is_taken_away_stays_away(
    first: tuple[str, ...], second: tuple[str, ...], name: str
) -> None:
    both = Names((first,)).narrowed(second)
    assert both.allow(name) == (Names((first,)).allow(name) and Names((second,)).allow(name))
    assert not both.narrowed((f"-{name}", "all")).allow(name)
    assert both.narrowed(None) is both
    assert not both.narrowed(("none",)).allow(name)
    assert not both.narrowed(()).allow(name)


def test_reserved_names_are_said_by_themselves() -> None:
    names = Names((("all", "restart"),), frozenset({"restart", "people"}))
    assert names.allow("restart") and names.allow("model") and not names.allow("people")
    assert Names().allow("people")


def test_names_of_hermes_agent_are_understood() -> None:
    assert Names((("file",),)).allow("read_file", "files")
    assert not Names((("all", "-debugging"),)).allow("web_fetch", "web")


@pytest.mark.parametrize(
    ("role", "tool", "command", "mode"),
    [("operator", True, True, True), (ADMIN, True, True, True), ("member", True, False, False)],
)
def test_the_defaults_of_those_who_work(role: str, tool: bool, command: bool, mode: bool) -> None:
    access = AccessTable().find(role)
    assert access.permissions.tools.allow("terminal") is tool
    assert access.commands.allow("restart") is command
    assert (access.why_no_mode("full") is None) is mode
    assert access.commands.allow("people") is (role == "operator")


def test_people_win_over_their_role_and_chats_narrow_everybody(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        """
access:
  roles:
    guest: {tools: [web], prompt: Be short.}
    member: {models: [gpt-*, -gpt-9], modes: [plan]}
  people:
    "local:ada": {tools: [web, files], model: gpt-9}
  chats:
    "*": {commands: [all, -search]}
    "local:group:*": {tools: [files], model: gpt-1, prompt: This is a group.}
    "agent:main:local:group:7": {model: gpt-7, mode: plan}
""",
    )
    table = table_of(config)
    guest = table.find("guest", ["local:eve"], "agent:main:local:dm:eve")
    assert guest.permissions.tools.allow("web") and not guest.permissions.tools.allow("files")
    assert guest.prompt == "Be short." and not guest.commands.allow("search")
    ada = table.find("guest", ["person:1", "local:ada"], "agent:main:local:dm:ada")
    assert ada.permissions.tools.allow("files") and ada.model == "gpt-9"
    assert ada.why_no_model("gpt-9") is None and ada.why_no_model("gpt-1") is not None
    group = table.find("guest", ["local:ada"], "agent:main:local:group:7")
    assert group.permissions.tools.allow("files") and not group.permissions.tools.allow("web")
    assert (group.model, group.mode) == ("gpt-7", "plan")
    assert group.prompt == "Be short.\n\nThis is a group."
    member = table.find("member", ["local:bob"])
    assert member.why_no_model("openai:gpt-5") is None and member.why_no_model("gpt-9")
    assert member.why_no_mode("guarded") and member.permissions.nearest_mode("full") == "plan"
    operator = table.find("operator", ["operator"], "agent:main:local:group:7")
    assert not operator.permissions.tools.allow("terminal")  # the chat's toolset
    assert operator.commands.allow("people")


def test_what_every_conversation_begins_with_is_the_members_too(tmp_path: Path) -> None:
    table = table_of(configured(tmp_path, "terminal: {mode: full}\n"))
    assert table.find("member").why_no_mode("full") is None
    assert table.find("guest").why_no_mode("full") is not None


@pytest.mark.parametrize(
    "yaml",
    [
        "access: {roles: {operator: {tools: [web]}}}\n",
        "access: {roles: {guest: {modes: [yolo]}}}\n",
    ],
)
def test_a_table_that_cannot_be_meant_is_refused(tmp_path: Path, yaml: str) -> None:
    with pytest.raises(ConfigError, match="one of"):
        configured(tmp_path, yaml)


def test_by_joining_another_door_nobody_may_do_more(tmp_path: Path) -> None:
    config = configured(
        tmp_path,
        """
access:
  people:
    "local:ada": {tools: [web, files], modes: [plan], commands: [all, -search], models: [none]}
    "local:eve": {tools: [all, -web], modes: [plan, guarded, full], models: [all], model: big}
""",
    )
    for names in (["local:ada", "local:eve"], ["local:eve", "local:ada"]):
        both = table_of(config).find("member", names)
        allowed = [
            name for name in ("web", "files", "terminal") if both.permissions.tools.allow(name)
        ]
        assert (allowed, both.permissions.modes, both.model) == (["files"], ("plan",), "big")
        assert both.why_no_model("other") and not both.commands.allow("search")
        assert both.commands.allow("new") and not both.commands.allow("restart")


def test_people_are_named_by_doors_and_not_by_what_they_call_themselves(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="telegram:42"):
        configured(tmp_path, "access: {people: {Ada: {tools: [all]}}}\n")


# Tools


def tool(name: str, ran: list[str], toolset: str = "terminal") -> Tool:
    return Tool(name, "", lambda context: ran.append(name) or "done", toolset=toolset)


def agent_of(
    db: SessionDB,
    tmp_path: Path,
    steps: list[Step],
    permissions: Permissions,
    tools: Registry,
    find: Callable[[], Permissions] | None = None,
) -> AIAgent:
    return AIAgent(
        ScriptedModel(steps), db=db, tools=tools, workspace=Workspace(tmp_path, tmp_path),
        permissions=permissions, find_permissions=find,
    )  # fmt: skip


GUEST = AccessTable().find("guest").permissions


def results(db: SessionDB, session_id: str) -> list[str]:
    return [str(row["content"]) for row in db.get_messages(session_id) if row["role"] == "tool"]


def test_a_changed_role_holds_from_the_next_turn_on_and_the_list_stays(tmp_path: Path) -> None:
    ran: list[str] = []
    now = [EVERYTHING]
    steps = [call("shell"), say("one"), call("shell"), say("two"), call("shell"), say("three")]
    with SessionDB(tmp_path / "state.db") as db:
        tools = Registry([tool("shell", ran)])
        agent = agent_of(db, tmp_path, steps, EVERYTHING, tools, lambda: now[0])
        agent.run_conversation("a")
        now[0] = GUEST
        agent.run_conversation("b")
        now[0] = EVERYTHING
        agent.run_conversation("c")
        assert ran == ["shell", "shell"]
        assert "may not be used here by a guest" in results(db, agent.session_id)[1]
        model = agent.llm
        assert isinstance(model, ScriptedModel)
        assert len({str(request.tools) for request in model.requests}) == 1
        agent.close()


def test_programs_and_plugins_call_no_more_than_the_model(tmp_path: Path) -> None:
    ran: list[str] = []
    context = ToolContext("s", "c", workspace=Workspace(tmp_path, tmp_path), permissions=GUEST)
    calls = CodeCalls(Registry([tool("shell", ran)]), lambda call_id, progress: context)
    with pytest.raises(ToolError, match="by a guest"):
        calls("shell", {})
    assert "Error: shell may not be used" in calls.answer("shell", {})
    context.permissions, context.workspace.mode = EVERYTHING, "plan"
    with pytest.raises(ToolError, match="plan mode"):
        calls("shell", {})
    assert ran == []
    context.workspace.mode = "guarded"
    assert calls("shell", {}) == "done"


def test_sub_agents_may_use_no_more(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        agent = agent_of(db, tmp_path, [], GUEST, Registry())
        child = agent.delegation._new_agent({"goal": "x"}, agent.asker)
        assert child.permissions is GUEST
        agent.close()


def test_a_mode_that_may_not_be_chosen_does_not_hold(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        agent = agent_of(db, tmp_path, [say("one")], GUEST, Registry())
        db.set_wall_mode(agent.session_id, "full")
        agent.run_conversation("a")
        assert agent.workspace.mode == "guarded"
        agent.close()


def test_a_guests_agent_has_no_terminal_files_or_memory(tmp_path: Path) -> None:
    config = configured(tmp_path / "home")
    (tmp_path / "home/memories").mkdir()
    (tmp_path / "home/memories/MEMORY.md").write_text("The safe is behind the picture.")
    with SessionDB(tmp_path / "state.db") as db:
        guest = db.ensure_person("local:eve", "Eve", "guest")
        model = ScriptedModel([say("hello")])
        agent = build_agent(config, db, model=model, platform="tui", user_id=guest.id, cwd=tmp_path)
        assert {tool.toolset for tool in agent.tools} == {"web", "clarify", "todo"}
        agent.run_conversation("a")
        assert "behind the picture" not in str(model.requests[0].system)
        db.set_person_role(guest.id, "member")
        agent.close()
        again = build_agent(config, db, model=model, platform="tui", user_id=guest.id, cwd=tmp_path)
        assert "terminal" in {tool.toolset for tool in again.tools}
        again.close()


def test_whoever_sits_at_the_machine_meets_none_of_it(tmp_path: Path) -> None:
    config = configured(tmp_path)
    assert find_access(config, None, None).permissions is EVERYTHING
    assert (
        build_agent(config, None, model=ScriptedModel([]), cwd=tmp_path).permissions is EVERYTHING
    )


# Commands


def test_a_command_that_is_not_allowed_does_nothing(tmp_path: Path) -> None:
    with SessionDB(tmp_path / "state.db") as db:
        surface = Front(db, tmp_path / "home")
        surface.access = AccessTable().find("guest")
        for line in ("/model gpt-5", "/mode full", "/bg work", "/memory", "/some-skill", "/people"):
            result = run(surface, line)
            assert getattr(result, "failed", False), line
        listed = getattr(run(surface, "/help"), "output", "")
        assert "/model" not in listed and "/whoami" in listed
        assert getattr(run(surface, "/help model"), "failed", False)
