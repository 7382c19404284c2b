"""The input line: long texts that are pasted, and files that are dropped."""

from __future__ import annotations

from pathlib import Path

from .. import shapes_input as wire
from ..clients import TALK
from ..media import BadMediaError, attach_image, folder_for, keep
from ..paths import split_path
from ..rpc import Call, RpcError, method

EMPTY = 4004
NOT_KEPT = 5028
LONGEST_DROP = 4096


@method("paste.collapse", scope=TALK, slow=True)
def collapse(call: Call, text: str) -> wire.Pasted:
    """Put a long text aside into a private file, for a short line to stand in its place."""
    if not text.strip():
        raise RpcError(EMPTY, "The text is empty.")
    folder = folder_for(call.config.home, "pastes", call.principal.person_id)
    try:
        path = keep(folder, "paste.txt", text.encode("utf-8", "replace"))
    except OSError as error:
        raise RpcError(NOT_KEPT, f"It cannot be kept: {error.strerror}.") from error
    lines = text.count("\n") + 1
    return {
        "placeholder": f"[Pasted text: {lines} lines in {path}]",
        "path": str(path),
        "lines": lines,
    }


@method("input.detect_drop", slow=True)
def detect_drop(call: Call, session_id: str, text: str) -> wire.Dropped:
    """Whether a text is the path of a file that was dropped; an image is attached at once."""
    session = call.session(session_id)
    attached = session.setdefault("attached_images", [])
    path, rest = split_path(text, Path(session["cwd"])) if len(text) <= LONGEST_DROP else (None, "")
    if path is None:
        return {
            "matched": False, "is_image": False, "path": "", "name": "", "text": text,
            "count": len(attached),
        }  # fmt: skip
    try:
        count = attach_image(session, path)
    except BadMediaError:
        is_image, count = False, len(attached)  # any other file is told by its path
    else:
        is_image = True
    shown = rest if is_image else f"`{path}` {rest}".strip()
    return {
        "matched": True, "is_image": is_image, "path": str(path), "name": path.name,
        "text": shown, "count": count,
    }  # fmt: skip
