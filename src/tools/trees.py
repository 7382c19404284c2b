"""Delete folders in which something hostile may have been at work."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path


def remove_tree(path: Path, *, reopen: bool = False) -> None:
    """Delete a folder with all that is in it, as far as that is possible; links are not followed.

    `shutil.rmtree` gives up where folders are nested deeper than Python can call itself. With
    `reopen`, folders in it that were closed to their owner are opened first: only for a folder in
    which nothing is at work any more, since a name could lead elsewhere in between.
    """
    with suppress(RecursionError):  # what is left is dealt with below
        shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return
    removal = ["rm", "-rf", "--", str(path)]
    is_ours = reopen and not path.is_symlink()
    for argv in ([["chmod", "-R", "u+rwx", "--", str(path)]] if is_ours else []) + [removal]:
        try:
            subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60
            )
        except (OSError, subprocess.TimeoutExpired):
            return  # it stays; the next start tries again
