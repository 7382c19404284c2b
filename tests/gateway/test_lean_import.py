"""Libraries of platforms are imported without what they do not need here."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from gateway.platforms.lean_import import import_without


@pytest.mark.parametrize(
    ("library", "names", "package", "part"),
    [("nio", "DATABASES", "psycopg", ""), ("telegram", "PASSPORT", "cryptography", ".fernet")],
)
def test_a_library_comes_alone(library: str, names: str, package: str, part: str) -> None:
    if find_spec(library) is None or find_spec(package) is None:
        pytest.skip(f"{library} or {package} is not installed")
    code = (
        f"import sys; from gateway.platforms.lean_import import {names}, import_without\n"
        f"assert import_without({library!r}, {names}).__name__ == {library!r}\n"
        f"assert not [name for name in sys.modules if name.split('.')[0] == {package!r}]\n"
        f"import {package}{part}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_there_already_stays_and_what_is_missing_is_said() -> None:
    assert import_without("json.tool", ("json", "argparse")).__name__ == "json.tool"
    assert sys.modules["json"] is not None
    with pytest.raises(ImportError):
        import_without("no_such_library_anywhere", ("argparse",))
    assert sys.modules.get("argparse", sys) is not None
