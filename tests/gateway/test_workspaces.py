"""A folder for each person: where the agent works for them, and nobody else's to see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.home import ConfigError
from agent.model import ModelRequest
from agent.scripted import Step, call, say
from agent.workspaces import Workspaces, folder_name

from .chats import Chats, asked, gateway
from .test_persons import ask


def obey(request: ModelRequest) -> Step:
    """Calls the tool that it is told to, and says what came of it."""
    last = request.messages[-1]
    if last["role"] == "tool":
        return say(str(last["content"]))
    name, _, arguments = asked(request).partition(" ")
    return call(name, **json.loads(arguments))


async def use(chats: Chats, who: str, tool: str, **arguments: Any) -> str:
    return await ask(chats, who, f"{tool} {json.dumps(arguments)}")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_WALL", "landlock")
    return tmp_path / "people"


def settings(base: Path) -> dict[str, Any]:
    return {"workspaces": f"{base}/{{person}}"}


async def test_each_works_in_a_folder_that_the_others_do_not_see(
    tmp_path: Path, base: Path
) -> None:
    async with gateway(tmp_path / "home", [obey] * 60, **settings(base)) as chats:
        await use(chats, "ada", "write_file", path="plan.txt", content="the secret plan")
        plan = base / "local-ada" / "plan.txt"
        assert plan.read_text() == "the secret plan"
        assert (base / "local-ada").stat().st_mode & 0o077 == 0
        missing = await use(chats, "bob", "read_file", path=str(plan))
        nothing = await use(chats, "bob", "read_file", path=str(base / "local-ada" / "none.txt"))
        assert "does not exist" in missing
        assert missing.replace("plan.txt", "none.txt") == nothing
        for pattern, target in (("secret", "content"), ("plan", "files")):
            listed = await use(
                chats, "bob", "search_files", pattern=pattern, target=target, path=str(base)
            )
            assert "plan.txt" not in listed and "local-ada" not in listed
        refused = await use(
            chats, "bob", "write_file", path=str(base / "local-ada" / "x.txt"), content="x"
        )
        assert "does not exist" in refused and not (base / "local-ada" / "x.txt").exists()
        printed = await use(
            chats, "bob", "terminal", command=f"cat {plan}; ls {base}/local-ada; pwd"
        )
        assert "secret" not in printed and "plan.txt" not in printed.replace(str(plan), "")
        assert str(base / "local-bob") in printed
        assert "the secret plan" in await use(chats, "ada", "terminal", command="cat plan.txt")


async def test_only_operators_may_let_it_leave(tmp_path: Path, base: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    yaml = "approvals: {mode: 'off'}\n"
    async with gateway(tmp_path / "home", [obey] * 20, yaml=yaml, **settings(base)) as chats:
        home = tmp_path / "home"
        for told in (
            await use(chats, "bob", "write_file", path=str(elsewhere / "x"), content="x"),
            await use(chats, "bob", "terminal", command="id", needs=["no wall"]),
            await use(chats, "bob", "terminal", command="id", needs=[f"write:{elsewhere}"]),
        ):
            assert "only operators may let anything leave" in told
        assert list(elsewhere.iterdir()) == []
        told = await use(chats, "bob", "read_file", path=str(home / "config.yaml"))
        assert "does not exist" in told, "what is in the home is the operator's"
        chats.db.set_person_role("local:bob", "operator")
        await use(chats, "bob", "write_file", path=str(elsewhere / "x"), content="x")
        assert (elsewhere / "x").exists()


async def test_processes_and_uploads_are_whose_they_are(tmp_path: Path, base: Path) -> None:
    home = tmp_path / "home"
    async with gateway(home, [obey] * 30, **settings(base)) as chats:
        for who in ("ada", "bob"):
            folder = home / "media" / "local" / who
            folder.mkdir(parents=True)
            (folder / "photo.txt").write_text(f"photo of {who}")
        own = await use(chats, "ada", "read_file", path=str(home / "media/local/ada/photo.txt"))
        assert "photo of ada" in own
        anothers = await use(
            chats, "ada", "read_file", path=str(home / "media/local/bob/photo.txt")
        )
        assert "does not exist" in anothers
        printed = await use(
            chats, "ada", "terminal", command=f"cat {home}/media/local/{{ada,bob}}/photo.txt"
        )
        assert "photo of ada" in printed and "photo of bob" not in printed
        started = await use(chats, "ada", "terminal", command="sleep 60", background=True)
        name = started.split()[1].rstrip(",")
        assert name.startswith("proc_")
        for action in ("poll", "log", "kill", "wait"):
            told = await use(chats, "bob", "process", action=action, session_id=name)
            assert f"There is no background process '{name}'. Known: none." in told
        assert "No background processes." in await use(chats, "bob", "process", action="list")
        assert "Nothing runs in the background" in await ask(chats, "bob", "/agents")
        assert "running" in await use(chats, "ada", "process", action="poll", session_id=name)
        assert "killed" in await use(chats, "ada", "process", action="kill", session_id=name)


async def test_a_shared_group_has_a_folder_of_its_own(tmp_path: Path, base: Path) -> None:
    async with gateway(
        tmp_path / "home", [obey] * 9, group_sessions_per_user=False, **settings(base)
    ) as chats:
        for who in ("ada", "bob"):
            line = f"write_file {json.dumps({'path': f'{who}.txt', 'content': who})}"
            await chats.ask(line, chat_id="g", chat_type="group", user_id=who)
        (folder,) = base.iterdir()
        assert folder.name.startswith("chat-")
        assert {path.name for path in folder.iterdir()} == {"ada.txt", "bob.txt"}


async def test_a_folder_that_was_chosen_is_hidden_from_the_others(
    tmp_path: Path, base: Path
) -> None:
    chosen = tmp_path / "of-ada"
    chosen.mkdir()
    async with gateway(tmp_path / "home", [obey] * 9, **settings(base)) as chats:
        chats.db.ensure_person("local:ada", "Ada")
        chats.db.set_person_workspace("local:ada", str(chosen))
        await use(chats, "ada", "write_file", path="plan.txt", content="x")
        assert (chosen / "plan.txt").exists()
        told = await use(chats, "bob", "read_file", path=str(chosen / "plan.txt"))
        assert "does not exist" in told


def test_answers_send_files_of_the_persons_folder_only(tmp_path: Path) -> None:
    places = Workspaces(str(tmp_path / "people"), tmp_path / "home")
    assert places.base == tmp_path / "people"
    assert places.of_chat("k") != places.of_chat("l")
    assert Workspaces("", tmp_path).base is None


@pytest.mark.parametrize("template", ["{home}", "{home}/w/{{person}}", "{parent}"])
def test_workspaces_are_beside_the_home(tmp_path: Path, template: str) -> None:
    home = tmp_path / "home"
    with pytest.raises(ConfigError, match="neither be in the Hermes home nor hold it"):
        Workspaces(template.format(home=home, parent=tmp_path), home)


IDS = st.builds(
    "{}:{}".format, st.sampled_from(["a", "a_b", "person"]), st.text("aA-_.:/@x~", min_size=1)
)


@given(IDS, IDS)
def test_no_two_persons_have_the_same_folder(first: str, second: str) -> None:
    assert (folder_name(first) == folder_name(second)) == (first == second)
    assert "/" not in folder_name(first) and not folder_name(first).startswith(".")
