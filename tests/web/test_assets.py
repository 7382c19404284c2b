"""The page's files: what is shipped, how much it is, and what may not be in it."""

from __future__ import annotations

import gzip
import hashlib
import json
import re

import pytest

from web.assets import STATIC, Assets

OWN = sorted(path for path in STATIC.glob("*.js"))
VENDORED = json.loads((STATIC / "vendor" / "vendor.json").read_text())
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|"
    r"dangerouslySetInnerHTML|srcdoc|createContextualFragment|setAttribute\(\s*[\"']on"
)
FIRST_LOAD = 75_000
EVERYTHING = 150_000


def packed(path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


@pytest.mark.parametrize("name", sorted(VENDORED))
def test_a_library_is_what_was_vendored(name: str) -> None:
    content = (STATIC / "vendor" / name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == VENDORED[name]["sha256"]
    assert f"======== {VENDORED[name]['package']}\n" in (STATIC / "vendor" / "LICENSES").read_text()


def test_every_library_is_listed() -> None:
    assert {path.name for path in (STATIC / "vendor").glob("*.js")} == set(VENDORED)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_no_text_can_become_code(path) -> None:
    assert SINKS.findall(path.read_text()) == []


@pytest.mark.parametrize("name", ["index.html", "enter.html"])
def test_a_document_has_nothing_inline(name: str) -> None:
    text = (STATIC / name).read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://", text)


def test_every_import_is_there_and_by_a_path() -> None:
    for path in (*OWN, *(STATIC / "vendor").glob("*.js")):
        text = path.read_text()
        for target in re.findall(r"""(?:from|import)\s*\(?\s*["']([^"']+)["']\s*\)?""", text):
            if path.parent != STATIC and not target.startswith("."):
                continue  # a word within a library
            assert target.startswith("./"), (path.name, target)
            assert (path.parent / target).exists(), (path.name, target)


def test_the_first_load_and_everything_are_small() -> None:
    assets = Assets()
    first = sum(packed(STATIC / name) for name in assets.first_load())
    everything = sum(packed(STATIC / name) for name in assets.names() if name.endswith(".js"))
    assert first <= FIRST_LOAD
    assert everything <= EVERYTHING


def test_the_shell_names_every_module_of_the_first_screen() -> None:
    assets = Assets()
    shell = assets.find("index.html")
    assert shell is not None
    for name in assets.first_load():
        assert f'href="/static/{assets.digest}/{name}"'.encode() in shell.content
    assert not {"code.js", "math.js", "vendor/temml.js"} & set(assets.first_load())
