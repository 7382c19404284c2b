"""What a plugin registers arrives where it is used, and what it borrows works."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from agent.agent import AIAgent
from agent.build import build_agent
from agent.config import ConfigError, load_config
from agent.context_engine import ContextEngine
from agent.errors import RequestRefusedError
from agent.events import Event, NoteStored
from agent.model import Usage
from agent.providers import build_model, known
from agent.request import WaitingNotes
from agent.scripted import ScriptedModel, call, fail, say
from hermes_base import plugins, session_context
from hermes_state import SessionDB
from tools.base import ToolContext, ToolError, Workspace

from .conftest import Load, WritePlugin


def configure(home: Path, text: str) -> Any:
    (home / "config.yaml").write_text(text)
    return load_config(home, {})


ENABLED = "plugins:\n  enabled: [mine]\n"

TOOLS = """
def handler(args, **facts):
    print("noise")
    return {{"got": args, "session": facts["session_id"]}}

def plain(args):
    return args["text"][::-1]

async def later(args, session_id=None):
    return "later"

SCHEMA = {{
    "name": "x",
    "description": "Turns a text around.",
    "parameters": {{
        "type": "object",
        "properties": {{"text": {{"type": "string"}}, "context": {{"type": "string"}}}},
        "required": ["text"],
    }},
}}

def register(ctx):
    ctx.register_tool("echo_it", "mine", SCHEMA, handler, emoji="x")
    ctx.register_tool("turn_around", "mine", {{"type": "function", "function": SCHEMA}}, plain)
    ctx.register_tool("later", "mine", SCHEMA["parameters"], later, is_async=True)
    ctx.register_tool("nonsense", "mine", {{"parameters": {{"properties": 3}}}}, plain)
    ctx.register_tool("unusable", "mine", SCHEMA, plain, check_fn=lambda: False)
    ctx.register_tool("broken_check", "mine", SCHEMA, plain, check_fn=lambda: 1 / 0)
    ctx.register_tool("needs_key", "mine", SCHEMA, plain, requires_env=["NO_SUCH_KEY"])
    ctx.register_tool("todo", "mine", SCHEMA, plain, override={override})
"""


def test_tools_join_the_agents(
    write_plugin: WritePlugin, home: Path, db: SessionDB, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin("mine", TOOLS.format(override=True))
    config = configure(home, ENABLED)
    model = ScriptedModel(
        [
            call("echo_it", text="abc", context="x"),
            call("turn_around", text="abc"),
            call("later", text="abc"),
            call("turn_around"),
            say("Done."),
        ]
    )
    agent = build_agent(config, db, model=model)
    names = [one["function"]["name"] for one in model_tools(agent)]
    assert {"echo_it", "turn_around", "later", "todo", "terminal"} <= set(names)
    assert not {"nonsense", "unusable", "broken_check", "needs_key"} & set(names)
    # Allowed by the plugin is not allowed by the person.
    todo = agent.tools.get("todo")
    assert todo is not None and todo.toolset == "todo"
    result = agent.run_conversation("go")
    texts = [one["content"] for one in result["messages"] if one["role"] == "tool"]
    assert '"text": "abc"' in texts[0] and agent.session_id in texts[0]
    assert texts[1:3] == ["cba", "later"]
    assert "needs 'text'" in texts[3]


def model_tools(agent: Any) -> list[Any]:
    return list(agent.tools.schemas())


def test_replacing_a_tool_needs_both_yeses(
    write_plugin: WritePlugin, home: Path, db: SessionDB
) -> None:
    write_plugin("mine", TOOLS.format(override=True))
    config = configure(home, f"{ENABLED}  entries:\n    mine:\n      allow_tool_override: true\n")
    agent = build_agent(config, db, model=ScriptedModel([]))
    todo = agent.tools.get("todo")
    assert todo is not None and todo.toolset == "mine"


def test_toolsets_of_plugins_can_be_left_out(
    write_plugin: WritePlugin, home: Path, db: SessionDB
) -> None:
    write_plugin("mine", TOOLS.format(override=False))
    config = configure(home, f"{ENABLED}tools:\n  disabled: [mine]\n")
    agent = build_agent(config, db, model=ScriptedModel([]))
    assert agent.tools.get("echo_it") is None


def test_borrowing_the_agent(write_plugin: WritePlugin, home: Path, db: SessionDB) -> None:
    write_plugin(
        "mine",
        """
        context = None
        def register(ctx):
            global context
            context = ctx
            ctx.register_hook("post_tool_call", once)
            ctx.register_command("note", lambda text: ctx.dispatch_tool("todo", {"bad": 1}))

        done = []
        def once(tool_name, **facts):
            if not done:
                done.append(context.dispatch_tool("todo", {}))
                done.append(context.inject_message("Look left.", role="system"))
        """,
    )
    config = configure(home, ENABLED)
    model = ScriptedModel([call("todo"), say("Done.")])
    agent = build_agent(config, db, model=model)
    result = agent.run_conversation("go")
    import sys

    mine = sys.modules["hermes_plugins.mine"]
    assert mine.done[0] == result["messages"][2]["content"]
    assert mine.done[1] is True
    assert "[system] Look left." in [one["content"] for one in model.requests[1].messages]
    assert (plugins.run_command("note") or "").startswith("Error: ")
    assert mine.context.inject_message("nobody listens") is False
    assert mine.context.profile_name == "default"
    assert mine.context.dispatch_tool("no_such_tool", {}).startswith("Error: ")


def test_a_message_that_a_plugin_adds_outlives_the_turn(
    write_plugin: WritePlugin, home: Path, db: SessionDB
) -> None:
    write_plugin(
        "mine",
        """
        context = None
        def register(ctx):
            global context
            context = ctx
            ctx.register_hook("post_tool_call", lambda **facts: ctx.inject_message("Look left."))
        """,
    )
    config = configure(home, ENABLED)
    steps = [call("todo"), fail(RequestRefusedError("no such model")), say("I look left.")]
    agent: AIAgent
    waiting: list[bool] = []

    def on_event(event: Event) -> None:
        if isinstance(event, NoteStored):
            waiting.append(db.has_notes(agent.session_id))
            agent.interrupt()  # before the turn could read it

    agent = build_agent(config, db, model=ScriptedModel(steps), on_event=on_event)
    assert agent.run_conversation("go")["interrupted"]
    assert waiting == [True], "it was stored before the plugin was told that it was taken"
    agent.llm = ScriptedModel([say("I look left.")])
    told = agent.run_blocking(WaitingNotes())
    assert told.text == "I look left."
    assert [message["content"] for message in told.messages].count("Look left.") == 1


def test_asking_the_model(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin(
        "mine",
        """
        def register(ctx):
            def ask(text):
                messages = [{"role": "system", "content": "Be brief."},
                            {"role": "user", "content": text}]
                return ctx.llm.complete(messages, max_tokens=5).text
            ctx.register_command("ask", ask)
            ctx.register_command("other", lambda text: ctx.llm.complete(text, model="other").text)
        """,
    )
    load("mine")
    assert "No model" in (plugins.run_command("ask", "x") or "")
    asked = ScriptedModel([say("It is ", "blue.")])
    plugins.lend(new_model=lambda name: asked)
    assert plugins.run_command("ask", "Which colour?") == "It is blue."
    assert (asked.requests[0].system, asked.requests[0].max_tokens) == ("Be brief.", 5)
    assert "allow_model_override" in (plugins.run_command("other", "x") or "")


def test_what_a_plugin_asks_counts_for_the_conversation_it_works_in(
    write_plugin: WritePlugin, home: Path, db: SessionDB
) -> None:
    write_plugin(
        "mine",
        """
        SCHEMA = {"name": "ask", "parameters": {"type": "object", "properties": {}}}
        def register(ctx):
            ctx.register_tool("ask", "mine", SCHEMA, lambda args: ctx.llm.complete("?").text)
            ctx.register_command("ask", lambda text: ctx.llm.complete("?").text)
        """,
    )
    limits = (
        "limits: {default: {tokens_per_day: 100000}}\n"
        "auxiliary: {title_generation: {enabled: false}}\n"
    )
    asked = ScriptedModel([say("one", usage=Usage(3, 4)), say("two")], name="side")
    agent = build_agent(
        configure(home, ENABLED + limits), db,
        model=ScriptedModel([call("ask"), say("done")]), user_id="ada",
    )  # fmt: skip
    plugins.lend(new_model=lambda name: asked)
    agent.run_conversation("go")
    counted = {
        model["model"]: (model["api_calls"], model["output_tokens"])
        for model in db.usage_since(0.0, user_id="ada")["models"]
    }
    assert counted == {"scripted": (2, 0), "side": (1, 4)}
    session_context.set_current_session_id("")
    assert plugins.run_command("ask", "") == "two"  # outside: nobody's
    assert len(db.usage_since(0.0)["people"]) == 1


def test_choosing_a_model_when_allowed(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin(
        "mine",
        """
        def register(ctx):
            ctx.register_command("other", lambda text: ctx.llm.complete(text, model="other").model)
        """,
    )
    load("mine", plugins={"entries": {"mine": {"llm": {"allow_model_override": True}}}})
    plugins.lend(new_model=lambda name: ScriptedModel([say("x")], name=name or "default"))
    assert plugins.run_command("other", "x") == "other"


PROVIDER = """
from agent.scripted import ScriptedModel, say

def register(ctx):
    ctx.register_model_provider(
        "acme", "https://acme.example/v1/", ["ACME_KEY"], aliases=["acme-ai"])
    ctx.register_model_provider("toy", build=lambda settings: ScriptedModel(
        [say("from a toy")], name=settings["name"]))
"""


@pytest.fixture
def own_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "BUILDERS", dict(known.BUILDERS))
    for table in (known.KNOWN, known.ALIASES):
        before: Any = dict(table)
        monkeypatch.setattr(known, "KNOWN" if table is known.KNOWN else "ALIASES", before)


def test_model_providers(write_plugin: WritePlugin, load: Load, own_tables: None) -> None:
    write_plugin("mine", PROVIDER)
    load("mine")
    model = build_model({"provider": "acme-ai", "default": "big"}, {"ACME_KEY": "secret"})
    assert (model.provider, model.base_url) == ("acme", "https://acme.example/v1")
    assert build_model({"provider": "toy", "default": "t1"}).name == "t1"


def test_a_configured_model_of_a_plugin(
    write_plugin: WritePlugin, home: Path, db: SessionDB
) -> None:
    tables = (known.KNOWN, known.ALIASES, known.BUILDERS)
    before = [dict(table) for table in tables]
    write_plugin("mine", PROVIDER)
    try:
        with pytest.raises(ConfigError):
            configure(home, "model: {provider: toy, default: t1}\n")
        config = configure(home, f"model: {{provider: toy, default: t1}}\n{ENABLED}")
        agent = build_agent(config, db)
        assert agent.run_conversation("go")["final_response"] == "from a toy"
    finally:
        for table, old in zip(tables, before, strict=True):
            table.clear()
            table.update(old)  # type: ignore[arg-type]


def test_search_engines(
    write_plugin: WritePlugin, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.web import search

    monkeypatch.setattr(search, "_providers", dict(search._providers))
    write_plugin(
        "mine",
        """
        class Engine:
            name = "engine"
            answer = {"data": {"web": [{"title": "T", "url": "https://a", "description": "d"},
                                       {"title": "no url"}, 3]}}
            def is_available(self): return self.answer != "off"
            def search(self, query, limit): return self.answer
        engine = Engine()
        def register(ctx):
            ctx.register_web_search_provider(engine)
        """,
    )
    load("mine")
    import asyncio
    import sys

    def find() -> Any:
        provider = search.search_provider({"search_provider": "engine"})
        return asyncio.run(provider.search("q", 5, None))  # type: ignore[arg-type]

    assert find() == [search.Hit("T", "https://a", "d")]
    engine = sys.modules["hermes_plugins.mine"].engine
    engine.answer = {"success": False, "error": "quota"}
    with pytest.raises(ToolError, match="quota"):
        find()
    engine.answer = "off"
    with pytest.raises(ToolError):
        find()


def test_skills_are_read_and_not_changed(write_plugin: WritePlugin, load: Load, home: Path) -> None:
    from tools.skills import skill_manage, skill_view, skills_list

    folder = write_plugin(
        "mine",
        """
        from pathlib import Path
        def register(ctx):
            path = Path(__file__).parent / "skills" / "sing" / "SKILL.md"
            ctx.register_skill("sing", path, "How to sing")
        """,
    )
    skill = folder / "skills" / "sing" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: sing\ndescription: how\n---\nLa la la.\n")
    load("mine")
    context = ToolContext("s", "c", workspace=Workspace(home, home))
    assert "mine:sing: How to sing" in skills_list.run(context)
    assert "La la la." in skill_view.run(context, "mine:sing")
    with pytest.raises(ToolError):
        skill_manage.run(context, "delete", "mine:sing")
    assert skill.exists()


class Engine(ContextEngine):
    name = "engine"  # type: ignore[assignment]

    def update_from_response(self, usage: dict[str, Any]) -> None:
        raise NotImplementedError

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        return messages


def test_engines_and_memories_are_found_by_name(write_plugin: WritePlugin, load: Load) -> None:
    write_plugin(
        "mine",
        """
        class Memory:
            def name(self): return "elephant"
        class Engine:
            name = "engine"
        class Nameless:
            pass
        def register(ctx):
            ctx.register_memory_provider(Memory())
            ctx.register_context_engine(Engine())
            ctx.register_platform("carrier", "Pigeons", lambda config: "adapter", lambda: True,
                                  required_env=["PIGEON"], emoji="x")
            ctx.register_auxiliary_task("sort", display_name="Sorting", description="sorts")
            try:
                ctx.register_context_engine(Nameless())
            except ValueError:
                pass
        """,
    )
    load("mine")
    assert type(plugins.get_context_engine("engine")).__name__ == "Engine"
    assert plugins.get_context_engine("compressor") is None
    assert type(plugins.get_memory_provider("elephant")).__name__ == "Memory"
    platform = plugins.get_platforms()["carrier"]
    assert (platform.label, platform.required_env) == ("Pigeons", ("PIGEON",))
    assert platform.extra == {"emoji": "x"}
    assert plugins.registered().auxiliary_tasks["sort"].display_name == "Sorting"
    assert Engine().get_tool_schemas() == []


def test_what_has_no_use_yet_is_kept(
    write_plugin: WritePlugin, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    write_plugin(
        "mine",
        """
        def register(ctx):
            ctx.register_image_gen_provider("painter")
            ctx.register_secret_source("vault")
            ctx.register_slack_action_handler("a", print)
            ctx.register_something_newer(x=1)
            ctx.register_command("still", lambda text: "here")
            assert not hasattr(ctx, "unregister")
        """,
    )
    with caplog.at_level(logging.INFO):
        load("mine")
    assert plugins.run_command("still") == "here"
    kept = {one.method: one.arguments for one in plugins.registered().kept}
    assert kept["register_image_gen_provider"] == ("painter",)
    assert kept["register_something_newer"] == (1,)
    assert "register_secret_source of the plugin mine is kept" in caplog.text
