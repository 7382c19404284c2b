"""The isolation matrix: what is another person's is answered as what does not exist.

Every method of the session protocol and every slash command, with the names of another person's
conversation, message, approval, file, process and task in every parameter that can name one. The
answer must be the one that an unknown name gets, word for word, nothing of the other person may
stand in it, and what is theirs must be as it was. Methods, parameters and commands are taken from
the tables: a new one is tried too, or the test asks what it is.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from method_calls import Gateway, until
from people import Client, client
from test_methods_table import GOOD

from agent.scripted import call, say
from agent.slash import catalog
from tests.isolation import NAMING, OF_JOBS
from tests.state.surface import dump
from tui_gateway import live, methods, rpc, server

methods.load_rest()

SECRET = "zebrastripes"

VERBS = ("revoke ", "add ", "pause ", "remove ", "history ", "run ", "forget ", "undo ", "edit ")
"""What stands before a name in a command."""


class Victim:
    """Somebody who has one of everything."""

    def __init__(self, gateway: Gateway, me: Client) -> None:
        self.gateway, self.me = gateway, me
        gateway.script(
            [
                call("terminal", command="sleep 300", background=True),
                say(f"the {SECRET} answer"),
                call("clarify", question=f"Which {SECRET}?", choices=["red", "blue"]),
                say("ok"),
            ]
        )
        self.sid = me.open(title=f"{SECRET} essay")
        me.ask(self.sid, f"hello, a {SECRET} question")
        self.key = gateway.key(self.sid)
        self.message = gateway.db.get_messages(self.key)[-1]["id"]
        self.process = me.call("process.list")["processes"][0]["process_id"]
        self.upload = me.call(
            "file.attach", session_id=self.sid, name=f"{SECRET}.txt",
            data_url="data:text/plain;base64," + base64.b64encode(SECRET.encode()).decode(),
        )["path"]  # fmt: skip
        db = gateway.db
        self.task = "bg_" + SECRET
        db.create_delegation(self.task, self.key, {"goals": [f"find {SECRET}"], "sessions": []})
        approval = db.create_approval(
            session_id=self.key, command=f"rm {SECRET}", description="deletes", pattern_keys=["rm"],
            user_id="telegram:1", ttl_seconds=3600,
        )  # fmt: skip
        self.approval = approval.id
        db.grant_patterns([f"{SECRET}-pattern"], "telegram:1")
        chore = {"name": f"{SECRET} chore", "prompt": "Tea", "schedule": "daily 08:30"}
        me.call("cron.manage", action="add", **chore)
        self.job = me.call("cron.list")["jobs"][0]["id"]
        me.call("memory.add", session_id=self.sid, text=f"{SECRET} are nice.")
        self.entry = self._memory()[0]["id"]
        self.change = me.call("memory.history", session_id=self.sid)["changes"][0]["id"]
        self.other = me.open()
        me.call("prompt.submit", session_id=self.other, text=f"ask about {SECRET}")
        until(lambda: me.told("clarify.request"))
        self.question = me.told("clarify.request")[0]["payload"]["request_id"]

    @property
    def names(self) -> dict[str, list[Any]]:
        """What others might give, by parameter."""
        sessions = [self.sid, self.key, self.key[:-2], f"{SECRET} essay", self.other]
        return {
            "session_id": sessions,
            "current_session_id": [self.sid],
            "id": [self.sid, self.key, self.key[:-2], f"{SECRET} essay"],
            "conversation": [self.key, self.key[:-2]],
            "group": ["telegram:1"],
            "entry": [self.entry, SECRET],
            "change": [self.change],
            "device_id": [self.me.device.id],
            "until_message_id": [self.message],
            "around": [self.message],
            "before": [self.message],
            "after": [self.message],
            "request_id": [self.approval, self.question],
            "process_id": [self.process],
            "subagent_id": [self.task],
            "hash": [self.key],
            "pattern_key": [f"{SECRET}-pattern"],
            "granted_by": ["telegram:1"],
            "path": [self.upload],
            "file_path": [self.upload],
            "cwd": [str(Path(self.upload).parent)],
            "word": [self.upload[:-3]],
            "query": [SECRET, self.key],
            "command": [f"/resume {self.key}", f"/sessions {SECRET}", f"/search {SECRET}"],
            "arg": [self.key, SECRET],
        }

    @property
    def jobs(self) -> list[str]:
        """What others might give where a `name` is a job's."""
        return [self.job, self.job[:5], f"{SECRET} chore"]

    def _memory(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.me.call("memory.list", session_id=self.sid)["entries"]
        return entries

    def state(self) -> Any:
        """All that is theirs, in the store and live."""
        marks = {self.key, "telegram:1", self.gateway.key(self.other)}
        rows = {
            table: [_lasting(row) for row in kept if marks & _naming(table, row)]
            for table, kept in dump(self.gateway.db).items()
            if table not in ("web_devices", "inbox")
        }
        sessions = [self.gateway.live(sid) for sid in (self.sid, self.other)]
        facts = [
            (live.current_key(one), one.get("closing"), one["running"], one["attached_images"])
            for one in sessions
        ]
        process = self.me.call("process.list", session_id=self.sid)["processes"][0]["status"]
        watching = [self.me.peer in one["watchers"] for one in sessions]
        asked = sorted(sessions[1].get("pending") or ())
        return rows, facts, process.split()[0], watching, asked, self._memory()


def _naming(table: str, row: tuple[Any, ...]) -> set[str]:
    """The values of a row that may say whose it is, and not what somebody wrote."""
    return set(map(str, row[: 3 if table == "messages" else None]))


def _lasting(row: tuple[Any, ...]) -> list[Any]:
    """A row without its times: a running turn renews its lease."""
    return [value for value in row if not isinstance(value, float)]


@pytest.fixture
def people(gateway: Gateway) -> Iterator[tuple[Victim, Client]]:
    victim = Victim(gateway, client(gateway, "telegram:1", "Quentina"))
    bob = client(gateway, "telegram:2", "Bob")
    yield victim, bob
    victim.me.call("process.stop")
    victim.me.call("session.interrupt", session_id=victim.other)


def changed(before: Any, after: Any) -> list[Any]:
    """What is not as it was."""
    tables = [
        (table, kept, after[0][table])
        for table, kept in before[0].items()
        if kept != after[0][table]
    ]
    pairs = zip(before[1:], after[1:], strict=True)
    return [*tables, *(pair for pair in pairs if pair[0] != pair[1])]


def unknown(name: Any) -> Any:
    """A name of the same look that nobody has."""
    if isinstance(name, int):
        return 10**6
    has_verb = name.startswith((*VERBS, "/resume", "/s"))
    verb, _, rest = name.rpartition(" ") if has_verb else ("", "", name)
    return f"{verb} {re.sub(r'[A-Za-z0-9]', 'x', rest)}".strip()


def shown(answer: dict[str, Any], name: Any) -> str:
    """An answer without what differs from request to request."""
    names = [str(name)]
    text = json.dumps({**answer, "id": 0}, sort_keys=True)
    parts = [
        part for each in names for part in (each, each[:80], each[:60], each[:40], *each.split())
    ]
    for part in parts:
        if part.isdecimal():
            text = re.sub(rf"\b{part}\b", "?", text)
        else:
            text = text.replace(json.dumps(part)[1:-1], "?")
    text = re.sub(r"(\b|bg_)[0-9a-f]{8}\b|\b\d{8}_\d{6}_[0-9a-f]{6,}\b|\d+\.\d+", "#", text)
    return re.sub(r"\(\d+ s\)|\d+ (seconds?|entries)", "#", text)


def parameters(method: rpc.Method) -> dict[str, tuple[Any, bool]]:
    return rpc.parameters(method.run)


def test_there_is_something_for_every_parameter_that_names(people: tuple[Victim, Client]) -> None:
    assert people[0].names.keys() == NAMING


def test_every_method_with_what_is_anothers(
    gateway: Gateway, people: tuple[Victim, Client]
) -> None:
    victim, bob = people
    before = victim.state()
    gateway.script(iter(lambda: say("ok"), None))
    tried = 0
    for method in sorted(rpc.METHODS.values(), key=lambda method: method.name):
        for parameter in parameters(method).keys() & victim.names.keys():
            for name in victim.names[parameter]:
                answers = []
                for given in (name, unknown(name)):
                    params = _good(gateway, bob, method)
                    own = params.get("session_id", "")
                    answer = bob.request(method.name, params | {parameter: given})
                    answers.append(shown(answer, given))
                    _settle(gateway, own)
                where = f"{method.name}({parameter}={name!r})"
                assert answers[0] == answers[1], where
                assert SECRET not in answers[0].replace(str(name), "?"), where
                tried += 1
        assert changed(before, victim.state()) == [], method.name
    assert tried > 100


def test_every_method_with_anothers_job(people: tuple[Victim, Client]) -> None:
    victim, bob = people
    before = victim.state()
    assert {name for name in rpc.METHODS if name.startswith("cron.")} - OF_JOBS.keys() == {
        "cron.list"
    }
    for method, givens in OF_JOBS.items():
        for given in givens:
            for name in victim.jobs:
                told = [
                    shown(bob.request(method, given | {"name": wanted}), wanted)
                    for wanted in (name, unknown(name))
                ]
                assert told[0] == told[1] and "There is no job" in told[0], (method, given)
    assert bob.call("cron.list")["jobs"] == []
    assert changed(before, victim.state()) == []


def test_every_method_without_a_name(gateway: Gateway, people: tuple[Victim, Client]) -> None:
    """Lists, sums and what is done to everything: as if the other person were not there."""
    victim, bob = people
    before = victim.state()
    gateway.script(iter(lambda: say("ok"), None))
    hidden = (SECRET, victim.sid, victim.key, victim.other, victim.process, victim.approval)
    for method in sorted(rpc.METHODS.values(), key=lambda method: method.name):
        params = _good(gateway, bob, method)
        if callable(GOOD[method.name]):
            continue  # it needs a name: the test above
        if not parameters(method).get("session_id", (None, True))[1]:
            params.pop("session_id")
        answer = json.dumps(bob.request(method.name, params))
        _settle(gateway, params.get("session_id", ""))
        assert not [name for name in hidden if name in answer], (method.name, answer)
        assert changed(before, victim.state()) == [], method.name


def _good(gateway: Gateway, bob: Client, method: rpc.Method) -> dict[str, Any]:
    given = GOOD[method.name]
    params = {} if callable(given) else dict(given)
    if "session_id" in parameters(method):
        params["session_id"] = bob.open()
    if "day" in params:
        params |= {"day": time.strftime("%Y-%m-%d"), "by": "person"}
    return params


def _settle(gateway: Gateway, sid: str) -> None:
    session = gateway.server._sessions.get(sid)
    if session is not None and session["running"]:
        assert session["turn_done"].wait(60)
    live.close(server.hub(), sid, "test")


def commands() -> list[str]:
    return [command.name for command in catalog("cli")]


def test_every_command_with_what_is_anothers(
    gateway: Gateway, people: tuple[Victim, Client]
) -> None:
    victim, bob = people
    before = victim.state()
    gateway.script(iter(lambda: say("ok"), None))
    names = (
        victim.key, victim.key[:-2], f"{SECRET} essay", victim.process, victim.task,
        victim.approval, f"revoke {SECRET}-pattern", victim.upload,
        f"add {Path(victim.upload).parent}", *(f"{verb}{victim.job}" for verb in VERBS),
        f"forget {victim.entry}", f"edit {victim.entry} nicely", f"undo {victim.change}",
    )  # fmt: skip
    for command in commands():
        for name in names:
            if command == "memory" and name.startswith(("add ", "history ")):
                continue  # Bob's own, of what he says
            answers = [
                shown(_run(gateway, bob, f"/{command} {given}"), given)
                for given in (name, unknown(name))
            ]
            assert answers[0] == answers[1], (command, name)
        assert changed(before, victim.state()) == [], command


def _run(gateway: Gateway, bob: Client, line: str) -> dict[str, Any]:
    sid = bob.open()
    answer = bob.request("slash.exec", {"session_id": sid, "command": line})
    _settle(gateway, sid)
    return answer


def test_commands_without_a_name_show_nothing_of_others(
    gateway: Gateway, people: tuple[Victim, Client]
) -> None:
    victim, bob = people
    before = victim.state()
    gateway.script(iter(lambda: say("ok"), None))
    run: Callable[[str], dict[str, Any]] = lambda line: _run(gateway, bob, line)  # noqa: E731
    for command in commands():
        for line in (f"/{command}", f"/{command} list", f"/{command} 1", f"/{command} all"):
            answer = json.dumps(run(line))
            hidden = [SECRET, victim.sid, victim.key, victim.process, victim.approval, "Quentina"]
            assert not [name for name in hidden if name in answer], (line, answer)
        assert changed(before, victim.state()) == [], command
