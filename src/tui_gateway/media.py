"""Images and files that a client attaches: checked by content, kept private in the home.

An image goes to the model as a part of the next message. Another file is told to the model by its
path, which its file tools can read.
"""

from __future__ import annotations

import base64
import os
import re
import stat
from pathlib import Path
from typing import Any

from agent.home import hermes_home
from hermes_state import OPERATOR

from .hub import Session

MAX_IMAGE = 20 * 1024 * 1024
MAX_FILE = 32 * 1024 * 1024
MAX_IMAGES = 16
"""Images of one message."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)


class BadMediaError(Exception):
    """A file that cannot be attached; the message says why."""


class TooLargeError(BadMediaError):
    """A file that is larger than may be sent."""


def image_kind(data: bytes) -> str | None:
    """png, jpeg, gif or webp, told by the first bytes; None if it is none of them."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes; BadMediaError otherwise."""
    from tools.files.guard import own_databases  # with all file tools: not before it is ready

    try:
        info = path.stat()
        if not stat.S_ISREG(info.st_mode):
            raise BadMediaError(f"{path} is not a file.")
        # Closing a database that SQLite has open would drop its locks.
        if (info.st_dev, info.st_ino) in own_databases(hermes_home()):
            raise BadMediaError(f"{path} is a database of Hermes itself.")
        # Never waits: it may be a pipe by now.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOCTTY", 0))
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(limit + 1)
    except (OSError, ValueError) as error:  # ValueError: no file can have that name
        reason = getattr(error, "strerror", None) or str(error)
        raise BadMediaError(f"{path} cannot be read: {reason}.") from error
    if len(data) > limit:
        raise TooLargeError(f"{path} is larger than {limit // 2**20} MiB.")
    return data


def attach_image(session: Session, path: Path) -> int:
    """Send the image at `path` along with the next message; returns how many go with it."""
    attached: list[str] = session.setdefault("attached_images", [])
    if str(path) in attached:
        return len(attached)
    if len(attached) >= MAX_IMAGES:
        raise TooLargeError(f"{MAX_IMAGES} images are attached already, which is the limit.")
    if image_kind(read_file(path, MAX_IMAGE)) is None:
        raise BadMediaError(f"{path.name} is no image. PNG, JPEG, GIF and WebP can be sent.")
    attached.append(str(path))
    return len(attached)


def decoded(data: str) -> bytes:
    """The bytes of base64, with or without `data:…;base64,` before it."""
    if data.startswith("data:"):
        head, comma, data = data.partition(",")
        if not comma or not head.endswith(";base64"):
            raise BadMediaError("The data URL must be of the form data:…;base64,….")
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except ValueError as error:
        raise BadMediaError(f"The content is not base64: {error}.") from error


def keep(folder: Path, name: str, data: bytes) -> Path:
    """Write a file that nobody else can read into `folder`, under `name` or one like it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    safe = re.sub(r"[^\w.()+-]+", "_", Path(name).name, flags=re.ASCII).lstrip(".")[-100:] or "file"
    path = folder / f"{os.urandom(4).hex()}-{safe}"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


def folder_for(home: Path, kind: str, person_id: str | None) -> Path:
    """Where files of a kind ("uploads") that a client sends are kept: the operator's in a folder of
    the home, everybody else's in one of their own, which their agents alone read."""
    if person_id in (None, OPERATOR):
        return home / kind
    from agent.workspaces import folder_name

    return home / "media" / "web" / folder_name(str(person_id))


def image_part(path: str) -> dict[str, Any]:
    """An image on disk as a part of a message; a text that says so if it cannot be read."""
    file = Path(path)
    try:
        data = read_file(file, MAX_IMAGE)
    except BadMediaError as error:
        return {"type": "text", "text": f"[The image {file.name} is gone: {error}]"}
    kind = image_kind(data)
    if kind is None:
        return {"type": "text", "text": f"[{file.name} is no image any more]"}
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}
