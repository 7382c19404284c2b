"""`hermes gateway new-platform`: what it writes works as it is written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hermes_cli.new_platform import NewPlatformError, write_platform

ROOT = Path(__file__).parents[2]


def test_what_is_written_passes_every_check(cli: Any, tmp_path: Path) -> None:
    done = cli("gateway", "new-platform", "carrier_pigeons", "--in", str(tmp_path))
    assert done.code == 0 and "carrier_pigeons is a plugin" in done.out
    folder = tmp_path / "carrier_pigeons"
    # Kills have a process each; tests/gateway/test_example_platform.py has them for a plugin.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "not killed"]
    ran = subprocess.run(
        command, cwd=folder, env={**os.environ, "HERMES_HOME": str(tmp_path / "home")},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout[-4000:]
    passed = re.search(r"(\d+) passed, 1 deselected", ran.stdout)
    assert passed is not None and int(passed[1]) >= 28, ran.stdout[-1000:]
    assert "skipped" not in ran.stdout

    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*")}
    assert {"plugin.yaml", "manifest.py", "adapter.py", "README.md", "tests/service.py"} <= names
    written = [path for path in folder.rglob("*") if path.suffix in (".py", ".md", ".yaml")]
    for path in written:
        assert not re.search(r"@\w+@", path.read_text()), f"{path} has a mark left"
    ruff = [str(Path(sys.executable).with_name("ruff")), "check", "--no-cache", "--isolated"]
    rules = ["--line-length=100", "--select=E,F,W,B,UP,C4,RET,BLE"]
    subprocess.run([*ruff, *rules, str(folder)], check=True)


@pytest.mark.parametrize("name", ["", "Mine", "9lives", "a-b", "../x", "class", "a" * 40, "a__b"])
def test_a_name_that_cannot_be_one_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(NewPlatformError, match="cannot be the name"):
        write_platform(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_there_stays_as_it_is(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    done = cli("gateway", "new-platform", "mine", "--in", str(tmp_path))
    assert done.code == 2 and "nothing was changed" in done.err
    done = cli("gateway", "new-platform", "telegram", "--in", str(tmp_path))
    assert done.code == 2 and "There is a platform telegram already" in done.err
    assert not list((tmp_path / "mine").iterdir()) and not (tmp_path / "telegram").exists()


def test_the_gateway_does_not_import_the_checks() -> None:
    code = (
        "import sys, gateway.run, hermes_cli.main\n"
        "assert not [name for name in sys.modules if name.startswith('gateway.conformance')]\n"
        "assert 'pytest' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
