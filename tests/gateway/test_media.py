"""Files in and out: kept privately under harmless names, sent only from the working directory."""

from __future__ import annotations

import stat
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.media import MediaTooLargeError, keep, outgoing, safe_name


async def chunks(*data: bytes) -> AsyncGenerator[bytes, None]:
    for one in data:
        yield one


@given(st.text(max_size=300))
def test_names_are_harmless(name: str) -> None:
    found = safe_name(name)
    assert found and "/" not in found and "\\" not in found and "\0" not in found
    assert not found.startswith(".") and found not in (".", "..")
    assert len(found) <= 100


def test_names_keep_their_ending() -> None:
    assert safe_name("../../etc/my report.pdf") == "my_report.pdf"
    assert safe_name("x" * 200 + ".jpeg").endswith("x.jpeg")


async def test_a_file_is_kept_privately(tmp_path: Path) -> None:
    path = await keep(tmp_path, "telegram", "-42", "a.txt", chunks(b"one", b"two"), 100)
    assert path.read_bytes() == b"onetwo"
    assert path.is_relative_to(tmp_path / "media" / "telegram")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    again = await keep(tmp_path, "telegram", "-42", "a.txt", chunks(b"new"), 100)
    assert again == path and path.read_bytes() == b"new"


async def test_a_file_that_is_too_large_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(MediaTooLargeError):
        await keep(tmp_path, "telegram", "42", "a.txt", chunks(b"1234", b"5678"), 6)
    assert not [one for one in tmp_path.rglob("*") if one.is_file()]


def test_answers_name_files(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    (work / "out").mkdir(parents=True)
    home.mkdir()
    chart, report = work / "out" / "chart (1).png", work / "report.pdf"
    chart.write_bytes(b"png")
    report.write_bytes(b"pdf")
    text = f"Here it is:\n\nMEDIA:{chart}\n\n![the report]({report})\n\nAnything else?"
    assert outgoing(text, work, home) == ("Here it is:\n\nAnything else?", [chart, report])
    assert outgoing("MEDIA:report.pdf", work, home) == ("", [report])


def test_files_elsewhere_are_not_sent(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "work" / "home"
    home.mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("x")
    (home / "state.db").write_text("x")
    (work / ".env").write_text("KEY=1")
    (work / "link.txt").symlink_to(tmp_path / "outside.txt")
    for name in (
        tmp_path / "outside.txt", home / "state.db", work / ".env", work / "link.txt",
        work / "missing.txt", work, "../outside.txt", "/etc/passwd", "a\0b",
    ):  # fmt: skip
        text = f"Look:\nMEDIA:{name}"
        assert outgoing(text, work, home) == (text, [])


@pytest.mark.parametrize("name", ["id_rsa", "server.key", "prod.env", "credentials.json"])
def test_files_with_credentials_are_not_sent(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("secret")
    (tmp_path / "notes.txt").write_text("plain")
    assert outgoing(f"MEDIA:{name}", tmp_path, tmp_path / "home") == (f"MEDIA:{name}", [])
    sent = outgoing("MEDIA:notes.txt", tmp_path, tmp_path / "home")
    assert sent == ("", [tmp_path / "notes.txt"])


def test_code_that_shows_how_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("x")
    text = f"Write this:\n```\nMEDIA:{tmp_path}/a.png\n```"
    assert outgoing(text, tmp_path, tmp_path / "home") == (text, [])


@given(st.text('MEDIA:/ab.![]()`\n ~"', max_size=60))
def test_any_text_is_read(text: str) -> None:
    left, files = outgoing(text, Path("/nowhere"), Path("/nowhere/home"))
    assert (left, files) == (text, [])
