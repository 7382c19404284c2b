"""One conversation in several chats: joined with a code, followed together, one turn at a time."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from agent.scripted import Call, Step, call, say
from conversation.door import Origin
from conversation.mirror import LinkedChats, Mirror
from gateway.config import Platform, PlatformConfig, ResetPolicy
from gateway.platforms.base import MessageEvent
from gateway.platforms.local.adapter import LocalAdapter
from gateway.requests import Request, Requests
from gateway.session import SessionSource
from hermes_state import AsyncSessionDB, SessionDB
from hermes_state.link_codes import WRONG_TRIES

from .chats import Chats, echo, gateway


async def code_of(chats: Chats, chat_id: str = "1", **more: Any) -> str:
    told = await chats.ask("/link", chat_id=chat_id, **more)
    return told.split("/link ")[1].split()[0]


async def link(chats: Chats, first: str = "1", second: str = "2", **more: Any) -> None:
    """Let a second chat into the conversation of the first; both were told something then."""
    before = len(chats.local.texts(first)) + 2
    code = await code_of(chats, first)
    assert "same conversation" in await chats.ask(f"/link {code}", chat_id=second, **more)
    await chats.local.wait_for(before, first)


async def shown(chats: Chats, text: str, chat_id: str = "1") -> None:
    """Wait until a chat shows a text."""
    while text not in (texts := chats.local.texts(chat_id)):
        await chats.local.wait_for(len(texts) + 1, chat_id)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


async def test_a_question_is_answered_in_a_linked_chat(tmp_path: Path) -> None:
    steps = [
        say("Hello."), call("clarify", question="Which one?", choices=["red", "blue"]), say("Done.")
    ]  # fmt: skip
    async with gateway(tmp_path, steps) as chats:
        await chats.ask("hello")
        await link(chats)
        assert await chats.ask("/answer 1", chat_id="2") == "Nothing waits for an answer."
        await chats.say("paint it")
        await until(lambda: "❓ Which one?" in "\n".join(chats.local.texts("2")))
        asked = next(text for text in chats.local.texts("2") if text.startswith("❓"))
        assert (
            asked
            == "❓ Which one?\n1. red\n2. blue\n(asked in local; /answer TEXT answers it here)"
        )
        await chats.say("/answer 2", chat_id="2")
        await shown(chats, "Answered.", "2")
        await shown(chats, "Done.")
        assert "blue" in str(sent(chats)[-1])
        await chats.say("/answer 1")
        await shown(chats, "Nothing waits for an answer.")


def sent(chats: Chats) -> list[str]:
    return [one["content"] for one in chats.model.requests[-1].messages]


async def test_two_chats_are_in_one_conversation_and_see_each_other(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("from one")
        await link(chats, second="2", user_id="bob")
        assert chats.session_id("1") == chats.session_id("2")
        assert await chats.ask("from two", chat_id="2", user_id="bob") == "re: from two"
        assert sent(chats) == ["from one", "re: from one", "from two"]
        assert (await chats.local.wait_for(5))[-2:] == [
            "💬 bob (local): from two",
            "🤖 re: from two",
        ]
        assert await chats.ask("again") == "re: again"
        assert (await chats.local.wait_for(4, "2"))[-2:] == ["💬 u1 (local): again", "🤖 re: again"]
        assert chats.local.texts().count("re: again") == 1
        row = chats.db.get_session(chats.session_id())
        assert row is not None and row["user_id"] == "local:u1", "it stays its owner's"


async def test_chats_of_two_platforms_are_linked(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        runner = chats.runner
        config = PlatformConfig(enabled=True, allow_all=True)
        runner.config.platforms[Platform.SLACK] = config
        slack = runner.adapters[Platform.SLACK] = LocalAdapter(config, runner.handle_message)
        source = SessionSource(Platform.SLACK, "C", user_id="s", user_name="sam")
        await chats.ask("here")
        code = await code_of(chats)
        await runner.handle_message(MessageEvent(f"/link {code}", source, "m1"))
        await slack.wait_for(1, "C")
        await runner.handle_message(MessageEvent("there", source, "m2"))
        assert (await slack.wait_for(2, "C"))[1] == "re: there"
        assert (await chats.local.wait_for(5))[-2:] == ["💬 sam (slack): there", "🤖 re: there"]


async def test_a_conversation_in_which_nothing_was_said_is_linked_and_stays_its_owners(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path) as chats:
        await link(chats, user_id="bob")
        await chats.ask("first word", chat_id="2", user_id="bob")
        row = chats.db.get_session(chats.session_id())
        assert row is not None and row["user_id"] == "local:u1"
        assert row["message_count"] == 2


async def test_nobody_gets_in_without_the_code(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("my secret")
        mine = chats.session_id()
        code = await code_of(chats)
        # An answer is seen a moment before its turn is over.
        await until(lambda: not chats.runner.turns.is_busy(chats.key()))
        assert "the chat the code is from" in await chats.ask(f"/link {code}")
        assert "wrong" in await chats.ask(f"/link {code}", chat_id="2", user_id="bob"), "used up"
        for _ in range(WRONG_TRIES - 1):
            await chats.ask("/link ABCDEFGH", chat_id="2", user_id="bob")
        code = await code_of(chats)
        assert "Too many wrong" in await chats.ask(f"/link {code}", chat_id="2", user_id="bob")
        assert chats.runner.session_store.peek_session_id(chats.key("2")) != mine
        told = await chats.ask("/link", chat_id="g", chat_type="group")
        assert "directly" in told


async def test_a_code_is_for_the_conversation_it_was_given_in(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("old")
        code = await code_of(chats)
        await chats.ask("/new")
        assert "has left" in await chats.ask(f"/link {code}", chat_id="2")
        assert chats.runner.session_store.peek_session_id(chats.key("2")) != chats.session_id()


async def test_whoever_is_shut_out_reads_nothing_more(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        await link(chats, second="2", user_id="bob")
        before = chats.local.texts("2")
        platforms = chats.runner.config.platforms
        platforms[Platform.LOCAL] = PlatformConfig(enabled=True, allowed_users=["u1"])
        await chats.ask("not for bob")
        await until(lambda: len(chats.db.list_deliveries(("failed",), chats.key("2"))) == 2)
        owed = chats.db.list_deliveries(("pending", "sending"), chats.key("2"))
        assert (owed, chats.local.texts("2")) == ([], before)


async def test_what_is_said_in_another_process_is_seen_too(tmp_path: Path) -> None:
    """A window or a terminal in the same conversation writes to the store; the gateway sends it."""
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        await link(chats, second="2", user_id="bob")
        with SessionDB(chats.db.db_path) as db:
            mirror = Mirror(AsyncSessionDB(db), LinkedChats(db), asyncio.ensure_future)
            session_id, origin = chats.session_id(), Origin("tui", chats.session_id())
            for _ in range(2):  # once, however often it is told
                await mirror.question("window", session_id, origin, "m1", "from the window")
            await mirror.answer("window", session_id, "m1", "seen by all")
            for chat in ("1", "2"):
                await shown(chats, "🤖 seen by all", chat)
                texts = chats.local.texts(chat)
                assert texts.count("💬 At the computer: from the window") == 1
            await chats.ask("/unlink", chat_id="2", user_id="bob")
            assert [chat["session_key"] for chat in LinkedChats(db)(session_id, "window")] == [
                chats.key("1")
            ]


async def test_new_in_one_chat_leaves_the_other_where_it_is(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        await link(chats)
        shared = chats.session_id()
        await chats.ask("/new", chat_id="2")
        assert chats.session_id("1") == shared != chats.session_id("2")
        row = chats.db.get_session(shared)
        assert row is not None and row["end_reason"] is None
        before = len(chats.local.texts("2"))
        await chats.ask("still here")
        assert sent(chats)[0] == "one"
        await chats.ask("my own", chat_id="2")
        assert sent(chats) == ["my own"]
        assert chats.local.texts("2")[before:] == ["re: my own"], "nothing is mirrored any more"


async def test_unlink_gives_a_chat_its_own_conversation(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        assert "not linked" in await chats.ask("/unlink")
        await chats.ask("one")
        await link(chats, second="2", user_id="bob")
        assert "Only whose" in await chats.ask("/unlink all", chat_id="2", user_id="bob")
        assert "of its own" in await chats.ask("/unlink", chat_id="2", user_id="bob")
        await shown(chats, "🔗 bob (local) has left this conversation.")
        assert chats.session_id("1") != chats.session_id("2")
        await link(chats, second="3", user_id="cat")
        assert "1 chat(s)" in await chats.ask("/unlink all")
        assert chats.session_id("1") != chats.session_id("3")
        assert "was ended" in (await chats.local.wait_for(2, "3"))[-1]


async def test_linked_chats_stay_linked_after_a_restart(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("one")
        await link(chats)
    async with gateway(tmp_path) as chats:
        await chats.ask("two", chat_id="2")
        assert (await chats.local.wait_for(2))[-1] == "🤖 re: two"


async def test_linked_chats_follow_a_compression_together(tmp_path: Path) -> None:
    long = "word " * 400
    yaml = "compression: {threshold: 0.5, target_ratio: 0.2}\n"
    steps = itertools.repeat(say(long))
    async with gateway(tmp_path, steps, context_length=6000, yaml=yaml) as chats:
        await chats.ask(f"m {long}")
        first = chats.session_id()
        await link(chats)
        for number in range(12):
            await chats.ask(f"m{number} {long}")
            kept = chats.db.load_gateway_routing_entries()
            ids = {json.loads(kept[chats.key(one)])["session_id"] for one in ("1", "2")}
            assert ids == {chats.session_id("1")} == {chats.session_id("2")}
        assert chats.session_id() != first, "it was compressed"
        chats.db.rotate_session(chats.session_id(), "elsewhere", [{"role": "user", "content": "s"}])
        await chats.ask("more", chat_id="2")
        assert chats.session_id("1") == chats.session_id("2")


async def test_a_conversation_is_in_use_if_one_of_its_chats_is(tmp_path: Path) -> None:
    async with gateway(tmp_path, reset=ResetPolicy("idle", idle_minutes=60)) as chats:
        await chats.ask("one")
        await link(chats)
        shared = chats.session_id()
        entries = chats.runner.session_store._entries
        entries[chats.key("1")].updated_at -= timedelta(hours=2)
        assert await chats.runner.expiry().end_expired() == 0
        await chats.ask("on")
        assert chats.session_id() == shared
        for entry in entries.values():
            entry.updated_at -= timedelta(hours=2)
        assert await chats.runner.expiry().end_expired() == 2
        await chats.say("anew")
        await shown(chats, "🤖 re: anew", "2")
        assert chats.session_id("1") == chats.session_id("2") != shared, "they begin anew together"
        assert sent(chats) == ["anew"]


class Held:
    """A model whose first answer waits."""

    def __init__(self) -> None:
        self.begun, self.release = asyncio.Event(), asyncio.Event()
        self.running = self.most = 0

    def steps(self) -> Any:
        yield say(self.enter, self.begun.set, self.release, self.leave, "held")
        while True:
            yield say(self.enter, self.leave, "next")

    def enter(self) -> None:
        self.running += 1
        self.most = max(self.most, self.running)

    def leave(self) -> None:
        self.running -= 1


async def test_two_linked_chats_at_once_are_answered_one_after_the_other(tmp_path: Path) -> None:
    held = Held()
    async with gateway(tmp_path, held.steps(), busy_input_mode="queue") as chats:
        await link(chats)
        await chats.say("a")
        await held.begun.wait()
        await chats.say("b", chat_id="2")
        await chats.say("c", chat_id="2")
        await chats.say("d")
        await until(lambda: len(chats.db.list_waiting()) >= 3)
        held.release.set()
        await chats.local.wait_for(2 + 6, "1")
        await chats.local.wait_for(1 + 6, "2")
        messages = chats.db.get_messages(chats.session_id())
        assert [one["role"] for one in messages] == ["user", "assistant"] * 4
        assert {one["content"] for one in messages[::2]} == {"a", "b", "c", "d"}
        assert held.most == 1
        assert chats.db.list_waiting() == []


async def test_a_flood_from_three_linked_chats_is_answered_message_by_message(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path, busy_input_mode="queue") as chats:
        await link(chats, second="2")
        await link(chats, second="3")
        said = [(chat, f"{chat}-{number}") for number in range(8) for chat in ("1", "2", "3")]
        await asyncio.gather(*(chats.say(text, chat_id=chat) for chat, text in said))
        for chat, text in said:
            await shown(chats, f"re: {text}", chat)
            for other in {"1", "2", "3"} - {chat}:
                await shown(chats, f"💬 u1 (local): {text}", other)
                await shown(chats, f"🤖 re: {text}", other)
        contents = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert contents[1::2] == [f"re: {one}" for one in contents[::2]], "one turn at a time"
        assert sorted(contents[::2]) == sorted(text for _, text in said)
        for chat in ("1", "2", "3"):
            own = [one for one in contents[::2] if one.startswith(chat)]
            assert own == [text for place, text in said if place == chat], "in order"
            texts = [one for one in chats.local.texts(chat) if "🔗" not in one]
            assert len(texts) == len(set(texts)), "nothing twice"
        assert chats.runner.conversations.places._places == {}


async def test_a_chat_and_the_api_at_once_are_answered_one_after_the_other(tmp_path: Path) -> None:
    held = Held()
    async with gateway(tmp_path, held.steps(), busy_input_mode="queue") as chats:
        await link(chats)
        await chats.say("a")
        await held.begun.wait()
        requests = Requests(chats.runner.request_parts)
        request = Request("r1", "prog", chats.session_id(), "conv", "from a program")
        answer = asyncio.ensure_future(requests.ask(request))
        await until(lambda: requests.is_busy(request.key))
        held.release.set()
        assert (await answer).text == "next"
        assert held.most == 1
        seen = await chats.local.wait_for(2 + 3, "1")
        assert seen[-2:] == ["💬 prog (api_server): from a program", "🤖 next"]
        roles = [one["role"] for one in chats.db.get_messages(chats.session_id())]
        assert roles == ["user", "assistant"] * 2


async def test_a_message_in_a_linked_chat_interrupts(tmp_path: Path) -> None:
    held = Held()
    async with gateway(tmp_path, held.steps(), busy_input_mode="interrupt") as chats:
        await link(chats)
        await chats.say("a")
        await held.begun.wait()
        await chats.say("b", chat_id="2")
        assert "next" in (await chats.local.wait_for(1 + 2, "2"))
        contents = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert contents[0] == "a"
        assert contents[-2:] == ["b", "next"]


async def test_a_message_in_a_linked_chat_is_read_by_the_running_turn(tmp_path: Path) -> None:
    begun, release = asyncio.Event(), asyncio.Event()
    steps = [Step((begun.set, release, Call("todo", {"todos": []}))), echo, echo]
    async with gateway(tmp_path, steps, busy_input_mode="steer") as chats:
        await link(chats)
        await chats.say("a")
        await begun.wait()
        await chats.say("and b", chat_id="2")
        await until(lambda: any(door.steered for door in chats.runner.turns._doors.values()))
        release.set()
        await shown(chats, "re: and b")
        await shown(chats, "💬 u1 (local): and b")
        await shown(chats, "🤖 re: and b", "2")
        assert len(chats.model.requests) == 2, "the running turn has read it"
        assert chats.runner.turns.waiting == 0
        await chats.ask("later", chat_id="2")
        contents = [one["content"] for one in chats.db.get_messages(chats.session_id())]
        assert contents.count("and b") == 1
        assert chats.db.list_waiting() == []


async def test_stop_in_a_linked_chat_stops_the_turn(tmp_path: Path) -> None:
    held = Held()
    async with gateway(tmp_path, held.steps()) as chats:
        await link(chats)
        await chats.say("a")
        await held.begun.wait()
        await chats.say("/stop", chat_id="2")
        await until(lambda: not chats.runner.conversations.in_flight)
        assert any("Stopped the answer" in one for one in await chats.local.wait_for(3, "2"))


async def test_a_guests_branch_is_the_guests_alone(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("/title Holidays")
        await chats.ask("shared thing")
        host = chats.session_id()
        chats.db.update_system_prompt(host, "what is remembered of u1")
        await link(chats, user_id="bob")
        told = await chats.ask("/branch", chat_id="2", user_id="bob")
        assert "yours alone" in told and host not in told
        branch = chats.session_id("2")
        seen = len(chats.local.texts())
        assert await chats.ask("guest word", chat_id="2", user_id="bob") == "re: guest word"
        assert sent(chats) == ["shared thing", "re: shared thing", "guest word"]
        row = chats.db.get_session(branch)
        assert row is not None
        assert (row["user_id"], row["chat_id"], row["session_key"]) == (
            "local:bob", "2", chats.key("2"),
        )  # fmt: skip
        assert row["parent_session_id"] is None and row["conversation_id"] == branch
        assert "u1" not in (row["system_prompt"] or "") and row["title"] != "Holidays"
        # The host does not see it: not in the chat, not in a list, not by searching.
        assert await chats.ask("host word") == "re: host word"
        assert chats.local.texts()[seen:] == ["re: host word"]
        assert "guest" not in "".join(chats.local.texts()[seen:])
        mine = chats.db.list_sessions_rich(user_id="local:u1", include_children=True)
        assert [one["id"] for one in mine] == [host]
        assert chats.db.search_messages("guest", user_id="local:u1") == []
        # And the guest sees only what was shared.
        theirs = chats.db.list_sessions_rich(user_id="local:bob", include_children=True)
        assert [one["id"] for one in theirs] == [branch]
        assert chats.db.search_messages("host", user_id="local:bob") == []
        found = chats.db.search_messages("shared", user_id="local:bob")
        assert found and {one["session_id"] for one in found} == {branch}
        refused = await chats.ask(f"/resume {host}", chat_id="2", user_id="bob")
        assert "no conversation" in refused


async def test_a_guest_of_a_conversation_does_not_dispose_of_it(tmp_path: Path) -> None:
    """Lets nobody else in, names nothing, takes and puts nothing back; what they may is write."""
    file = tmp_path / "work" / "file.txt"
    steps = [call("write_file", path=str(file), content="new"), *[echo] * 3]
    yaml = "approvals: {mode: 'off'}\n"
    async with gateway(tmp_path / "home", steps, yaml=yaml) as chats:
        await chats.ask("shared thing")
        await chats.ask("/title Holidays")
        host = chats.session_id()
        before = chats.db.get_messages(host)
        await link(chats, user_id="bob")
        for line in ("/link", "/title Stolen", "/undo", "/retry", "/rollback 1"):
            told = await chats.ask(line, chat_id="2", user_id="bob")
            assert told.startswith("Only whose conversation it is can"), line
        assert (chats.db.get_messages(host), chats.db.get_session_title(host)) == (
            before, "Holidays",
        )  # fmt: skip
        assert file.read_text() == "new"
        assert "file.txt" in await chats.ask("/rollback 1") and not file.exists()
        await chats.ask("/unlink", chat_id="2", user_id="bob")
        told = await chats.ask("/link", chat_id="2", user_id="bob")
        assert "Write this in the other chat" in told  # for one's own


async def test_the_hosts_branch_stays_the_hosts(tmp_path: Path) -> None:
    async with gateway(tmp_path) as chats:
        await chats.ask("shared thing")
        host = chats.session_id()
        await link(chats, user_id="bob")
        assert f"/resume {host}" in await chats.ask("/branch")
        await chats.ask("private word")
        row = chats.db.get_session(chats.session_id())
        assert row is not None
        assert (row["user_id"], row["parent_session_id"]) == ("local:u1", host)
        assert "private" not in "".join(chats.local.texts("2"))
        assert chats.session_id("2") == host
