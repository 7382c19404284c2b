"""Models for search by meaning: fetched once and checked, or asked at a server, or in a file."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agent.config.schema import SearchSettings
from agent.meaning import fetch
from agent.meaning.choose import ChosenModel, missing
from agent.meaning.fetch import Member, ensure_model, has_model, model_folder
from agent.meaning.file_model import FileModel
from agent.meaning.served import ServedModel
from agent.meaning.static_model import Pieces, StaticModel
from agent.providers.embedded_fetch import ensure_weights
from agent.store import open_store
from hermes_state import EmbedderError

from ..embeddings_server import embeddings_server
from .test_embedded_fetch import wheel

VOCABULARY = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
VOCABULARY += ["▁", "a", "b", "c", "▁a", "ab", "▁ab", "bc", "▁▁"]
MERGES = ["▁ a", "a b", "▁a b", "b c", "▁ ▁"]


def tokenizer() -> bytes:
    vocabulary = {piece: number for number, piece in enumerate(VOCABULARY)}
    return json.dumps({"model": {"vocab": vocabulary, "merges": MERGES}}).encode()


def table() -> bytes:
    rows = np.arange(len(VOCABULARY) * 4, dtype=np.float16).reshape(-1, 4)
    place = {"dtype": "F16", "shape": list(rows.shape), "data_offsets": [0, rows.nbytes]}
    header = json.dumps({"embedding.weight": place, "__metadata__": {}}).encode()
    return len(header).to_bytes(8, "little") + header + rows.tobytes()


CONTENTS = {"tokenizer.json": tokenizer(), "vectors.safetensors": table()}


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source, and a small model that may be fetched from it."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    small = [
        Member(member.path, member.name, len(content), hashlib.sha256(content).hexdigest())
        for member in fetch.MEMBERS
        for content in [CONTENTS[member.name]]
    ]
    monkeypatch.setattr(fetch, "MEMBERS", tuple(small))
    return folder


def offer(packages: Path, **contents: bytes) -> None:
    files = {member.path: CONTENTS[member.name] for member in fetch.MEMBERS}
    files |= {path: content for path in files for content in contents.values()}
    wheel(packages, "wordllama", "0.4.0.post1", files)


def test_the_model_is_fetched_once_checked_and_private(packages: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert not has_model(home)
    offer(packages)
    folder = ensure_model(home)
    assert folder == model_folder(home)
    assert {path.name for path in folder.iterdir()} == CONTENTS.keys()
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert has_model(home)
    for package in packages.iterdir():
        package.unlink()
    assert ensure_model(home) == folder


def test_another_model_under_its_name_is_thrown_away(packages: Path, tmp_path: Path) -> None:
    offer(packages, other=bytes(len(CONTENTS["tokenizer.json"])))
    with pytest.raises(EmbedderError, match=r"checksum|bytes"):
        ensure_model(tmp_path / "home")
    assert not has_model(tmp_path / "home")


def test_no_network_is_said(packages: Path, tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="search by meaning is missing") as caught:
        ensure_model(tmp_path / "home")
    assert "OPENAI_API_KEY" not in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENTS.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab", ["▁ab"]), ("abc", ["▁ab", "c"]), ("a  ab", ["▁a", "▁", "▁ab"]), ("bc", ["▁", "bc"]),
        ("", []), (" ", ["▁▁"]), ("é", ["▁", "<0xC3>", "<0xA9>"]), ("\udcff", ["▁", "<0x3F>"]),
    ],
)  # fmt: skip
def test_texts_are_divided_into_pieces(folder: Path, text: str, pieces: list[str]) -> None:
    numbers = Pieces(folder / "tokenizer.json").of(text)
    assert [VOCABULARY[number] for number in numbers] == pieces


def test_a_text_is_the_sum_of_its_pieces(folder: Path) -> None:
    model = StaticModel(folder)
    one, two, nothing = model.embed(["ab", "ab ab", ""])
    assert list(two) == [2 * number for number in one]
    assert not nothing.any()
    assert len(model.embed(["x" * 100_000])[0]) == 4


@pytest.fixture
def server() -> Iterator[Any]:
    with embeddings_server() as one:
        yield one


def test_a_damaged_model_is_explained(folder: Path) -> None:
    (folder / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(EmbedderError, match="fetched again"):
        StaticModel(folder).embed(["a"])


def test_a_server_is_asked_for_many_texts_at_once(server: Any) -> None:
    model = ServedModel("tiny", server.url, "k", prefixes=("passage: ", "query: "))
    assert model.embed(["a", "bb"]) == [[10.0, 1.0], [11.0, 1.0]]
    assert model.embed(["a"], is_question=True) == [[8.0, 1.0]]
    assert server.asked[0] == {
        "model": "tiny", "input": ["passage: a", "passage: bb"], "key": "Bearer k",
        "path": "/v1/embeddings",
    }  # fmt: skip
    assert len(model.embed(["x"] * 100)) == 100
    assert [len(asked["input"]) for asked in server.asked[2:]] == [64, 36]
    assert model.name != ServedModel("tiny", server.url).name


@pytest.mark.parametrize(
    ("status", "reply"),
    [(500, {"error": "no"}), (200, {"data": []}), (200, []), (200, {"data": [{"index": 0}]}),
     (200, {"data": [{"index": 0, "embedding": "no"}]})],
)  # fmt: skip
def test_a_server_without_a_usable_answer_is_an_error(server: Any, status: int, reply: Any) -> None:
    server.status, server.reply = status, reply
    with pytest.raises(EmbedderError, match=r"127\.0\.0\.1"):
        ServedModel("tiny", server.url).embed(["a"])


def test_no_server_is_an_error() -> None:
    for url in ("http://127.0.0.1:9/v1", "nonsense", ""):
        with pytest.raises(EmbedderError):
            ServedModel("tiny", url, timeout=2.0).embed(["a"])


def test_a_file_is_run_inside_the_process(model_cache: Path, tmp_path: Path) -> None:
    model = FileModel(ensure_weights(model_cache), model_cache)
    one, same, other = model.embed(["The roof leaks", "The roof leaks", "Rain"])
    assert one == same and one != other and len(one) == len(other)
    model.close()
    with pytest.raises(EmbedderError, match="shutting down"):
        model.embed(["a"])


def test_a_file_that_is_not_there_or_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="no file"):
        FileModel(tmp_path / "none.gguf", tmp_path).embed(["a"])
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and nothing more")
    with pytest.raises(EmbedderError, match="could not be loaded"):
        FileModel(tmp_path / "bad.gguf", tmp_path).embed(["a"])


def test_which_model_is_chosen(tmp_path: Path, server: Any) -> None:
    def chosen(**settings: Any) -> Any:
        return ChosenModel(tmp_path, SearchSettings(**settings))()

    assert chosen() is None  # it was not fetched
    assert chosen(model="tiny") is None
    assert "base_url" in missing(SearchSettings(model="tiny"))
    assert isinstance(chosen(model="tiny", base_url=server.url), ServedModel)
    assert chosen(model="tiny", base_url=server.url, meaning="off") is None
    assert isinstance(chosen(model="any.gguf"), FileModel)


def test_a_home_with_the_model_uses_it(packages: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    offer(packages)
    with open_store(home) as db:
        session = db.create_session("s", "cli")
        db.append_message(session, "user", "ab ab")
        assert db.search_index.meaning is not None
        db.search_messages("bc")
        assert db.search_index.meaning.status() is None
        ensure_model(home)
        db.search_messages("bc")
        status = db.search_index.meaning.status()
        assert status is not None and status.stored == 1


def test_it_is_fetched_in_the_background_if_it_is_wanted(packages: Path, tmp_path: Path) -> None:
    offer(packages)
    choice = ChosenModel(tmp_path / "home", SearchSettings(meaning="on"))
    assert choice() is None
    assert choice._fetching is not None
    choice._fetching.join(60)
    assert isinstance(choice(), StaticModel)
