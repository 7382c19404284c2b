"""Masking in pieces comes to the same as masking the whole, however the text is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_base.redaction import MASK, redact
from tools import masking
from tools.masking import Masker
from tools.output import keep
from tools.terminal.output import KeptFile, OutputBuffer

# Put together here, so that no scanner takes this file for a leak.
BODY = "A1b2C3d4E5f6G7h8I9j0K1l2"
TOKEN = "sk-ant-" + BODY
KEY = f"-----BEGIN RSA PRIVATE KEY-----\n{BODY}\n{BODY}\n-----END RSA PRIVATE KEY-----"

PIECES = st.lists(
    st.sampled_from([
        TOKEN, KEY, "password=hunter22", 'token: "a b c d"', "Authorization: Bearer " + BODY,
        "https://joe:pw123456@host/", "Set-Cookie: a=b; c=d", "\n  password s3cr3t99\n",
        "\ndb:5432:app:joe:s3cr3t99\n", "\n", " ", "word", ", ", "x" * 40,
    ]),
    max_size=12,
)  # fmt: skip


def masked(text: str, cuts: list[int]) -> str:
    masker, done = Masker(), ""
    edges = sorted({min(cut, len(text)) for cut in cuts})
    for start, end in zip([0, *edges], [*edges, len(text)], strict=True):
        done += masker.feed(text[start:end])
    return done + masker.feed("", end=True)


@given(PIECES, st.lists(st.integers(0, 400), max_size=8))
@example(["Set-Cookie: a=b; c=d", KEY, TOKEN], [])
@example(["Set-Cookie: a=b; c=d", KEY, TOKEN], [60])
@example([KEY, " ", f"-----BEGIN PRIVATE KEY-----{MASK}", "word"], [140])
def test_where_text_is_cut_makes_no_difference(pieces: list[str], cuts: list[int]) -> None:
    text = "".join(pieces)
    assert masked(text, cuts) == redact(text)


@settings(max_examples=300)
@given(PIECES, st.integers(0, 1_200), st.integers(1, 300))
def test_secrets_in_a_line_without_end_go_too(pieces: list[str], before: int, step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(masking, "LONGEST_HELD", 1_000)
        patch.setattr(masking, "OVERLAP", 100)
        text = "ab " * (before // 3) + " ".join(pieces).replace("\n", " ") + " cd" * 400
        done = masked(text, list(range(0, len(text), step)))
    assert BODY[:20] not in done
    assert "hunter22" not in done
    assert "pw123456" not in done


def test_long_lines_are_cut_without_loss() -> None:
    for text in ("word " * 100_000, "QUJD" * 100_000, "f(a,b);" * 100_000):
        masker = Masker()
        done = [masker.feed(text[at : at + 10_000]) for at in range(0, len(text), 10_000)]
        assert len(masker._held) <= masking.LONGEST_HELD
        assert "".join(done) + masker.feed("", end=True) == text


def test_a_secret_longer_than_what_is_held_goes_as_a_whole() -> None:
    text = "password=" + "s3cr3t" * 100_000
    done = masked(f'{text}" after', list(range(0, len(text), 9_000)))
    assert "s3cr3t" not in done
    assert done.startswith(f"password={MASK}")
    assert done.endswith('" after')


def test_a_private_key_without_end_does_not_swallow_everything() -> None:
    text = "-----BEGIN PRIVATE KEY-----\n" + f"{BODY}\n" * 200 + "word\n" * 20_000
    done = masked(text, list(range(0, len(text), 1_000)))
    assert BODY not in done
    assert 10_000 < done.count("word") < 20_000


def test_small_pieces_of_a_long_line_are_not_copied_again_and_again() -> None:
    masker = Masker()
    assert "".join(masker.feed("x") for _ in range(masking.LONGEST_HELD)) == ""
    assert masker._held == ""  # nothing was joined yet: each join would copy all of it
    assert masker.feed("", end=True) == "x" * masking.LONGEST_HELD


def test_a_secret_on_its_way_to_a_file_is_masked(tmp_path: Path) -> None:
    file = KeptFile(tmp_path, "run")
    for piece in ("first ", TOKEN[:9], TOKEN[9:], "\npassword=hun"):
        file.write(piece)
    file.flush()
    assert file.path.read_text() == f"first sk-ant-{MASK}\n"
    file.write("ter22")
    file.close()
    assert file.path.read_text() == f"first sk-ant-{MASK}\npassword={MASK}"
    assert file.path.stat().st_mode & 0o777 == 0o600


def test_what_a_command_printed_is_kept_without_its_secrets(tmp_path: Path) -> None:
    buffer = OutputBuffer(tmp_path, "terminal")
    for number in range(9_000):
        buffer.feed(b"%d %s\n" % (number, TOKEN.encode()))
    text = redact(buffer.finish())  # as the engine does
    (path,) = tmp_path.iterdir()
    assert BODY[:12] not in path.read_text()
    assert path.read_text().count(MASK) == 9_000
    assert BODY[-8:] not in text  # also where head and tail are cut


def test_a_long_result_is_kept_without_its_secrets(tmp_path: Path) -> None:
    path = keep(f"got {TOKEN} back", tmp_path, "tool")
    assert path.read_text() == f"got sk-ant-{MASK} back"
