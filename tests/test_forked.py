"""A forked program is what a started one would be."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from . import forked

PROGRAM = """
import json, os, random, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("ONLY_HERE"), __name__]), flush=True)
print(random.random(), flush=True)
print(sys.stdin.readline().upper(), end="", flush=True)
sys.exit(int(sys.stdin.readline()))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    return file


async def test_it_has_what_it_was_given(program: Path) -> None:
    folder = program.parent
    process = await forked.start(
        program, "a", "b c", environ={**os.environ, "ONLY_HERE": "ä"}, cwd=folder
    )
    other = await forked.start(program, environ={}, cwd="/")
    told = [json.loads(await one.stdout.readline()) for one in (process, other)]
    assert told == [[["a", "b c"], str(folder), "ä", "__main__"], [[], "/", None, "__main__"]]
    assert await process.stdout.readline() != await other.stdout.readline(), "the same chance"
    assert len({process.pid, other.pid, os.getpid()}) == 3
    process.stdin.write(b"hello\n3\n")
    assert await process.stdout.read() == b"HELLO\n"
    assert await process.wait() == process.returncode == 3
    with pytest.raises(ProcessLookupError):
        process.kill()
    other.send_signal(signal.SIGKILL)
    assert await other.wait() == -signal.SIGKILL


async def test_its_input_can_end_and_it_can_fail(
    program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    process = await forked.start(program, environ=os.environ)
    process.stdin.close()
    assert await process.wait() == 1
    assert "ValueError" in capfd.readouterr().err


async def test_a_module_is_run_as_a_program() -> None:
    process = await forked.start("json.tool", "--compact", environ=os.environ)
    process.stdin.write(b'{"a": 1}')
    process.stdin.close()
    assert await process.stdout.read() == b'{"a":1}\n'
    assert await process.wait() == 0
