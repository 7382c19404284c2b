"""The pictures and tables of the architecture page say what the code says."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from agent.heartbeat import BEAT_SECONDS
from agent.rotation import HOLDERS
from conversation.abandoned import MAX_ATTEMPTS_WITHOUT_PROGRESS
from hermes_state import LEASE_SECONDS, schema

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "architecture.md").read_text(encoding="utf-8")


def texts_of(picture: str) -> list[ElementTree.Element]:
    """The texts of a picture, in order."""
    root = ElementTree.parse(DOCS / "images" / picture).getroot()
    return list(root.iter("{http://www.w3.org/2000/svg}text"))


def words_of(picture: str) -> list[str]:
    return [text.text or "" for text in texts_of(picture)]


def test_the_holders_of_a_session_id_are_those_of_the_page_and_of_the_picture() -> None:
    table = PAGE.partition("| Holder |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| ([a-z ]+) \|", table, re.MULTILINE) == list(HOLDERS)
    drawn = [text for text in words_of("way-of-a-rotation.svg") if re.match(r"\d\. ", text)]
    assert drawn == [f"{number}. {name}" for number, name in enumerate(HOLDERS, 1)]


def test_the_figures_of_a_take_over() -> None:
    drawn = " ".join(words_of("way-of-a-take-over.svg"))
    assert f"a heartbeat every {BEAT_SECONDS:g} s" in drawn
    assert f"no heartbeat for {LEASE_SECONDS:g} s" in drawn
    assert f"for {LEASE_SECONDS:g} seconds" in PAGE
    assert MAX_ATTEMPTS_WITHOUT_PROGRESS == 3 and "three processes got nowhere" in PAGE


def test_the_picture_of_the_tables_has_every_column_of_our_own() -> None:
    boxes: dict[str, str] = {}
    name = ""
    for text in texts_of("tables.svg"):
        if "mono" in text.attrib["class"]:
            name = text.text or ""
        boxes[name] = f"{boxes.get(name, '')} {text.text}"
    own = re.findall(r"^- (\w+)\.(\w+) ", schema.__doc__ or "", re.MULTILINE)
    assert len(own) > 5
    assert [f"{table}.{column}" for table, column in own if column not in boxes[table]] == []
