"""`hermes gateway setup` for the API: a key is made and shown, nothing is asked."""

from __future__ import annotations

import os
from pathlib import Path

from agent.config.write import set_dotenv_value

from ..manifest import Ask, Say
from .manifest import PORT


def set_up(home: Path, ask: Ask, ask_secret: Ask, say: Say) -> int:
    """Make a key, keep it in `.env` and show it; returns the exit code."""
    key = os.urandom(24).hex()
    say(f"Programs use http://127.0.0.1:{PORT}/v1 with this key:\n  {key}")
    for name, value in {"API_SERVER_ENABLED": "1", "API_SERVER_KEY": key}.items():
        set_dotenv_value(home / ".env", name, value)
    say(f"Kept in {home / '.env'}. Now run: hermes gateway start")
    return 0
