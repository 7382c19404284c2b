"""The session server on standard input and output, in the home it is given, with a script."""

from __future__ import annotations

import os
from pathlib import Path

import agent.build
from tui_gateway import entry

from .child_side import count_writes, scripted_model, scripted_tools


def main(home: Path) -> None:
    """Serve until killed."""
    reaper = count_writes(home)
    asked = os.open(home / "asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    scripted = scripted_model(lambda name: os.write(asked, f"{os.getpid()} {name}\n".encode()))
    agent.build.build_models = lambda config, model=None: scripted
    agent.build.usable_tools = lambda *_: scripted_tools(home, reaper)
    os._exit(entry.main([]))
