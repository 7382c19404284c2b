"""One program in a wall of its own: confine this process, then become the program."""

from __future__ import annotations

import json
import os
import sys

from . import warden


def main() -> None:
    """`CONFIG_DESCRIPTOR PROGRAM ARGUMENTS…`; a wall that cannot be built ends it with 125."""
    os.set_inheritable(int(sys.argv[1]), False)
    with open(int(sys.argv[1]), encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        config = json.load(file)
    try:
        warden.confine(config)
        os.execvp(sys.argv[2], sys.argv[2:])
    except OSError as error:
        print(f"The wall or {sys.argv[2]} failed: {error}", file=sys.stderr)
        raise SystemExit(125) from None
