"""Ids that sort by time and are safe in file names."""

from __future__ import annotations

import os
import time


def new_session_id() -> str:
    """`YYYYMMDD_HHMMSS_` and six random hex digits."""
    return f"{time.strftime('%Y%m%d_%H%M%S')}_{os.urandom(3).hex()}"
