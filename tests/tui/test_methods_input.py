"""What belongs to the input line: images, files, pastes, drops, paths."""

from __future__ import annotations

import base64
import os
import stat
from pathlib import Path

import pytest
from method_calls import Gateway

from hermes_state import BucketSettings
from tools.objects import find_file
from tui_gateway.media import MAX_IMAGE, MAX_IMAGES, image_kind
from tui_gateway.paths import split_path

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def as_text(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "png"),
        (b"\xff\xd8\xff\xe0rest", "jpeg"),
        (b"GIF89a....", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", None),
        (b"<svg onload=alert(1)>", None),
        (b"", None),
    ],
)
def test_images_are_told_by_their_content(data: bytes, kind: str | None) -> None:
    assert image_kind(data) == kind


def test_an_image_goes_with_the_next_message_only(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    (tmp_path / "my picture.jpg").write_bytes(PNG)
    done = gateway.call(
        "image.attach", session_id=sid, path=f"'{tmp_path}/my picture.jpg' what is it?"
    )
    assert (done["count"], done["remainder"], done["bytes"]) == (1, "what is it?", len(PNG))
    gateway.ask(sid, "what is it?")
    content = gateway.model.requests[-1].messages[-1]["content"]
    # It is a PNG, whatever its name says.
    assert content[1]["image_url"]["url"] == f"data:image/png;base64,{as_text(PNG)}"
    gateway.ask(sid, "and now?")
    assert gateway.model.requests[-1].messages[-1]["content"] == "and now?"


def test_images_are_detached(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    (tmp_path / "a.png").write_bytes(PNG)
    path = gateway.call("image.attach", session_id=sid, path="a.png")["path"]
    assert gateway.call("image.attach", session_id=sid, path="a.png")["count"] == 1, "only once"
    gone = gateway.call("image.detach", session_id=sid, path=path)
    assert gone == {"detached": True, "count": 0}
    assert gateway.call("image.detach", session_id=sid, path=path)["detached"] is False


def test_files_that_are_no_images(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    (tmp_path / "a.png").write_text("text")
    os.mkfifo(tmp_path / "pipe.png")
    with (tmp_path / "huge.png").open("wb") as file:
        file.write(PNG)
        file.truncate(MAX_IMAGE + 1)
    gateway.ask(sid, "so that there is a store")
    for name, code in {
        "a.png": 4016,
        "nosuch.png": 4016,
        "pipe.png": 4016,
        "": 4015,
        ".": 4016,
        "huge.png": 4017,
        str(gateway.home / "state.db"): 4016,
    }.items():
        refusal = gateway.refused("image.attach", session_id=sid, path=name)
        assert refusal.code == code, (name, refusal)
    assert gateway.live(sid)["attached_images"] == []


def test_bytes_are_kept_private(gateway: Gateway) -> None:
    sid = gateway.open()
    done = gateway.call(
        "image.attach_bytes",
        session_id=sid,
        data=f"data:image/jpeg;base64,{as_text(PNG)}",
        filename="../../../evil name.exe",
    )
    path = Path(done["path"])
    assert path.parent == gateway.home / "images" and path.suffix == ".png"
    assert path.read_bytes() == PNG and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_bytes_that_cannot_be_attached(gateway: Gateway) -> None:
    sid = gateway.open()
    for params, code in (
        ({}, 4015),
        ({"content_base64": "no base64!"}, 4017),
        ({"content_base64": as_text(b"text")}, 4018),
        ({"data": "data:image/png,raw"}, 4017),
        ({"content_base64": "A" * (MAX_IMAGE * 4 // 3 + 2000)}, 4017),
    ):
        assert gateway.refused("image.attach_bytes", session_id=sid, **params).code == code
    for _ in range(MAX_IMAGES):
        gateway.call("image.attach_bytes", session_id=sid, content_base64=as_text(PNG))
    before = len(list((gateway.home / "images").iterdir()))
    refusal = gateway.refused("image.attach_bytes", session_id=sid, content_base64=as_text(PNG))
    assert refusal.code == 4017
    assert len(list((gateway.home / "images").iterdir())) == before, "nothing is left behind"


def test_files_by_path_and_sent_along(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    (tmp_path / "notes.txt").write_text("notes")
    done = gateway.call("file.attach", session_id=sid, path="notes.txt")
    assert done["path"] == str(tmp_path / "notes.txt") and not done["uploaded"]
    assert done["ref_text"] == f"`{tmp_path / 'notes.txt'}`"
    sent = gateway.call(
        "file.attach",
        session_id=sid,
        name="../x/../notes.txt",
        data_url=f"data:text/plain;base64,{as_text(b'sent')}",
    )
    assert sent["uploaded"] and Path(sent["path"]).read_bytes() == b"sent"
    assert Path(sent["path"]).parent == gateway.home / "uploads"
    assert gateway.refused("file.attach", session_id=sid, path="nosuch").code == 4016
    assert gateway.refused("file.attach", session_id=sid).code == 4015


def a_pdf(*texts: str) -> bytes:
    """A small PDF with a page for each text."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(texts)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>".encode(),
    ]
    for number, text in enumerate(texts):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * number} 0 R"
            " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
            " >> >> >>".encode(),
            b"<< /Length %d >>\nstream\n%b\nendstream" % (len(stream), stream),
        ]
    made = bytearray(b"%PDF-1.4\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%b\nendobj\n" % (number, content)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        start,
    )
    return bytes(made)


def test_the_text_of_a_pdf(gateway: Gateway, tmp_path: Path) -> None:
    pytest.importorskip("pypdf")
    sid = gateway.open()
    (tmp_path / "paper.pdf").write_bytes(a_pdf("First page", "Second page", "Third page"))
    done = gateway.call("pdf.attach", session_id=sid, path="paper.pdf", first_page=2, last_page=2)
    assert (done["pages"], done["pages_attached"], done["filename"]) == (3, 1, "paper.pdf")
    assert done["text"] == "[paper.pdf, 1 pages]\n[page 2]\nSecond page"
    assert Path(done["path"]).read_text() == "[page 2]\nSecond page"
    sent = gateway.call("pdf.attach", session_id=sid, content_base64=as_text(a_pdf("Sent")))
    assert "Sent" in sent["text"]
    for params, code in (
        ({"path": "paper.pdf", "first_page": 9}, 4019),
        ({"path": "paper.pdf", "first_page": 0}, 4019),
        ({"content_base64": as_text(PNG)}, 4018),
        ({"content_base64": as_text(b"%PDF-1.4\nbroken")}, 4017),
        ({"path": "nosuch.pdf"}, 4016),
        ({}, 4015),
    ):
        assert gateway.refused("pdf.attach", session_id=sid, **params).code == code


def test_pastes_are_put_aside(gateway: Gateway) -> None:
    text = "line\n" * 500
    done = gateway.call("paste.collapse", text=text)
    assert done["lines"] == 501 and done["path"] in done["placeholder"]
    assert Path(done["path"]).read_text() == text
    assert stat.S_IMODE(Path(done["path"]).stat().st_mode) == 0o600
    assert gateway.refused("paste.collapse", text=" \n").code == 4004


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("{folder}/a b.txt", ""),
        ("'{folder}/a b.txt' look", "look"),
        ('"{folder}/a b.txt"', ""),
        ("{folder}/a\\ b.txt and more", "and more"),
        ("file://{folder}/a%20b.txt", ""),
        ("./a\\ b.txt", ""),
    ],
)
def test_paths_as_terminals_drop_them(tmp_path: Path, text: str, rest: str) -> None:
    (tmp_path / "a b.txt").write_text("x")
    found = split_path(text.format(folder=tmp_path), tmp_path)
    assert found == (tmp_path / "a b.txt", rest)


@pytest.mark.parametrize("text", ["a b.txt", "'unclosed", "", "file://host/a", "/nosuch", "~x/a"])
def test_texts_that_are_no_paths(tmp_path: Path, text: str) -> None:
    (tmp_path / "a b.txt").write_text("x")
    assert split_path(text, tmp_path)[0] is None


def test_drops(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.txt").write_text("text")
    image = gateway.call("input.detect_drop", session_id=sid, text=f"{tmp_path}/a.png ")
    assert image["matched"] and image["is_image"] and (image["text"], image["count"]) == ("", 1)
    file = gateway.call("input.detect_drop", session_id=sid, text=f"{tmp_path}/b.txt sum it up")
    assert file["matched"] and not file["is_image"]
    assert file["text"] == f"`{tmp_path}/b.txt` sum it up"
    words = gateway.call("input.detect_drop", session_id=sid, text="b.txt is a file")
    assert not words["matched"] and words["text"] == "b.txt is a file"


def test_paths_are_completed(gateway: Gateway, tmp_path: Path) -> None:
    sid = gateway.open()
    work = tmp_path / "work"
    (work / "Source").mkdir(parents=True)
    (work / "sum.txt").write_text("")
    (work / ".hidden").write_text("")

    def texts(word: str) -> list[str]:
        found = gateway.call("complete.path", word=word, session_id=sid)["items"]
        return [one["text"] for one in found]

    assert texts("work/s") == ["work/Source/", "work/sum.txt"]
    assert texts("@work/su") == ["@work/sum.txt"]
    assert texts("work/.") == ["work/.hidden"]
    assert texts(f"{work}/") == [f"{work}/Source/", f"{work}/sum.txt"]
    assert texts("nosuch/") == texts("~nobody/x") == texts("\0/") == []


@pytest.mark.postgres
def test_what_is_sent_along_is_put_into_a_store_that_machines_share(
    gateway: Gateway, tmp_path: Path
) -> None:
    """It is the conversation's it was sent to, whoever else names it."""
    first, second = gateway.open(), gateway.open()
    data = f"data:text/plain;base64,{as_text(b'sent')}"
    sent = gateway.call("file.attach", session_id=first, name="notes (1).txt", data_url=data)
    pasted = gateway.call("paste.collapse", text="long\ntext")
    gateway.ask(first, f"What is in {sent['ref_text']} and {pasted['placeholder']}?")
    gateway.ask(second, f"What is in {sent['ref_text']}?")
    db, elsewhere = gateway.server.get_db(), tmp_path / "another machine"
    for path, content in ((sent["path"], b"sent"), (pasted["path"], b"long\ntext")):
        name = Path(path).relative_to(gateway.home)
        there = find_file(db, elsewhere, f"/lost/{name}", gateway.key(first))
        assert there == elsewhere / name
        assert there.read_bytes() == content
        assert find_file(db, tmp_path / "third", f"/lost/{name}", gateway.key(second)) is None


@pytest.mark.postgres
def test_what_cannot_be_put_into_the_store_is_not_attached(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    sid = gateway.open()
    monkeypatch.setattr(gateway.server.get_db(), "bucket", BucketSettings(
        "http://127.0.0.1:1", "b", "r", "", "key", "secret"))  # fmt: skip
    monkeypatch.setattr("tools.objects.bucket._PAUSE", 0.0)
    data = f"data:text/plain;base64,{as_text(b'sent')}"
    refusal = gateway.refused("file.attach", session_id=sid, name="notes.txt", data_url=data)
    assert refusal.code == 5028
    assert "The bucket b at http://127.0.0.1:1 cannot be used" in str(refusal)
    assert list((gateway.home / "uploads").iterdir()) == []
