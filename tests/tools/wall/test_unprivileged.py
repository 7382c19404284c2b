"""Every tenth of the attacks as somebody who is not root, where the tests are run by root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ... import seeds

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


@pytest.fixture(scope="module")
def everybodys() -> Iterator[Path]:
    """The project and what its tests import, where everybody may read them."""
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
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.long
@pytest.mark.fuzz
@pytest.mark.skipif(os.geteuid() != 0, reason="all tests of walls run as an ordinary user anyway")
def test_an_ordinary_user_has_the_same_walls(interpreter: str, everybodys: Path) -> None:
    """Of both kinds at once, since most of the time goes into collecting the tests."""
    argv = [interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    argv += ["tests/tools/wall/test_wall.py", "tests/tools/wall/test_attacks.py"]
    done = subprocess.run(
        [*argv, f"--basetemp={everybodys}/home/tmp"],
        user=_NOBODY,
        group=_NOBODY,
        extra_groups=[],
        cwd=everybodys,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(everybodys / "home"),
            "PYTHONPATH": f"{everybodys / 'src'}:{everybodys / 'site'}",
            "PYTHONDONTWRITEBYTECODE": "1",
            "HERMES_TEST_SAMPLE": str(seeds.seed() % 10),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
    assert " passed" in done.stdout or "[100%]" in done.stdout


_UNUSED = ("xllamacpp", "openai", "mypy", "ruff", "textual", "synapse", "nio", "pip", "Crypto",
           "cryptography", "setuptools", "telegram", "aiohttp", "mkdocs", "pypdf", "asyncssh",
           "pydantic", "mcp", "rich", "ast_serialize", "tzdata", "websockets", "multidict",
           "babel", "jinja2", "numpy", "psycopg", "build", "twisted", "PIL", "lxml")  # fmt: skip
"""What the tests of walls do not import."""


def _heavy(folder: str, names: list[str]) -> list[str]:
    if not folder.endswith("site-packages"):
        return []
    return [name for name in names if name.startswith(_UNUSED) or "__mypyc" in name]
