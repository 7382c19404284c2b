"""The same promises for every place where commands can run.

There is no Docker engine to rely on, so `docker` (and, beside a real sshd, `ssh`) is played by
`terminal_stand_in.py`.
"""

from __future__ import annotations

import base64
import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tools
from tools.base import ToolContext, ToolError, Workspace
from tools.processes.identity import new_marker
from tools.processes.ledger import Ledger, Record, reap_orphans
from tools.processes.tool import process
from tools.services import Services
from tools.terminal.backends import make_backend
from tools.terminal.tool import close_terminal, terminal

from .. import skips
from ..ports import free_port

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX system")

STAND_IN = Path(__file__).parent / "terminal_stand_in.py"
SSH_SERVER = Path(__file__).parent / "ssh_server.py"


class Lab:
    """A place with a backend in it."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        self.settings = settings
        cwd = folder / "here"
        cwd.mkdir()
        (folder / "there").mkdir()
        self.workspace = Workspace(folder / "home", cwd, settings={"terminal": settings})
        self.context = ToolContext("s1", "c1", workspace=self.workspace)

    def run(self, command: str, **arguments: Any) -> str:
        return str(terminal.run(self.context, command, **arguments))

    def act(self, action: str, name: str, **arguments: Any) -> str:
        return str(process.run(self.context, action, name, **arguments))

    def start(self, command: str, **arguments: Any) -> str:
        text = self.run(command, background=True, **arguments)
        found = re.search(r"proc_\w{8}", text)
        assert found, text
        return found[0]

    def calls(self) -> list[list[str]]:
        path = self.folder / "calls"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture(autouse=True)
def approved(monkeypatch: pytest.MonkeyPatch) -> None:
    approval = types.ModuleType("tools.approval")
    approval.check_command = lambda context, command, **_: None  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tools.approval", approval)
    monkeypatch.setattr(tools, "approval", approval, raising=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: the sockets of shared connections need one."""
    with tempfile.TemporaryDirectory(prefix="h-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture
def stand_ins(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "bin").mkdir()
    for name in ("ssh", "docker"):
        path = folder / "bin" / name
        path.write_text(f"#!{sys.executable} -IS\n{STAND_IN.read_text()}")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")


SETTINGS: dict[str, dict[str, Any]] = {
    "local": {},
    "docker run": {"backend": "docker", "docker_image": "debian", "docker_volumes": ["/a:/b:ro"]},
    "docker exec": {"backend": "docker", "docker_container": "box", "docker_user": "me"},
    "ssh": {"backend": "ssh", "ssh_host": "box", "ssh_user": "me", "ssh_port": 2222},
}


@pytest.fixture(params=[*SETTINGS, "sshd"])
def lab(request: pytest.FixtureRequest, folder: Path) -> Iterator[Lab]:
    if request.param == "sshd":
        settings = request.getfixturevalue("sshd")
    else:
        request.getfixturevalue("stand_ins")
        settings = SETTINGS[request.param]
    (folder / "container-box").touch()
    lab = Lab(folder, settings)
    lab.run("true")  # the first command elsewhere tells where that is
    yield lab
    close_terminal(lab.workspace)
    assert Ledger(lab.workspace.home).records() == []
    assert not list(lab.workspace.home.glob("tool-runs/*"))


@pytest.fixture(scope="module")
def ssh_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """A real ssh server on loopback: sshd, or `ssh_server.py` where it is not installed.

    Where its keys are, and its port.
    """
    skips.need("ssh", "ssh-keygen")
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
    if server and os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # where its package keeps it
    keys = tmp_path_factory.mktemp("ssh-server")
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / name)]
        subprocess.run(key, check=True)
    port = free_port()
    (keys / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {keys / 'host'}\nPidFile none\n"
        f"AuthorizedKeysFile {keys / 'user.pub'}\nStrictModes no\nUsePAM no\n"
        "PasswordAuthentication no\nPermitRootLogin prohibit-password\n"
    )
    command = [sys.executable, str(SSH_SERVER), str(keys), str(port)]
    if server:
        command = [server, "-D", "-e", "-f", str(keys / "sshd_config")]
    with (keys / "sshd.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        eventually(lambda: _listens(port))
        yield keys, port
    finally:
        process.terminate()
        process.wait()


@pytest.fixture
def sshd(
    folder: Path, ssh_server: tuple[Path, int], monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """The settings for that server, and a client that knows it."""
    keys, port = ssh_server
    client = shutil.which("ssh")
    host_key = " ".join((keys / "host.pub").read_text().split()[:2])
    (folder / "known").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (folder / "ssh_config").write_text(f"UserKnownHostsFile {folder / 'known'}\n")
    (folder / "bin").mkdir()
    wrapper = folder / "bin" / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec {client} -F {folder / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return {
        "backend": "ssh", "ssh_host": "127.0.0.1", "ssh_user": getpass.getuser(),
        "ssh_port": port, "ssh_key": str(keys / "user"),
    }  # fmt: skip


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def sleepers(seconds: str) -> list[int]:
    """The processes that sleep for that long."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if words == f"sleep\0{seconds}\0".encode():
            found.append(int(entry.name))
    return found


def sleeping(seconds: str) -> int:
    return len(sleepers(seconds))


@pytest.fixture
def seconds() -> Iterator[str]:
    """A length of sleep that no other process sleeps."""
    seconds = f"{3000 + int.from_bytes(os.urandom(3), 'big')}"
    yield seconds
    for pid in sleepers(seconds):
        os.kill(pid, signal.SIGKILL)


# The same for all


def test_output_exit_code_and_state(lab: Lab, folder: Path, request: pytest.FixtureRequest) -> None:
    there = folder / "there" / "sub dir"
    there.mkdir()
    quoted = 'it\'s "quoted" $HOME `x` \\ é ! \n second'
    assert lab.run("echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    text = lab.run(f"cd '{there}'; export NAME='a b'; echo moved")
    assert text == f"moved\n[working directory: {there}]"
    assert lab.run("pwd; echo $NAME; unset NAME") == f"{there}\na b"
    assert lab.run("echo ${NAME-gone}") == "gone"
    assert lab.run(f"cat <<'END'\n{quoted}\nEND") == quoted
    assert lab.run("cat; read x; echo $?") == "1"
    assert "[exit code 127: command not found" in lab.run("surely-no-such-command")
    assert "[exit code 2]" in lab.run("if then")
    assert "[exit code 137: killed" in lab.run("kill -9 $$")
    assert lab.run("cd /; exec echo replaced") == "replaced"
    assert lab.run("pwd") == str(there)


def test_large_and_strange_output(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    # As on a machine so busy that the time for what others write is over at once.
    monkeypatch.setattr("tools.terminal.spawn._LATE_SECONDS", 0)
    assert lab.run(r"printf '\036HERMES:\377\033[1mx\n'") == "HERMES:\ufffdx"
    assert lab.run("seq 1 30000").endswith("\n30000")


def test_credentials_stay_here(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("GITHUB_TOKEN", "named-one")
    lab.workspace.settings = {"terminal": {**lab.settings, "pass_env": ["GITHUB_TOKEN"]}}
    lab.context.services = Services(session_environ=lambda: {"HERMES_SESSION_ID": "s1"})
    text = lab.run("env; echo $HERMES_SESSION_ID $GITHUB_TOKEN")
    assert "sk-very-secret" not in text
    assert text.endswith("s1 named-one")
    assert not any("sk-very-secret" in word for call in lab.calls() for word in call)


@pytest.mark.parametrize("pty", [False, True])
def test_credentials_that_are_named_stand_in_no_command_line(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, pty: bool
) -> None:
    value = 'it\'s a "named" $one'
    monkeypatch.setenv("GITHUB_TOKEN", value)
    lab.workspace.settings = {"terminal": {**lab.settings, "pass_env": ["GITHUB_TOKEN"]}}
    left = "test -e /tmp/hermes-$HERMES_TOOL_RUN/environ && echo left"
    assert lab.run(f'printf %s "$GITHUB_TOKEN"; {left}; true', pty=pty) == value
    # What a command reads is as secret in the next one.
    lab.run("export MY_PASSWORD=$(echo jung | tr g k); export PLAIN=1; unset GITHUB_TOKEN")
    assert lab.run('echo "$MY_PASSWORD $PLAIN ${GITHUB_TOKEN-none}"', pty=pty) == "junk 1 none"
    said = " ".join(word for call in lab.calls() for word in call)
    payloads = re.findall(r"[A-Za-z0-9+/]{100,}={0,2}", said)
    assert bool(payloads) == bool(lab.calls())
    texts = [said, *(base64.b64decode(payload).decode() for payload in payloads)]
    assert [text for text in texts if "named" in text or "junk" in text] == []


def test_a_time_limit_ends_everything_over_there(
    lab: Lab, seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.terminal.run.TIMEOUT_GRACE", 0.5)
    for limit in (2, 30):  # a busy machine may not have begun within the first
        text = lab.run(
            f"setsid sleep {seconds} & (trap '' TERM; sleep {seconds}) &"
            f" echo $HERMES_TOOL_RUN; sleep {seconds}",
            timeout=limit,
        )
        assert f"[timed out after {limit} s;" in text
        if not text.startswith("["):
            break
    marker = text.partition("\n")[0].rpartition(":")[2]
    assert re.fullmatch(r"[0-9a-f]{32}", marker), text
    assert sleeping(seconds) == 0
    assert not Path(f"/tmp/hermes-{marker}").exists()


def test_an_interrupt_ends_everything_over_there(lab: Lab, seconds: str) -> None:
    begun = threading.Event()
    lab.context.progress = lambda text: begun.set() if "begun" in text else None
    results: list[str] = []
    command = f"setsid sleep {seconds} & echo begun; sleep {seconds}"
    thread = threading.Thread(target=lambda: results.append(lab.run(command)))
    thread.start()
    assert begun.wait(30)
    lab.context.cancelled.set()
    thread.join(30)
    assert not thread.is_alive()
    assert "[interrupted by the user" in results[0]
    assert sleeping(seconds) == 0


def test_a_daemon_that_holds_the_output_does_not_hold_up_the_result(lab: Lab, seconds: str) -> None:
    assert lab.run(f"sleep {seconds} & echo started").startswith("started")
    assert sleeping(seconds) == 1


def test_a_pseudo_terminal(lab: Lab) -> None:
    text = lab.run("test -t 0 && test -t 1 && echo terminal; cd /; exit 4", pty=True)
    assert text == "terminal\n[exit code 4]\n[working directory: /]"
    assert lab.run("pwd") == "/"


def test_background_processes(lab: Lab, seconds: str) -> None:
    name = lab.start(f"read line; echo got $line; sleep {seconds}")
    text = lab.act("submit", name, data="hello")
    deadline = time.monotonic() + 60
    while "got hello" not in text and time.monotonic() < deadline:
        text += lab.act("poll", name)
    assert "got hello" in text
    eventually(lambda: sleeping(seconds) == 1)
    assert "killed" in lab.act("kill", name)
    assert sleeping(seconds) == 0
    other = lab.start("cat; exit 3")
    lab.act("close", other)
    assert "ended with exit code 3" in lab.act("wait", other, timeout=60)


HERMES = """
import json, sys, threading, time, types
from pathlib import Path
from tools.base import ToolContext, Workspace
approval = types.ModuleType("tools.approval")
approval.check_command = lambda context, command, **_: None
sys.modules["tools.approval"] = approval
from tools.terminal.tool import terminal

home, settings, command = Path(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
context = ToolContext("s1", "c1", workspace=Workspace(home, home, settings={"terminal": settings}))
terminal.run(context, command, background=True)
begun = threading.Event()
context.progress = lambda text: begun.set()
threading.Thread(target=lambda: terminal.run(context, command), daemon=True).start()
assert begun.wait(30)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_killed_hermes_leaves_nothing_over_there(lab: Lab, folder: Path, seconds: str) -> None:
    home = folder / "home"
    command = f"setsid sleep {seconds} & echo begun; sleep {seconds}"
    words = [sys.executable, "-c", HERMES, str(home), json.dumps(lab.settings), command]
    hermes = subprocess.Popen(words, stdout=subprocess.PIPE)
    assert hermes.stdout is not None
    assert hermes.stdout.readline() == b"ready\n"
    eventually(lambda: sleeping(seconds) == 4)
    hermes.kill()
    hermes.wait()
    assert sleeping(seconds) == 4
    assert reap_orphans(home) >= 2
    eventually(lambda: sleeping(seconds) == 0)
    assert [record for record in Ledger(home).records() if not record.is_mine()] == []


# Of one backend each


@pytest.mark.usefixtures("stand_ins")
def test_a_container_of_its_own_is_started_once_and_removed(folder: Path) -> None:
    lab = Lab(folder, {**SETTINGS["docker run"], "docker_args": ["--network", "none"]})
    lab.run("true")
    lab.run("true")
    (record,) = Ledger(lab.workspace.home).records()
    assert record.kind == "container"
    name = record.where["docker_container"]
    close_terminal(lab.workspace)
    run, first, second, remove = lab.calls()
    assert run[:4] == ["docker", "run", "-d", "--rm"]
    assert run[run.index("--name") + 1] == name
    assert run[run.index("-v") + 1] == "/a:/b:ro"
    assert "no-new-privileges" in run
    assert run[-7:] == ["--network", "none", "--entrypoint", "tail", "debian", "-f", "/dev/null"]
    assert first[:5] == second[:5] == ["docker", "exec", name, "sh", "-c"]
    assert remove == ["docker", "rm", "-f", name]
    assert Ledger(lab.workspace.home).records() == []


@pytest.mark.usefixtures("stand_ins")
def test_problems_with_docker_are_told(folder: Path) -> None:
    lab = Lab(folder, {"backend": "docker", "docker_image": "no-such-image"})
    with pytest.raises(ToolError, match="could not be started: Unable to find image"):
        lab.run("true")
    assert Ledger(lab.workspace.home).records() == []
    lab.workspace.state.clear()
    lab.workspace.settings = {"terminal": {"backend": "docker", "docker_container": "gone"}}
    text = lab.run("true")
    assert "No such container: gone" in text
    assert "Check that it runs: docker ps" in text


@pytest.mark.usefixtures("stand_ins")
def test_problems_with_ssh_are_told(folder: Path) -> None:
    lab = Lab(folder, {"backend": "ssh", "ssh_host": "unreachable"})
    text = lab.run("true")
    assert "Connection refused" in text
    assert "[exit code 255]" in text
    assert "Check that this works by hand: ssh -o BatchMode=yes unreachable true" in text


@pytest.mark.usefixtures("stand_ins")
def test_the_connection_is_shared_and_nothing_is_asked(folder: Path) -> None:
    lab = Lab(folder, {**SETTINGS["ssh"], "ssh_key": "/keys/id"})
    lab.run("true")
    close_terminal(lab.workspace)
    call, end = lab.calls()
    assert "ControlMaster=auto" in call
    assert f"ControlPath={lab.workspace.home}/ssh/%C" in call
    assert call[call.index("-p") + 1] == "2222"
    assert call[call.index("-i") + 1] == "/keys/id"
    assert call[call.index("--") + 1] == "me@box"
    assert re.fullmatch(r"sh -c '[^'!\\\n]+' hermes [A-Za-z0-9+/=]+", call[-1])
    assert end[-4:] == ["-O", "exit", "--", "me@box"]


def test_a_real_connection_is_shared_until_the_end(folder: Path, sshd: dict[str, Any]) -> None:
    lab = Lab(folder, sshd)
    lab.run("true")
    assert len(list((lab.workspace.home / "ssh").iterdir())) == 1
    close_terminal(lab.workspace)
    eventually(lambda: not list((lab.workspace.home / "ssh").iterdir()))


@pytest.mark.parametrize("shell", ["dash", "zsh", "fish", "csh", "tcsh"])
def test_the_remote_command_is_safe_in_any_login_shell(
    shell: str, folder: Path, stand_ins: None
) -> None:
    skips.need(shell)
    lab = Lab(folder, SETTINGS["ssh"])
    lab.run("echo \"it's\" '!x' \\\\ $((1+1))")
    done = subprocess.run([shell, "-c", lab.calls()[0][-1]], capture_output=True, check=False)
    assert done.stdout.startswith(b"it's !x \\ 2\n")


@pytest.mark.usefixtures("stand_ins")
def test_a_long_home_does_without_a_shared_connection(folder: Path) -> None:
    lab = Lab(folder, SETTINGS["ssh"])
    lab.workspace.home = folder / ("x" * 80)
    assert lab.run("echo works").startswith("works")
    assert "ControlMaster=auto" not in lab.calls()[0]


@pytest.mark.usefixtures("stand_ins")
def test_a_host_that_cannot_be_reached_is_tried_again_at_the_next_start(folder: Path) -> None:
    home = folder / "home"
    where = {"backend": "ssh", "ssh_host": "unreachable"}
    ledger = Ledger(home)
    gone = {"owner_pid": os.getpid(), "owner_start": 0}
    ledger.add(Record(new_marker(), "s", "foreground", where=where, **gone))
    ledger.add(Record("old", "s", "foreground", where=where, at=time.time() - 90_000, **gone))
    reap_orphans(home)
    assert len(ledger.records()) == 1


@pytest.mark.usefixtures("stand_ins")
def test_a_directory_that_is_missing_over_there_is_told(folder: Path) -> None:
    lab = Lab(folder, {**SETTINGS["ssh"], "cwd": "~/project"})
    home = folder / "there"
    complaint = f"[The directory ~/project cannot be entered; running in {home}.]"
    assert lab.run("true") == f"{complaint}\n[working directory: {home}]"
    (home / "project").mkdir()
    lab.workspace.state.clear()
    lab.run("true")
    assert lab.run("pwd") == f"{home}/project"
    assert lab.run("pwd", workdir="..").endswith(str(home))
    assert lab.workspace.cwd == folder / "here", "the files here are somewhere else"


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"backend": "cloud"}, "no terminal backend 'cloud'"),
        ({"backend": "ssh"}, "terminal.ssh_host"),
        ({"backend": "ssh", "ssh_host": "-oProxyCommand=x"}, "needs a host"),
        ({"backend": "docker"}, "docker_image"),
        ({"backend": "docker", "docker_container": "--privileged"}, "no name"),
    ],
)
def test_settings_that_cannot_work_are_refused(
    tmp_path: Path, settings: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ToolError, match=complaint):
        make_backend(settings, tmp_path)
