"""A forked program is what a started one would be."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

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


def test_it_is_run_to_its_end(tmp_path: Path) -> None:
    told = tmp_path / "told"
    program = tmp_path / "no-suffix"
    program.write_text(
        "import atexit, sys, threading\n"
        f"atexit.register(open({str(told)!r}, 'w').write, 'registered')\n"
        "def outlive():\n"
        "    threading.main_thread().join()\n"
        "    print('from a thread')\n"
        "threading.Thread(target=outlive).start()\n"
        "print(len(sys.stdin.read()), sys.argv[1])\n"
        "sys.exit('a reason')\n"
    )
    done = forked.run([str(program), "x"], input="y" * 100_000, environ=os.environ, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, "a reason\n")
    assert done.stdout == "100000 x\nfrom a thread\n"
    assert told.read_text() == "registered"
    assert forked.run([str(program), "x"], environ=os.environ).stdout.startswith("0 x\n")


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    program = tmp_path / "endless"
    program.write_text("import signal\nwhile True:\n    signal.pause()\n")
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run([str(program)], environ=os.environ, timeout=0.01)


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("opened", [forked.open_process, forked.start_process])
def test_a_terminal_is_its_own(opened: Any, unbuffered: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, sys, time\n"
        "out = sys.stdout\n"
        "print('>', os.getsid(0) == os.getpid(), out.line_buffering, out.write_through)\n"
        "os.close(os.open('/dev/tty', os.O_RDWR))\n"
        "print(input('name? ').upper())\n"
        # A signal just before a read that blocks would be seen only after it.
        "while True:\n"
        "    time.sleep(0.01)\n"
    )
    program.chmod(0o700)
    master, slave = pty.openpty()
    process = opened(
        [str(program)],
        [slave] * 3,
        environ={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        cwd=tmp_path,
        session=True,
        terminal=True,
    )
    os.close(slave)
    seen = ""

    def wait_for(text: str) -> None:
        nonlocal seen
        while text not in seen:
            seen += os.read(master, 4096).decode()

    wait_for("name? ")
    assert seen.startswith(f"> True {not unbuffered} {bool(unbuffered)}")
    assert process.poll() is None
    os.write(master, b"ada\n")
    wait_for("ADA")
    os.write(master, b"\x03")  # Ctrl-C
    assert process.wait(60) == process.poll() == process.returncode == -signal.SIGINT
    process.kill()
    os.close(master)


def test_one_that_ends_at_once(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("raise SystemExit(3)\n")
    codes = [forked.run([str(program)], environ=os.environ).returncode for _ in range(20)]
    assert codes == [3] * 20
