"""Images and files that go along with the next message."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agent.threads import run_to_end
from hermes_state import StoreError
from tools.base import ToolError
from tools.objects import are_shared, put_file
from tools.web.pdf import pdf_text

from .. import live
from .. import shapes_input as wire
from ..clients import OPERATE, TALK
from ..media import (
    MAX_FILE,
    MAX_IMAGE,
    BadMediaError,
    TooLargeError,
    attach_image,
    decoded,
    folder_for,
    image_kind,
    keep,
    read_file,
)
from ..paths import existing_file, split_path
from ..rpc import Call, RpcError, method

NOTHING_GIVEN = 4015
NOT_THERE = 4016
NOT_READABLE = 4017
NOT_THIS_KIND = 4018
BAD_PAGES = 4019
NOT_KEPT = 5028
SHOWN = 20_000
"""Characters of a PDF that go into the message; the rest is in its file."""
MOST_TEXT = 5_000_000


@method("image.attach", slow=True)
def attach(call: Call, session_id: str, path: str) -> wire.AttachedImage:
    """Send an image on this machine along with the next message; text behind its path is kept."""
    session = call.session(session_id)
    if not path.strip():
        raise RpcError(NOTHING_GIVEN, "Which image? The path is empty.")
    folder = Path(session["cwd"])
    file, rest = split_path(path, folder)
    if file is None:
        file, rest = existing_file(folder, path), ""
    if file is None:
        raise RpcError(NOT_THERE, f"There is no file {path[:200]!r}.")
    count, size = _attached(session, file)
    return {
        "attached": True, "path": str(file), "count": count, "remainder": rest, "text": rest,
        "bytes": size,
    }  # fmt: skip


def _attached(session: dict[str, Any], path: Path) -> tuple[int, int]:
    try:
        return attach_image(session, path), path.stat().st_size
    except TooLargeError as error:
        raise RpcError(NOT_READABLE, str(error)) from error
    except BadMediaError as error:
        raise RpcError(NOT_THERE, str(error)) from error


def _given(data: str | None, content_base64: str | None, limit: int) -> bytes:
    """The bytes that a client sent."""
    sent = content_base64 or data
    if not sent:
        raise RpcError(NOTHING_GIVEN, "There is no content: give content_base64.")
    if len(sent) > limit * 4 // 3 + 1000:
        raise RpcError(NOT_READABLE, f"The content is larger than {limit // 2**20} MiB.")
    try:
        return decoded(sent)
    except BadMediaError as error:
        raise RpcError(NOT_READABLE, str(error)) from error


@method("image.attach_bytes", scope=TALK, slow=True)
def attach_bytes(
    call: Call,
    session_id: str,
    content_base64: str | None = None,
    data: str | None = None,
    filename: str = "image",
) -> wire.AttachedImage:
    """Send an image along with the next message, given as base64 or a data URL."""
    session = call.session(session_id)
    content = _given(data, content_base64, MAX_IMAGE)
    kind = image_kind(content)
    if kind is None:
        raise RpcError(NOT_THIS_KIND, "This is no image. PNG, JPEG, GIF and WebP can be sent.")
    path = _kept(call, session, "images", f"{Path(filename).stem}.{kind}", content)
    try:
        count, size = _attached(session, path)
    except RpcError:
        path.unlink(missing_ok=True)
        raise
    return {
        "attached": True, "path": str(path), "count": count, "remainder": "", "text": "",
        "bytes": size,
    }  # fmt: skip


def _kept(call: Call, session: dict[str, Any], kind: str, name: str, content: bytes) -> Path:
    try:
        return keep(folder_for(call.config.home, kind, session.get("user_id")), name, content)
    except OSError as error:
        raise RpcError(NOT_KEPT, f"It cannot be kept: {error.strerror}.") from error


def _shared(call: Call, session: dict[str, Any], path: Path) -> Path:
    """A file that other machines may have to read too, once it is in the store they share."""
    if are_shared(call.db):
        try:
            put_file(call.db, call.config.home, path, live.current_key(session))
        except (StoreError, OSError) as error:
            path.unlink(missing_ok=True)
            raise RpcError(NOT_KEPT, f"It cannot be kept: {error}") from error
    return path


def _file(call: Call, session: dict[str, Any], written: str) -> Path:
    # What lies on this machine is nobody's but the operator's; others send the content along.
    may_look = OPERATE in call.principal.scopes
    file = existing_file(Path(session["cwd"]), written) if may_look else None
    if file is None:
        raise RpcError(NOT_THERE, f"There is no file {written[:200]!r}.")
    return file


@method("image.detach", scope=TALK)
def detach(call: Call, session_id: str, path: str) -> wire.Detached:
    """Leave an image out of the next message again."""
    attached = call.session(session_id).setdefault("attached_images", [])
    is_attached = path in attached
    if is_attached:
        attached.remove(path)
    return {"detached": is_attached, "count": len(attached)}


@method("file.attach", scope=TALK, slow=True)
def attach_file(
    call: Call,
    session_id: str,
    path: str | None = None,
    data_url: str | None = None,
    name: str = "file",
) -> wire.AttachedFile:
    """Let the model read a file: one on this machine by its path, or one that is sent along."""
    session = call.session(session_id)
    if path and path.strip():
        file = _file(call, session, path)
        name = file.name
    else:
        path = None
        content = _given(data_url, None, MAX_FILE)
        file = _shared(call, session, _kept(call, session, "uploads", name, content))
    return {
        "attached": True,
        "name": name,
        "path": str(file),
        "ref_path": str(file),
        "ref_text": f"`{file}`",
        "uploaded": not path,
    }


@method("pdf.attach", scope=TALK, slow=True)
def attach_pdf(
    call: Call,
    session_id: str,
    path: str | None = None,
    content_base64: str | None = None,
    data: str | None = None,
    filename: str = "document.pdf",
    first_page: int = 1,
    last_page: int | None = None,
) -> wire.AttachedPdf:
    """Take the text of a PDF for the next message; a long one is told by the file it is put in."""
    session = call.session(session_id)
    if first_page < 1 or (last_page is not None and last_page < first_page):
        raise RpcError(BAD_PAGES, "Pages count from 1, and the last is not before the first.")
    if path and path.strip():
        file = _file(call, session, path)
        filename = file.name
        try:
            content = read_file(file, MAX_FILE)
        except BadMediaError as error:
            raise RpcError(NOT_THERE, str(error)) from error
    else:
        content = _given(data, content_base64, MAX_FILE)
    if not content[:1024].lstrip().startswith(b"%PDF-"):
        raise RpcError(NOT_THIS_KIND, f"{filename} is no PDF.")
    try:
        _, text = run_to_end(pdf_text(content, MOST_TEXT))
    except ToolError as error:
        raise RpcError(NOT_READABLE, str(error)) from error
    pages = _pages(text)
    chosen = {
        number: page for number, page in pages.items() if _is_in(number, first_page, last_page)
    }
    if not chosen:
        raise RpcError(BAD_PAGES, f"{filename} has {len(pages)} pages; none of them was chosen.")
    whole = "\n\n".join(f"[page {number}]\n{page}" for number, page in chosen.items())
    encoded = whole.encode("utf-8", "replace")
    name = f"{Path(filename).stem}.txt"
    kept = _shared(call, session, _kept(call, session, "uploads", name, encoded))
    return {
        "attached": True,
        "filename": filename,
        "path": str(kept),
        "pages": len(pages),
        "pages_attached": len(chosen),
        "count": len(session.get("attached_images") or ()),
        "text": _shown_text(filename, len(chosen), whole, kept),
    }


def _is_in(number: int, first: int, last: int | None) -> bool:
    return number >= first and (last is None or number <= last)


def _pages(text: str) -> dict[int, str]:
    """The pages of a PDF's text, which has a line with its number before each."""
    parts = re.split(r"^\[page (\d+)\]\n", text, flags=re.MULTILINE)[1:]
    return {int(parts[at]): parts[at + 1].strip() for at in range(0, len(parts) - 1, 2)}


def _shown_text(filename: str, pages: int, whole: str, kept: Path) -> str:
    head = f"[{filename}, {pages} pages]"
    if len(whole) <= SHOWN:
        return f"{head}\n{whole}"
    return f"{head}\n{whole[:SHOWN]}\n[… the whole text is in `{kept}`]"
