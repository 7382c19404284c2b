"""Ways in and out that a command could prepare for the next one, or for the agent itself."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.base import ApprovalRequest, Choice, ToolContext, ToolError
from tools.files.write import write_file
from tools.processes.tool import process
from tools.terminal.tool import terminal
from tools.wall.guardhouse import guardhouse_of
from tools.wall.inside import landlock

Run = Callable[..., str]


class Person:
    """Says yes to everything, and may do something before that."""

    def __init__(self, before: Callable[[], object] = lambda: None) -> None:
        self._before = before

    def approve(self, request: ApprovalRequest) -> Choice:
        self._before()
        return "once"

    def clarify(self, question: str, choices: list[str]) -> str:
        raise ToolError("no")


TRICKS = (
    "mkdir .git; ln -s {target} .git/hooks",
    "touch HEAD config; mkdir objects; ln -s {target} hooks",
    "touch HEAD; mkdir objects hooks; ln -s {target} config",
    "ln -s {target} .git",
    "ln -s {target} ~/.cache/mozilla",
    "mkdir -p a/sub; mv a b; mkdir a; ln -s {target} a/sub",
)


def test_a_link_in_the_root_shows_nothing(run: Run, walled: ToolContext) -> None:
    root = walled.workspace.root
    person = root.parent
    walled.workspace.folders.append(root / "a/sub")
    for trick, target in itertools.product(TRICKS, (".ssh", ".hermes", ".")):
        for entry in (*root.iterdir(), person / ".cache/mozilla"):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)
        (root / "a/sub").mkdir(parents=True)
        run(trick.format(target=person / target))
        text = run("cat ~/.ssh/id_ed25519 ~/.hermes/.env; touch ~/evil ~/.ssh/evil; true")
        assert "hidden" not in text, (trick, target)
        assert not (person / "evil").exists(), (trick, target)
        assert not (person / ".ssh/evil").exists(), (trick, target)
        with pytest.raises(ToolError):
            write_file.run(walled, path=str(person / "evil.txt"), content="evil")


def test_commands_go_on_whatever_a_link_in_a_cache_leads_to(run: Run) -> None:
    run("ln -s /usr ~/.cache/mozilla; ln -s $PWD ~/.cache/chromium")
    assert run("echo there") == "there"


def test_hooks_stay_where_git_looks_for_them(kind: str, run: Run, walled: ToolContext) -> None:
    if kind == "landlock":
        pytest.skip("Landlock does not keep them, and says so")
    root = walled.workspace.root
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    run("mv .git aside && cp -r aside .git; echo evil > .git/hooks/pre-commit; true")
    assert not (root / ".git/hooks/pre-commit").exists()


def test_a_hidden_file_that_was_replaced_is_hidden_again(run: Run, walled: ToolContext) -> None:
    """Programs write their credentials beside the old ones and rename them."""
    run("true")
    person = walled.workspace.root.parent
    (person / "new").write_text("hidden as well\n")
    (person / "new").rename(person / ".netrc")
    assert "hidden as well" not in run("cat ~/.netrc; true")


def test_variables_of_commands_do_not_change_what_was_allowed_outside(
    run: Run, walled: ToolContext
) -> None:
    person = walled.workspace.root.parent
    walled.asker = Person()
    run(
        f"echo 'touch {person}/evil' > evil.sh; export BASH_ENV=$PWD/evil.sh; mkdir bin;"
        " cp evil.sh bin/ls; chmod +x bin/ls; export PATH=$PWD/bin:$PATH"
    )
    run("ls", needs=["no wall"])
    assert not (person / "evil").exists()


def test_a_grant_ends_with_its_command(run: Run, walled: ToolContext) -> None:
    outside = walled.workspace.root.parent / "outside"
    outside.mkdir()
    walled.asker = Person()
    daemon = "while :; do [ -e go ] && echo evil > ../outside/evil && touch went; sleep 0.05; done"
    (walled.workspace.root / "daemon.sh").write_text(daemon)
    run("touch ../outside/ok; setsid sh daemon.sh >/dev/null 2>&1 &", needs=[f"write:{outside}"])
    assert (outside / "ok").exists()
    run("touch go; sleep 0.5")
    assert not (outside / "evil").exists()
    guardhouse = guardhouse_of(walled.workspace)
    assert guardhouse is not None
    assert len(guardhouse._standing) == 1


def test_what_was_allowed_is_what_can_be_written(walled: ToolContext) -> None:
    """Between the question and the answer a folder becomes a link to another place."""
    person = walled.workspace.root.parent
    for folder in ("outside", "outside/sub", "other"):
        (person / folder).mkdir()

    def swap() -> None:
        (person / "outside/sub").rename(person / "outside/old")
        (person / "outside/sub").symlink_to(person / "other")

    walled.asker = Person(swap)
    with pytest.raises(ToolError, match="another one by now"):
        terminal.run(walled, "touch ../other/evil", needs=[f"write:{person}/outside/sub"])
    assert not (person / "other/evil").exists()


def test_in_plan_mode_nothing_is_typed_into_what_was_started_before(
    run: Run, walled: ToolContext
) -> None:
    started = run("bash", background=True)
    name = next(word.strip(",.") for word in started.split() if word.startswith("proc_"))
    walled.workspace.mode = "plan"
    with pytest.raises(ToolError, match="plan mode"):
        process.run(walled, "submit", session_id=name, data="touch made; exit")
    walled.workspace.mode = "guarded"
    process.run(walled, "kill", session_id=name)
    assert not (walled.workspace.root / "made").exists()


def test_what_is_typed_into_a_process_without_a_wall_is_asked(walled: ToolContext) -> None:
    asked: list[int] = []
    walled.asker = Person(lambda: asked.append(1))
    started = str(terminal.run(walled, "bash", background=True, needs=["no wall"]))
    name = next(word.strip(",.") for word in started.split() if word.startswith("proc_"))
    process.run(walled, "submit", session_id=name, data="echo 1")
    process.run(walled, "kill", session_id=name)
    assert len(asked) == 2


def test_no_disk_can_be_read(run: Run) -> None:
    disks = [str(path) for path in Path("/dev").iterdir() if path.is_block_device()]
    if os.geteuid() != 0 or not disks:
        pytest.skip("needs root and a disk")
    text = run(
        f"for d in {' '.join(disks)} /dev/mem /dev/kmsg /dev/vcs1 /dev/tty1; do"
        " head -c 1 $d >/dev/null 2>&1 && echo opened $d; done; true"
    )
    assert "opened" not in text


_INNER = "ps -eo pid=,args= | grep '[i]mport_module' | grep -v grep | awk '{print $1}'"


@pytest.mark.parametrize("trick", ["STOP", "KILL", "INT", "TERM", "HUP", "CHLD", "SEGV", "PIPE"])
def test_signals_to_the_warden_hold_up_nobody(
    run: Run, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    monkeypatch.setattr("tools.wall.warden.START_SECONDS", 2.0)
    results: list[str] = []

    def attack() -> None:
        try:
            run(f"kill -{trick} $PPID; kill -{trick} 1 2 $({_INNER}); echo sent", timeout=5)
            results.append(run("echo next", timeout=60))
        except ToolError:
            # A new warden may take its time on a busy machine.
            monkeypatch.setattr("tools.wall.warden.START_SECONDS", 60.0)
            results.append(run("echo next", timeout=60))

    thread = threading.Thread(target=attack, daemon=True)
    thread.start()
    thread.join(120)
    assert results == ["next"]


def test_the_warden_cannot_be_looked_into(run: Run) -> None:
    code = (
        "import ctypes, os\n"
        "libc = ctypes.CDLL(None, use_errno=True)\n"
        "warden = os.getppid()\n"
        "while open(f'/proc/{warden}/comm').read().strip() in ('bash', 'sh'):\n"
        "    warden = int(open(f'/proc/{warden}/stat').read().rpartition(')')[2].split()[1])\n"
        "print('attached' if libc.ptrace(16, warden, 0, 0) == 0 else 'refused')\n"
        "try: print(os.readlink(f'/proc/{warden}/fd/0'), open(f'/proc/{warden}/mem', 'rb'))\n"
        "except OSError: print('closed')\n"
    )
    text = run(f"cat > t.py <<'E'\n{code}E\n{sys.executable} t.py")
    assert text.splitlines() == ["refused", "closed"]


def test_abstract_sockets_are_not_part_of_the_network(run: Run, walled: ToolContext) -> None:
    """An X server and a message bus listen on such, and would do anything for the account."""
    if landlock.abi() < 6:
        pytest.skip("needs Linux 6.12")
    walled.asker = Person()
    with socket.socket(socket.AF_UNIX) as server:
        name = f"hermes-test-{os.getpid()}"
        server.bind(f"\0{name}")
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect(chr(0)+'{name}')"
        text = run(f'python3 -c "{code}" && echo connected', needs=["network"])
    assert "connected" not in text


STARTED = (
    ".ipython/profile_default/startup", ".deno/bin", ".cabal/bin", ".mix/escripts", ".sbt/1.0",
    ".pub-cache/bin", ".yarn/bin", ".cargo/bin", "go/bin", ".npm-global/bin", ".stack",
)  # fmt: skip


def test_what_is_run_at_every_start_is_no_cache(run: Run, walled: ToolContext) -> None:
    person = walled.workspace.root.parent
    for name in STARTED:
        (person / name).mkdir(parents=True)
    run("".join(f"echo evil > ~/{name}/evil; echo evil > ~/{name}/../evil;" for name in STARTED))
    for name in STARTED:
        assert list((person / name).parent.rglob("evil")) == [], name


CREDENTIALS = (
    ".cache/huggingface/token", ".hex/hex.config", ".ivy2/.credentials", ".kaggle/kaggle.json",
    ".pub-cache/credentials.json", ".config/github-copilot/apps.json", ".Xauthority",
)  # fmt: skip


def test_credentials_in_and_beside_caches_are_hidden(run: Run, walled: ToolContext) -> None:
    for name in CREDENTIALS:
        path = walled.workspace.root.parent / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"hidden in {name}\n")
    assert "hidden in" not in run("".join(f"cat ~/{name};" for name in CREDENTIALS) + " true")
