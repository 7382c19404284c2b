"""What is released: built once from a copy of the project, and installed into a venv of its own.

`HERMES_DIST=dist` tests the archives in that folder instead, as `make release` does with those it
has just built.
"""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NOT_SOURCE = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", "*.egg-info", "build", "dist", ".*_cache", ".hypothesis", "out",
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """The two archives of a release."""

    wheel: Path
    sdist: Path
    source: Path
    """The project they were built from."""


@dataclass(frozen=True)
class Installed:
    """An environment that has the wheel, and a person without a home or a project."""

    venv: Path
    home: Path
    folder: Path

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, far from the project; it must succeed."""
        done = subprocess.run(
            [str(self.venv / "bin" / command[0]), *command[1:]],
            env={
                "PATH": "/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8", **environ,
            },
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done


def source_files(folder: Path) -> set[str]:
    """Every file that people wrote below a folder."""
    made = ("__pycache__", ".egg-info", "_cache", ".DS_Store")
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
        and not any(part.endswith(made) for part in path.relative_to(folder).parts)
    }


def must_be_there(name: str, least: int) -> None:
    """Skip unless a tool for building is installed, new enough."""
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed; pip install -e '.[dev]' brings it")
    if int(found.split(".")[0]) < least:
        pytest.skip(f"{name} {found} is too old to build with; {least} is needed")


@pytest.fixture(scope="session")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The archives: the source first, then the wheel from it, as an index would have it made."""
    given = os.environ.get("HERMES_DIST")
    source, dist = ROOT, Path(given or "").absolute()
    if not given:
        must_be_there("setuptools", 77)
        must_be_there("build", 1)
        source, dist = tmp_path_factory.mktemp("source") / "hermes", tmp_path_factory.mktemp("dist")
        shutil.copytree(ROOT, source, ignore=NOT_SOURCE)
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), "."]
        done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = dist.glob("hermes_thread-*.whl")
    (sdist,) = dist.glob("hermes_thread-*.tar.gz")
    return Release(wheel, sdist, source)


def new_environment(folder: Path) -> Installed:
    """An empty environment, without pip, and an empty home."""
    done = Installed(folder / "venv", folder / "home", folder / "elsewhere")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(done.venv)], check=True)
    done.home.mkdir()
    done.folder.mkdir()
    return done


def pip_install(into: Installed, *arguments: str) -> None:
    """Install into an environment, with the pip of this one."""
    python = str(into.venv / "bin" / "python")
    command = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def installed(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel without network; what it depends on is borrowed from this environment."""
    found = new_environment(tmp_path_factory.mktemp("installed"))
    pip_install(found, "--no-deps", "--no-index", str(release.wheel))
    (packages,) = found.venv.glob("lib/python*/site-packages")
    # A path added this way comes last and brings no editable installs along.
    borrowed = [one for one in sys.path if one.endswith(("site-packages", "dist-packages"))]
    (packages / "borrowed.pth").write_text("\n".join(borrowed) + "\n")
    return found
