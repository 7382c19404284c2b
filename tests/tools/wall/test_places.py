"""Every place on the lists is hidden where it is there, however little of a home can be seen."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tools.wall import places


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(places, "homes", lambda: (tmp_path / "nobody", tmp_path))
    return tmp_path.resolve()


def hidden(home: Path) -> set[Path]:
    return {path for path in places.hidden_places(home / ".hermes", {}) if path.parent != Path("/")}


@pytest.mark.parametrize("is_listed", [True, False])
def test_every_place_that_is_there_is_hidden(
    home: Path, is_listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hidden(home)
    made = {home / place for place in places.HIDDEN_IN_HOME}
    for place in made:
        place.mkdir(parents=True, exist_ok=True)
    if not is_listed:
        monkeypatch.setattr(places.os, "listdir", closed)
    assert hidden(home) - before == made


def test_a_name_in_another_case_is_looked_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that does not tell them apart."""
    (home / ".ssh").mkdir()
    real = os.listdir
    monkeypatch.setattr(places.os, "listdir", lambda path: [name.upper() for name in real(path)])
    assert home / ".ssh" in hidden(home)


def closed(path: Any) -> list[str]:
    raise PermissionError(13, "Permission denied", str(path))
