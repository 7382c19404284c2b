"""The session server on standard input and output, in the home it is given, with a script."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import agent.build
from tui_gateway import entry

from .child_side import count_writes, scripted_model, scripted_tools


def main(home: Path) -> int:
    """Serve until killed."""
    count_writes(home)
    scripted = scripted_model()
    agent.build.build_models = lambda config, model=None: scripted
    agent.build.usable_tools = lambda config: scripted_tools(home)
    return entry.main([])


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))
