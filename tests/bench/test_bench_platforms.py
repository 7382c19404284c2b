"""The benchmark of platforms runs, and its findings have the right shape. No figure is judged."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bench import platforms
from bench.lab import Lab

pytestmark = pytest.mark.by_name


@contextmanager
def missing(folder: Path) -> Iterator[dict[str, Any]]:
    raise platforms.AbsentError("install the server")
    yield {}


def test_each_platform_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    services = {"telegram": platforms.SERVICES["telegram"], "pager": missing}
    monkeypatch.setattr(platforms, "SERVICES", services)
    monkeypatch.setattr(platforms, "QUIET_SECONDS", 0.1)
    telegram, pager = platforms.memory(Lab(tmp_path, True, None))
    assert telegram.row is not None and telegram.row.key == "platforms.telegram"
    assert len(telegram.row.samples["ours"]) == 1 and "MB more" in telegram.ours
    assert pager.ours == "not measured: install the server" and pager.row is None
    json.dumps([telegram.details, pager.details])
