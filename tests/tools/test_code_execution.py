"""`execute_code` with real child processes that behave, misbehave and call tools."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.base import ToolContext, ToolError, Workspace
from tools.code_execution import TOOLS, execute_code
from tools.code_execution.child import PARAMETERS
from tools.code_execution.socket import ALLOWED, MAX_CALLS, ToolSocket
from tools.processes.ledger import Ledger, reap_orphans
from tools.services import Services

CallTool = Callable[[str, dict[str, Any]], str]


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Temporary directories are made where the test can see what is left of them."""
    place = tmp_path / "t"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def context(tmp_path: Path, call_tool: CallTool | None = None, **section: Any) -> ToolContext:
    settings = {"code_execution": section, "approvals": {"mode": "off"}}
    workspace = Workspace(tmp_path, tmp_path, settings=settings)
    services = Services(call_tool=call_tool)
    return ToolContext("s", "c", workspace=workspace, services=services)


def run(tmp_path: Path, code: str, call_tool: CallTool | None = None, **section: Any) -> str:
    return str(execute_code.run(context(tmp_path, call_tool, **section), code))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_runs_a_program_and_leaves_nothing(tmp_path, folders):
    text = run(tmp_path, "import os, sys\nprint(6 * 7, __name__, os.listdir('.'))")
    assert text == "42 __main__ []"
    assert list(folders.iterdir()) == []
    assert Ledger(tmp_path).records() == []


def test_an_error_shows_the_programs_own_lines(tmp_path, folders):
    code = "print('before')\ndef f(x):\n    return 1 / x\nf(0)\n"
    text = run(tmp_path, code)
    assert text == (
        "before\nTraceback (most recent call last):\n"
        '  File "script.py", line 4, in <module>\n    f(0)\n'
        '  File "script.py", line 3, in f\n    return 1 / x\n           ~~^~~\n'
        "ZeroDivisionError: division by zero\n[exit code 1]"
    )
    deep = run(tmp_path, "import json\njson.loads('nonsense')")
    assert 'File "script.py", line 2' in deep
    assert deep.count('File "') == 2
    assert "start.py" not in deep
    assert "RecursionError" in run(tmp_path, "def f(): f()\nf()")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import sys; sys.exit(7)", "[exit code 7]"),
        ("print(input())", "EOFError"),
        ("x = 'a' * (8 << 30)", "MemoryError"),
        ("open('big', 'wb').truncate(1 << 30)", "exit code"),
        ("import os; os.kill(os.getpid(), 11)", "crashed"),
        ("pass", "[no output"),
        ("print('\\ud800')", "\\ud800"),
    ],
)
def test_endings(tmp_path, folders, code, expected):
    assert expected in run(tmp_path, code)


@pytest.mark.parametrize("code", ["def", "a\0b", "(" * 5_000, "-" * 100_000 + "1"])
def test_what_is_not_python_is_told(tmp_path, folders, code):
    text = run(tmp_path, code)
    assert "Error" in text
    assert text.endswith("[exit code 1]")
    assert "start.py" not in text


def test_nothing_is_not_run(tmp_path):
    with pytest.raises(ToolError, match="no code"):
        run(tmp_path, "  ")


def test_credentials_do_not_reach_the_program(tmp_path, folders, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("PLAIN", "seen")
    text = run(tmp_path, "import os\nprint(dict(os.environ))")
    assert "sk-secret" not in text
    assert "'PLAIN': 'seen'" in text
    assert "TOKEN" not in text


def test_calls_tools(tmp_path, folders):
    calls = []

    def call_tool(name: str, arguments: dict[str, Any]) -> str:
        calls.append((name, arguments))
        if name == "terminal":
            raise ToolError("It was denied.")
        if name == "patch":
            raise RuntimeError("broken")
        return "é" * 3

    code = """
from hermes_tools import *
import hermes_tools
print(read_file("a.txt", limit=3), web_fetch(url="http://x"))
for attempt in (lambda: terminal("rm"), lambda: patch(patch="x")):
    try:
        attempt()
    except hermes_tools.ToolError as error:
        print("failed:", error)
terminal("again")
"""
    text = run(tmp_path, code, call_tool)
    assert text.startswith("ééé ééé\nfailed: It was denied.\nfailed: RuntimeError: broken\n")
    assert "hermes_tools.ToolError: It was denied." in text
    assert calls[:2] == [
        ("read_file", {"path": "a.txt", "limit": 3}),
        ("web_fetch", {"url": "http://x"}),
    ]


def test_only_listed_tools_and_only_so_many(tmp_path, folders):
    asked = []

    def call_tool(name: str, arguments: dict[str, Any]) -> str:
        asked.append(name)
        return ""

    code = f"""
import hermes_tools, threading
for name in ("memory", "delegate_task", "execute_code", 5):
    try:
        hermes_tools._call(name, {{}})
    except hermes_tools.ToolError as error:
        print(error)
threads = [threading.Thread(target=hermes_tools.read_file, args=("x",)) for _ in range(20)]
[t.start() for t in threads], [t.join() for t in threads]
for _ in range({MAX_CALLS}):
    hermes_tools.read_file("x")
"""
    text = run(tmp_path, code, call_tool)
    assert text.count("Only these tools can be called") == 4
    assert f"{MAX_CALLS} times at most" in text
    assert asked == ["read_file"] * MAX_CALLS
    assert set(PARAMETERS) == set(ALLOWED)
    assert "cannot be called from code here" in run(
        tmp_path, "import hermes_tools as h; h.read_file('x')"
    )


def test_the_socket_wants_its_token_and_takes_it_once(tmp_path):
    path = tmp_path / "s"

    def say(line: bytes, then: bytes = b"") -> bytes:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(30)
            client.connect(str(path))
            stream = client.makefile("rb")
            try:
                client.sendall(line)
                if then:
                    client.sendall(then)
                return stream.readline()
            except ConnectionError:
                return b""

    call = b'{"tool": "read_file", "arguments": {}}\n'
    with ToolSocket(path, lambda name, arguments: "yes") as tools:
        assert path.stat().st_mode & 0o777 == 0o600
        for wrong in (b"junk\n", b"[]\n", b'{"token": "x"}\n', b'{"token": 5}\n', b"\n"):
            assert say(wrong, call) == b""
        hello = f'{{"token": "{tools.token}"}}\n'.encode()
        assert say(hello, call) == b'{"result": "yes"}\n'
        with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionError):
            client.connect(str(path))


FAMILY = """
import os, subprocess, sys, time
own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
away = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"],
                        start_new_session=True)
open({path!r}, "w").write(f"{{os.getpid()}} {{own.pid}} {{away.pid}} ")
{rest}
"""


def test_an_endless_program_is_ended_with_all_it_started(tmp_path, folders):
    pids = tmp_path / "pids"
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('started')\n"
    code += FAMILY.format(path=str(pids), rest="while True: time.sleep(1)")
    for limit in (2, 30):  # a busy machine may not have started it within the first
        with pytest.raises(ToolError, match=rf"stopped after {limit} seconds") as stopped:
            run(tmp_path, code, timeout=limit)
        if pids.exists():
            break
    assert "started" in str(stopped.value)
    assert len(pids.read_text().split()) == 3
    assert [pid for pid in pids.read_text().split() if is_alive(int(pid))] == []


def test_what_a_finished_program_left_running_ends_too(tmp_path, folders):
    pids = tmp_path / "pids"
    assert run(tmp_path, FAMILY.format(path=str(pids), rest="print('done')")) == "done"
    assert [pid for pid in pids.read_text().split() if is_alive(int(pid))] == []


def test_an_interrupt_ends_it_even_inside_a_tool(tmp_path, folders):
    pids, inside, let_go = tmp_path / "pids", threading.Event(), threading.Event()

    def call_tool(name: str, arguments: dict[str, Any]) -> str:
        inside.set()
        let_go.wait(60)
        return "late"

    rest = "import hermes_tools; hermes_tools.read_file('x')"
    here = context(tmp_path, call_tool)
    outcome: list[BaseException] = []

    def work() -> None:
        try:
            execute_code.run(here, FAMILY.format(path=str(pids), rest=rest))
        except ToolError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    here.cancelled.set()
    thread.join(60)
    let_go.set()
    assert "interrupted" in str(outcome[0])
    assert [pid for pid in pids.read_text().split() if is_alive(int(pid))] == []
    assert list(folders.iterdir()) == []


def test_what_a_killed_hermes_left_running_is_ended_at_the_next_start(tmp_path, folders):
    pids = tmp_path / "pids"
    code = FAMILY.format(path=str(pids), rest="while True: time.sleep(1)")
    program = f"""
from pathlib import Path
from tools.base import ToolContext, Workspace
from tools.code_execution import execute_code
home = Path({str(tmp_path)!r})
settings = {{"approvals": {{"mode": "off"}}}}
workspace = Workspace(home, home, settings=settings)
execute_code.run(ToolContext("s", "c", workspace=workspace), {code!r})
"""
    hermes = subprocess.Popen([sys.executable, "-c", program])
    while not (pids.exists() and len(pids.read_text().split()) == 3):
        assert hermes.poll() is None, "it must go on until it is killed"
        time.sleep(0.01)
    hermes.kill()
    hermes.wait()
    family = [int(pid) for pid in pids.read_text().split()]
    assert all(is_alive(pid) for pid in family)
    assert reap_orphans(tmp_path) == 1
    assert not any(is_alive(pid) for pid in family)


def test_a_flood_is_bounded_and_kept(tmp_path, folders):
    text = run(tmp_path, "for n in range(300_000): print('line', n)\nprint('the end')")
    assert text.startswith("line 0\n")
    assert text.endswith("the end")
    assert "left out; read_file" in text
    assert len(text) < 50_000


def test_progress_is_shown_while_it_runs(tmp_path, folders):
    shown = []
    here = context(tmp_path)
    here.progress = shown.append
    execute_code.run(here, "print('first')")
    assert "first" in "".join(shown)


def test_the_tool_says_what_it_takes():
    assert [tool.name for tool in TOOLS] == ["execute_code"]
    assert execute_code.parameters["required"] == ["code"]
    assert "hermes_tools" in execute_code.description
    assert (execute_code.check is not None) and (os.name != "posix" or execute_code.check() is None)


def test_a_program_is_asked_for(tmp_path: Path) -> None:
    context = ToolContext("s", "c", workspace=Workspace(tmp_path, tmp_path))
    with pytest.raises(ToolError, match="Run a Python program"):
        execute_code.run(context, "open('mark', 'w')")
