"""The end of the program waits for nothing that is done beside the conversation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_side_work_that_never_ends_does_not_keep_the_program(tmp_path: Path) -> None:
    child = Path(__file__).with_name("learning_child.py")
    ended = subprocess.run(
        [sys.executable, str(child), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split("\n")[:2] == ["ok", "Plan the garden"]
