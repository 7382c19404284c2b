"""What the commands do, with a real store and real agents."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from slash_surface import Front

from agent import background
from agent.compression.result import CompressionResult
from agent.model import ModelRequest
from agent.scripted import Step, call, say
from agent.slash import Exec, Prefill, Send
from agent.slash.compress import _report
from hermes_state import SessionDB
from hermes_state.delegations import is_note
from tools.base import ToolContext, tool
from tools.files import write_file
from tools.registry import Registry


@pytest.fixture
def db(tmp_path: Path) -> Iterator[SessionDB]:
    with SessionDB(tmp_path / "state.db") as store:
        yield store
        assert background.stop_all(store) == []


@pytest.fixture
def front(db: SessionDB, tmp_path: Path) -> Front:
    return Front(db, tmp_path / "home")


def texts(front: Front) -> list[str]:
    return [message["content"] for message in front.db.get_messages(front.session_id)]


# Conversations


def test_new_with_a_title(front: Front) -> None:
    front.ask("one")
    front.type("/title Plan")
    assert "'Plan #2' is free" in front.refused("/new Plan")
    assert front.did == []
    assert front.shown("/new  Other   plan") == "New conversation: Other plan"
    assert front.did == [("new", "Other plan")]


def test_the_title(front: Front) -> None:
    assert "No title yet" in front.shown("/title")
    front.ask("one")
    assert front.shown("/title  My   plan") == "Title: My plan"
    assert front.shown("/title") == "Title: My plan"
    assert "at most 100" in front.refused("/title " + "x" * 101)


def test_branching(front: Front) -> None:
    assert "nothing to branch from" in front.refused("/branch")
    front.ask("one")
    origin = front.session_id
    front.type("/title Plan")
    assert "Now in the branch Plan #2" in front.shown("/branch")
    assert front.session_id != origin
    assert texts(front) == ["one", "ok"]
    front.ask("only here")
    assert [m["content"] for m in front.db.get_messages(origin)] == ["one", "ok"]


def test_resuming_by_title_id_number_and_word(front: Front) -> None:
    ids = []
    for title in ("Garden", "Kitchen"):
        front.ask(f"about the {title}")
        front.type(f"/title {title}")
        ids.append(front.session_id)
        front.type("/new")
    garden, kitchen = ids
    listed = front.shown("/resume")
    assert listed.index("Kitchen") < listed.index("Garden")
    for wanted, expected in [
        ("Garden", garden), ("kitch", kitchen), (garden, garden), ("1", kitchen), ("2", garden),
    ]:  # fmt: skip
        front.type("/new")
        assert "Going on with" in front.shown(f"/resume {wanted}")
        assert front.session_id == expected
    assert "already" in front.shown(f"/resume {garden}")
    assert "no conversation 'Cellar'" in front.refused("/resume Cellar")
    assert "Several" in front.refused(f"/resume {garden[:8]}")


def test_resuming_what_was_compressed_leads_to_where_it_is_now(front: Front) -> None:
    front.ask("one")
    front.type("/title Plan")
    old = front.session_id
    front.db.rotate_session(old, "later", [{"role": "user", "content": "the sum of it"}])
    for wanted in (old, "Plan", "Plan #2"):
        front.type("/new")
        front.type(f"/resume {wanted}")
        assert front.session_id == "later"


def test_nobody_sees_what_belongs_to_others(db: SessionDB, tmp_path: Path) -> None:
    def person(user_id: str | None, platform: str = "telegram") -> Front:
        owner = user_id and f"{platform}:{user_id}"
        return Front(db, tmp_path / "home", platform=platform, user_id=owner, scope="gateway")

    ada, bob, same_number, nobody = person("1"), person("2"), person("1", "discord"), person(None)
    ada.ask("my secret garden")
    ada.type("/title Secrets")
    assert "Secrets" in ada.shown("/sessions")
    assert "garden" in ada.shown("/search garden")
    for other in (bob, same_number):
        assert "Secrets" not in other.shown("/sessions")
        assert "garden" not in other.shown("/search garden").replace("'garden'", "")
        for wanted in ("Secrets", ada.session_id, ada.session_id[:20], "1"):
            assert "no conversation" in other.refused(f"/resume {wanted}")
        assert "0 conversations" in other.shown("/insights")
        assert other.did == []
    for command in ("/sessions", "/search garden", "/resume Secrets", "/insights"):
        assert "not known who you are" in nobody.refused(command)
    assert "Secrets" in Front(db, tmp_path / "home").shown("/sessions")  # the machine's owner


def test_history_and_saving(front: Front) -> None:
    assert "Nothing was said" in front.shown("/history")
    assert "nothing to save" in front.refused("/save")
    secret = "sk-proj-" + "a1B2" * 12
    front.ask(f"my key is {secret}")
    front.ask("two")
    assert front.shown("/history 2") == "[2 earlier messages]\nuser: two\nassistant: ok"
    path = Path(front.shown("/save").removeprefix("Saved: "))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    saved = json.loads(path.read_text())
    assert [m["content"] for m in saved["messages"]][2:] == ["two", "ok"]
    assert secret not in path.read_text()


def test_copying_an_answer(front: Front) -> None:
    front.steps = [say("first answer"), say("second answer")]
    front.ask("one")
    front.ask("two")
    front.type("/copy")
    front.type("/copy 2")
    assert front.did == [("copy", "second answer"), ("copy", "first answer")]
    assert "There are 2 answers" in front.refused("/copy 3")


# Taking back


def test_undo_offers_the_message_again(front: Front) -> None:
    assert "nothing to take back" in front.refused("/undo")
    for text in ("one", "two", "three"):
        front.ask(text)
    result = front.type("/undo 2")
    assert isinstance(result, Prefill)
    assert result.message == "two"
    assert "4 messages" in result.notice
    assert texts(front) == ["one", "ok"]
    front.ask("other")
    assert texts(front) == ["one", "ok", "other", "ok"]
    assert "Only 2" in front.refused("/undo 3")


def test_retry_asks_the_last_message_again(front: Front) -> None:
    front.ask("one")
    front.ask("two")
    assert front.type("/retry") == Send("two", "Asking again.")
    assert texts(front) == ["one", "ok"]


def test_only_what_the_person_said_is_taken_back(front: Front) -> None:
    front.ask("one")
    front.db.create_delegation("bg_1", front.session_id, {"goals": ["g"]})
    front.db.finish_delegation("bg_1", "completed", "the report")
    front.ask("two")
    assert front.type("/retry") == Send("two", "Asking again.")
    assert is_note(texts(front)[-1])  # it was told once, and stays told
    record = {"role": "user", "content": "sum", "finish_reason": "compression_record"}
    front.db.rotate_session(front.session_id, "later", [record])
    assert "nothing to take back" in front.refused("/undo")


def test_nothing_is_taken_back_under_a_running_turn(front: Front) -> None:
    front.ask("one")
    front.is_running = True
    for line in ("/undo", "/retry", "/branch", "/resume x", "/compress", "/model other"):
        assert "/stop it first" in front.refused(line)
    assert texts(front) == ["one", "ok"]


def test_rolling_files_back(front: Front) -> None:
    home = front.config.home
    path = home / "note.txt"
    front.tools = Registry([write_file])
    front.steps = [
        call("write_file", path=str(path), content="one\n"), say("done"),
        call("write_file", path=str(path), content="two\n"), say("done"),
    ]  # fmt: skip
    assert "No turn" in front.shown("/rollback")
    front.type("/mode full")
    front.ask("write one")
    front.ask("write two")
    listed = front.shown("/rollback").splitlines()
    assert "note.txt edited" in listed[0]
    assert "note.txt created" in listed[1]
    shown = front.shown("/rollback diff 1")
    assert "-one" in shown
    assert "+two" in shown
    assert path.read_text() == "two\n"
    assert f"Put back: {path}" in front.shown("/rollback 1")
    assert path.read_text() == "one\n"
    assert "there are 3" in front.refused("/rollback 9")


def test_compressing(front: Front) -> None:
    assert "nothing to compress" in front.refused("/compress")
    front.ask("one")
    assert front.shown("/compress --preview")
    assert front.shown("/compress the garden")


# While it works


def test_queue_and_steer(front: Front) -> None:
    assert front.type("/queue later") == Send("later")
    assert front.type("/steer now") == Send("now")
    front.is_running = True
    assert front.type("/q later") == Exec("Queued; 1 waiting.")
    assert front.waiting == ["later"]


def test_steering_a_running_turn(front: Front) -> None:
    steered: list[object] = []

    @tool(toolset="test", effect="none")
    def pause(context: ToolContext) -> str:
        """Wait a moment."""
        steered.append(front.type("/steer mind the cat"))
        return "waited"

    front.tools = Registry([pause])
    front.steps = [call("pause"), lambda request: say(str(request.messages[-1]["content"]))]
    assert front.ask("go") == "mind the cat"
    assert steered == [Exec("Kept; it is read at the next step, or answered next.")]


def test_stopping_the_answer(front: Front) -> None:
    assert front.shown("/stop") == "Nothing is running."
    front.steps = [say("half", lambda: front.type("/stop"), 3600.0)]
    assert front.build_agent().run_conversation("go")["interrupted"]


def test_answering_approvals(db: SessionDB, tmp_path: Path) -> None:
    chat = Front(db, tmp_path / "home", platform="telegram", user_id="1", scope="gateway")
    for line in ("/approve", "/approve always all", "/deny all", "/deny"):
        chat.type(line)
    assert chat.did == [
        ("answer", "once", False),
        ("answer", "always", True),
        ("answer", "deny", True),
        ("answer", "deny", False),
    ]
    assert "not 'forever'" in chat.refused("/approve forever")


def test_work_in_the_background(front: Front) -> None:
    may_finish = threading.Event()

    def answer(request: ModelRequest) -> Step:
        if "sub-agent" not in request.system:
            return say("I saw it.")
        return say(may_finish.wait, "the report")

    front.steps = [answer] * 10
    assert front.shown("/agents") == "Nothing runs in the background."
    started = front.shown("/bg look around")  # before anything was said
    (running,) = background.running_here()
    assert running in started
    assert f"{running}  running" in front.shown("/agents")
    may_finish.set()
    while background.running_here():
        threading.Event().wait(0.01)
    assert "completed, new" in front.shown("/agents")
    front.ask("And?")
    assert "the report" in texts(front)[0]
    assert ", new" not in front.shown("/agents")
    assert "No task" in front.refused(f"/stop {running}")


def test_background_work_of_others_cannot_be_stopped(
    front: Front, db: SessionDB, tmp_path: Path
) -> None:
    front.steps = [lambda request: say(3600.0)]
    front.type("/background wait")
    (running,) = background.running_here()
    other = Front(db, tmp_path / "home", user_id="bob", platform="telegram", scope="gateway")
    assert "No task" in other.refused(f"/stop {running}")
    assert other.shown("/agents") == "Nothing runs in the background."
    assert "Stopped bg_" in front.shown("/stop all")


def test_what_is_always_allowed_is_listed_and_taken_back(
    front: Front, db: SessionDB, tmp_path: Path
) -> None:
    assert "Nothing is always allowed" in front.shown("/approvals")
    db.grant_patterns(["git-push"], None)
    db.grant_patterns(["docker-prune"], "telegram:ada")
    db.grant_patterns(["git-push"], "telegram:bob")
    chats = [
        Front(db, tmp_path / "home", user_id=name, platform="telegram", scope="gateway")
        for name in ("telegram:ada", "telegram:bob")
    ]
    ada, bob = chats
    assert "docker-prune" in ada.shown("/approvals") and "git-push" not in ada.shown("/approvals")
    assert "There is no approval" in ada.refused("/approvals revoke git-push")
    assert "There is no approval" in ada.refused("/approvals revoke 2")
    assert "docker-prune" in ada.shown("/approvals revoke 1")
    assert "Nothing is always allowed" in ada.shown("/approvals revoke all")
    assert db.list_patterns_granted_by("telegram:bob") == ["git-push"]
    shown = front.shown("/approvals")  # whoever sits at the machine sees everybody's
    assert "1. git-push (since" in shown and "telegram:bob" in shown
    assert "git-push" in bob.shown("/approvals revoke git-push")
    assert db.list_patterns_granted_by(None) == ["git-push"]
    assert "git-push" in front.shown("/approvals revoke all")
    assert db.list_grants() == []
    nobody = Front(db, tmp_path / "home", platform="telegram", scope="gateway")
    assert "not known who you are" in nobody.refused("/approvals")
    assert "revoke 2" in front.refused("/approvals forget")


def test_a_goal(front: Front) -> None:
    assert "There is no goal" in front.shown("/goal")
    assert "judged after each turn" in front.shown("/help goal")
    assert "3 turns, $2 or 24 hours" in front.shown(
        "/goal Ship it, done when: tests pass --turns 3 --usd 2"
    )
    limits = "1 of 3, $2 at most, 24 hours at most"
    wanted = f"🎯 Goal, step 1: Ship it\nReached when: tests pass\nTurns: {limits}"
    assert front.shown("/goal show") == front.shown("/goal status") == wanted
    assert front.db.has_notes(front.session_id)
    assert "paused" in front.shown("/goal pause") and not front.db.has_notes(front.session_id)
    assert front.shown("/goal").startswith("⏸️ Goal paused: Ship it (you paused it)")
    assert "does not go on" in front.refused("/goal pause")
    front.ask("on the way")
    front.db.rotate_session(front.session_id, "later", [{"role": "user", "content": "sum"}])
    assert front.shown("/goal resume") == "Going on."
    assert front.shown("/goal").startswith("🎯 Goal, step 2: Ship it")
    assert "already" in front.refused("/goal resume")
    assert "wants a number" in front.refused("/goal Ship it --turns many")
    assert "What is the goal" in front.refused("/goal done when: x")
    front.type("/goal clear")
    assert "There is no goal" in front.shown("/goal")


def test_handing_over(db: SessionDB, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("platforms: {telegram: {enabled: true}}\n")
    front = Front(db, home)
    assert "There are: telegram" in front.refused("/handoff matrix")
    assert "nothing to hand over" in front.refused("/handoff telegram")
    front.ask("one")
    front.type("/handoff telegram")
    state = db.get_handoff_state(front.session_id)
    assert state is not None
    assert (state["state"], state["platform"]) == ("pending", "telegram")
    assert "already" in front.refused("/handoff telegram")


# Settings and information


def test_settings_of_one_conversation(front: Front) -> None:
    agent = front.build_agent()
    assert "without asking" in front.shown("/yolo")
    assert agent.workspace.mode == "full"
    assert "asked about" in front.shown("/yolo")
    assert agent.workspace.mode == "guarded"
    front.type("/reasoning high")
    front.ask("think")
    model = agent.llm
    assert model.requests[-1].reasoning_effort == "high"  # type: ignore[attr-defined]
    front.type("/reasoning default")
    front.ask("think")
    assert not model.requests[-1].reasoning_effort  # type: ignore[attr-defined]
    assert front.shown("/busy steer") == "A message during an answer: steer"
    assert "knows interrupt" in front.refused("/busy sometimes")


def test_the_model(front: Front) -> None:
    assert front.shown("/model anthropic:claude-x") == "Model: anthropic:claude-x"
    assert front.did == [("model", "anthropic:claude-x")]
    assert "config.yaml" in front.refused("/model x --global")


def test_what_was_used(front: Front) -> None:
    assert front.shown("/usage") == "Nothing was used yet."
    front.ask("one")
    assert "Model calls: 1" in front.shown("/usage")
    shown = front.shown("/insights 7")
    assert "1 conversations, 2 messages, 0 tool calls" in shown
    assert "scripted: 1 calls" in shown


def test_the_configuration_without_secrets(db: SessionDB, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text(
        "model: {default: m, provider: custom, base_url: 'http://x/v1', api_key: hush-hush-123}\n"
    )
    front = Front(db, home)
    shown = front.shown("/config")
    assert "hush-hush-123" not in shown
    assert "model.api_key: (set)" in shown
    assert "model.default: m  (changed)" in shown
    assert "compression." not in front.shown("/config model")


def test_who_and_where(front: Front, db: SessionDB, tmp_path: Path) -> None:
    assert "whoever sits at this machine" in front.shown("/whoami")
    chat = Front(db, tmp_path / "home", platform="telegram", user_id="42", scope="gateway")
    assert chat.shown("/whoami") == "You are 42, on telegram."
    assert front.session_id in front.shown("/status")
    assert "Page 1 of" in chat.shown("/commands")
    assert "There are" in chat.refused("/commands 99")


def test_what_it_has(front: Front) -> None:
    front.tools = Registry([write_file])
    assert "files: write_file" in front.shown("/tools")
    assert "write_file (files)" in front.shown("/tools write_file")
    assert "whole life" in front.refused("/tools disable write_file")
    assert front.shown("/toolsets") == "files (1)"
    (front.config.home / "memories").mkdir()
    (front.config.home / "memories" / "USER.md").write_text("Likes tea.\n§\nLives in Ghent.\n")
    told = front.shown("/memory")
    assert "Likes tea. (written by hand)" in told and "Lives in Ghent." in told
    assert front.shown("/reload-mcp") == "No MCP servers are configured."


def test_pictures(front: Front, tmp_path: Path) -> None:
    path = tmp_path / "plan.png"
    assert "no file" in front.refused(f"/image {path}")
    path.write_bytes(b"\x89PNG")
    front.type(f"/image {path}")
    assert front.did == [("image", path)]


def test_help(front: Front) -> None:
    shown = front.shown("/help")
    assert "/undo [number]" in shown
    assert "/approve" not in shown
    assert "Also: /fork" in front.shown("/help branch")
    assert "Did you mean /undo" in front.refused("/help undoo")


@pytest.mark.parametrize(
    ("method", "error", "said"),
    [
        ("summary", None, "Compressed: 6 messages"),
        ("engine", None, "Compressed: 6 messages"),
        ("fallback", "no key", "Compressed (without a model's summary: no key): 6 messages"),
    ],
)
def test_a_compression_is_told_without_a_reason_that_there_is_not(
    method: str, error: str | None, said: str
) -> None:
    result = CompressionResult(
        "a", "b", True, method=method, error=error, before_messages=6, after_messages=2
    )
    assert _report(result).startswith(said)
