"""One person, many doors: what was begun by one is found by the others, and by nobody else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from agent.config import load_config
from agent.scripted import ScriptedModel, call, say
from gateway.config import GatewayConfig, Platform, PlatformConfig
from gateway.platforms.api.adapter import ApiServerAdapter
from gateway.platforms.api.app import build_app
from gateway.platforms.api.response_objects import response_id
from gateway.platforms.api.runs import Runs
from gateway.platforms.base import MessageEvent
from gateway.run import GatewayRunner
from gateway.session import SessionSource
from hermes_state import EVERYONE, OPERATOR, AsyncSessionDB, NewDevice, SessionDB

from .chats import CONFIG, Chats, echo, gateway
from .serving import KEY, OTHER_KEY


class Everywhere(Chats):
    """A gateway with chats and an API."""

    def api(self, key: str = KEY) -> httpx.AsyncClient:
        """A client with a key."""
        adapter = self.runner.adapters[Platform.API_SERVER]
        assert isinstance(adapter, ApiServerAdapter)
        return httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{adapter.port}", timeout=60, trust_env=False, verify=False,
            headers={"Authorization": f"Bearer {key}"},
        )  # fmt: skip


@asynccontextmanager
async def everywhere(home: Path) -> AsyncIterator[Everywhere]:
    """Chats of people by name, and the API keys alice and bob."""
    (home / "config.yaml").write_text(CONFIG)
    keys = {"port": 0, "keys": {"alice": KEY, "bob": OTHER_KEY}}
    config = GatewayConfig(
        platforms={
            Platform.LOCAL: PlatformConfig(enabled=True, allow_all=True),
            Platform.API_SERVER: PlatformConfig(enabled=True, extra=keys),
        },
        drain_timeout=5.0,
    )
    db = AsyncSessionDB(SessionDB(home / "state.db"))
    runner = GatewayRunner(config, load_config(home, {}), db, home)
    runner._model = ScriptedModel(itertools.repeat(echo))
    await runner.start()
    try:
        yield Everywhere(runner, runner._model)
    finally:
        await runner.stop()
        await db.close()


async def ask(chats: Chats, who: str, text: str, **more: Any) -> str:
    """What somebody is answered in their direct chat."""
    return await chats.ask(text, chat_id=who, user_id=who, **more)


async def code_of(chats: Chats, who: str) -> str:
    told = await ask(chats, who, "/link person")
    return told.split("/link person ")[1].split()[0]


async def test_two_chats_of_one_person_find_the_same_and_others_nothing(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "about zebras")
        await ask(chats, "ada2", "about yaks")
        await ask(chats, "eve", "about geese")
        assert "zebras" not in await ask(chats, "ada2", "/sessions")
        code = await code_of(chats, "ada")
        assert "ada2 is ada now" in await ask(chats, "ada2", f"/link person {code}")
        for who in ("ada", "ada2"):
            listed = await ask(chats, who, "/sessions")
            assert "zebras" in listed and "yaks" in listed and "geese" not in listed
            assert "zebras" in await ask(chats, who, "/search zebras")
        assert "zebras" not in await ask(chats, "eve", "/sessions")
        assert "Nothing was found" in await ask(chats, "eve", "/search zebras")
        # What was begun in one goes on in the other.
        first = chats.session_id("ada")
        assert "Going on with" in await ask(chats, "ada2", f"/resume {first}")
        await ask(chats, "ada2", "and their stripes")
        texts = [row["content"] for row in chats.db.get_messages(first)]
        assert texts[-2:] == ["and their stripes", "re: and their stripes"]
        row = chats.db.get_session(first)
        assert row and row["user_id"] == "local:ada"
        # The operator's terminal sees all of it.
        assert len(chats.db.view(EVERYONE).search("about", one_per_conversation=True)) == 3


async def test_what_was_joined_is_parted_again(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "about zebras")
        await ask(chats, "bob", "about yaks")
        assert "nothing to undo" in await ask(chats, "bob", "/unlink person")
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        assert "zebras" in await ask(chats, "bob", "/sessions")
        assert "of their own again" in await ask(chats, "bob", "/unlink person")
        assert "zebras" not in await ask(chats, "bob", "/sessions")
        listed = await ask(chats, "ada", "/sessions")
        assert "zebras" in listed and "yaks" not in listed
        assert "You are bob (member)" in await ask(chats, "bob", "/whoami")


async def test_a_chat_that_was_parted_is_no_longer_in_the_others_conversation(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "about zebras")
        await ask(chats, "bob", "about yaks")
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        await ask(chats, "bob", f"/resume {chats.session_id('ada')}")
        await ask(chats, "bob", "/unlink person")
        assert await ask(chats, "bob", "mine") == "re: mine"
        assert chats.session_id("bob") != chats.session_id("ada")
        assert [row["content"] for row in chats.db.get_messages(chats.session_id("bob"))] == [
            "about yaks", "re: about yaks", "mine", "re: mine",
        ], "its own, from before"  # fmt: skip
        # Nor in one that it began itself while it was the other's.
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        await ask(chats, "bob", "/new")
        await ask(chats, "bob", "between")
        between = chats.session_id("bob")
        await ask(chats, "bob", "/unlink person")
        await ask(chats, "bob", "after")
        assert chats.session_id("bob") != between
        assert "between" not in await ask(chats, "bob", "/sessions")
        assert "between" in await ask(chats, "ada", "/sessions")


async def test_chats_that_were_linked_with_a_code_stay_so(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "about zebras")
        told = await ask(chats, "ada", "/link")
        await ask(chats, "bob", f"/link {told.split('/link ')[1].split()[0]}")
        await chats.local.wait_for(3, "ada")
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        await ask(chats, "bob", "/unlink person")
        assert await ask(chats, "bob", "still here") == "re: still here"
        assert chats.session_id("bob") == chats.session_id("ada")


async def test_a_code_is_given_in_private_works_once_and_not_for_oneself(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        told = await chats.ask("/link person", chat_id="g", user_id="ada", chat_type="group")
        assert "Everybody here would read the code" in told
        code = await code_of(chats, "ada")
        assert "wrong, used or too old" in await ask(chats, "eve", f"/link {code}")
        assert "bob is ada now" in await ask(chats, "bob", f"/link person {code}")
        assert "wrong, used or too old" in await ask(chats, "eve", f"/link person {code}")
        assert "That is you already" in await ask(
            chats, "bob", f"/link person {await code_of(chats, 'ada')}"
        )


async def test_the_operator_reaches_the_terminals_conversations_from_a_chat(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        chats.db.create_session("term", "cli")
        chats.db.append_message("term", "user", "about badgers")
        assert "badgers" not in await ask(chats, "me", "/sessions")
        assert "for the operator" in await ask(chats, "me", "/people")
        await ask(chats, "eve", "about geese")
        code = await code_of(chats, "me")
        outcome = chats.db.join_by_code(code, OPERATOR)  # as `hermes people join` does
        assert outcome is not None
        listed = await ask(chats, "me", "/sessions")
        assert "badgers" in listed and "geese" not in listed, "one's own, also for an operator"
        await ask(chats, "me", "/resume term")
        assert await ask(chats, "me", "and moles") == "re: and moles"
        row = chats.db.get_session("term")
        assert row and row["user_id"] is None
        people = await ask(chats, "me", "/people")
        assert (
            "operator (operator): terminal:local, local:me" in people and "eve (member)" in people
        )
        assert "eve is a guest now" in await ask(chats, "me", "/people role eve guest")
        assert "for the operator" in await ask(chats, "eve", "/people role eve operator")


async def test_the_tool_finds_what_was_said_by_another_door(tmp_path: Path) -> None:
    def steps() -> Any:
        yield say("zebras have stripes")
        yield say("geese fly")
        for _ in range(2):
            yield call("session_search", query="stripes OR geese")
            yield say("found")

    async with gateway(tmp_path, steps()) as chats:
        await ask(chats, "ada", "one")
        await ask(chats, "eve", "two")
        assert await ask(chats, "bob", "look") == "found"
        assert "have" not in _results(chats, "bob")[-1]
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        assert await ask(chats, "bob", "look again") == "found"
        found = _results(chats, "bob")[-1]
        assert "have >>>stripes<<<" in found and "fly" not in found


async def test_in_a_group_only_what_was_said_there_is_looked_through(tmp_path: Path) -> None:
    """Others read the answer; unless the person says that it may be told."""
    told: list[str] = []

    def steps() -> Any:
        yield say("zebras have stripes")
        yield say("zebras run")
        while True:
            yield call("session_search", query="zebras")
            yield lambda request: say(told.append(request.messages[-1]["content"]), "ok")
            yield call("session_search")
            yield lambda request: say(told.append(request.messages[-1]["content"]), "ok")
            yield call("session_search", session_id=session, around_message_id=message)
            yield lambda request: say(told.append(request.messages[-1]["content"]), "ok")

    async with gateway(tmp_path, steps()) as chats:
        group: dict[str, Any] = {"chat_id": "g", "chat_type": "group", "user_id": "ada"}
        await ask(chats, "ada", "one")
        await chats.ask("two", **group)
        await chats.ask("/new", **group)
        session = chats.session_id("ada")
        message = chats.db.get_messages(session)[-1]["id"]
        for _ in range(3):
            await chats.ask("look", **group)
        hits, list_, around = told
        assert "run" in hits and "stripes" not in hits
        assert session not in hits + list_ and "There is no session" in around
        await chats.ask("/memory here on", **group)
        for _ in range(3):
            await chats.ask("look", **group)
        hits, list_, around = told[3:]
        assert "stripes" in hits and session in list_ and "stripes" in around


def _results(chats: Chats, who: str) -> list[str]:
    rows = chats.db.get_messages(chats.session_id(who))
    return [str(row["content"]) for row in rows if row["role"] == "tool"]


async def test_somebody_without_a_name_sees_nothing(tmp_path: Path) -> None:
    """A channel's post has no sender: its conversation is not a way to everybody's."""
    yaml = "access: {roles: {guest: {tools: [session_search]}}}\n"
    steps = [say("zebras"), call("session_search", query="zebras"), say("done")]
    async with gateway(tmp_path, steps, yaml=yaml) as chats:
        await ask(chats, "ada", "about zebras")
        source = SessionSource(Platform.LOCAL, "channel", chat_type="channel")
        await chats.runner.handle_message(MessageEvent("look", source, "m1"))
        await chats.local.wait_for(1, "channel")
        key = next(key for key in chats.runner.session_store._entries if "channel" in key)
        session = chats.runner.session_store.peek_session_id(key)
        rows = chats.db.get_messages(session or "")
        assert "Nothing was found" in str(next(r for r in rows if r["role"] == "tool")["content"])


async def test_a_key_is_a_door_like_any_other(tmp_path: Path) -> None:
    async with everywhere(tmp_path) as chats, chats.api() as alice, chats.api(OTHER_KEY) as bob:
        await ask(chats, "ada", "about zebras")
        in_chat = chats.session_id("ada")
        await alice.post("/api/sessions", json={"id": "work"})
        await alice.post("/api/sessions/work/chat", json={"message": "about yaks"})
        before = (await alice.get("/api/person")).json()
        assert (before["name"], before["doors"]) == ("alice", ["api_server:alice"])
        assert (await alice.get(f"/api/sessions/{in_chat}")).status_code == 404

        code = await code_of(chats, "ada")
        wrong = await alice.post("/api/person/join", json={"code": "WRONG234"})
        assert (wrong.status_code, wrong.json()["error"]["code"]) == (403, "invalid_code")
        assert (await alice.post("/api/person/join", json={})).status_code == 400
        joined = (await alice.post("/api/person/join", json={"code": code})).json()
        assert (joined["name"], joined["doors"]) == ("ada", ["local:ada", "api_server:alice"])

        listed = (await alice.get("/api/sessions")).json()["data"]
        assert {row["id"] for row in listed} == {"work", in_chat}
        assert "yaks" in await ask(chats, "ada", "/sessions")
        # Each goes on with what the other began.
        answer = await alice.post(f"/api/sessions/{in_chat}/chat", json={"message": "from afar"})
        assert answer.json()["message"]["content"] == "re: from afar"
        await ask(chats, "ada", "/resume work")
        assert await ask(chats, "ada", "from the chat") == "re: from the chat"
        texts = [row["content"] for row in chats.db.get_messages("work")]
        assert texts == ["about yaks", "re: about yaks", "from the chat", "re: from the chat"]

        assert (await bob.get("/api/sessions")).json()["data"] == []
        left = (await alice.post("/api/person/leave")).json()
        assert left["doors"] == ["api_server:alice"]
        assert {row["id"] for row in (await alice.get("/api/sessions")).json()["data"]} == {"work"}
        assert (await alice.post("/api/person/leave")).status_code == 409
        given = (await bob.post("/api/person/code")).json()
        assert given["expires_in"] == 600
        assert (await alice.post("/api/person/join", json={"code": given["code"]})).json()[
            "name"
        ] == "bob"


def routes(with_id: bool) -> list[tuple[str, str]]:
    """Every route of the API, with the id of something in its path or without, so that a new one
    is tried too."""
    nobody: Any = None
    app: Any = build_app(nobody, Runs(nobody))
    return sorted(
        (method, route.path)
        for route in app.routes
        for method in (route.methods or set()) - {"HEAD"}
        if ("{" in route.path) == with_id
    )


async def test_another_persons_session_is_answered_as_one_that_does_not_exist(
    tmp_path: Path,
) -> None:
    """Every route that takes an id, with what is of a chat, of a key and of the terminal."""
    async with everywhere(tmp_path) as chats, chats.api() as alice, chats.api(OTHER_KEY) as bob:
        await ask(chats, "ada", "a secret")
        await alice.post("/api/sessions", json={"id": "hers"})
        await alice.post("/api/sessions/hers/chat", json={"message": "a secret"})
        chats.db.create_session("terminal", "cli")
        chats.db.append_message("terminal", "user", "a secret")
        foreign = [chats.session_id("ada"), "hers", "terminal"]
        before = {name: chats.db.get_messages(name) for name in foreign}
        responses = [
            response_id(name, message["id"]) for name, rows in before.items() for message in rows
        ]
        run = (await alice.post("/v1/runs", json={"input": "x", "session_id": "hers"})).json()
        job = {"name": "hers", "schedule": "daily 08:30", "prompt": "a secret"}
        assert (await alice.post("/api/jobs", json=job)).status_code in (200, 201)
        ids = {
            "job": ["hers", "no-such-job"],
            "session_id": [*foreign, "no-such-session"],
            "run_id": [run["run_id"], *(f"run_1.{name}" for name in foreign), "run_1.no-such"],
            "response_id": [*responses, response_id("no-such-session", 999_999)],
        }
        body = {"message": "x", "title": "x", "choice": "once"}
        for method, route in routes(with_id=True):
            shown = set()
            kind = route.partition("{")[2].partition("}")[0]
            for name in ids[kind]:
                answer = await bob.request(method, route.format(**{kind: name}), json=body)
                headers = sorted(set(answer.headers) - {"date", "content-length"})
                shown.add((answer.status_code, answer.text.replace(name, "X"), tuple(headers)))
            ((status, *_),) = shown
            assert status == 404, route
        for name, rows in before.items():
            assert chats.db.get_messages(name)[: len(rows)] == rows


async def test_every_route_without_an_id_knows_nothing_of_others(tmp_path: Path) -> None:
    """Lists and sums, and what a body or a header may name: as if the other were not there."""
    async with everywhere(tmp_path) as chats, chats.api() as alice, chats.api(OTHER_KEY) as bob:
        await alice.post("/api/sessions", json={"id": "hers", "title": "zebrastripes"})
        await alice.post("/api/sessions/hers/chat", json={"message": "about zebrastripes"})
        job = {"name": "zebrastripes", "schedule": "daily 08:30", "prompt": "a secret"}
        assert (await alice.post("/api/jobs", json=job)).status_code in (200, 201)
        before = chats.db.get_messages("hers"), chats.db.get_session("hers")
        last = response_id("hers", before[0][-1]["id"])
        for method, route in routes(with_id=False):
            shown = []
            for name, response in (("hers", last), ("none", response_id("none", 999_999))):
                body = {
                    "message": "hi", "input": "hi", "messages": [{"role": "user", "content": "hi"}],
                    "id": name, "session_id": name, "until_message_id": before[0][-1]["id"],
                }  # fmt: skip
                if route == "/v1/responses":
                    body["previous_response_id"] = response
                headers = {"X-Hermes-Session-Id": name, "X-Hermes-Session-Key": name}
                query = {"q": "zebrastripes"} if method == "GET" else {}
                answer = await bob.request(
                    method, route, json=body, headers=headers, params=query
                )  # fmt: skip
                assert "zebrastripes" not in answer.text, route
                shown.append((answer.status_code, sorted(set(answer.headers) - {"content-length"})))
            assert shown[0] == shown[1], route
        assert (chats.db.get_messages("hers"), chats.db.get_session("hers")) == before


async def test_resume_does_not_lead_into_another_persons_history(tmp_path: Path) -> None:
    """By the whole id, its beginning, the title, and text of it: as if it were not there."""
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "a secret")
        await ask(chats, "eve", "hello")
        session = chats.session_id("ada")
        chats.db.set_session_title(session, "Secret plan")
        own = chats.session_id("eve")
        unknown = await ask(chats, "eve", "/resume no-such-session")
        for wanted in (session, session[:-3], "Secret plan", "secret", "Secret plan #2"):
            told = await ask(chats, "eve", f"/resume {wanted}")
            assert told == unknown.replace("no-such-session", wanted)
        assert chats.session_id("eve") == own
        assert "secret" not in (await ask(chats, "eve", "/resume")).lower()


async def test_branch_takes_only_what_the_chat_is_in(tmp_path: Path) -> None:
    """The title that another has is free, and the branch is whose chat it is."""
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "a secret")
        chats.db.set_session_title(chats.session_id("ada"), "Plan")
        await ask(chats, "eve", "hello")
        assert "Now in the branch Plan" in await ask(chats, "eve", "/branch Plan")
        branch = chats.session_id("eve")
        row = chats.db.get_session(branch)
        assert row and row["user_id"] == "local:eve"
        assert [one["content"] for one in chats.db.get_messages(branch)] == ["hello", "re: hello"]


async def test_a_branch_by_a_guest_of_a_conversation_is_the_guests(tmp_path: Path) -> None:
    """Whoever was let into a conversation with a code has no way from there to its owner's."""
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "for both of us")
        told = await ask(chats, "ada", "/link")
        code = told.split("/link ")[1].split()[0]
        await ask(chats, "bob", f"/link {code}")
        shared = chats.session_id("bob")
        assert shared == chats.session_id("ada")
        assert "yours alone" in await ask(chats, "bob", "/branch")
        row = chats.db.get_session(chats.session_id("bob"))
        assert row and (row["user_id"], row["parent_session_id"]) == ("local:bob", None)
        assert "You have no conversation" in await ask(chats, "bob", f"/resume {shared}")


async def test_a_stranger_is_nobody_until_they_are_let_in(tmp_path: Path) -> None:
    async with gateway(tmp_path, allow_all=False) as chats:
        told = await ask(chats, "ann", "let me in")
        assert [person["id"] for person in chats.db.list_persons()] == [OPERATOR]
        code = told.split("pairing approve ")[1].split()[0]
        assert chats.db.approve_pairing(code) is not None
        assert await ask(chats, "ann", "hello") == "re: hello"
        assert [person["name"] for person in chats.db.list_persons()] == ["operator", "ann"]
        # Whoever is removed is a stranger again; what was theirs waits for them alone.
        chats.db.remove_person("local:ann")
        await chats.say("again", chat_id="ann", user_id="ann")
        await chats.local.wait_for(3, "ann")
        assert [person["id"] for person in chats.db.list_persons()] == [OPERATOR]


async def test_what_runs_for_two_who_are_parted_is_stopped(tmp_path: Path) -> None:
    """A turn that began while they were one would read on in what is the other's."""
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [echo, say(begun.set, release, call("session_search", query="zebras"))]
    async with gateway(tmp_path, [*steps, *[echo] * 9]) as chats:
        await ask(chats, "ada", "about zebras")
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        await chats.say("look", chat_id="bob", user_id="bob")
        await begun.wait()
        [merge], session_id = chats.db.list_merges(), chats.session_id("bob")
        chats.db.unmerge_persons(merge.id)
        while (chats.db.get_turn(session_id) or {})["state"] == "running":
            await asyncio.sleep(0.01)
        said = [message["role"] for message in chats.db.get_messages(session_id)]
        assert "tool" not in said
        assert len(chats.model.requests) == 2


async def test_the_goal_of_somebody_who_is_removed_does_not_go_on(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await ask(chats, "bob", "hello")
        chats.db.set_goal(chats.session_id("bob"), "Go on", "go on", by="local:bob")
        chats.db.remove_person("local:bob")
        goal = chats.db.get_goal(chats.session_id("bob"))
        assert goal is not None and goal["status"] == "paused"


async def test_nothing_of_the_others_comes_to_a_chat_that_was_parted_from_them(
    tmp_path: Path,
) -> None:
    """By a job that was made in it while they were one, or by a browser that was let in then."""
    async with gateway(tmp_path) as chats:
        await ask(chats, "ada", "about zebras")
        await ask(chats, "bob", f"/link person {await code_of(chats, 'ada')}")
        await ask(chats, "bob", "/cron add daily 08:30 | what is new?")
        await ask(chats, "ada", "/cron add daily 08:30 | what is old?")
        code = chats.db.offer_device_code("local:ada")
        assert code is not None
        made = chats.db.make_device(code, "phone", "here")
        assert isinstance(made, NewDevice) and made.device.person.id == "local:ada"
        assert "a person of their own again" in await ask(chats, "bob", "/unlink person")
        states = {job["name"]: job["state"] for job in chats.db.list_jobs("local:ada")}
        assert states == {"what is new?": "paused", "what is old?": "active"}
        assert chats.db.find_device(made.key) is None
