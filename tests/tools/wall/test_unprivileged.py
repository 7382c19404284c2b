"""Every fifth of the attacks as somebody who is not root, where the tests are run by root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_NOBODY = 65534
_REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def interpreter() -> str:
    """A Python of this very version that everybody may start."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    for name in (os.path.realpath(sys.executable), f"/usr/bin/{version}"):
        argv = [name, "-c", "import ctypes, json, ssl"]
        try:
            subprocess.run(argv, user=_NOBODY, check=True, capture_output=True, cwd="/")
        except (OSError, subprocess.SubprocessError):
            continue
        return name
    pytest.skip(f"needs {version} where everybody may start it; apt-get install {version}")


@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of walls run as an ordinary user anyway")
@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_an_ordinary_user_has_the_same_wall(kind: str, interpreter: str) -> None:
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("needs bwrap (Debian: apt-get install bubblewrap)")
    folder = Path(tempfile.mkdtemp())
    try:
        folder.chmod(0o755)
        for part in ("src", "tests", "pyproject.toml"):
            copy = shutil.copytree if (_REPOSITORY / part).is_dir() else shutil.copy
            copy(_REPOSITORY / part, folder / part)
        (folder / "home").mkdir()
        shutil.chown(folder / "home", _NOBODY)
        site = next(path for path in sys.path if path.endswith("site-packages"))
        shutil.copytree(site, folder / "site", symlinks=True, ignore=_heavy)
        subprocess.run(["chmod", "-R", "a+rX", str(folder)], check=True)
        argv = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
        argv += ["tests/tools/wall/test_wall.py", "tests/tools/wall/test_attacks.py"]
        chosen = f"{kind} and not work and not link- and not other"
        done = subprocess.run(
            [*argv, "-k", chosen, f"--basetemp={folder / 'home' / 'tmp'}"],
            user=_NOBODY,
            group=_NOBODY,
            extra_groups=[],
            cwd=folder,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folder / "home"),
                "PYTHONPATH": f"{folder / 'src'}:{folder / 'site'}",
                "PYTHONDONTWRITEBYTECODE": "1",
                "HERMES_TEST_SAMPLE": "1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
        assert " passed" in done.stdout or "[100%]" in done.stdout
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _heavy(folder: str, names: list[str]) -> list[str]:
    """What the tests of walls do not import."""
    return [
        name
        for name in names
        if name.startswith(("xllamacpp", "openai", "mypy", "ruff", "textual", "synapse", "nio"))
    ]
