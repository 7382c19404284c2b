"""Whatever a command prints becomes clean text in bounded memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.terminal import output as terminal_output
from tools.terminal.output import Cleaner, KeptFile, OutputBuffer, Progress, Tail
from tools.terminal.remote import TrailerFilter

# Pieces that are easily torn: escape sequences, line ends, characters of several bytes.
PIECES = st.lists(
    st.sampled_from(
        [
            b"\x1b[31m", b"\x1b[0m", b"\x1b]0;title\x07", b"\x1b]8;;http://x\x1b\\", b"\x1b(B",
            b"\x1b", b"\x1bP1$r\x1b\\", "é".encode(), "🜚".encode(), b"\xff", b"\xe2\x82", b"\r\n",
            b"\r", b"\n", b"\x00", b"\x07", b"text", b"a b", b"\xc2\x9b1m", b"\t",
        ]
    )
)  # fmt: skip


def clean(data: bytes) -> str:
    return Cleaner().feed(data, end=True)


@given(PIECES, st.data())
def test_where_the_bytes_are_cut_makes_no_difference(
    pieces: list[bytes], data: st.DataObject
) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    cleaner, text = Cleaner(), ""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        text += cleaner.feed(whole[start:end])
    assert text + cleaner.feed(b"", end=True) == clean(whole)


@given(PIECES)
def test_no_control_character_is_left(pieces: list[bytes]) -> None:
    text = clean(b"".join(pieces))
    assert all(char in "\n\t" or (char >= " " and not "\x7f" <= char <= "\x9f") for char in text)


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m", "red"),
        (b"\x1b]0;my title\x07after", "after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b[?25l\x1b[2K\x1b[1Gdone", "done"),
        (b"\x1b(Bplain\x1b=", "plain"),
        (b"10%\r20%\r\nend", "10%\n20%\nend"),
        (b"a\x00b\x07", "ab"),
        (b"caf\xc3\xa9 \xff", "café \ufffd"),
        (b"tab\there\n", "tab\there\n"),
    ],
)
def test_escape_sequences_and_control_characters_go(printed: bytes, text: str) -> None:
    assert clean(printed) == text


def test_an_escape_sequence_that_never_ends_does_not_swallow_the_output() -> None:
    cleaner = Cleaner()
    text = cleaner.feed(b"\x1b]0;" + b"x" * 10_000) + cleaner.feed(b"y" * 10_000)
    assert (text + cleaner.feed(b"", end=True)).count("y") == 10_000


def test_short_output_is_given_whole_and_no_file_is_made(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path / "kept", "terminal")
    assert buffer.feed(b"one\n") == "one\n"
    buffer.feed(b"two\n")
    assert buffer.finish() == "one\ntwo\n"
    assert not (tmp_path / "kept").exists()


@given(st.lists(st.integers(1, 30_000), max_size=12))
def test_long_output_keeps_head_tail_and_all_of_it_in_a_file(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    buffer = OutputBuffer(tmp_path_factory.mktemp("out"), "terminal")
    whole = ""
    for number, size in enumerate(sizes):
        piece = f"{number % 10}" * size
        whole += piece
        buffer.feed(piece.encode())
    text = buffer.finish()
    if len(whole) <= terminal_output.HEAD + terminal_output.TAIL:
        assert text == whole
        return
    head, note, tail = text.split("\n\n")
    assert whole.startswith(head)
    assert whole.endswith(tail)
    path = Path(note.split("read_file ")[1].split(" ")[0])
    assert path.read_text() == whole
    assert f"{len(whole) - len(head) - len(tail):,} characters" in note


def test_the_file_has_a_limit_and_is_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal_output, "FILE_LIMIT", 100_000)
    buffer = OutputBuffer(tmp_path / "kept", "terminal")
    for number in range(20_000):
        buffer.feed(b"line %05d\n" % number)
    text = buffer.finish()
    assert text.startswith("line 00000\n")
    assert text.endswith("line 19999\n")
    assert "shows the first 100,000" in text
    (path,) = (tmp_path / "kept").iterdir()
    assert path.stat().st_size == 100_000
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_folder_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_output, "FOLDER_LIMIT", 250)
    paths = []
    for number in range(5):
        file = KeptFile(tmp_path, f"run{number}")
        file.write("x" * 100)
        file.close()
        paths.append(file.path)
    assert [path.exists() for path in paths] == [False, False, True, True, True]


def test_the_tail_of_an_endless_stream_is_bounded() -> None:
    tail = Tail(1_000)
    for number in range(10_000):
        tail.add(b"line %d\n" % number)
    assert tail.text().endswith("line 9999\n")
    assert tail.text().startswith("line ")
    assert len(tail.text()) <= 1_000


def test_progress_comes_in_bounded_pieces_and_the_last_one_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(terminal_output.time, "monotonic", lambda: now)
    shown: list[str] = []
    progress = Progress(shown.append)
    progress.add("first")
    progress.add("x" * 10_000)
    progress.add("end")
    assert shown == ["first"]
    now += 0.2
    progress.add("")
    assert len(shown) == 2
    assert shown[1].startswith("…\n")
    assert shown[1].endswith("end")
    assert len(shown[1]) <= Progress.PIECE + 2


@given(st.binary(max_size=60), st.binary(max_size=60), st.lists(st.integers(0, 200), max_size=6))
def test_the_trailer_is_found_however_it_is_cut(
    output: bytes, content: bytes, cuts: list[int]
) -> None:
    start, content = b"\x1eHERMES:abc:", content.replace(b"\x1e", b"")
    whole = output.replace(start, b"") + start + content + b"\x1e" + b"late"
    divided, printed = TrailerFilter(start), b""
    edges = sorted({min(cut, len(whole)) for cut in cuts})
    for begin, end in zip([0, *edges], [*edges, len(whole)], strict=True):
        printed += divided.feed(whole[begin:end])
    assert printed + divided.rest() == output.replace(start, b"")
    assert divided.complete
    assert divided.trailer == start + content


@given(st.lists(st.sampled_from([b"\x1e", b"HERMES", b":", b"abc", b"x"]), max_size=20))
def test_output_without_a_trailer_passes_unchanged(pieces: list[bytes]) -> None:
    divided = TrailerFilter(b"\x1eHERMES:abc:x!")
    assert b"".join(map(divided.feed, pieces)) + divided.rest() == b"".join(pieces)
