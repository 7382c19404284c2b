"""Files that come with messages, and files that answers name.

What comes in is kept privately under <home>/media/<platform>/<chat>. What goes out is a file that
an answer names as `MEDIA:/path` or as a Markdown image, and only from inside the working directory:
anything else that a model was talked into naming is not sent.
"""

from __future__ import annotations

import bisect
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_base.files import replace_private
from hermes_state import StoreError
from tools.danger.paths import Places, read_danger
from tools.objects import find_file

if TYPE_CHECKING:
    from hermes_state import SessionDB

log = logging.getLogger(__name__)

_UNSAFE = re.compile(r"[^\w.-]+")
_NAMED = re.compile(r"^[ \t]*MEDIA:[ \t]*(?:\"([^\"\n]+)\"|`([^`\n]+)`|([^\n]+?))[ \t]*$", re.M)
_IMAGE = re.compile(r"!\[[^\[\]\n]*\]\(<?(?:file://)?(/[^()<>\n]+?)>?\)")
_CODE = re.compile(r"^[ \t]*(```+|~~~+).*?(?:^[ \t]*\1|\Z)", re.M | re.S)


class MediaTooLargeError(Exception):
    """A file is larger than the configuration allows."""


def safe_name(name: str, fallback: str = "file") -> str:
    """A file name that names no other place and hides nothing."""
    plain = _UNSAFE.sub("_", name.replace("\\", "/").rpartition("/")[2]).strip("._")
    stem, dot, ending = plain.rpartition(".")
    if not dot:
        return plain[:80] or fallback
    return f"{stem[:80] or fallback}.{ending[:12]}"


FILE = "file:"
"""How the name of a delivery begins that is a file, by its path in `sent_folder`."""


def sent_folder(home: Path) -> Path:
    """Where copies of files lie that somebody at the machine sends to a chat."""
    return home / "media" / "sent"


def sent_file(home: Path, path: str) -> Path | None:
    """A file that is to be sent; None if it lies elsewhere, or is gone."""
    try:
        found = Path(path).resolve(strict=True)
    except (OSError, RuntimeError):
        return None
    return found if found.is_file() and found.is_relative_to(sent_folder(home).resolve()) else None


def folder_for(home: Path, platform: str, chat_id: str) -> Path:
    """Where the files of a chat are kept."""
    return home / "media" / safe_name(platform) / safe_name(chat_id, "chat")


async def keep(
    home: Path,
    platform: str,
    chat_id: str,
    name: str,
    data: AsyncGenerator[bytes, None],
    limit: int,
) -> Path:
    """Keep a file that came in; raises MediaTooLargeError beyond `limit` bytes.

    The same name in the same chat is the same file: one that is delivered again replaces itself.
    """
    folder = folder_for(home, platform, chat_id)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / safe_name(name)
    # Not flushed: every chat would wait for the disk.
    with replace_private(path, durable=False) as file:
        size = 0
        async with aclosing(data):
            async for chunk in data:
                size += len(chunk)
                if size > limit:
                    raise MediaTooLargeError(f"{path.name} is larger than {limit:,} bytes")
                file.write(chunk)
    return path


def bring_files(db: SessionDB, home: Path, paths: list[str]) -> tuple[list[str], list[str]]:
    """Where the files of a message are on this machine, whichever gateway took them in; and what
    to say of those that cannot be had now."""
    here, notes = [], []
    for path in paths:
        try:
            here.append(str(find_file(db, home, path, None) or path))
        except (StoreError, OSError) as error:
            log.warning("%s was not fetched: %s", path, error)
            notes.append(f"{Path(path).name} could not be fetched: {error}")
    return here, notes


def list_unreadable(paths: list[str]) -> dict[str, str]:
    """Those of a message's files that cannot be read here, and why."""
    found = {}
    for path in paths:
        try:
            Path(path).open("rb").close()
        except OSError as error:
            found[path] = f"cannot be read: {error.strerror}"
    return found


FILE_MARKS = ("MEDIA:", "](")
"""Without one of these an answer names no file."""


def outgoing(text: str, working_directory: Path, home: Path) -> tuple[str, list[Path]]:
    """The files that an answer names, and the answer without the names of those that are sent."""
    # Where code begins and ends, in turns: a place with an odd number of them before it is in code.
    code = [edge for match in _CODE.finditer(text) for edge in match.span()]
    files: dict[Path, None] = {}

    def take(match: re.Match[str]) -> str:
        if bisect.bisect_right(code, match.start()) % 2:
            return match[0]
        name = next(group for group in match.groups() if group)
        path = _allowed(name, working_directory, home)
        if path is None:
            return match[0]
        files[path] = None
        return ""

    # Marks in code stay; positions hold because each pattern is tried on the text as it was.
    spans = sorted(
        [*_NAMED.finditer(text), *_IMAGE.finditer(text)], key=lambda match: match.start()
    )
    rest, at = [], 0
    for match in spans:
        if match.start() < at:
            continue
        rest += [text[at : match.start()], take(match)]
        at = match.end()
    left = "".join([*rest, text[at:]])
    return (re.sub(r"\n{3,}", "\n\n", left).strip() if files else text), list(files)


def _allowed(name: str, working_directory: Path, home: Path) -> Path | None:
    """The file of that name if it may be sent: a regular one in the working directory, no key."""
    try:
        root = working_directory.resolve()
        path = (root / Path(name.strip()).expanduser()).resolve(strict=True)
        if not path.is_file():
            return None
    except (OSError, ValueError, RuntimeError):
        return None  # no such file, or a name that cannot be one
    if not path.is_relative_to(root) or path.is_relative_to(home.resolve()):
        return None
    if any(part.startswith(".") for part in path.relative_to(root).parts):
        return None
    places = Places(working=str(root), user_home=str(Path.home()), hermes_home=str(home.resolve()))
    return None if read_danger(str(path), places) else path
