"""The command that a message names for a missing part works for how Hermes was installed."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

import pytest

from tools.extras import DISTRIBUTION, install_command, install_hint

METADATA = f"""\
Metadata-Version: 2.4
Name: {DISTRIBUTION}
Version: 1.0
Requires-Dist: httpx<0.29,>=0.28
Requires-Dist: starlette<2,>=1.0; extra == "api"
Requires-Dist: uvicorn<1,>=0.40; extra == "api"
Requires-Dist: engine>=1; platform_system != "Windows" and extra == "local"
Requires-Dist: {DISTRIBUTION}[api]; extra == "all"
"""


def project(folder: Path) -> Path:
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f'[project]\nname = "{DISTRIBUTION}"\n')
    return folder


def installed(folder: Path, origin: Any = None) -> Distribution:
    """What pip has left of an installation from `origin`."""
    about = folder / "hermes_thread-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(METADATA)
    if origin is not None:
        (about / "direct_url.json").write_text(json.dumps(origin))
    return Distribution.at(about)


def words(command: str) -> list[str]:
    found = shlex.split(command)
    assert found[:4] == [sys.executable, "-m", "pip", "install"]
    return found[4:]


def test_these_tests_run_from_a_clone() -> None:
    clone = Path(__file__).resolve().parents[2]
    assert words(install_hint("api")) == ["-e", f"{clone}[api]"]


def test_from_a_clone_with_a_blank_in_its_name(tmp_path: Path) -> None:
    clone = project(tmp_path / "my clone")
    assert words(install_command("api", None, clone)) == ["-e", f"{clone}[api]"]


def test_installed_from_a_folder_that_is_still_there(tmp_path: Path) -> None:
    folder = project(tmp_path / "source of it")
    about = installed(tmp_path / "site", {"url": folder.as_uri(), "dir_info": {}})
    assert words(install_command("ws", about, tmp_path / "site")) == [f"{folder}[ws]"]


@pytest.mark.parametrize(
    "origin",
    [
        None,
        {"url": "file:///gone/folder", "dir_info": {}},
        {"url": "file:///a/hermes_thread-1.0-py3-none-any.whl", "archive_info": {}},
        {"url": "https://example.org/it.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
        {"dir_info": {}},
        [],
        "text",
    ],
)
def test_from_elsewhere_the_packages_themselves_are_named(tmp_path: Path, origin: Any) -> None:
    about = installed(tmp_path / "site", origin)
    wanted = words(install_command("api", about, tmp_path / "site"))
    assert wanted == ["starlette<2,>=1.0", "uvicorn<1,>=0.40"]
    wanted = words(install_command("local", about, tmp_path / "site"))
    assert wanted == ['engine>=1; platform_system != "Windows"']
