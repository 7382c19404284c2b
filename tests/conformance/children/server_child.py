"""The session server on standard input and output, with a scripted model: `server_child.py HOME`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from child_side import count_writes, scripted_model, scripted_tools

import agent.build
from tui_gateway import entry


def main(home: Path) -> int:
    """Serve until killed."""
    count_writes(home)
    model = scripted_model()
    agent.build.build_models = lambda config, model_name=None: model
    agent.build.usable_tools = lambda config: scripted_tools(home)
    return entry.main([])


if __name__ == "__main__":
    os._exit(main(Path(sys.argv[1])))
