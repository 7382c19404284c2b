"""The isolation matrix of chats: every slash command and every tool, with what is another person's.

As with the session protocol (`tests/tui/test_isolation.py`): answered as what does not exist, and
what is the other's stays as it was. Commands, tools and their parameters come from the tables.
"""

from __future__ import annotations

import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from agent import memory_actions
from agent.jobs.actions import Jobs
from agent.jobs.job import JobSettings
from agent.scripted import call, say
from agent.slash.table import catalog
from agent.tool_calls import call_tool
from hermes_state import NOBODY, OPERATOR, SessionDB, link_codes
from tests.isolation import NAMING_OF_TOOLS
from tests.state.surface import dump
from tools.base import ToolContext, ToolError, Workspace
from tools.cronjob import cronjob
from tools.memory_scope import MemoryScope
from tools.toolsets import default_tools

from .chats import Chats, gateway

SECRET = "zebrastripes"
NOT_ANSWERED = frozenset({
    "restart", "stop", "compress", "retry", "queue", "background", "steer", "goal",
})  # fmt: skip
"""Commands that end something in the whole gateway, or begin a turn with what is behind them and
so say several things, or none at once."""

JOB_VERBS = ("pause", "resume", "run", "remove", "history")
VERBS = ("revoke ", "forget ", "edit ", "undo ", *(f"{verb} " for verb in JOB_VERBS))
"""What stands before a name in a command."""
ADA = MemoryScope("local:ada", is_operator=False, is_local=False)


class Two:
    """Ada, who has one of everything, and Eve."""

    def __init__(self, chats: Chats, home: Path) -> None:
        self.chats, self.home = chats, home
        self.key = chats.session_id("ada")
        db = chats.db
        db.set_session_title(self.key, f"{SECRET} essay")
        self.process = next(
            str(row["content"]).split('"session_id": "')[1].split('"')[0]
            if '"session_id": "' in str(row["content"])
            else re.findall(r"proc_\w+", str(row["content"]))[0]
            for row in db.get_messages(self.key)
            if row["role"] == "tool"
        )
        self.approval = db.create_approval(
            session_id=self.key, command=f"rm {SECRET}", description="deletes", pattern_keys=["rm"],
            user_id="local:ada", ttl_seconds=3600,
        ).id  # fmt: skip
        db.grant_patterns([f"{SECRET}-pattern"], "local:ada")
        add = Jobs(chats.runner.settings, db, "local:ada").add
        self.job = add("daily 08:30", JobSettings(prompt="Tea"), name=f"{SECRET} chore").id
        desk = memory_actions.desk_for(home, db, ADA, self.key)
        memory_actions.add(desk, f"{SECRET} are nice.", "memory")
        self.entry = memory_actions.list_entries(desk)[0].id
        self.change = memory_actions.list_changes(desk, 1)[0].id
        self.message = next(
            row["id"] for row in db.get_messages(self.key) if row["role"] == "assistant"
        )

    @property
    def names(self) -> list[str]:
        return [
            self.key, self.key[:-2], f"{SECRET} essay", self.process, self.approval,
            f"revoke {SECRET}-pattern", *(f"{verb} {self.job}" for verb in JOB_VERBS),
            f"{JOB_VERBS[0]} {SECRET} chore", f"forget {self.entry}", f"edit {self.entry} nicely",
            f"undo {self.change}",
        ]  # fmt: skip

    def state(self) -> dict[str, list[Any]]:
        desk = memory_actions.desk_for(self.home, self.chats.db, ADA, self.key)
        marks = {self.key, "local:ada"}
        return {
            table: [
                [value for value in row if not isinstance(value, float)]
                for row in kept
                if marks & set(map(str, row[: 3 if table in ("messages", "sessions") else None]))
            ]
            for table, kept in dump(self.chats.db).items()
            if table not in ("inbox", "gateway_routing")
        } | {"memory": [entry.text for entry in memory_actions.list_entries(desk)]}


@asynccontextmanager
async def two(home: Path) -> AsyncIterator[Two]:
    def steps() -> Any:
        yield call("terminal", command="sleep 300", background=True)
        yield say(f"the {SECRET} answer")
        while True:
            yield say("ok")

    async with gateway(home, steps(), yaml="approvals: {mode: 'off'}\n") as chats:
        await chats.ask(f"a {SECRET} question", chat_id="ada", user_id="ada")
        await chats.ask("hello", chat_id="eve", user_id="eve")
        yield Two(chats, home)


def unknown(name: str) -> str:
    has_verb = name.startswith(VERBS)
    verb, _, rest = name.partition(" ") if has_verb else ("", "", name)
    return f"{verb} {re.sub(r'[A-Za-z]', 'x', re.sub(r'[0-9]', '9', rest))}".strip()


def shown(answer: str, name: str) -> str:
    for part in (name, *name.split(), name[:80], name[:40]):
        answer = answer.replace(part, "?")
    return re.sub(r"\b(bg_)?[0-9a-f]{8}\b|\d{8}_\d{6}_\w+|\d+", "#", answer)


async def test_every_command_with_what_is_anothers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_codes, "WRONG_TRIES", 10**6)  # many are tried
    monkeypatch.setattr(link_codes, "WRONG_TRIES_OF_ALL", 10**6)
    async with two(tmp_path) as people:
        chats, before = people.chats, people.state()
        # What is called by a name of Ada's from then on is Eve's own, and found by her.
        naming = ("new", "title", "branch")
        names = [entry.name for entry in catalog("gateway") if entry.name not in naming]
        for command in (*names, *naming):
            if command in NOT_ANSWERED:
                continue
            for name in people.names:
                answers = []
                for given in (name, unknown(name)):
                    own = chats.session_id("eve")
                    told = await chats.ask(f"/{command} {given}", chat_id="eve", user_id="eve")
                    answers.append(shown(told, given))
                    assert chats.session_id("eve") != people.key, (command, name)
                    if command not in ("new", "branch"):
                        assert chats.session_id("eve") == own, (command, name)
                assert answers[0] == answers[1], (command, name)
                assert SECRET not in answers[0].replace(name, "?"), (command, name)
            assert people.state() == before, command


async def test_commands_without_a_name_show_nothing_of_others(tmp_path: Path) -> None:
    async with two(tmp_path) as people:
        chats, before = people.chats, people.state()
        for command in (entry.name for entry in catalog("gateway")):
            if command in NOT_ANSWERED:
                continue
            for line in (f"/{command}", f"/{command} list", f"/{command} 1", f"/{command} all"):
                told = await chats.ask(line, chat_id="eve", user_id="eve")
                hidden = (SECRET, people.key, people.process, people.approval)
                assert not [name for name in hidden if name in told], (line, told)
            assert people.state() == before, command


def run(db: SessionDB, home: Path, owner: str, tool: Any, **arguments: Any) -> str:
    """What a tool says in a conversation of somebody."""
    workspace = Workspace(home, home, settings={})
    context = ToolContext(
        "eves", "call", threading.Event(), workspace=workspace, db=db, owner=owner, user_id=owner
    )
    try:
        return str(tool.run(context, **arguments))
    except ToolError as error:
        return str(error)


async def test_every_tool_with_what_is_anothers(tmp_path: Path) -> None:
    async with two(tmp_path) as people:
        db, before = people.chats.db, people.state()
        db.create_session("eves", "local", user_id="local:eve")
        db.append_message("eves", "user", "hello")
        tools = {tool.name: tool for tool in default_tools({}, tmp_path, [])}
        tried = {"process", "session_search", "cronjob"}  # the last one below
        assert {name.split("/")[1].split()[0] for name in NAMING_OF_TOOLS} == tried
        search, process = tools["session_search"], tools["process"]
        for owner in ("local:eve", NOBODY):
            for action in ("poll", "log", "wait", "kill", "write", "close"):
                told = {
                    run(
                        db, tmp_path, owner, process, action=action, session_id=name, timeout=0.1,
                        data="x",
                    ).replace(name, "?")
                    for name in (people.process, "proc_0000")
                }  # fmt: skip
                assert len(told) == 1, (action, told)
            assert people.process not in run(db, tmp_path, owner, process, action="list")
            for arguments in (
                {"session_id": people.key, "around_message_id": people.message},
                {"session_id": people.key, "query": SECRET},
                {"around_message_id": people.message},
                {"query": SECRET},
                {"query": SECRET, "session_id": "eves"},
                {},
            ):
                there = run(db, tmp_path, owner, search, **arguments)
                nothing = {
                    "session_id": people.key[:-2] + "zz", "around_message_id": 10**6,
                    "query": "nothingatall",
                }  # fmt: skip
                other = {
                    name: "eves" if value == "eves" else nothing[name]
                    for name, value in arguments.items()
                }
                missing = run(db, tmp_path, owner, search, **other)
                for name in arguments:
                    there = there.replace(str(arguments[name]), "?")
                    missing = missing.replace(str(other[name]), "?")
                assert there == missing, arguments
                assert SECRET not in there
        assert SECRET in run(db, tmp_path, "local:ada", search, query="answer")
        assert SECRET not in run(db, tmp_path, OPERATOR, search, query="answer")
        assert people.state() == before


async def test_the_tool_for_jobs_with_anothers(tmp_path: Path) -> None:
    """By an agent of somebody else's, with every action that names one."""
    async with two(tmp_path) as people:
        chats, before = people.chats, people.state()
        await chats.ask("hello", chat_id="eve", user_id="eve")
        kept = chats.runner.agents.get(chats.key("eve"))
        assert kept is not None
        agent = kept[0]
        actions = get_args(get_type_hints(cronjob.run)["action"])
        assert {"list", "add"} < set(actions)
        for action in actions:
            told = set()
            for wanted in (people.job, people.job[:6], f"{SECRET} chore", "0" * 12):
                context = agent._tool_context("call", print)
                try:
                    text = await call_tool(
                        cronjob, context, {"action": action, "job": wanted, "note": "x"}
                    )
                except ToolError as error:
                    text = str(error)
                told.add(str(text).replace(wanted, "?"))
            assert len(told) == 1 and SECRET not in told.pop(), action
        assert people.state() == before


async def test_kin_of_resuming_anothers_history(tmp_path: Path) -> None:
    """What other systems let through under CVE-2026-11461 and after it: an id from a link, a title
    that looks like one's own, a number in somebody else's list, a branch, and an old key."""
    async with two(tmp_path) as people:
        chats = people.chats
        own = chats.session_id("eve")

        async def told(line: str) -> str:
            return await chats.ask(line, chat_id="eve", user_id="eve")

        missing = await told("/resume nothing-at-all")
        for wanted in (
            people.key, people.key.upper(), f" {people.key} ", f"'{people.key}'", people.key[:-1],
            f"{SECRET} essay", f"{SECRET} essay #2", SECRET, f"{people.key}\n", f"*{people.key}",
            "%", f"{people.key}' OR '1'='1",
        ):  # fmt: skip
            answer = await told(f"/resume {wanted}")
            assert answer == missing.replace(repr("nothing-at-all"), repr(wanted.strip())), wanted
            assert chats.session_id("eve") == own
            assert SECRET not in answer.replace(wanted.strip(), "")
        # Nor does a chat that once was in it lead there, once it is not hers any more.
        code = (
            (await chats.ask("/link", chat_id="ada", user_id="ada")).split("/link ")[1].split()[0]
        )
        await told(f"/link {code}")
        assert chats.session_id("eve") == people.key
        await chats.local.wait_for(len(chats.local.texts("ada")), "ada")
        await told("/unlink")
        assert chats.session_id("eve") != people.key
        for line in (f"/resume {people.key}", "/resume 1", "/resume 2", f"/search {SECRET}"):
            assert SECRET not in (await told(line)).replace(f"'{SECRET}'", "")
            assert chats.session_id("eve") != people.key
