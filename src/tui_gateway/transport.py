"""Frames over pipes: one JSON object per line, and nothing else on standard output.

At the start the real standard output is put aside for frames, and its number is given to standard
error, so that whatever prints (a library, a child process) cannot break the stream.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from .rpc import INVALID_REQUEST, PARSE_ERROR, failure

MAX_LINE = 48 * 1024 * 1024
"""Bytes of the longest line: an image goes in one."""
_CHUNK = 64 * 1024


class Refused:
    """A line that is no frame; the response says why."""

    def __init__(self, code: int, message: str) -> None:
        self.response = failure(None, code, message)


def keep_stdout_for_frames() -> int:
    """A descriptor of the real standard output; what is printed from now on goes to stderr."""
    frames = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    return frames


def write_all(descriptor: int, line: bytes) -> None:
    """Write a whole line, in pieces if the pipe is small."""
    view = memoryview(line)
    while view:
        view = view[os.write(descriptor, view) :]


def read_frames(descriptor: int) -> Iterator[Any | Refused]:
    """What each line holds, until the end of input; a line that is no JSON is a `Refused`."""
    buffer = bytearray()
    skipping = False
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except InterruptedError:
            continue
        if not chunk:
            break
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            buffer += chunk[start:end]
            start = end + 1
            if not skipping and buffer.strip():
                yield parse(bytes(buffer))
            skipping = False
            buffer.clear()
        if not skipping:
            buffer += chunk[start:]
            if len(buffer) > MAX_LINE:
                buffer.clear()
                skipping = True
                yield Refused(
                    INVALID_REQUEST, f"The line is longer than {MAX_LINE // 2**20} MiB; left out."
                )
    if buffer.strip() and not skipping:
        yield Refused(PARSE_ERROR, "The input ended in the middle of a line.")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def parse(line: bytes | str) -> Any | Refused:
    """The frame in a line."""
    try:
        return json.loads(line, parse_constant=_no_constant)
    except UnicodeDecodeError:
        return Refused(PARSE_ERROR, "The line is not UTF-8.")
    except RecursionError:
        return Refused(PARSE_ERROR, "The line is nested too deeply.")
    except ValueError as error:  # also numbers with too many digits
        return Refused(PARSE_ERROR, f"The line is not JSON: {error}")
