"""`hermes import`: other homes and other programs' exports; the source stays as it is."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hermes_state import SessionDB

_spec = importlib.util.spec_from_file_location(
    "cli_exports_for_import", Path(__file__).with_name("exports.py")
)
assert _spec is not None
assert _spec.loader is not None
exports = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(exports)


def contents(folder: Path) -> dict[str, str]:
    """Checksums of every file that is no trace of SQLite's reading."""
    return {
        str(one.relative_to(folder)): hashlib.sha256(one.read_bytes()).hexdigest()
        for one in folder.rglob("*")
        if one.is_file() and not one.name.endswith(("-shm", "-wal"))
    }


def talk_of(cli: Any, session_id: str) -> list[tuple[str, str]]:
    with cli.store() as db:
        return [(m["role"], m["content"]) for m in db.get_messages_as_conversation(session_id)]


def test_chatgpt_from_a_zip(cli: Any) -> None:
    with zipfile.ZipFile("export.zip", "w") as archive:
        archive.writestr("export/conversations.json", json.dumps(exports.chatgpt()))
        archive.writestr("export/chat.html", "x")
    dry = cli("import", "export.zip", "--dry-run", "--json").json
    assert (dry["kind"], dry["conversations"]) == ("chatgpt", 1)
    assert dry["left_out"] == {"replaced answers": 1, "empty conversations": 1}
    assert "Brought in: 1 conversations; 0 were here" in cli("import", "export.zip").out
    assert talk_of(cli, "chatgpt_6541-abc") == [
        ("user", "Plot a sine wave"),
        ("assistant", "```python\nplot()\n```\n\n```\ndone\n```\n\nHere it is."),
        ("user", "[image]\n\nAnd this?"),
        ("assistant", "A cat."),
    ]
    with cli.store() as db:
        session = db.get_session("chatgpt_6541-abc")
        assert session is not None
        assert (session["title"], session["model"]) == ("Sine wave", "gpt-4o")
        assert session["started_at"] == 1_700_000_000.0
        assert db.check_store() == []
    assert cli("sessions", "search", "sine").code == 0
    assert "0 conversations; 1 were here" in cli("import", "export.zip").out


def test_claude_from_json(cli: Any) -> None:
    Path("conversations.json").write_text(json.dumps(exports.claude()))
    assert cli("import", "conversations.json").code == 0
    assert talk_of(cli, "claude_0001-f") == [
        ("user", "Read this\n\n[soup.txt]\nLeeks.\n\n[photo.png]"),
        ("assistant", "[used web_search]\n\nA leek soup."),
    ]
    assert talk_of(cli, "claude_0002-f") == [("user", "Only text")]
    assert "leek" in cli("sessions", "show", "Soup recipe").out
    listed = cli("sessions", "list", "--json").json
    assert {one["source"] for one in listed} == {"claude"}


def test_a_lost_place_in_the_tree_is_found_again(cli: Any) -> None:
    export = exports.chatgpt()[:1]
    export[0]["current_node"] = "gone"
    Path("c.json").write_text(json.dumps(export))
    assert cli("import", "c.json").code == 0
    assert talk_of(cli, "chatgpt_6541-abc")[-1] == ("assistant", "A cat.")


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("x.json", "{broken", "not JSON"),
        ("x.jsonl", "{}\n{}\n", "hermes sessions import"),
        ("x.json", "[1, 2]", "no list of conversations"),
        ("x.json", '[{"hello": 1}]', "neither"),
        ("x.json", "[]", "no conversations in"),
        ("x.json", '{"a": 1}', "no list of conversations"),
        ("x.json", "\udcff", "cannot be read"),
    ],
)
def test_what_is_no_export_is_refused(cli: Any, name: str, content: str, part: str) -> None:
    Path(name).write_text(content, errors="surrogateescape")
    assert part in cli.fails("import", name)


def test_what_is_not_there_is_refused(cli: Any) -> None:
    assert "There is no" in cli.fails("import", "nowhere")
    with zipfile.ZipFile("empty.zip", "w"):
        pass
    assert "no conversations.json" in cli.fails("import", "empty.zip")
    Path("folder").mkdir()
    assert "no conversations.json" in cli.fails("import", "folder")
    assert "in use" in cli.fails("import", str(make_home(cli.home)))


def make_home(home: Path) -> Path:
    """A home with a compressed conversation, a branch, memories, a skill and a configuration."""
    home.mkdir(exist_ok=True)
    with SessionDB(home / "state.db") as db:
        db.create_session("old", "cli", model="m")
        for text in ("The parcel is blue.", "Noted."):
            db.append_message("old", "user" if "parcel" in text else "assistant", text)
        db.set_session_title("old", "Parcel")
        db.rotate_session("old", "old2", [{"role": "user", "content": "sum"}])
        db.branch_session("old2", "old3")
        db.update_token_counts("old2", 5, 6, model="m", api_call_count=1)
        db.save_gateway_routing_entry("agent:main:telegram:dm:42", '{"session_id": "old2"}')
    (home / "memories").mkdir()
    (home / "memories" / "MEMORY.md").write_text("Old fact.\n§\nShared fact.\n")
    for name in ("old-skill", "shared-skill"):
        (home / "skills" / name).mkdir(parents=True)
        (home / "skills" / name / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: d\n---\n"
        )
    (home / "config.yaml").write_text("model: gpt-5\n")
    (home / ".env").write_text("OPENAI_API_KEY=sk-x\n")
    return home


@pytest.mark.sqlite
def test_a_home_becomes_a_new_one(cli: Any) -> None:
    source = make_home(Path("old-home").absolute())
    before = contents(source)
    said = cli("import", str(source), "--dry-run")
    assert "3 sessions" in said.out
    assert not (cli.home / "state.db").exists()
    report = cli("import", str(source), "--json").json
    assert report["sessions"] == 3
    assert contents(source) == before
    assert "blue" in cli("sessions", "show", "old2").out
    assert cli("insights", "--json").json["models"][0]["model"] == "m"
    assert cli("model").out.startswith("openai:gpt-5")
    assert (cli.home / ".env").stat().st_mode & 0o077 == 0
    assert cli("memory", "show", "--json").json["memory"] == ["Old fact.", "Shared fact."]
    assert cli("doctor", "--json").json["parts"]["conversations"]["ailments"] == []


@pytest.mark.sqlite
def test_a_home_joins_one_that_is_in_use(rome: Any) -> None:
    source = make_home(Path("old-home").absolute())
    before = contents(source)
    rome("memory", "add", "Shared fact.")
    (rome.home / "skills" / "shared-skill").mkdir(parents=True)
    (rome.home / "skills" / "shared-skill" / "SKILL.md").write_text("mine")
    (rome.home / "config.yaml").write_text("model: mine\n")
    with rome.store():
        said = rome("import", str(source / "state.db"))
    assert said.code == 0, said
    assert contents(source) == before
    outcomes = {line.split("  ")[0]: line for line in said.out.splitlines()}
    assert "left behind" in outcomes["skill shared-skill"]
    assert "yours stays as it is" in outcomes["config.yaml"]
    assert (rome.home / "config.yaml").read_text() == "model: mine\n"
    assert (rome.home / "skills" / "shared-skill" / "SKILL.md").read_text() == "mine"
    assert rome("memory", "show", "--json").json["memory"] == ["Shared fact.", "Old fact."]
    with rome.store() as db:
        assert db.get_compression_tip("old") == "old2"
        assert [one["relation"] for one in db.get_family("old")] == [
            "root", "continuation", "branch",
        ]  # fmt: skip
        assert "agent:main:telegram:dm:42" in db.load_gateway_routing_entries()
        assert db.check_store() == []
        assert len(db.search_messages("parcel blue")) == 1
    again = rome("import", str(source)).out.splitlines()
    assert [line.split()[-2:] for line in again if line.startswith("3 sessions")] == [
        ["here", "already"]
    ]


@pytest.mark.sqlite
@pytest.mark.parametrize("fresh", [True, False])
def test_a_home_of_hermes_agent_comes_over_with_its_old_store(cli: Any, fresh: bool) -> None:
    source = Path("agent-home").absolute()
    source.mkdir()
    build_old_store(source / "state.db")
    before = contents(source)
    if not fresh:
        cli.store().close()
    said = cli("import", str(source))
    assert said.code == 0, said
    assert contents(source) == before
    with cli.store() as db:
        for parent, child in old_continuations().items():
            assert db.get_compression_tip(parent) == db.get_compression_tip(child)
        # An answer that was still owed there is owed here; nothing else is amiss.
        assert {one.rule for one in db.check_store()} <= {"outbox_delivered"}
    assert cli("doctor", "--json").json["parts"]["search"]["ailments"] == []


def build_old_store(path: Path) -> None:
    """Write it in a process of its own: two SQLite libraries must not share one."""
    _in_tests(f"old_store.build(Path({str(path)!r}))")


def old_continuations() -> dict[str, str]:
    return dict(json.loads(_in_tests("print(json.dumps(old_store.CONTINUATIONS))")))


def _in_tests(code: str) -> str:
    root = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-c", f"import json\nfrom pathlib import Path\n"
         f"from state import old_store\n{code}"],
        cwd=root, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
