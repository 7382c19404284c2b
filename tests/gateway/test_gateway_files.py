"""Files that came with messages do not stay for ever."""

from __future__ import annotations

import os
import time
from pathlib import Path

from .chats import gateway


def keep(folder: Path, name: str, days: float) -> Path:
    """A file that was not touched for so long."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(name)
    then = time.time() - days * 86_400
    os.utime(path, (then, then))
    return path


async def test_old_files_that_no_message_names_are_deleted(tmp_path: Path) -> None:
    folder = tmp_path / "media" / "local" / "1"
    async with gateway(tmp_path, session_store_max_age_days=30) as chats:
        await chats.ask("read this", media=[str(keep(folder, "plan.pdf", 31))])
        keep(folder, "picture.png", 31)
        keep(folder, "young.png", 29)
        assert await chats.runner.prune() == 1
        assert {path.name for path in folder.iterdir()} == {"plan.pdf", "young.png"}


async def test_files_are_deleted_when_they_are_too_old_or_too_many(tmp_path: Path) -> None:
    folder = tmp_path / "media" / "local" / "1"
    async with gateway(tmp_path, media_days=30, media_bytes=10) as chats:
        for name, days in (("one.txt", 31), ("two.txt", 2), ("six.txt", 1)):
            await chats.ask("read this", media=[str(keep(folder, name, days))])
        assert await chats.runner.prune() == 2
        assert {path.name for path in folder.iterdir()} == {"six.txt"}
