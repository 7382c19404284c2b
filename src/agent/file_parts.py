"""Files that come with a message, as parts a model is sent."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path
from typing import Any

MAX_IMAGE = 20 * 1024 * 1024
_PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")


def image_part(path: str | Path) -> dict[str, Any]:
    """An image on disk as a part of a message; a note as text if it cannot be read."""
    file = Path(path)
    kind = mimetypes.guess_type(file.name)[0] or "image/png"
    try:
        data = file.read_bytes()
    except OSError as error:
        return {"type": "text", "text": f"[The image {file.name} is gone: {error.strerror}]"}
    url = f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"
    return {"type": "image_url", "image_url": {"url": url}}


def shown_size(size: int) -> str:
    """A number of bytes as people write it."""
    for unit in ("bytes", "KB", "MB"):
        if size < 1000 or unit == "MB":
            return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
        size = size / 1000  # type: ignore[assignment]
    raise AssertionError("unreachable")


def file_parts(text: str, paths: list[str]) -> list[dict[str, Any]]:
    """A message with files: pictures as parts, everything else by its path, for tools to read; of
    each, what it is. A file that is gone is said to be, not named as one that could be read."""
    named = []
    pictures = []
    for path in paths:
        file, kind = Path(path), mimetypes.guess_type(path)[0] or ""
        try:
            size = file.stat().st_size
        except OSError as error:
            named.append(f"[The file {file.name} is gone: {error.strerror}]")
            continue
        what = f"{kind or 'of an unknown type'}, {shown_size(size)}"
        if kind in _PICTURES and size <= MAX_IMAGE:
            pictures.append(image_part(path))
        else:
            named.append(f"[Attached file: {path}] ({what})")
    return [{"type": "text", "text": "\n".join([text, *named]).strip()}, *pictures]
