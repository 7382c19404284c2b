"""read_file on real files: ranges, encodings, binary and huge ones, and what must not be opened."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_state import SessionDB
from tools.base import ToolContext, ToolError
from tools.files.read import read_file


@pytest.fixture
def folder(context: ToolContext) -> Path:
    return context.workspace.cwd


def read(context: ToolContext, path: str | Path, **more: int) -> str:
    return str(read_file.run(context, str(path), **more))


def shown(answer: str) -> list[tuple[int, str]]:
    """The numbered lines of an answer."""
    lines = [line.partition("|") for line in answer.split("\n")[1:] if "|" in line]
    return [(int(number), text) for number, _, text in lines]


def test_a_short_file_comes_whole(context: ToolContext, folder: Path) -> None:
    (folder / "x.txt").write_text("one\n\tthree | four\n\nlast")
    answer = read(context, "x.txt")
    assert answer.startswith(f"{folder / 'x.txt'} (whole file)\n     1|one\n")
    assert shown(answer) == [(1, "one"), (2, "\tthree | four"), (3, ""), (4, "last")]


def test_ranges_tell_the_total_and_how_to_go_on(context: ToolContext, folder: Path) -> None:
    (folder / "x.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    answer = read(context, "x.txt", offset=10, limit=3)
    assert "lines 10-12 of 1,000" in answer
    assert shown(answer) == [(10, "line 10"), (11, "line 11"), (12, "line 12")]
    assert answer.endswith("[… 988 more lines; go on with offset=13 …]")
    assert "go on" not in read(context, "x.txt", offset=999)
    with pytest.raises(ToolError, match="has 1,000 lines; there is no line 1,001"):
        read(context, "x.txt", offset=1001)
    with pytest.raises(ToolError, match="offset"):
        read(context, "x.txt", offset=-1)


def test_an_answer_is_bounded_however_much_is_asked_for(context: ToolContext, folder: Path) -> None:
    (folder / "x.txt").write_text(("y" * 999 + "\n") * 5_000)
    answer = read(context, "x.txt", limit=10**9)
    assert len(answer) < read_file.max_output
    assert "more lines; go on with offset=" in answer


def test_long_lines_are_cut_with_a_note(context: ToolContext, folder: Path) -> None:
    (folder / "x.min.js").write_text("a" * 1_000_000 + "\nb\n")
    lines = shown(read(context, "x.min.js"))
    assert lines[0][1].endswith("a [… 998,000 more characters in this line …]")
    assert lines[1] == (2, "b")


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\0"), max_size=9)),
    ended=st.booleans(),
    offset=st.integers(1, 12),
    limit=st.integers(1, 12),
)
def test_any_range_of_any_text(
    context: ToolContext, folder: Path, lines: list[str], ended: bool, offset: int, limit: int
) -> None:
    text = "\n".join(lines) + ("\n" if ended else "")
    (folder / "x.txt").write_bytes(b"." + text.encode())
    expected = ("." + text).split("\n")
    if not expected[-1]:
        expected.pop()
    try:
        answer = read(context, "x.txt", offset=offset, limit=limit)
    except ToolError:
        assert offset > len(expected)
        return
    wanted = [(n, line.removesuffix("\r")) for n, line in enumerate(expected, 1)]
    first = answer.index("\n")
    body = answer[first + 1 :].split("\n[… ")[0]
    assert body == "\n".join(f"{n:>6}|{t}" for n, t in wanted[offset - 1 : offset - 1 + limit])


@pytest.mark.parametrize(
    ("data", "text", "note"),
    [
        ("é\n".encode(), "é", "(whole file)"),
        (b"\xef\xbb\xbfx\n", "x", "UTF-8 with a byte order mark"),
        ("é x\n".encode("utf-16"), "é x", "UTF-16"),
        (b"\xfe\xff" + "é x\n".encode("utf-16-be"), "é x", "UTF-16"),
        ("caf\xe9 und mehr\n".encode("latin-1"), "caf\xe9 und mehr", "Latin-1"),
        (b"a\r\nb\r\n", "a", "CRLF line ends"),
        (b"\x1b[31mred\x1b[0m\n", "\x1b[31mred\x1b[0m", "(whole file)"),
        ("a\u2028b\x0cc\n".encode(), "a\u2028b\x0cc", "(whole file)"),
    ],
)
def test_encodings(context: ToolContext, folder: Path, data: bytes, text: str, note: str) -> None:
    (folder / "x.txt").write_bytes(data)
    answer = read(context, "x.txt")
    assert shown(answer)[0] == (1, text)
    assert note in answer.split("\n")[0]


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "PNG image, 58 bytes. An image cannot"),
        (b"%PDF-1.7\nno zero bytes", "PDF document"),
        (b"\x7fELF\x02\x01", "ELF program"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "WebP image"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"abc\0def", "binary data of unknown type"),
        (bytes(range(1, 32)) * 9 + b"\xff", "binary data of unknown type"),
    ],
)
def test_binary_files_are_described(
    context: ToolContext, folder: Path, data: bytes, kind: str
) -> None:
    (folder / "x").write_bytes(data)
    assert kind in read(context, "x")


def test_text_that_begins_like_a_binary_format(context: ToolContext, folder: Path) -> None:
    (folder / "x.txt").write_text("BZhello\n")
    assert shown(read(context, "x.txt")) == [(1, "BZhello")]


def test_an_empty_file_and_a_folder(context: ToolContext, folder: Path) -> None:
    (folder / "empty").touch()
    assert read(context, "empty").endswith("is empty.")
    (folder / "sub").mkdir()
    (folder / "link").symlink_to("sub")
    (folder / "b.txt").write_text("12345")
    assert read(context, ".").split("\n")[1:] == [
        "b.txt  5 bytes",
        "empty  0 bytes",
        "link -> sub",
        "sub/",
    ]
    assert "go on with offset=3" in read(context, ".", limit=2)
    assert "empty folder" in read(context, "sub")


def test_a_missing_file_names_what_is_near(context: ToolContext, folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src" / "Config.py").touch()
    with pytest.raises(ToolError, match=r"Near it: .*/src/Config\.py"):
        read(context, "src/confg.py")
    with pytest.raises(ToolError, match=r"there is no 'scr' in .*Near it: .*/src\."):
        read(context, "scr/config.py")
    with pytest.raises(ToolError, match="search_files"):
        read(context, "zzz")
    (folder / "plain").touch()
    with pytest.raises(ToolError, match="does not exist"):
        read(context, "plain/below")


# A file of many gigabytes, which takes no room on the disk.


def make_huge(path: Path, head: bytes, size: int = 5_000_000_000) -> None:
    with path.open("wb") as file:
        file.write(head)
        file.truncate(size)


def test_a_huge_file_is_read_as_far_as_needed(context: ToolContext, folder: Path) -> None:
    head = b"".join(b"line %d\n" % n for n in range(1, 200_001))
    make_huge(folder / "x.log", head)
    answer = read(context, "x.log", offset=150_000, limit=2)
    assert shown(answer) == [(150_000, "line 150000"), (150_001, "line 150001")]
    assert "of a file of 5.0 GB" in answer
    assert "go on with offset=150002" in answer
    answer = read(context, "x.log", offset=200_000, limit=10)
    assert shown(answer)[0] == (200_000, "line 200000")
    assert "line 200,001 is longer than 16.8 MB" in answer


def test_a_huge_file_takes_little_memory(context: ToolContext, folder: Path) -> None:
    make_huge(folder / "x.log", b"head\n" + b"text " * 20_000)
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from tools.base import ToolContext, Workspace; from tools.files.read import read_file\n"
        "context = ToolContext('s', 'c', workspace=Workspace(Path(sys.argv[1]), Path.cwd()))\n"
        "resource.setrlimit(resource.RLIMIT_AS, (400_000_000, 400_000_000))\n"
        "print(read_file.run(context, 'x.log'))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", script, str(context.workspace.home)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "     1|head" in answer
    assert "longer than" in answer


def test_a_huge_binary_file_is_described(context: ToolContext, folder: Path) -> None:
    make_huge(folder / "disk.img", b"\x7fELF")
    assert "ELF program or library, 5.0 GB" in read(context, "disk.img")


def test_cancelling_ends_a_long_read(context: ToolContext, folder: Path) -> None:
    make_huge(folder / "x.log", b"a\n" * 100_000, 10**13)
    failures: list[str] = []

    def run() -> None:
        try:
            read(context, "x.log", offset=10**9)
        except ToolError as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    context.cancelled.set()
    thread.join(60)
    assert failures == ["Stopped."]


# What must never be opened.


def test_pipes_devices_and_sockets_are_refused(context: ToolContext, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        for path, kind in [
            ("pipe", "a named pipe"),
            ("link", "a named pipe"),
            ("socket", "a socket"),
            ("/dev/zero", "a device"),
            ("/dev/stdin", "not"),
        ]:
            with pytest.raises(ToolError, match=kind):
                read(context, path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, which only Linux has")
@pytest.mark.parametrize(
    "path",
    ["/proc/self/environ", "/proc/kmsg", "/proc/self/mem", "/proc/1/../self/maps", "/proc/cpuinfo"],
)
def test_the_kernels_files_are_refused(context: ToolContext, folder: Path, path: str) -> None:
    with pytest.raises(ToolError, match="pseudo file"):
        read(context, path)
    (folder / "innocent.txt").symlink_to(path)
    with pytest.raises(ToolError, match="pseudo file"):
        read(context, "innocent.txt")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, which only Linux has")
def test_an_open_file_is_not_reached_through_proc(context: ToolContext, folder: Path) -> None:
    path = folder / "deleted"
    with path.open("w+") as file:
        file.write("gone")
        path.unlink()
        with pytest.raises(ToolError):
            read(context, f"/proc/self/fd/{file.fileno()}")


def test_loops_and_odd_paths_are_refused(context: ToolContext, folder: Path) -> None:
    (folder / "loop").symlink_to("loop")
    for path in ("loop", "", " ", "a\0b", "~nobody-of-that-name/x", "\ud800", "x" * 5_000):
        with pytest.raises(ToolError):
            read(context, path)


def test_the_store_of_hermes_is_not_opened(context: ToolContext, folder: Path) -> None:
    home = context.workspace.home
    with SessionDB(home / "state.db") as db:
        db.create_session("s1", "test")
        for path in [p for p in home.iterdir() if p.name.startswith("state.db")]:
            (folder / "alias").unlink(missing_ok=True)
            (folder / "alias").hardlink_to(path)
            for name in (path, "alias"):
                with pytest.raises(ToolError, match="only Hermes may open"):
                    read(context, name)
