"""Text from a PDF, read in a child process that is killed when it takes too long or too much.

A PDF is a program of sorts: a small one can keep any reader busy for ever. The child is this file
itself, run alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

MAX_PAGES = 300
_SECONDS = 30
_MEMORY = 1 << 30


async def pdf_text(data: bytes, max_chars: int) -> tuple[str, str]:
    """Title and text of a PDF; ToolError if it cannot be read."""
    from ..base import ToolError

    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-B", str(Path(__file__)), str(max_chars),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", ""), "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await child.communicate(data)
    except TimeoutError:
        raise ToolError("The PDF took too long to read. Look for another version of it.") from None
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
    if child.returncode == 3:
        from ..extras import install_hint

        raise ToolError(
            "Reading PDFs needs the package pypdf. Try an HTML page, or let the user run:"
            f" {install_hint('pdf')}"
        )
    if child.returncode != 0:
        raise ToolError(
            "The PDF cannot be read: it is damaged, protected or too demanding. "
            "Look for another version of it."
        )
    title, _, text = output.decode("utf-8", "replace").partition("\0")
    return title, text


def main() -> int:
    """Read a PDF from the input; write its title, a NUL and its text."""
    import io
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    try:
        from pypdf import PdfReader
    except ImportError:
        return 3
    max_chars = int(sys.argv[1])
    reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
    parts: list[str] = []
    length = 0
    for number, page in enumerate(reader.pages, 1):
        text = page.extract_text().strip()
        parts.append(f"[page {number}]\n{text}")
        length += len(parts[-1])
        if length > max_chars or number == MAX_PAGES:
            break
    title = str((reader.metadata.title if reader.metadata else "") or "").replace("\0", "")
    written = f"{title[:300]}\0" + "\n\n".join(parts).replace("\0", "")
    sys.stdout.buffer.write(written.encode("utf-8", "replace"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
