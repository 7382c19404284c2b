"""`hermes backup increment`, `watch`, `points`, `verify` and `hermes restore --at`."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.sqlite

PROGRAM = [sys.executable, "-m", "hermes_cli.main"]
TRIP = "20260101_101010_aaaaaa"


def zips(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.zip"))


@pytest.fixture
def pointed(rome: Any) -> Any:
    """A home with three points: as it was, with tea, and after the trip was deleted."""
    assert rome("backup", "increment").code == 0
    (rome.home / "memories").mkdir()
    (rome.home / "memories" / "USER.md").write_text("Likes tea.\n")
    (rome.home / ".env").write_text("OPENAI_API_KEY=sk-x\n")
    assert rome("backup", "increment", "--json").json["point"] == 2
    assert rome("sessions", "delete", "Trip to Rome", "--yes").code == 0
    (rome.home / "memories" / "USER.md").write_text("Likes coffee.\n")
    assert "Point 3" in rome("backup", "increment").out
    assert "Nothing has changed" in rome("backup", "increment").out
    return rome


def test_one_goes_back_to_a_time_or_a_number(pointed: Any, monkeypatch: Any) -> None:
    folder = pointed.home / "backups" / "continuous"
    listed = pointed("backup", "points", "--json").json
    assert [(one["number"], one["builds_on"]) for one in listed] == [(1, None), (2, 1), (3, 2)]
    assert "BUILDS ON" in pointed("backup", "points").out
    assert "--yes" in pointed.fails("restore", "--at", "2")
    with pointed.store():
        assert "in use" in pointed.fails("restore", "--at", "2", "--yes")
    assert pointed("restore", "--at", "2", "--check").code == 0
    assert pointed("restore", "--at", "2", "--yes").code == 0
    assert "noon" in pointed("sessions", "show", "Trip to Rome").out
    assert pointed("sessions", "search", "train").code == 0
    assert (pointed.home / "memories" / "USER.md").read_text() == "Likes tea.\n"
    (aside,) = (pointed.home / "backups").glob("before-restore-*")
    assert (aside / "memories" / "USER.md").read_text() == "Likes coffee.\n"
    monkeypatch.setenv("HERMES_HOME", str(pointed.home.parent / "elsewhere"))
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() + 1))
    said = pointed("restore", "--from", str(folder), "--at", now, "--yes", "--json").json
    assert (said["point"], said["sessions"]) == (3, 1)
    first = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(listed[0]["at"] - 5))
    assert "no point" in pointed.fails("restore", "--from", str(folder), "--at", first, "--yes")


def test_mistakes_are_said(rome: Any) -> None:
    assert "Say what" in rome.fails("restore")
    assert "not both" in rome.fails("restore", "x.tar.gz", "--at", "1")
    assert "no folder" in rome.fails("restore", "--at", "1")
    assert "nothing at" in rome.fails("backup", "verify")
    assert "no points" in rome.fails("backup", "points")
    assert rome("backup", "increment").code == 0
    assert "is no time" in rome.fails("restore", "--at", "teatime")
    assert "no point 7" in rome.fails("restore", "--at", "7")
    rome.fails("backup", "watch", "--every", "0")
    rome.fails("backup", "increment", "--keep", "0")


def test_secrets_can_be_left_out(rome: Any) -> None:
    (rome.home / ".env").write_text("OPENAI_API_KEY=sk-x\n")
    assert rome("backup", "increment", "--no-secrets", "--to", "points").code == 0
    assert not any(b".env" in one.read_bytes() for one in zips(Path("points")))
    assert rome("restore", "--from", "points", "--yes").code == 0
    assert (rome.home / ".env").read_text() == "OPENAI_API_KEY=sk-x\n"


def test_verify_says_what_is_good_and_what_is_not(pointed: Any) -> None:
    folder = pointed.home / "backups" / "continuous"
    said = pointed("backup", "verify")
    assert said.code == 0, said
    assert "good, 1 sessions" in said.out
    assert len(pointed("backup", "verify", "--all", "--json").json["points"]) == 3
    shutil.copytree(folder, "copy")
    second = zips(Path("copy"))[1]
    content = bytearray(second.read_bytes())
    content[50] ^= 1
    second.write_bytes(content)
    said = pointed("backup", "verify", "copy")
    assert said.code == 1
    assert second.name in said.out
    assert "2 of 3 points are damaged. The newest good point is 1." in said.out
    pointed.fails("restore", "--from", "copy", "--at", "3", "--yes", code=1)
    assert pointed("sessions", "list").code == 0
    assert pointed("restore", "--from", "copy", "--at", "1", "--yes").code == 0
    assert pointed("backup", "-o", "mine.tar.gz").code == 0
    assert "is whole" in pointed("backup", "verify", "mine.tar.gz").out
    Path("mine.tar.gz").write_bytes(Path("mine.tar.gz").read_bytes()[:-50])
    pointed.fails("backup", "verify", "mine.tar.gz", code=1)


def test_watching_goes_on_until_it_is_interrupted(rome: Any) -> None:
    folder = rome.home / "backups" / "continuous"
    with subprocess.Popen(
        [*PROGRAM, "backup", "watch", "--every", "1", "--keep", "5"],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert "Point 1 in" in child.stdout.readline()
        assert "restored aside: 4 messages" in child.stdout.readline()
        with rome.store() as db:
            db.append_message("20260102_101010_bbbbbb", "user", "one more")
        assert "Point 2 in" in child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert "hermes restore" in child.stdout.read()
        assert child.wait(60) == 0
    assert len(zips(folder)) >= 2
    assert rome("backup", "verify", "--all").code == 0
